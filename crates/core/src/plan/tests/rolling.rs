//! Version and configuration changes.

use std::time::Duration;

use super::fixture::*;
use crate::model::*;
use crate::plan::{BlockReason, Step};

fn running(f: &mut Fixture, n: u32, version: Version) {
    let Process::Running {
        version: v, config, ..
    } = &mut f.view(n).process
    else {
        panic!()
    };
    *v = version;
    *config = "c".into();
    f.view(n).status.as_mut().unwrap().version = version;
    f.memory.slots.get_mut(&o(n)).unwrap().served_as = Some(setup(version));
}

/// The CA for clients is lost: members still reach each other, and one that was restarted is heard.
#[test]
fn those_that_trust_a_lost_ca_are_restarted_one_by_one_though_a_quorum_answers() {
    let mut f = Fixture::healthy(3);
    f.plan();
    f.spec.config = "new".to_owned();
    for n in 0..2 {
        f.view(n).status = None;
        f.observed.lost_ca.insert(o(n));
    }
    if let Process::Running { config, .. } = &mut f.view(2).process {
        *config = "new".to_owned();
    }
    assert_eq!(f.steps(), ["stop member 0"]);
    f.kill(0).later(std::time::Duration::from_secs(1));
    assert_eq!(
        f.steps(),
        ["start member 0 (g0) from its data, etcd 3.6.1"],
        "one at a time"
    );
}

#[test]
fn a_version_change_restarts_one_member_at_a_time_from_the_top_the_leader_handed_over() {
    let mut f = Fixture::healthy(3);
    let next = Version::new(3, 6, 2);
    f.spec.version = next;
    f.observed.quorum.as_mut().unwrap().leader = Some(id(2));
    assert_eq!(f.steps(), ["move leadership from member a2 to member a0"]);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    assert_eq!(f.steps(), ["stop member 2"]);
    f.kill(2);
    let Process::Stopped { last: Some(exit) } = &mut f.view(2).process else {
        panic!()
    };
    exit.asked = true;
    assert_eq!(f.steps(), ["start member 2 (g0) from its data, etcd 3.6.2"]);
    let slot = f.memory.slot(o(2));
    f.join(2, false);
    f.observed.quorum.as_mut().unwrap().members.pop();
    f.memory.slots.insert(o(2), slot);
    running(&mut f, 2, next);
    f.memory.slots.get_mut(&o(2)).unwrap().served_as = Some(setup(V));
    f.view(2).status.as_mut().unwrap().healthy = false;
    let plan = f.plan();
    assert_eq!(plan.steps.len(), 0, "the next only when this one is well");
    f.view(2).status.as_mut().unwrap().healthy = true;
    assert_eq!(f.plan().steps.len(), 0, "and has been for a while");
    f.later(crate::plan::pace::STABLE);
    assert_eq!(f.steps(), ["stop member 1"]);
}

#[test]
fn the_next_is_restarted_when_clients_are_sent_to_the_last_and_that_is_not_waited_for_without_end() {
    let mut f = Fixture::healthy(3);
    let next = Version::new(3, 6, 2);
    f.spec.version = next;
    running(&mut f, 2, next);
    f.view(2).in_service = false;
    let now = f.observed.at;
    let Process::Running { since, .. } = &mut f.view(2).process else {
        panic!()
    };
    *since = now;
    assert_eq!(f.plan().steps.len(), 0);
    f.view(2).in_service = true;
    assert_eq!(f.steps(), ["stop member 1"]);
    f.memory.disturbance = None;
    f.view(2).in_service = false;
    f.later(Duration::from_secs(61));
    assert_eq!(f.steps(), ["stop member 1"]);
}

#[test]
fn the_heir_is_a_voter_that_is_already_upgraded() {
    let mut f = Fixture::healthy(3);
    f.spec.version = Version::new(3, 6, 2);
    running(&mut f, 2, Version::new(3, 6, 2));
    running(&mut f, 1, Version::new(3, 6, 2));
    assert_eq!(f.steps(), ["move leadership from member a0 to member a1"]);
}

#[test]
fn a_leader_that_will_not_move_is_disturbed_after_a_few_tries() {
    let mut f = Fixture::healthy(3);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(2));
    f.spec.config = "other".into();
    for _ in 0..3 {
        assert_eq!(f.steps(), ["move leadership from member a2 to member a0"]);
    }
    assert_eq!(f.steps(), ["stop member 2"]);
}

#[test]
fn all_must_be_healthy_before_a_member_is_restarted_on_purpose() {
    let mut f = Fixture::healthy(5);
    f.spec.version = Version::new(3, 6, 2);
    f.kill(1);
    let plan = f.plan();
    assert!(!plan.steps.iter().any(|s| s.kind() == StepKind::Stop));
    assert!(reasons(&plan).contains(&"MembersUnhealthy"));
}

#[test]
fn a_single_member_can_be_upgraded_too() {
    let mut f = Fixture::healthy(1);
    f.spec.version = Version::new(3, 6, 2);
    assert_eq!(f.steps(), ["stop member 0"]);
}

#[test]
fn versions_that_cannot_be_reached_block_the_version_and_nothing_else() {
    for bad in [
        Version::new(3, 5, 33),
        Version::new(3, 4, 23),
        Version::new(3, 6, 0),
        Version::new(3, 8, 0),
    ] {
        let mut f = Fixture::healthy(3);
        f.spec.version = bad;
        let plan = f.plan();
        assert_eq!(
            (plan.steps.len(), reasons(&plan)),
            (0, vec!["VersionPath"]),
            "{bad}"
        );
        f.kill(2);
        assert_eq!(
            f.steps(),
            ["start member 2 (g0) from its data, etcd 3.6.1"],
            "{bad}"
        );
    }
}

#[test]
fn a_patch_that_never_came_up_can_be_taken_back_a_minor_cannot() {
    let slot = |started, served| crate::memory::Slot {
        version: Some(started),
        served,
        ..Default::default()
    };
    let (v351, v360, v362) = (
        Version::new(3, 5, 33),
        Version::new(3, 6, 0),
        Version::new(3, 6, 2),
    );
    assert_eq!(slot(v362, Some(V)).floor(), Some(V));
    assert_eq!(slot(v362, Some(v351)).floor(), Some(v360));
    assert_eq!(slot(v362, None).floor(), Some(v360));
}

/// What was remembered was lost with the cluster, which was made again from what its claims had on record.
#[test]
fn a_member_is_not_started_as_an_older_minor_than_its_volume_has_on_record() {
    let newer = Version::new(3, 6, 1);
    let mut f = Fixture::healthy(3);
    f.spec.version = newer;
    for n in 0..3 {
        running(&mut f, n, Version::new(3, 5, 33));
    }
    f.plan();
    f.kill(0);
    let slot = f.memory.slots.get_mut(&o(0)).unwrap();
    (slot.version, slot.served) = (Some(Version::new(3, 5, 33)), None);
    slot.started = Some(setup(Version::new(3, 5, 33)));
    let remembered = f.memory.clone();
    assert!(
        f.steps()
            .contains(&"start member 0 (g0) from its data, etcd 3.5.33".to_owned())
    );
    f.memory = remembered;
    f.view(0).ran = Some(newer);
    assert!(
        f.steps()
            .contains(&"start member 0 (g0) from its data, etcd 3.6.1".to_owned())
    );
}

#[test]
fn a_crashed_member_whose_turn_has_not_come_keeps_its_version() {
    let mut f = Fixture::healthy(3);
    f.spec.version = Version::new(3, 6, 2);
    f.kill(0);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(1));
    assert_eq!(
        f.later(Duration::from_secs(1)).steps(),
        ["start member 0 (g0) from its data, etcd 3.6.1"]
    );
}

#[test]
fn a_change_taken_back_during_a_restart_is_followed_by_another_restart() {
    let mut f = Fixture::healthy(3);
    f.spec.config = "new".into();
    assert_eq!(f.steps(), ["stop member 2"]);
    let Process::Running { config, .. } = &mut f.view(2).process else {
        panic!()
    };
    *config = "new".into();
    f.spec.config = "c".into();
    assert_eq!(
        f.steps(),
        ["stop member 2"],
        "it runs with what is no longer wanted"
    );
    let Process::Running { config, .. } = &mut f.view(2).process else {
        panic!()
    };
    *config = "c".into();
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec![]));
}

#[test]
fn no_member_goes_where_another_cannot_follow() {
    let mut f = Fixture::healthy(3);
    let (old, mid) = (Version::new(3, 4, 23), Version::new(3, 5, 33));
    for n in 0..3 {
        let slot = f.memory.slots.get_mut(&o(n)).unwrap();
        (slot.version, slot.served) = (Some(old), Some(old));
        running(&mut f, n, old);
    }
    f.spec.version = mid;
    f.observed.quorum.as_mut().unwrap().leader = Some(id(1));
    let steps = [
        "have member 2 write an entry, before its upgrade",
        "stop member 2",
    ];
    assert_eq!(f.steps(), steps);
    let slot = f.memory.slots.get_mut(&o(2)).unwrap();
    (slot.version, slot.served) = (Some(mid), Some(mid));
    f.kill(2).spec.version = Version::new(3, 6, 14);
    assert_eq!(f.steps(), ["start member 2 (g0) from its data, etcd 3.5.33"]);
}

#[test]
fn while_minors_are_mixed_a_new_member_joins_with_the_lower_one() {
    let mut f = Fixture::healthy(3);
    f.spec.version = Version::new(3, 7, 1);
    f.kill(1).spec.replicas = 4;
    let learner = Listed {
        id: id(3),
        name: String::new(),
        peer_urls: vec![url(3)],
        learner: true,
    };
    f.observed.quorum.as_mut().unwrap().members.push(learner);
    f.observed.slots.insert(o(3), Fixture::vacant(3));
    let steps = f.steps();
    assert!(
        steps.contains(&"start member 3 (g0) as a joining learner, etcd 3.6.1".to_owned()),
        "{steps:?}"
    );
}

#[test]
fn a_log_that_the_wanted_etcd_cannot_replay_is_put_behind_a_snapshot_first() {
    let mut f = Fixture::healthy(1);
    f.spec.version = Version::new(3, 7, 1);
    f.view(0).replay_limit = Some(6);
    assert_eq!(f.steps(), ["stop member 0"]);
    let running = f.view(0).clone();
    f.kill(0);
    let again = f.later(Duration::from_secs(2)).steps();
    assert_eq!(
        again,
        ["start member 0 (g0) from its data, to take a raft snapshot, etcd 3.6.1"]
    );
    *f.view(0) = running.clone();
    f.view(0).replay_limit = None;
    assert_eq!(f.steps(), ["stop member 0"], "now it can go");
    f.kill(0);
    let again = f.later(Duration::from_secs(4)).steps();
    assert_eq!(again, ["start member 0 (g0) from its data, etcd 3.7.1"]);

    let mut f = Fixture::healthy(1);
    f.spec.version = Version::new(3, 7, 1);
    f.view(0).replay_limit = Some(6);
    for _ in 0..3 {
        assert_eq!(f.steps(), ["stop member 0"]);
    }
    assert_eq!(reasons(&f.plan()), vec!["VersionPath"], "not for ever");
}

#[test]
fn a_version_that_never_comes_up_stops_at_the_first_member_and_can_be_taken_back() {
    let mut f = Fixture::healthy(3);
    f.spec.version = Version::new(3, 6, 2);
    f.plan();
    f.kill(2);
    for _ in 0..6 {
        f.later(Duration::from_secs(31)).plan();
    }
    let plan = f.later(Duration::from_secs(1)).plan();
    assert_eq!(plan.steps, vec![]);
    assert!(reasons(&plan).contains(&"NewVersionFails"), "{plan:?}");
    f.spec.version = V;
    let steps = f.later(Duration::from_secs(31)).steps();
    assert_eq!(steps, ["start member 2 (g0) from its data, etcd 3.6.1"]);
}

#[test]
fn settings_that_never_come_up_stop_at_the_first_member_and_can_be_taken_back_at_once() {
    let mut f = Fixture::healthy(3);
    f.spec.config = "bad".into();
    assert_eq!(f.steps(), ["stop member 2"]);
    f.kill(2);
    for _ in 0..20 {
        let plan = f.later(Duration::from_secs(31)).plan();
        let removes = plan.steps.iter().any(|s| matches!(s, Step::Remove { .. }));
        assert!(!removes, "settings cost no voter: {plan:?}");
    }
    let plan = f.later(Duration::from_secs(1)).plan();
    assert_eq!(plan.steps, vec![]);
    let block = plan
        .blocks
        .iter()
        .find(|b| b.reason == BlockReason::NewSettingsFail);
    assert!(
        block.is_some_and(|b| b.detail.contains("killed")),
        "etcd's own reason: {plan:?}"
    );
    f.spec.config = "c".into();
    let steps = f.later(Duration::from_secs(1)).steps();
    assert_eq!(steps, ["start member 2 (g0) from its data, etcd 3.6.1"]);
}

#[test]
fn settings_that_never_come_up_cost_no_voter_that_ended_by_itself() {
    let mut f = Fixture::healthy(3);
    f.plan();
    f.spec.config = "bad".into();
    f.kill(1);
    for _ in 0..20 {
        let plan = f.later(Duration::from_secs(31)).plan();
        let others = |s: &Step| !matches!(s, Step::Start { ordinal, .. } if *ordinal == o(1));
        assert!(!plan.steps.iter().any(others), "{plan:?}");
    }
    assert!(reasons(&f.later(Duration::from_secs(1)).plan()).contains(&"NewSettingsFail"));
}

#[test]
fn a_cluster_short_of_a_member_is_made_whole_before_another_is_restarted() {
    let mut f = Fixture::healthy(3);
    f.leave(2);
    *f.view(2) = Fixture::vacant(2);
    f.spec.config = "new".into();
    f.plan();
    assert_eq!(f.steps(), ["add member 2 (https://127.0.0.1:2384) as a learner"]);
}

#[test]
fn the_survivor_of_two_is_not_restarted_at_once() {
    let mut f = Fixture::healthy(2);
    (f.spec.replicas, f.spec.config) = (1, "new".into());
    f.observed.quorum.as_mut().unwrap().members.pop();
    let plan = f.plan();
    assert!(reasons(&plan).contains(&"MembersUnhealthy"), "{plan:?}");
    *f.view(1) = Fixture::vacant(1);
    assert_eq!(f.later(Duration::from_secs(10)).steps(), ["stop member 0"]);
}

#[test]
fn a_member_in_its_turn_is_not_started_as_what_cannot_replay_its_log() {
    let mut f = Fixture::healthy(3);
    f.spec.config = "new".into();
    assert_eq!(f.steps(), ["stop member 2"]);
    f.kill(2).view(2).replay_limit = Some(6);
    f.spec.version = Version::new(3, 7, 1);
    assert_eq!(f.steps(), ["start member 2 (g0) from its data, etcd 3.6.1"]);
}

#[test]
fn a_member_whose_data_is_lost_is_replaced_whatever_its_settings_were() {
    let mut f = Fixture::healthy(3);
    f.plan();
    f.spec.config = "new".into();
    f.kill(1);
    for _ in 0..10 {
        f.later(Duration::from_secs(31)).plan();
    }
    assert!(reasons(&f.plan()).contains(&"NewSettingsFail"));
    f.view(1).volume = Volume::Empty;
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    assert_eq!(
        f.later(Duration::from_secs(31)).steps(),
        ["remove member a1 from the cluster"]
    );
}
