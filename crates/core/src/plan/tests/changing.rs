//! Changes that do not serve: stopped at their first member, which goes back to what served.

use std::time::Duration;

use super::fixture::*;
use crate::model::*;
use crate::plan::{BlockReason, Plan, Step, WriteBefore, pace};

/// What members do when they are started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Serve,
    /// It ends at once.
    End,
    /// It runs and does not answer.
    Hang,
}

/// The user wants this.
pub(super) fn want(f: &mut Fixture, version: Version, config: &str) {
    (f.spec.version, f.spec.config) = (version, config.to_owned());
    f.spec.manifest = Some(format!("{version} {config}"));
}

/// A cluster that has served as the fixture says, led by member 0.
pub(super) fn served(replicas: u32) -> Fixture {
    let mut f = Fixture::healthy(replicas);
    want(&mut f, V, "c");
    f.plan();
    let good = f.memory.good.as_ref().expect("all serve");
    assert_eq!(good.setup, setup(V));
    f
}

/// Plans, and does what the plan says: members that are started do as `does` has it for what they are started as.
pub(super) fn pass(f: &mut Fixture, does: impl Fn(Version, &str) -> Does) -> Plan {
    let plan = f.later(Duration::from_secs(1)).plan();
    for step in &plan.steps {
        let (at, voters) = (f.now, f.observed.quorum.as_ref().map_or(3, |q| q.members.len()));
        match step {
            Step::Stop { ordinal, .. } => {
                f.kill(ordinal.0);
                let Process::Stopped { last: Some(exit) } = &mut f.view(ordinal.0).process else {
                    panic!()
                };
                exit.asked = true;
            }
            Step::Start {
                ordinal,
                version,
                config,
                generation,
                ..
            } => {
                let does = does(*version, config);
                let view = f.view(ordinal.0);
                if does == Does::End {
                    view.process = Process::Stopped {
                        last: Some(Exit {
                            at,
                            asked: false,
                            how: "exit code 1; last logged: no such thing".into(),
                        }),
                    };
                    continue;
                }
                view.process = Process::Running {
                    since: at,
                    version: *version,
                    config: config.clone(),
                    generation: *generation,
                };
                if does == Does::Serve {
                    let status = MemberStatus {
                        version: *version,
                        ..Fixture::healthy(voters as u32).view(0).status.clone().unwrap()
                    };
                    f.view(ordinal.0).status = Some(MemberStatus {
                        member: id(ordinal.0),
                        ..status
                    });
                }
            }
            _ => {}
        }
    }
    plan
}

pub(super) fn runs(f: &mut Fixture, n: u32) -> Option<(Version, String)> {
    match &f.view(n).process {
        Process::Running { version, config, .. } => Some((*version, config.clone())),
        _ => None,
    }
}

/// Passes until nothing is done any more for a while; every step that was taken, in words.
pub(super) fn settle(f: &mut Fixture, does: impl Fn(Version, &str) -> Does) -> (Vec<String>, Plan) {
    let mut steps = Vec::new();
    let mut last = Plan::default();
    for _ in 0..1500 {
        last = pass(f, &does);
        steps.extend(reported(&last));
    }
    (steps, last)
}

/// The steps of a plan in words, but for entries that are written for members that are silent.
pub(super) fn reported(plan: &Plan) -> Vec<String> {
    let before = WriteBefore::Serving;
    let for_silent = |step: &Step| matches!(step, Step::Write { before: b, .. } if *b == before);
    let steps = plan.steps.iter().filter(|step| !for_silent(step));
    steps.map(Step::to_string).collect()
}

pub(super) fn bad(_: Version, config: &str) -> Does {
    if config == "bad" { Does::End } else { Does::Serve }
}

#[test]
fn settings_that_end_etcd_stop_at_one_member_which_goes_back() {
    let mut f = served(3);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    want(&mut f, V, "bad");
    let (steps, last) = settle(&mut f, bad);
    let starts = steps.iter().filter(|s| s.starts_with("start member 2")).count();
    assert_eq!(
        (steps.len(), starts),
        (8, 7),
        "one stop, six starts, one start as before, and nothing churns: {steps:?}"
    );
    assert_eq!(runs(&mut f, 2), Some((V, "c".to_owned())), "it serves as before");
    assert_eq!(reasons(&last), ["NewSettingsFail"]);
    let reported = &last.blocks[0].detail;
    for part in ["t-2", "with the new settings", "as before", "no such thing"] {
        assert!(reported.contains(part), "{part:?} is not in {reported:?}");
    }
    // Other settings are tried at once, and the rejected ones are forgotten.
    want(&mut f, V, "better");
    assert_eq!(pass(&mut f, bad).steps.len(), 1);
    assert_eq!(f.memory.rejected, None);
    f.memory.handover = None;
    let (_, last) = settle(&mut f, bad);
    for n in 0..3 {
        assert_eq!(runs(&mut f, n), Some((V, "better".to_owned())), "{last:?}");
    }
    assert_eq!(reasons(&last), Vec::<&str>::new());
}

/// It is ended for want of memory with the settings that served, and the user grants more.
#[test]
fn one_that_cannot_be_started_as_it_served_is_started_as_is_wanted() {
    let mut f = served(3);
    f.kill(2);
    let view = f.view(2);
    (view.made_for, view.cannot_start) = (Some(setup(V)), Some("it needs more memory".to_owned()));
    want(&mut f, V, "more");
    f.plan();
    assert_eq!(f.steps(), ["take the place of member 2 away"]);
    let view = f.view(2);
    (view.made_for, view.cannot_start, view.place) = (None, None, Place::Absent);
    let provide = Step::Provide {
        ordinal: o(2),
        generation: Generation(0),
        version: V,
        config: "more".to_owned(),
    };
    assert_eq!(f.plan().steps, [provide]);
    // It stays with that, also if it cannot be started so either.
    let wanted = f.spec.setup_of(o(0));
    let view = f.view(2);
    (view.made_for, view.place) = (Some(wanted), Place::Ready);
    view.cannot_start = Some("it needs more memory".to_owned());
    assert_eq!((f.steps(), f.steps()), (vec![], vec![]));
}

#[test]
fn settings_taken_back_leave_everything_as_it_was() {
    let mut f = served(3);
    want(&mut f, V, "bad");
    settle(&mut f, bad);
    want(&mut f, V, "c");
    let (steps, last) = settle(&mut f, bad);
    assert_eq!((steps, reasons(&last)), (vec![], vec![]));
    // In the middle of it, too: nothing is waited for.
    want(&mut f, V, "bad");
    for _ in 0..4 {
        pass(&mut f, bad);
    }
    assert_eq!(runs(&mut f, 2), None);
    want(&mut f, V, "c");
    let plan = pass(&mut f, bad);
    let steps: Vec<String> = plan.steps.iter().map(Step::to_string).collect();
    assert_eq!(steps, ["start member 2 (g0) from its data, etcd 3.6.1"]);
    assert_eq!(runs(&mut f, 2), Some((V, "c".to_owned())));
}

#[test]
fn settings_with_which_a_member_hangs_are_rejected_and_a_revert_acts_at_once() {
    let hangs = |_: Version, config: &str| if config == "bad" { Does::Hang } else { Does::Serve };
    let mut f = served(3);
    want(&mut f, V, "bad");
    for _ in 0..10 {
        pass(&mut f, hangs);
    }
    assert_eq!(runs(&mut f, 2), Some((V, "bad".to_owned())));
    let mut reverted = f.clone();
    want(&mut reverted, V, "c");
    let stopped = reported(&pass(&mut reverted, hangs));
    assert_eq!(stopped, ["stop member 2"], "at once");
    pass(&mut reverted, hangs);
    assert_eq!(runs(&mut reverted, 2), Some((V, "c".to_owned())));
    let (steps, last) = settle(&mut f, hangs);
    assert_eq!(
        steps,
        ["stop member 2", "start member 2 (g0) from its data, etcd 3.6.1"]
    );
    assert_eq!(runs(&mut f, 2), Some((V, "c".to_owned())));
    assert_eq!(reasons(&last), ["NewSettingsFail"]);
}

/// Member 1 gets settings of its own.
fn want_own(f: &mut Fixture, config: &str) {
    f.spec.own_configs = [(o(1), config.to_owned())].into();
    f.spec.manifest = Some(format!("{V} c 1={config}"));
}

#[test]
fn settings_of_its_own_reach_one_member_and_no_other() {
    let mut f = served(3);
    want_own(&mut f, "own");
    let (steps, last) = settle(&mut f, |_, _| Does::Serve);
    assert_eq!(
        steps,
        ["stop member 1", "start member 1 (g0) from its data, etcd 3.6.1"]
    );
    assert_eq!(runs(&mut f, 1), Some((V, "own".to_owned())));
    assert_eq!(reasons(&last), [""; 0]);
    assert_eq!(f.memory.good.as_ref().unwrap().manifest, f.spec.manifest);
    // It goes back to its own, too.
    f.spec.own_fallbacks = f.spec.own_configs.clone();
    want_own(&mut f, "bad");
    let (_, last) = settle(&mut f, bad);
    assert_eq!(runs(&mut f, 1), Some((V, "own".to_owned())));
    assert_eq!(reasons(&last), ["NewSettingsFail"]);
    for other in [0, 2] {
        assert_eq!(runs(&mut f, other), Some((V, "c".to_owned())));
    }
}

#[test]
fn the_only_member_goes_back_although_no_quorum_answers() {
    for does in [Does::End, Does::Hang] {
        let bad = |_: Version, config: &str| if config == "bad" { does } else { Does::Serve };
        let mut f = served(1);
        let list = f.observed.quorum.clone();
        want(&mut f, V, "bad");
        for _ in 0..1000 {
            pass(&mut f, bad);
            let serves = f.view(0).status.is_some();
            f.observed.quorum = list.clone().filter(|_| serves);
        }
        assert_eq!(runs(&mut f, 0), Some((V, "c".to_owned())));
        assert_eq!(reasons(&f.plan()), ["NewSettingsFail"]);
    }
}

#[test]
fn a_patch_that_does_not_serve_is_taken_back_and_a_minor_is_not() {
    let (patch, minor) = (Version::new(3, 6, 2), Version::new(3, 7, 0));
    let never = move |version: Version, _: &str| {
        if version == V { Does::Serve } else { Does::End }
    };
    let mut f = served(3);
    want(&mut f, patch, "c");
    let (steps, last) = settle(&mut f, never);
    assert_eq!(steps.len(), 8, "{steps:?}");
    assert_eq!(runs(&mut f, 2), Some((V, "c".to_owned())));
    assert_eq!(reasons(&last), ["NewVersionFails"]);
    // A member that ends by itself keeps what it has, this one too.
    f.kill(2);
    pass(&mut f, never);
    assert_eq!(runs(&mut f, 2), Some((V, "c".to_owned())));

    let mut f = served(3);
    want(&mut f, minor, "c");
    let (steps, last) = settle(&mut f, never);
    let others = steps.iter().filter(|s| !s.contains("member 2")).count();
    assert_eq!(others, 0, "{steps:?}");
    assert_eq!(runs(&mut f, 2), None, "its data may be of the newer minor");
    let reported = &last.blocks[0].detail;
    assert!(reported.contains("cannot go back to etcd 3.6.1"), "{reported}");
}

/// One that ended is restarted at the version it has, with the wanted settings if nobody knows what served: not its data is
/// to blame.
#[test]
fn settings_that_fail_before_the_new_version_is_tried_cost_no_voter() {
    let mut f = served(3);
    f.memory.good = None;
    want(&mut f, Version::new(3, 7, 0), "bad");
    f.kill(2);
    let (mut steps, last) = settle(&mut f, bad);
    steps.dedup();
    assert_eq!(steps, ["start member 2 (g0) from its data, etcd 3.6.1"]);
    assert!(reasons(&last).contains(&"NewSettingsFail"), "{last:?}");
}

/// An image that cannot be had: nothing was started, so that a minor can be taken back as well.
#[test]
fn a_version_that_nothing_ran_is_taken_back() {
    let mut f = served(3);
    want(&mut f, Version::new(3, 7, 99), "c");
    let why = "no such image".to_owned();
    assert_eq!(pass(&mut f, bad).steps.len(), 1);
    let view = f.view(2);
    (view.volume, view.place) = (Volume::Unknown, Place::Absent);
    let plan = pass(&mut f, bad);
    assert!(matches!(&plan.steps[..], [Step::Provide { version, .. }] if *version == f.spec.version));
    let made_for = Some(setup(f.spec.version));
    let view = f.view(2);
    (view.place, view.made_for) = (Place::Preparing { why }, made_for);
    assert_eq!(pass(&mut f, bad).steps, []);
    let mut reverted = f.clone();
    want(&mut reverted, V, "c");
    assert_eq!(reverted.steps(), ["take the place of member 2 away"], "at once");
    let plan = f.later(pace::COME_UP).plan();
    assert_eq!(plan.steps, [Step::Withdraw { ordinal: o(2) }]);
    assert!(plan.blocks[0].detail.contains("no such image"), "{plan:?}");
    f.view(2).place = Place::Absent;
    f.view(2).made_for = None;
    assert_eq!(f.steps(), ["make a place for member 2 (g0), etcd 3.6.1"]);
}

#[test]
fn a_member_that_ends_meanwhile_is_not_started_as_what_another_fails_at() {
    let mut f = served(3);
    want(&mut f, V, "bad");
    for _ in 0..4 {
        pass(&mut f, bad);
    }
    f.kill(1);
    f.observed.quorum = None;
    pass(&mut f, bad);
    assert_eq!(runs(&mut f, 1), Some((V, "c".to_owned())));
}

/// What is wrong may be what it served with, by now: a limit on memory, for example.
#[test]
fn a_member_that_no_longer_comes_up_as_before_is_tried_as_is_wanted() {
    let only_new = |_: Version, config: &str| if config == "new" { Does::Serve } else { Does::End };
    let mut f = served(3);
    f.kill(1);
    want(&mut f, V, "new");
    for _ in 0..10 {
        pass(&mut f, only_new);
    }
    assert_eq!(runs(&mut f, 1), Some((V, "new".to_owned())));
}

#[test]
fn a_member_that_fails_as_before_too_has_lost_its_data() {
    let mut f = served(3);
    want(&mut f, V, "bad");
    let never = |_: Version, _: &str| Does::End;
    let mut removed = false;
    for _ in 0..200 {
        let plan = pass(&mut f, never);
        let now = plan.steps.iter().any(|s| matches!(s, Step::Remove { .. }));
        assert!(!now || f.memory.rejected.is_some());
        removed |= now;
        if removed {
            break;
        }
    }
    assert!(removed, "its data is to blame then");
    assert_eq!(f.memory.slot(o(2)).started.unwrap().config, "c");
}

#[test]
fn with_another_ca_a_member_goes_back_to_the_settings_that_served_and_that_ca() {
    let mut f = served(3);
    want(&mut f, V, "bad");
    f.trust = " and another CA";
    settle(&mut f, bad);
    assert_eq!(runs(&mut f, 2), Some((V, "c and another CA".to_owned())));
    let plan = f.plan();
    assert!(reasons(&plan).contains(&"NewSettingsFail"), "{plan:?}");
}

/// A setting with which etcd serves for a moment and then ends: the others are not restarted with it.
#[test]
fn settings_with_which_a_member_ends_after_a_while_are_rejected() {
    let mut f = served(3);
    want(&mut f, V, "bad");
    let serves = |_: Version, _: &str| Does::Serve;
    for _ in 0..400 {
        let plan = pass(&mut f, serves);
        assert!(
            plan.steps.iter().all(|s| !s.to_string().contains("member 1")),
            "{plan:?}"
        );
        let since = match &f.view(2).process {
            Process::Running { since, config, .. } if config == "bad" => Some(*since),
            _ => None,
        };
        if since.is_some_and(|since| f.now - since >= Duration::from_secs(7)) {
            f.kill(2);
        }
    }
    assert_eq!(runs(&mut f, 2), Some((V, "c".to_owned())));
    assert_eq!(reasons(&f.plan()), ["NewSettingsFail"]);
}

/// The first serves with them, the second does not: it goes back, and the first stays.
#[test]
fn settings_that_a_later_member_does_not_serve_with_stop_there() {
    let mut f = served(3);
    want(&mut f, V, "new");
    let serves = |_: Version, _: &str| Does::Serve;
    for _ in 0..100 {
        if runs(&mut f, 1).is_some() {
            pass(&mut f, serves);
        }
    }
    assert_eq!(runs(&mut f, 2), Some((V, "new".to_owned())));
    let new_ends = |_: Version, config: &str| if config == "new" { Does::End } else { Does::Serve };
    let (_, last) = settle(&mut f, new_ends);
    assert_eq!(runs(&mut f, 2), Some((V, "new".to_owned())));
    assert_eq!(runs(&mut f, 1), Some((V, "c".to_owned())));
    assert_eq!(runs(&mut f, 0), Some((V, "c".to_owned())));
    assert_eq!(reasons(&last), ["NewSettingsFail"]);
}

/// Every voter has to have served, and not all at once.
#[test]
fn what_to_go_back_to_is_learned_one_voter_after_another() {
    let mut f = served(3);
    let new = |f: &Fixture| f.memory.good.as_ref().unwrap().setup.config.clone();
    want(&mut f, V, "new");
    let serves = |_: Version, _: &str| Does::Serve;
    for _ in 0..100 {
        if runs(&mut f, 0) == Some((V, "c".to_owned())) {
            pass(&mut f, serves);
            assert_eq!(new(&f), "c");
        }
    }
    f.kill(2); // It has served with the new ones, and comes back with them.
    f.kill(1);
    for _ in 0..30 {
        pass(&mut f, serves);
    }
    assert_eq!(runs(&mut f, 1), Some((V, "new".to_owned())));
    assert_eq!(new(&f), "new");
}

/// Two voters cannot do without one: no quorum answers until it has gone back.
#[test]
fn one_of_two_goes_back_although_no_quorum_answers() {
    for does in [Does::End, Does::Hang] {
        let bad = |_: Version, config: &str| if config == "bad" { does } else { Does::Serve };
        let mut f = served(2);
        let list = f.observed.quorum.clone();
        want(&mut f, V, "bad");
        for _ in 0..1000 {
            pass(&mut f, bad);
            let serves = f.view(1).status.is_some();
            f.observed.quorum = list.clone().filter(|_| serves);
            let status = f.view(0).status.as_mut().unwrap();
            (status.healthy, status.leader) = (serves, serves.then(|| id(0)));
        }
        assert_eq!(runs(&mut f, 1), Some((V, "c".to_owned())));
        assert_eq!(reasons(&f.plan()), ["NewSettingsFail"]);
    }
}

/// Another voter is down for good while one hangs: without going back there would never be a quorum again.
#[test]
fn one_of_three_that_hangs_goes_back_while_another_is_gone() {
    let hangs = |_: Version, config: &str| if config == "bad" { Does::Hang } else { Does::Serve };
    let mut f = served(3);
    want(&mut f, V, "bad");
    for _ in 0..5 {
        pass(&mut f, hangs);
    }
    assert_eq!(runs(&mut f, 2), Some((V, "bad".to_owned())));
    f.silence();
    f.kill(1).view(1).cannot_start = Some("its disk is gone".into());
    // It was restarted, too, and does not answer before there is a quorum.
    f.view(0).status = None;
    for _ in 0..400 {
        pass(&mut f, hangs);
    }
    assert_eq!(runs(&mut f, 2), Some((V, "c".to_owned())));
}

/// A stuck member is not stopped in the pass in which another is tried with the wanted settings.
#[test]
fn one_that_is_tried_as_the_cure_and_one_that_is_stuck_take_turns() {
    let mut f = served(5);
    want(&mut f, V, "better");
    f.spec.frozen = Some(Frozen {
        reason: BlockReason::Invalid,
        detail: "spoilt".to_owned(),
    });
    f.kill(3);
    f.memory.slots.get_mut(&o(3)).unwrap().fails = pace::GOOD_TRIES | 1;
    f.view(2).status = None;
    let wanted = f.spec.setup_of(o(0));
    f.memory
        .slots
        .values_mut()
        .for_each(|slot| slot.wanted = Some(wanted.clone()));
    f.memory.slots.get_mut(&o(2)).unwrap().unhealthy_since = Some(f.now);
    f.later(pace::STUCK.0);
    assert_eq!(f.steps(), ["start member 3 (g0) from its data, etcd 3.6.1"]);
    assert_eq!(f.steps(), ["stop member 2"]);
}

/// What one cannot be started as for long, because its place is never ready, says nothing of what is wanted next.
#[test]
fn other_settings_have_their_own_time_to_come_up() {
    let mut f = served(3);
    want(&mut f, V, "slow");
    while f.memory.disturbance.is_none() {
        pass(&mut f, bad);
    }
    let why = "the pod is being made".to_owned();
    f.kill(2).view(2).place = Place::Preparing { why };
    f.later(pace::COME_UP);
    assert!(reasons(&f.plan()).contains(&"NewSettingsFail"));
    want(&mut f, V, "better");
    for wait in [Duration::ZERO, pace::COME_UP / 2, pace::COME_UP / 3] {
        let plan = f.later(wait).plan();
        assert!(!reasons(&plan).contains(&"NewSettingsFail"), "{plan:?}");
    }
    let plan = f.later(pace::COME_UP / 3).plan();
    assert!(reasons(&plan).contains(&"NewSettingsFail"), "{plan:?}");
}
