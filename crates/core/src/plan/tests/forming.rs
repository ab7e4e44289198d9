//! Settings that change while a cluster forms: nobody has served yet.

use std::time::Duration;

use super::changing::*;
use super::fixture::*;
use crate::memory::Mark;
use crate::model::*;

/// The settings it was made with never served: nobody goes back to them once they are corrected.
#[test]
fn first_members_that_hang_are_started_with_corrected_settings() {
    let hangs = |_: Version, config: &str| if config == "bad" { Does::Hang } else { Does::Serve };
    let mut f = Fixture::empty(2);
    want(&mut f, V, "bad");
    assert_eq!(pass(&mut f, hangs).steps.len(), 2);
    for n in 0..2 {
        f.view(n).volume = Fixture::healthy(2).view(n).volume.clone();
    }
    want(&mut f, V, "c");
    for _ in 0..700 {
        pass(&mut f, hangs);
    }
    for n in 0..2 {
        assert_eq!(runs(&mut f, n), Some((V, "c".to_owned())));
    }
}

/// They may be started again by their ground, without a plan.
#[test]
fn first_members_that_end_are_placed_with_corrected_settings() {
    let mut f = Fixture::empty(2);
    want(&mut f, V, "bad");
    assert_eq!(pass(&mut f, bad).steps.len(), 2);
    for n in 0..2 {
        f.memory.slots.get_mut(&o(n)).unwrap().mark = Mark::Started;
        let view = f.view(n);
        (view.volume, view.place) = (Volume::Unknown, Place::Absent);
        view.made_for = Some(Setup {
            version: V,
            config: "bad".to_owned(),
        });
    }
    want(&mut f, V, "c");
    f.plan();
    let steps = f.later(Duration::from_secs(1)).steps();
    let away = [0, 1].map(|n| format!("take the place of member {n} away"));
    assert_eq!(steps, away);
}

#[test]
fn one_whose_id_nobody_noted_is_restarted_with_corrected_settings() {
    let hangs = |_: Version, config: &str| if config == "bad" { Does::Hang } else { Does::Serve };
    let mut f = served(2);
    f.silence();
    f.memory.good = None;
    let slot = f.memory.slots.get_mut(&o(1)).unwrap();
    (slot.member, slot.voter, slot.served_as) = (None, false, None);
    let view = f.view(1);
    view.status = None;
    if let Process::Running { config, .. } = &mut view.process {
        *config = "bad".to_owned();
    }
    f.view(0).status.as_mut().unwrap().leader = None;
    for _ in 0..400 {
        pass(&mut f, hangs);
    }
    assert_eq!(runs(&mut f, 1), Some((V, "c".to_owned())));
}

/// What is known of a cluster may have been deleted, and begun again from the records of its volumes.
/// A first member was killed, so that nobody knows whether the first settings serve. The others do serve with them.
#[test]
fn a_first_member_that_ends_with_other_settings_than_the_others_serve_with_keeps_its_place() {
    let mut f = served(3);
    for slot in f.memory.slots.values_mut() {
        slot.starts = 0;
    }
    f.memory.good = None;
    let slot = f.memory.slots.get_mut(&o(2)).unwrap();
    (slot.served_as, slot.served) = (None, None);
    want(&mut f, V, "bad");
    f.kill(2);
    let (steps, last) = settle(&mut f, bad);
    assert!(
        steps.iter().all(|s| s.starts_with("start member 2")),
        "it is only started: {steps:?}"
    );
    assert_eq!(reasons(&last).last(), Some(&"NewSettingsFail"), "{last:?}");
    // The user takes them back.
    want(&mut f, V, "c");
    settle(&mut f, bad);
    assert_eq!(runs(&mut f, 2), Some((V, "c".to_owned())));
}
