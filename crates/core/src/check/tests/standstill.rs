//! Pauses, data that differ, manifests that cannot be followed: what is refused then, and what is not.

use super::*;
use crate::reason::BlockReason;

fn steps(f: &Fixture) -> Vec<Step> {
    let since = Time(0);
    vec![
        start(2, StartHow::Resume, V),
        Step::Stop { ordinal: o(2), since },
        Step::MoveLeader {
            from: id(0),
            to: id(1),
        },
        Step::Remove {
            member: id(2),
            basis: basis(f),
        },
    ]
}

/// Which of [`steps`] are refused for standing still alone.
fn refused(f: &Fixture) -> Vec<usize> {
    let all = steps(f).into_iter().enumerate();
    let refused = all.filter(|(_, step)| {
        let still = [16, 20].map(|rule| broken(f, vec![step.clone()], |_| {}).contains(&rule));
        still.contains(&true)
    });
    refused.map(|(n, _)| n).collect()
}

fn frozen(mut f: Fixture) -> Fixture {
    f.spec.frozen = Some(Frozen {
        reason: BlockReason::Invalid,
        detail: "spec.replicas".into(),
    });
    f
}

#[test]
fn in_a_pause_nothing_is_done() {
    let mut f = Fixture::healthy(3);
    assert_eq!(refused(&f), [0; 0]);
    f.spec.paused = true;
    assert_eq!(refused(&f), [0, 1, 2, 3]);
}

#[test]
fn while_data_differ_nothing_is_done_but_starts() {
    let mut f = Fixture::healthy(3);
    let alarm = Alarm {
        kind: AlarmKind::Corrupt,
        member: id(1),
    };
    f.view(1).status.as_mut().unwrap().alarms.insert(alarm);
    assert_eq!(refused(&f), [1, 2, 3]);
}

#[test]
fn without_a_manifest_that_can_be_followed_members_are_healed_and_none_is_changed() {
    let f = frozen(Fixture::healthy(3));
    assert_eq!(refused(&f), [1, 3]);
    let id = StorageId {
        uid: "u".into(),
        version: "1".into(),
    };
    let storage = id.clone();
    let grow = Step::Grow {
        ordinal: o(0),
        storage,
        to: 20,
    };
    assert!(broken(&f, vec![grow], |_| {}).contains(&20));
    let discard = Step::Discard {
        ordinal: o(5),
        storage: id,
    };
    assert!(broken(&f, vec![discard], |_| {}).contains(&20));
    // One whose data is gone, or goes when it stops, is replaced.
    let mut f = frozen(Fixture::healthy(3));
    f.view(2).volume = Volume::Empty;
    assert_eq!(refused(&f), [1]);
    let mut f = frozen(Fixture::healthy(3));
    f.view(2).deletion_pending = true;
    assert_eq!(refused(&f), [1]);
    let mut f = frozen(Fixture::healthy(3));
    f.kill(2);
    assert_eq!(refused(&f), [0; 0]);
}

#[test]
fn nothing_irreversible_is_done_on_a_stale_view() {
    let mut f = Fixture::healthy(3);
    let set_aside = Step::SetAside {
        ordinal: o(2),
        generation: Generation(0),
    };
    f.kill(2);
    let next = |m: &mut crate::Memory| m.slots.get_mut(&o(2)).unwrap().generation = Generation(1);
    assert!(!broken(&f, vec![set_aside.clone()], next).contains(&6));
    f.now = Time(f.observed.at.0 + 6_000);
    assert!(broken(&f, vec![set_aside], next).contains(&6));
}

#[test]
fn one_that_serves_is_not_stopped_while_another_does_not() {
    let mut f = Fixture::healthy(5);
    let stop = || {
        vec![Step::Stop {
            ordinal: o(4),
            since: Time(0),
        }]
    };
    assert_eq!(broken(&f, stop(), |_| {}), [0; 0]);
    f.view(1).status = None;
    assert_eq!(broken(&f, stop(), |_| {}), [5]);
    f.view(4).status = None;
    assert_eq!(broken(&f, stop(), |_| {}), [0; 0], "it does not serve itself");
}
