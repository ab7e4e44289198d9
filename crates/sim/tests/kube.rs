//! Goal: the operator keeps every acknowledged write, one cluster and every claim that is needed, and brings every healed
//! Kubernetes to what is wanted. Method: a bounded number of seeds, all checkers on; `qsim kube` does the same for as many
//! as one likes.

use quorate_sim::kube::{course, refusal, run};

const SEEDS: u64 = 300;
/// From here on so few seeds meet every fault in the middle of a change, too. Where the model changes, others may.
const FIRST: u64 = 1201;

/// In the middle of a change few can do without a volume. `make soak sim-kube` reaches it.
const SELDOM: [&str; 2] = ["WipeVolume", "DamageData"];

#[test]
fn a_few_worlds_of_pods_come_right() {
    let summary = run::many(FIRST, SEEDS);
    assert_eq!(summary.seeds, SEEDS);
    if let Some((seed, kind, detail)) = summary.failures.first() {
        let log = run::one(*seed, true).log;
        panic!("seed {seed} broke, {kind:?}: {detail}\nreplay: qsim kube --replay {seed}\n{log}");
    }
    let steps = [
        "Provide",
        "Start",
        "Stop",
        "AddLearner",
        "Promote",
        "Remove",
        "Withdraw",
        "Discard",
        "Grow",
        "Resize",
    ];
    for step in steps {
        assert!(summary.reached[&("step", step.to_owned())] > 0, "no step {step}");
    }
    let faults = ["fault", "changing", "rolling"];
    for ((group, fault), times) in summary
        .reached
        .iter()
        .filter(|((group, _), _)| faults.contains(group))
    {
        let seldom = *group != "fault" && SELDOM.contains(&fault.as_str());
        assert!(*times > 0 || seldom, "no {group} {fault}");
    }
    for stage in [
        "Hangs",
        "Starved",
        "Resized",
        "ResizeUnsafe",
        "ResizeInfeasible",
        "OwnVolumeRetained",
        "ForeignVolumeRetained",
    ] {
        assert!(summary.reached[&("stage", stage.to_owned())] > 0, "no {stage}");
    }
    for block in [
        "Corrupt",
        "Invalid",
        "NoSpace",
        "QuorumLost",
        "VolumeDeletionPending",
    ] {
        assert!(summary.reached[&("block", block.to_owned())] > 0, "no {block}");
    }
}

#[test]
fn the_same_seed_gives_the_same_log() {
    for seed in [3, 7] {
        let (once, twice) = (run::one(seed, true), run::one(seed, true));
        assert!(!once.log.is_empty());
        assert_eq!(once.log, twice.log, "seed {seed}");
        assert_eq!(
            once.ticks,
            run::one(seed, false).ticks,
            "keeping the log must not change the course"
        );
    }
}

/// Between any two requests of making, growing, upgrading and shrinking a cluster, one operator ends and another begins. The
/// gate tries every third request; `QUORATE_FULL=1` every one.
#[test]
fn an_operator_that_dies_after_any_request_leaves_nothing_that_the_next_cannot_finish() {
    let in_full = std::env::var_os("QUORATE_FULL").is_some_and(|value| value == "1");
    for seed in 1..=if cfg!(debug_assertions) { 1 } else { 8 } {
        let whole = course::run(seed, None, false);
        assert_eq!(whole.broke, None, "seed {seed} with nobody dying");
        assert!(!whole.died);
        let steps = whole.requests.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(
            steps.clone().all(|n| n >= 10),
            "seed {seed}: each change takes requests: {:?}",
            whole.requests
        );
        let all = *whole.requests.last().expect("the end of the last change");
        println!("seed {seed}: {all} requests, {:?}", whole.requests);
        let stride = if in_full { 1 } else { 3 };
        let try_every_second = |from: u32| {
            for after in (from * stride..all).step_by(2 * stride as usize) {
                let cut = course::run(seed, Some(after), false);
                assert!(cut.died, "seed {seed}: nobody died after request {after}");
                if let Some((kind, tick, detail)) = cut.broke {
                    let log = course::run(seed, Some(after), true).log;
                    panic!("seed {seed}, dead after request {after}: {kind:?} at {tick}: {detail}\n{log}");
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| try_every_second(1));
            try_every_second(0);
        });
    }
}

#[test]
fn members_are_healed_and_nobody_is_restarted_while_secrets_cannot_be_written() {
    for seed in 1..=4 {
        for missing in [refusal::Missing::Ca, refusal::Missing::Client] {
            if let Err(why) = refusal::run(seed, missing) {
                panic!("seed {seed}, {missing:?}: {why}");
            }
        }
    }
}
