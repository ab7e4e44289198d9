//! Storage that grows, and storage that is deleted.

use std::time::Duration;

use super::fixture::*;
use crate::model::*;

/// What a claim looks like to the planner.
fn storage(record: Option<(u32, bool)>) -> Option<Storage> {
    Some(Storage {
        id: StorageId {
            uid: "u".into(),
            version: "1".into(),
        },
        in_use: false,
        size: StorageSize::default(),
        record: record.map(|(generation, started)| (Generation(generation), started)),
    })
}

#[test]
fn the_place_of_a_member_that_is_gone_is_taken_away_and_then_its_storage() {
    let mut f = Fixture::healthy(3);
    f.spec.replicas = 2;
    f.plan();
    f.leave(2);
    assert_eq!(f.steps(), ["stop member 2"]);
    *f.view(2) = SlotView {
        volume: Volume::Unknown,
        place: Place::Unfit,
        made_for: Some(setup(V)),
        storage: storage(Some((0, true))),
        ..Fixture::vacant(2)
    };
    f.view(2).storage.as_mut().unwrap().in_use = true;
    assert_eq!(f.steps(), ["take the place of member 2 away"]);
    f.view(2).made_for = None;
    f.view(2).place = Place::Preparing {
        why: "it goes".into(),
    };
    assert_eq!(f.steps(), [""; 0], "something may still use it");
    f.view(2).place = Place::Absent;
    f.view(2).storage = storage(Some((0, true)));
    assert_eq!(f.steps(), ["delete the storage of member 2"]);
    f.view(2).deletion_pending = true;
    assert_eq!(f.steps(), [""; 0], "it goes already");
    f.view(2).deletion_pending = false;
    let deletes = |f: &mut Fixture| f.steps().contains(&"delete the storage of member 2".to_owned());
    // Wanted again, or nobody there to say whose it is.
    f.spec.replicas = 3;
    assert!(!deletes(&mut f));
    f.spec.replicas = 2;
    // One that does not serve may have its data there, should volumes have been swapped.
    f.kill(1);
    assert!(!deletes(&mut f));
    f.silence();
    assert!(!deletes(&mut f));
}

#[test]
fn storage_is_deleted_only_where_it_is_known_what_it_holds() {
    let left = |record| {
        let mut f = Fixture::healthy(1);
        let view = SlotView {
            volume: Volume::Unknown,
            place: Place::Absent,
            storage: storage(record),
            ..Fixture::vacant(5)
        };
        f.observed.slots.insert(o(5), view);
        f.steps()
    };
    assert_eq!(left(Some((0, false))), ["delete the storage of member 5"]);
    for unknown in [None, Some((0, true)), Some((1, true)), Some((1, false))] {
        assert_eq!(left(unknown), [""; 0], "{unknown:?}");
    }
}

fn size(f: &mut Fixture, n: u32, asked: u64, holds: u64) {
    let mut grown = storage(Some((0, true)));
    if let Some(storage) = &mut grown {
        (storage.size.asked, storage.size.holds) = (Some(asked), Some(holds));
    }
    f.view(n).storage = grown;
}

#[test]
fn storage_that_grows_is_waited_for_also_when_the_volume_in_it_was_just_given_up() {
    let mut f = Fixture::healthy(5);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(1));
    f.wipe(0);
    f.plan();
    f.observed.quorum.as_mut().unwrap().members.remove(0);
    (0..5).for_each(|n| size(&mut f, n, 10, 10));
    size(&mut f, 0, 20, 10);
    f.spec.storage = Some(20);
    let generation = f.memory.slot(o(0)).generation;
    let plan = f.later(Duration::from_secs(1)).plan();
    assert_ne!(
        f.memory.slot(o(0)).generation,
        generation,
        "given up in this pass"
    );
    assert!(reasons(&plan).contains(&"StorageGrowing"), "{plan:?}");
}

#[test]
fn storage_grows_one_member_at_a_time_and_never_shrinks() {
    let mut f = Fixture::healthy(3);
    (0..3).for_each(|n| size(&mut f, n, 10, 10));
    f.spec.storage = Some(20);
    let grow = |n| [format!("have the storage of member {n} grow to 20 bytes")];
    assert_eq!(f.steps(), grow(0));
    size(&mut f, 0, 20, 10);
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["StorageGrowing"]));
    // It still grows when its member is found to be gone from the list, in that very pass.
    let mut gone = f.clone();
    gone.observed
        .quorum
        .as_mut()
        .unwrap()
        .members
        .retain(|m| m.id != id(0));
    let steps = gone.steps();
    assert!(steps.iter().all(|s| !s.contains("storage")), "{steps:?}");
    size(&mut f, 0, 20, 20);
    assert_eq!(f.steps(), grow(1));
    f.view(1).deletion_pending = true;
    assert!(f.steps().iter().all(|s| !s.contains("storage")), "it is going");
    f.view(1).deletion_pending = false;
    f.kill(2).view(1).status = None;
    assert!(
        f.steps().iter().all(|s| !s.contains("storage")),
        "the others are no quorum"
    );
    f.spec.storage = Some(5);
    assert!(
        f.steps().iter().all(|s| !s.contains("storage")),
        "it is never taken back"
    );
}

/// It may be unhealthy for want of room.
#[test]
fn storage_of_an_unhealthy_member_grows_first_and_that_of_healthy_ones_waits() {
    let mut f = Fixture::healthy(5);
    (0..5).for_each(|n| size(&mut f, n, 10, 10));
    f.spec.storage = Some(20);
    f.view(3).status = None;
    let grown = |steps: Vec<String>| steps.iter().find(|s| s.contains("storage")).cloned();
    let first = "have the storage of member 3 grow to 20 bytes".to_owned();
    assert_eq!(grown(f.steps()), Some(first));
    size(&mut f, 3, 20, 20);
    let plan = f.plan();
    assert!(reasons(&plan).contains(&"MembersUnhealthy"), "{plan:?}");
    assert_eq!(grown(f.steps()), None);
}

/// Two full volumes of three: neither of their members serves before it has room.
#[test]
fn without_a_quorum_storage_grows_where_nobody_can_run() {
    let mut f = Fixture::healthy(3);
    (0..3).for_each(|n| size(&mut f, n, 10, 10));
    for n in [1, 2] {
        f.kill(n).view(n).cannot_start = Some("its volume is full".into());
    }
    f.silence().spec.storage = Some(20);
    let grown = |f: &mut Fixture| {
        let steps = f.later(Duration::from_secs(60)).steps();
        steps.into_iter().find(|s| s.contains("storage"))
    };
    let grow = |n| Some(format!("have the storage of member {n} grow to 20 bytes"));
    assert_eq!(grown(&mut f), grow(1));
    size(&mut f, 1, 20, 10);
    assert_eq!(grown(&mut f), None, "one after the other");
    size(&mut f, 1, 20, 20);
    f.view(1).cannot_start = None;
    f.view(2).deletion_pending = true;
    assert_eq!(grown(&mut f), None, "it is going");
    f.view(2).deletion_pending = false;
    assert_eq!(grown(&mut f), grow(2));
    size(&mut f, 2, 20, 20);
    assert_eq!(grown(&mut f), None, "who runs is not disturbed");
}
