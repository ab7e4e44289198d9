//! Rule 20: changes that do not serve.

use super::*;

#[test]
fn a_change_that_does_not_serve_is_not_brought_to_another_member() {
    use crate::memory::{LastKnownGood, Rejected};
    let changed = || {
        let mut f = Fixture::healthy(5);
        f.memory.good = Some(LastKnownGood {
            setup: f.spec.setup_of(o(0)),
            manifest: Some("old".into()),
            unproven: false,
        });
        f.spec.fallback = Some(f.spec.config.clone());
        (f.spec.config, f.spec.manifest) = ("new".into(), Some("new".into()));
        f
    };
    let stop = |n| Step::Stop {
        ordinal: o(n),
        since: Time(0),
    };
    assert_eq!(broken(&changed(), vec![stop(1)], |_| {}), [0; 0]);
    let rejected = |f: &Fixture| Rejected {
        setup: f.spec.setup_of(o(0)),
        member: o(2),
        why: "it ended".into(),
    };
    let f = changed();
    let r = rejected(&f);
    assert_eq!(broken(&f, vec![stop(1)], |m| m.rejected = Some(r.clone())), [20]);
    // Member 2 was started with it, and has yet to serve.
    let mut f = changed();
    let wanted = f.spec.setup_of(o(0));
    let slot = f.memory.slots.get_mut(&o(2)).unwrap();
    (slot.started, slot.fails) = (Some(wanted), 1);
    f.view(2).status = None;
    if let Process::Running { config, .. } = &mut f.view(2).process {
        *config = "new".into();
    }
    assert_eq!(broken(&f, vec![stop(1)], |_| {}), [5, 20]);
    f.kill(1).kill(2);
    f.observed.quorum = None;
    let with = |n: u32, config: &str| match start(n, StartHow::Resume, V) {
        Step::Start {
            ordinal,
            generation,
            how,
            version,
            ..
        } => Step::Start {
            ordinal,
            generation,
            how,
            version,
            config: config.into(),
        },
        other => other,
    };
    assert_eq!(broken(&f, vec![with(1, "new")], |_| {}), [20]);
    assert_eq!(broken(&f, vec![with(1, "c")], |_| {}), [0; 0]);
    assert_eq!(broken(&f, vec![with(2, "new")], |_| {}), [20], "out of turn");
    f.memory.slots.get_mut(&o(2)).unwrap().fails = 3;
    assert_eq!(
        broken(&f, vec![with(2, "new")], |_| {}),
        [0; 0],
        "the former do not help"
    );
    f.memory.slots.get_mut(&o(2)).unwrap().fails = 1;
    f.memory.disturbance = Some(crate::memory::Disturbance {
        ordinal: o(2),
        since: Time(0),
        settle: false,
        again: false,
    });
    assert_eq!(broken(&f, vec![with(2, "new")], |_| {}), [0; 0], "in turn");
    assert_eq!(broken(&f, vec![with(2, "another")], |_| {}), [20]);
    let r = rejected(&f);
    assert_eq!(
        broken(&f, vec![with(2, "new")], |m| m.rejected = Some(r.clone())),
        [20]
    );
    // With nothing to go back to, it is tried again.
    (f.memory.good, f.spec.fallback) = (None, None);
    assert_eq!(broken(&f, vec![with(2, "new")], |m| m.rejected = Some(r)), [0; 0]);
}

#[test]
fn without_a_quorum_only_one_that_never_served_so_is_stopped_and_only_if_none_serves() {
    let stop = |n| Step::Stop {
        ordinal: o(n),
        since: Time(0),
    };
    let silent = |replicas, config: &str| {
        let mut f = Fixture::healthy(replicas);
        f.silence();
        for n in 0..replicas {
            f.view(n).status.as_mut().unwrap().leader = None;
            let Process::Running { config: runs, .. } = &mut f.view(n).process else {
                panic!()
            };
            *runs = config.into();
            let slot = f.memory.slots.get_mut(&o(n)).unwrap();
            (slot.unhealthy_since, slot.leaderless) = (Some(Time(0)), (10, Time(0)));
        }
        f.later(std::time::Duration::from_secs(60));
        f
    };
    let answers = silent(3, "new");
    assert_eq!(
        broken(&answers, vec![stop(0)], |_| {}),
        [5],
        "it waits for others"
    );
    let silent = |replicas, config: &str| {
        let mut f = silent(replicas, config);
        f.view(0).status = None;
        f.memory.slots.get_mut(&o(0)).unwrap().unanswered = (10, Time(0));
        f
    };
    assert_eq!(broken(&silent(1, "new"), vec![stop(0)], |_| {}), [0; 0]);
    assert_eq!(broken(&silent(1, "c"), vec![stop(0)], |_| {}), [5]);
    assert_eq!(broken(&silent(3, "new"), vec![stop(0)], |_| {}), [0; 0]);
    assert_eq!(broken(&silent(3, "new"), vec![stop(0), stop(1)], |_| {}), [5]);
    let mut f = silent(3, "new");
    (f.view(1).status, f.view(2).status) = (None, None);
    assert_eq!(
        broken(&f, vec![stop(0)], |_| {}),
        [5],
        "the others may serve, unseen"
    );
    for slot in f.memory.slots.values_mut() {
        slot.unanswered = (10, Time(0));
    }
    assert_eq!(broken(&f, vec![stop(0)], |_| {}), [0; 0], "not for ever");
}
