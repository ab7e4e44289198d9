//! CPU and memory that change while members run.

use std::time::Duration;

use super::fixture::*;
use crate::model::*;
use crate::plan::{Step, pace};

/// A cluster that has served, led by member 0, whose members can be given what is wanted now while they run.
fn wanting_more() -> Fixture {
    let mut f = Fixture::healthy(3);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    f.spec.manifest = Some("before".to_owned());
    f.plan();
    f.later(pace::STABLE).plan();
    (f.spec.config, f.spec.manifest) = ("more".to_owned(), Some("after".to_owned()));
    (0..3).for_each(|n| f.view(n).resize = Resize::Possible);
    f
}

/// Its process has what is wanted.
fn has_them(f: &mut Fixture, n: u32) {
    let wanted = f.spec.config.clone();
    let view = f.view(n);
    view.resize = Resize::No;
    if let Process::Running { config, .. } = &mut view.process {
        *config = wanted;
    }
}

#[test]
fn each_gets_them_in_its_turn_and_nobody_is_stopped() {
    let mut f = wanting_more();
    for n in [2, 1, 0] {
        let step = format!("give member {n} other resources");
        assert_eq!(f.steps(), std::slice::from_ref(&step));
        // It does not show yet, and then for long.
        assert_eq!(f.later(Duration::from_secs(1)).steps(), [""; 0]);
        assert_eq!(f.later(pace::SAME_START).steps(), [step]);
        f.view(n).resize = Resize::UnderWay {
            why: "its node has yet to see it".to_owned(),
        };
        let plan = f.later(pace::STABLE).plan();
        assert_eq!(reasons(&plan), ["ResourcesChanging"]);
        has_them(&mut f, n);
        if n == 2 {
            let plan = f.plan();
            assert_eq!(
                (plan.steps.len(), reasons(&plan)),
                (0, vec!["MemberStarting"]),
                "it is tried"
            );
            f.later(pace::STABLE);
        }
        let good = f.memory.good.clone().unwrap();
        assert_eq!(
            good.manifest.as_deref(),
            Some("before"),
            "not all have served with them"
        );
    }
    assert_eq!(f.steps(), [""; 0]);
    let good = f.memory.good.clone().unwrap();
    assert_eq!(good.manifest.as_deref(), Some("after"));
}

#[test]
fn it_is_not_asked_for_again_while_the_others_are_no_quorum() {
    let mut f = wanting_more();
    f.plan();
    let status = f.view(1).status.take();
    assert_eq!(f.later(pace::SAME_START).steps(), [""; 0]);
    f.view(1).status = status;
    assert_eq!(f.steps(), ["give member 2 other resources"]);
}

#[test]
fn one_that_is_ended_with_them_goes_back_and_no_other_gets_them() {
    let mut f = wanting_more();
    f.plan();
    f.kill(2);
    let wanted = f.spec.setup_of(o(0));
    let view = f.view(2);
    (view.made_for, view.resize) = (Some(wanted), Resize::No);
    view.cannot_start = Some("it needs more memory".to_owned());
    let plan = f.later(Duration::from_secs(1)).plan();
    assert!(reasons(&plan).contains(&"NewSettingsFail"), "{plan:?}");
    let steps: Vec<String> = plan.steps.iter().map(Step::to_string).collect();
    assert_eq!(steps, ["take the place of member 2 away"]);
    let view = f.view(2);
    (view.made_for, view.cannot_start, view.place) = (None, None, Place::Absent);
    let back = Step::Provide {
        ordinal: o(2),
        generation: Generation(0),
        version: V,
        config: "c".to_owned(),
    };
    assert_eq!(f.plan().steps, [back]);
}

/// Its place is for what served until it has served with the others for a while.
#[test]
fn one_that_is_ended_with_them_is_started_in_the_place_that_it_has() {
    let mut f = wanting_more();
    f.plan();
    f.kill(2);
    let view = f.view(2);
    (view.made_for, view.resize) = (Some(setup(V)), Resize::No);
    view.cannot_start = Some("it needs more memory".to_owned());
    let steps = f.later(Duration::from_secs(1)).steps();
    assert_eq!(steps, ["start member 2 (g0) from its data, etcd 3.6.1"]);
    assert_eq!(f.memory.slot(o(2)).started, Some(setup(V)));
}

/// A node may put it off for long.
#[test]
fn another_that_hangs_is_restarted_meanwhile() {
    let mut f = wanting_more();
    f.plan();
    f.view(2).resize = Resize::UnderWay {
        why: "Deferred".to_owned(),
    };
    f.view(1).status = None;
    f.plan();
    assert_eq!(f.later(pace::STUCK.0).steps(), ["stop member 1"]);
}

#[test]
fn what_is_not_changed_while_they_run_comes_with_a_restart() {
    let mut f = wanting_more();
    assert_eq!(f.steps(), ["give member 2 other resources"]);
    f.view(2).resize = Resize::No;
    assert_eq!(f.later(Duration::from_secs(1)).steps(), ["stop member 2"]);
    // Another version does, in any case.
    let mut f = wanting_more();
    f.spec.version = Version::new(3, 6, 2);
    assert_eq!(f.steps(), ["stop member 2"]);
}
