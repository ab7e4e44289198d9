//! Members that trust a CA which is lost: who may be stopped, and what is planned.

use std::time::Duration;

use super::broken;
use crate::model::*;
use crate::plan::tests::fixture::{Fixture, o};
use crate::plan::{Block, BlockReason, Plan, Step, WaitReason, pace};

/// Three members that run with another configuration, trust a lost CA and do not answer.
fn all_trust_a_lost_ca() -> Fixture {
    let mut f = Fixture::healthy(3);
    f.observed.quorum = None;
    for n in 0..3 {
        f.observed.lost_ca.insert(o(n));
        let slot = f.observed.slots.get_mut(&o(n)).unwrap();
        slot.status = None;
        if let Process::Running { config, .. } = &mut slot.process {
            *config = "of the lost CA".to_owned();
        }
    }
    f
}

fn stop(f: &Fixture, n: u32) -> Step {
    let Process::Running { since, .. } = f.observed.slots[&o(n)].process else {
        panic!("it runs");
    };
    Step::Stop { ordinal: o(n), since }
}

#[test]
fn without_a_quorum_only_members_of_a_lost_ca_are_stopped_and_one_first() {
    let f = all_trust_a_lost_ca();
    assert_eq!(broken(&f, vec![stop(&f, 2)], |_| {}), [0; 0]);
    assert_eq!(broken(&f, vec![stop(&f, 2), stop(&f, 1)], |_| {}), [17]);
    let mut shown = all_trust_a_lost_ca();
    shown.observed.lost_ca.remove(&o(2));
    if let Process::Running { config, .. } = &mut shown.observed.slots.get_mut(&o(2)).unwrap().process {
        config.clone_from(&shown.spec.config);
    }
    assert_eq!(
        broken(&shown, vec![stop(&shown, 1), stop(&shown, 0)], |_| {}),
        [0; 0]
    );
    assert_eq!(
        broken(&shown, vec![stop(&shown, 2)], |_| {}),
        [5],
        "it trusts no lost CA"
    );
    let mut paused = all_trust_a_lost_ca();
    paused.spec.paused = true;
    assert_eq!(broken(&paused, vec![stop(&paused, 2)], |_| {}), [20]);
    let mut known = all_trust_a_lost_ca();
    known.observed.lost_ca.clear();
    assert_eq!(broken(&known, vec![stop(&known, 2)], |_| {}), [5]);
    let (plan, _) = crate::plan(&f.spec, &f.observed, &f.memory, f.now);
    assert_eq!(plan.steps, [stop(&f, 2)], "and that is what is planned");
    let (plan, _) = crate::plan(&shown.spec, &shown.observed, &shown.memory, shown.now);
    assert_eq!(plan.steps, [stop(&shown, 0), stop(&shown, 1)]);
    let (plan, _) = crate::plan(&paused.spec, &paused.observed, &paused.memory, paused.now);
    assert_eq!(plan.steps, []);
}

/// Where only the CA for clients is lost, the others serve, and are heard through it within moments.
#[test]
fn the_others_are_not_stopped_before_one_has_had_the_time_to_hear_them() {
    for answers in [true, false] {
        let mut f = all_trust_a_lost_ca();
        f.observed.lost_ca.remove(&o(2));
        let (wanted, now) = (f.spec.config.clone(), f.now);
        if let Process::Running { config, since, .. } = &mut f.view(2).process {
            (*config, *since) = (wanted, now);
        }
        if answers {
            f.view(2).status = Fixture::healthy(3).view(2).status.clone();
        }
        assert_eq!(broken(&f, vec![stop(&f, 1), stop(&f, 0)], |_| {}), [17]);
        assert_eq!(f.plan().steps, []);
        let pause = if answers {
            pace::HEARS_OTHERS
        } else {
            pace::LOST_CA
        };
        f.later(pause - Duration::from_secs(1));
        assert_eq!(f.plan().steps, []);
        f.later(Duration::from_secs(1));
        assert_eq!(f.plan().steps, [stop(&f, 0), stop(&f, 1)]);
    }
}

#[test]
fn who_answers_is_not_restarted_for_a_lost_ca() {
    let mut f = all_trust_a_lost_ca();
    let healthy = Fixture::healthy(3);
    for n in 0..3 {
        f.observed.slots.get_mut(&o(n)).unwrap().status = healthy.observed.slots[&o(n)].status.clone();
    }
    let (plan, _) = crate::plan(&f.spec, &f.observed, &f.memory, f.now);
    assert_eq!(plan.steps, []);
    assert_eq!(broken(&f, vec![stop(&f, 2)], |_| {}), [5]);
}

/// The data of one of them would go with its process. The others are restarted all the same.
#[test]
fn one_whose_volume_is_to_be_deleted_is_left_out_of_the_restart_for_a_lost_ca() {
    let decided = |f: &Fixture| crate::decide(&f.spec, &f.observed, &f.memory, f.now).plan;
    let left_out = |plan: &Plan, name: &str| {
        let reported = plan.waits.iter().find(|w| w.reason == WaitReason::CaLost);
        let reported = &reported.expect("it is reported").detail;
        reported.contains(&format!("{name} trust a CA that is lost, and are not restarted"))
    };
    // The first to be restarted is another one.
    let mut f = all_trust_a_lost_ca();
    f.view(2).deletion_pending = true;
    let plan = decided(&f);
    assert_eq!(
        (&plan.steps[..], left_out(&plan, "t-2")),
        (&[stop(&f, 1)][..], true),
        "{plan:?}"
    );
    // And when that one runs, the rest of them but for it.
    f.observed.lost_ca.remove(&o(1));
    let wanted = f.spec.config.clone();
    if let Process::Running { config, .. } = &mut f.view(1).process {
        *config = wanted;
    }
    let plan = decided(&f);
    assert_eq!(
        (&plan.steps[..], left_out(&plan, "t-2")),
        (&[stop(&f, 0)][..], true),
        "{plan:?}"
    );
    // Nobody is stopped where all would lose their data.
    let mut f = all_trust_a_lost_ca();
    for n in 0..3 {
        f.view(n).deletion_pending = true;
    }
    let plan = decided(&f);
    assert_eq!(
        (plan.steps.len(), left_out(&plan, "t-0, t-1, t-2")),
        (0, true),
        "{plan:?}"
    );
    let refused = |b: &Block| b.reason == BlockReason::CheckRefused;
    assert!(!plan.blocks.iter().any(refused), "{plan:?}");
}
