//! Volumes that are not what their slot had: foreign, swapped, cloned, rolled back, of another epoch.

use std::time::Duration;

use super::fixture::{CLUSTER, Fixture, id, o, reasons};
use crate::model::*;
use crate::plan::{BlockReason, Plan, Step};

fn marks(run: u64, last_index: u64) -> Option<VolumeMarks> {
    Some(VolumeMarks {
        epoch: Epoch(0),
        run: Some(run),
        last_index: Some(last_index),
    })
}

/// Three members; start 7 was made on the volume of the last, and index 500 is on its disk.
fn cluster() -> Fixture {
    let mut f = Fixture::healthy(3);
    f.memory.slots.get_mut(&o(2)).unwrap().reached = Progress { run: 7, index: 500 };
    f.memory.slots.get_mut(&o(2)).unwrap().run = 7;
    f
}

fn said(plan: &Plan, reason: BlockReason) -> &str {
    let block = plan.blocks.iter().find(|b| b.reason == reason);
    &block.unwrap_or_else(|| panic!("{plan:?}")).detail
}

fn starts(plan: &Plan, n: u32) -> bool {
    let start = |s: &Step| matches!(s, Step::Start { ordinal, .. } if *ordinal == o(n));
    plan.steps.iter().any(start)
}

#[test]
fn a_volume_that_was_rolled_back_is_replaced_and_never_started() {
    for (behind, why) in [
        (marks(6, 900), "it knows of start 6, and start 7"),
        (marks(7, 499), "its log ends at index 499, and it had reached 500"),
    ] {
        let mut f = cluster();
        f.kill(2).view(2).marks = behind;
        let plan = f.plan();
        let detail = said(&plan, BlockReason::RolledBack);
        assert!(detail.contains("rolled back") && detail.contains(why), "{detail}");
        let steps: Vec<String> = plan.steps.iter().map(Step::to_string).collect();
        assert_eq!(steps[0], "remove member a2 from the cluster");
        assert!(
            steps[1..].iter().all(|s| s.starts_with("have member 0 write")),
            "{steps:?}"
        );
        // Removed: the next volume is fresh, and nothing that was known of this one is asked of it.
        f.leave(2);
        f.later(Duration::from_secs(1)).plan();
        let slot = f.memory.slot(o(2));
        assert_eq!(
            (slot.generation, slot.reached),
            (Generation(1), Progress::default())
        );
    }
}

#[test]
fn a_volume_that_was_rolled_back_blocks_without_a_healthy_quorum() {
    let mut f = cluster();
    f.kill(2).view(2).marks = marks(6, 900);
    f.kill(1).silence();
    for _ in 0..5 {
        let plan = f.later(Duration::from_secs(60)).plan();
        assert!(!starts(&plan, 2), "{plan:?}");
        assert!(reasons(&plan).contains(&"RolledBack"), "{plan:?}");
        assert!(
            plan.steps.iter().all(|s| matches!(s, Step::Start { .. })),
            "{plan:?}"
        );
    }
    // Nobody else has their data either: it cannot come back by itself.
    f.wipe(1);
    let plan = f.later(Duration::from_secs(60)).plan();
    assert!(reasons(&plan).contains(&"QuorumLost"), "{plan:?}");
}

#[test]
fn the_only_member_does_not_start_from_a_volume_that_was_rolled_back() {
    let mut f = Fixture::healthy(1);
    f.memory.slots.get_mut(&o(0)).unwrap().reached = Progress { run: 2, index: 0 };
    f.kill(0).silence().view(0).marks = marks(1, 10);
    let plan = f.plan();
    assert_eq!(plan.steps, []);
    assert!(reasons(&plan).contains(&"RolledBack"), "{plan:?}");
}

/// The only member, whose volume was put back: from (2, 30) to (1, 10).
fn sole() -> Fixture {
    let mut f = Fixture::healthy(1);
    let slot = f.memory.slots.get_mut(&o(0)).unwrap();
    (slot.run, slot.reached) = (2, Progress { run: 2, index: 30 });
    f.kill(0).silence().view(0).marks = marks(1, 10);
    f
}

#[test]
fn the_only_member_goes_on_from_older_data_once_the_user_agrees_to_that_very_loss() {
    let mut f = sole();
    let plan = f.plan();
    let text = "t-0 from start 2 index 30 to start 1 index 10";
    assert!(
        said(&plan, BlockReason::RolledBack).contains(&format!("spec.acceptRolledBack to {text:?}")),
        "{plan:?}"
    );
    for other in ["t-0", "t-1 from start 2 index 30 to start 1 index 10", ""] {
        f.spec.accept_rolled_back = Some(other.into());
        assert_eq!(f.later(Duration::from_secs(60)).plan().steps, [], "{other}");
    }
    f.spec.accept_rolled_back = Some(text.into());
    let plan = f.later(Duration::from_secs(60)).plan();
    assert!(starts(&plan, 0), "{plan:?}");
    assert_eq!(plan.blocks, [], "{plan:?}");
    assert_eq!(f.memory.slot(o(0)).reached, Progress { run: 1, index: 10 });
    assert_eq!(f.memory.slot(o(0)).run, 3);
    // It runs, and is put back to the same state again: that is another loss, to which nobody agreed.
    f.view(0).marks = marks(3, 20);
    f.later(Duration::from_secs(60)).plan();
    f.view(0).marks = marks(1, 10);
    let plan = f.later(Duration::from_secs(60)).plan();
    assert_eq!(plan.steps, []);
    assert!(
        said(&plan, BlockReason::RolledBack).contains("from start 3"),
        "{plan:?}"
    );
}

#[test]
fn with_other_members_nobody_can_agree_to_start_from_older_data() {
    let mut f = cluster();
    f.kill(2).view(2).marks = marks(6, 900);
    for n in 0..2 {
        f.kill(n);
    }
    f.silence();
    f.spec.accept_rolled_back = Some("t-2 from start 7 index 500 to start 6 index 900".into());
    let plan = f.plan();
    assert!(!starts(&plan, 2), "{plan:?}");
    assert!(
        !said(&plan, BlockReason::RolledBack).contains("acceptRolledBack"),
        "{plan:?}"
    );
}

#[test]
fn a_start_that_never_reached_the_volume_condemns_nothing() {
    let mut f = cluster();
    // Intended, stored, and killed before the volume heard of it: twice.
    for _ in 0..2 {
        f.kill(2).view(2).marks = marks(7, 500);
        let plan = f.later(Duration::from_secs(60)).plan();
        assert!(starts(&plan, 2), "{plan:?}");
    }
    assert_eq!(f.memory.slot(o(2)).run, 9);
    assert_eq!(f.memory.slot(o(2)).reached.run, 7);
    // One that did, is asked for from then on.
    f.view(2).marks = marks(9, 500);
    f.later(Duration::from_secs(60)).plan();
    assert_eq!(f.memory.slot(o(2)).reached.run, 9);
    f.view(2).marks = marks(8, 500);
    let plan = f.later(Duration::from_secs(60)).plan();
    assert!(reasons(&plan).contains(&"RolledBack"), "{plan:?}");
}

#[test]
fn what_cannot_be_read_on_a_volume_condemns_nothing() {
    let mut f = cluster();
    f.kill(2).view(2).marks = Some(VolumeMarks {
        epoch: Epoch(0),
        run: None,
        last_index: None,
    });
    assert!(starts(&f.plan(), 2));
}

#[test]
fn how_far_a_log_has_come_is_remembered_only_along_with_something_else() {
    let mut f = Fixture::healthy(3);
    f.later(Duration::from_secs(60)).plan();
    f.later(Duration::from_secs(1)).plan();
    let before = f.memory.clone();
    for n in 0..3 {
        f.view(n).durable = Some((id(n), 5000));
    }
    f.later(Duration::from_secs(1)).plan();
    assert_eq!(f.memory, before, "clients write, and nothing else happens");
    f.kill(2);
    f.later(Duration::from_secs(1)).plan();
    for n in 0..3 {
        assert_eq!(f.memory.slot(o(n)).reached.index, 5000, "member {n}");
    }
    // What another member had says nothing of this one.
    f.view(2).durable = Some((id(9), 6000));
    f.later(Duration::from_secs(40)).plan();
    assert_eq!(f.memory.slot(o(2)).reached.index, 5000);
}

#[test]
fn a_volume_of_an_older_epoch_is_replaced_and_of_a_newer_one_left_alone() {
    let at = |epoch| {
        Some(VolumeMarks {
            epoch: Epoch(epoch),
            run: Some(7),
            last_index: Some(500),
        })
    };
    let mut f = cluster();
    f.memory.epoch = Epoch(2);
    f.kill(2).view(2).marks = at(1);
    let plan = f.plan();
    assert!(
        said(&plan, BlockReason::OlderEpoch).contains("epoch 1"),
        "{plan:?}"
    );
    assert!(
        matches!(plan.steps[..], [Step::Remove { .. }, Step::Write { .. }]),
        "{plan:?}"
    );

    // In the place of a member, and of one that is not wanted any more.
    for replicas in [3, 2] {
        let mut f = cluster();
        f.memory.epoch = Epoch(2);
        f.spec.replicas = replicas;
        if replicas == 2 {
            let members = &mut f.observed.quorum.as_mut().unwrap().members;
            members.retain(|m| m.id != id(2));
            f.memory.slots.insert(o(2), Default::default());
        }
        f.kill(2).view(2).marks = at(3);
        for _ in 0..5 {
            let plan = f.later(Duration::from_secs(60)).plan();
            assert_eq!(plan.steps, [], "{replicas}");
            assert!(
                said(&plan, BlockReason::NewerEpoch).contains("epoch 3"),
                "{plan:?}"
            );
        }
        assert_eq!(f.memory.slot(o(2)).generation, Generation(0));
    }
}

#[test]
fn swapped_and_cloned_volumes_are_named() {
    let foreign = |n: u32| Volume::Foreign {
        belongs_to: format!("ns/t/t-{n}"),
        slot: Some(o(n)),
        owner_exists: None,
    };
    let mut f = cluster();
    f.kill(2).view(2).volume = foreign(1);
    let plan = f.plan();
    assert!(
        said(&plan, BlockReason::ForeignData).contains("clone"),
        "{plan:?}"
    );
    f.kill(1).view(1).volume = foreign(2);
    let plan = f.later(Duration::from_secs(1)).plan();
    assert!(
        said(&plan, BlockReason::ForeignData).contains("swapped"),
        "{plan:?}"
    );
    assert_eq!(plan.steps, []);
    // A copy of what another cluster has, and a cluster under a new name, call for something else.
    for (owner_exists, says, says_not) in [
        (Some(true), "copied or moved here", "renamed"),
        (Some(false), "renamed or deleted; create it again", "copied"),
        (
            None,
            "copied or moved here from another cluster; or that cluster was renamed",
            "deleted",
        ),
    ] {
        f.view(1).volume = Volume::Foreign {
            belongs_to: "ns/other/other-1".into(),
            slot: None,
            owner_exists,
        };
        let plan = f.later(Duration::from_secs(1)).plan();
        let detail = said(&plan, BlockReason::ForeignData);
        assert!(detail.contains(says) && !detail.contains(says_not), "{detail}");
    }
}

#[test]
fn swapped_and_cloned_data_is_named_where_volumes_have_no_owner() {
    let data = |n: u32, cluster| Volume::Data {
        member: id(n),
        cluster,
    };
    let mut f = cluster();
    f.kill(2).view(2).volume = data(1, CLUSTER);
    let plan = f.plan();
    assert!(said(&plan, BlockReason::ForeignData).contains("a clone of that of t-1"));
    assert!(!starts(&plan, 2), "{plan:?}");
    f.kill(1).view(1).volume = data(2, CLUSTER);
    let plan = f.later(Duration::from_secs(60)).plan();
    assert!(
        said(&plan, BlockReason::ForeignData).contains("t-1 and t-2 was swapped"),
        "{plan:?}"
    );
    assert!(!starts(&plan, 1) && !starts(&plan, 2), "{plan:?}");
    f.view(1).volume = data(1, ClusterId(0xbad));
    let plan = f.later(Duration::from_secs(60)).plan();
    assert!(
        said(&plan, BlockReason::ForeignData).contains("foreign"),
        "{plan:?}"
    );
    assert!(!starts(&plan, 1), "{plan:?}");
}

#[test]
fn storage_that_belonged_to_another_when_it_was_last_seen_is_not_deleted() {
    let discards = |plan: &Plan| plan.steps.iter().any(|s| matches!(s, Step::Discard { .. }));
    let seen = |volume: Volume| {
        let mut f = Fixture::healthy(3);
        f.spec.replicas = 2;
        f.leave(2);
        let storage = Storage {
            id: StorageId {
                uid: "u".into(),
                version: "1".into(),
            },
            in_use: true,
            size: StorageSize::default(),
            record: Some((Generation(0), true)),
        };
        *f.view(2) = SlotView {
            volume,
            storage: Some(storage),
            ..Fixture::vacant(2)
        };
        f.plan();
        f.later(Duration::from_secs(1)).plan();
        // Its pod is gone: nobody looks into it any more.
        let view = f.view(2);
        (view.volume, view.place) = (Volume::Unknown, Place::Absent);
        view.storage.as_mut().unwrap().in_use = false;
        f.later(Duration::from_secs(1));
        f
    };
    assert!(discards(&seen(Volume::Empty).plan()));
    let mut f = seen(Volume::Foreign {
        belongs_to: "n/c/c-0".into(),
        slot: Some(o(0)),
        owner_exists: None,
    });
    let plan = f.plan();
    assert!(!discards(&plan), "{plan:?}");
    let detail = said(&plan, BlockReason::ForeignData);
    assert!(
        detail.contains("belongs to n/c/c-0: it is not deleted"),
        "{detail}"
    );
    // The user took it away.
    f.view(2).storage = None;
    let plan = f.later(Duration::from_secs(1)).plan();
    assert!(reasons(&plan).is_empty(), "{plan:?}");
    assert_eq!(f.memory.slot(o(2)).belongs_to, None);
}

/// Storage kept the volume of a member that was removed, and the claim made next is bound to it. Its pod starts what it
/// finds, and etcd ends at once: it knows that it was removed.
#[test]
fn data_that_a_removed_member_left_is_set_aside_and_not_started_again_and_again() {
    let mut f = Fixture::healthy(2);
    f.plan();
    f.spec.replicas = 3;
    let mut view = Fixture::vacant(2);
    view.place = Place::Absent;
    view.volume = Volume::Data {
        member: id(9),
        cluster: f.memory.cluster.unwrap(),
    };
    f.observed.slots.insert(o(2), view);
    let before = f.memory.slot(o(2)).generation;
    f.plan();
    assert_eq!(f.memory.slot(o(2)).generation, before.next());
}
