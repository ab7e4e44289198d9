//! Goal: the operator keeps every acknowledged write, one cluster and every claim that is needed, and brings every healed
//! Kubernetes to what is wanted. Method: a bounded number of seeds, all checkers on; `qsim kube` does the same for as many
//! as one likes.

use quorate_sim::kube::run;

const SEEDS: u64 = if cfg!(debug_assertions) { 24 } else { 300 };

#[test]
fn a_few_worlds_of_pods_come_right() {
    let summary = run::many(1, SEEDS);
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
        "SetAside",
    ];
    for step in steps {
        assert!(summary.reached[&("step", step.to_owned())] > 0, "no step {step}");
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
