//! Members whose data is gone.

use std::time::Duration;

use super::fixture::*;
use crate::memory::{Mark, Slot};
use crate::model::*;
use crate::plan::{BlockReason, Step, WriteBefore, pace};

/// A claim is being deleted, and the member that hangs is needed to replace its member.
#[test]
fn one_that_does_not_serve_is_restarted_although_another_is_to_be_replaced() {
    let mut f = Fixture::healthy(3);
    f.plan();
    f.view(1).deletion_pending = true;
    f.view(2).status = None;
    f.plan();
    assert_eq!(f.later(pace::STUCK.0).steps(), ["stop member 2"]);
}

#[test]
fn a_wiped_member_is_removed_and_comes_back_under_a_new_id() {
    for n in 0..3 {
        let mut f = Fixture::healthy(3);
        f.observed.quorum.as_mut().unwrap().leader = Some(id((n + 1) % 3));
        f.wipe(n);
        assert_eq!(f.steps(), [format!("remove member {} from the cluster", id(n))]);
        f.leave(n);
        let first = f.later(Duration::from_secs(1)).plan();
        assert_eq!(
            first.steps.len(),
            0,
            "what was seen is of the old volume: look again first"
        );
        let slot = f.memory.slot(o(n));
        assert_eq!(
            (slot.generation, slot.mark, slot.member),
            (Generation(1), Mark::Never, None)
        );
        *f.view(n) = Fixture::vacant(n);
        assert_eq!(f.steps(), [format!("add member {n} ({}) as a learner", url(n))]);
    }
}

#[test]
fn what_is_left_of_a_damaged_volume_is_set_aside_before_its_place_is_used() {
    let mut f = Fixture::healthy(3);
    f.kill(2).view(2).volume = Volume::Damaged {
        why: "no write-ahead log".into(),
    };
    assert_eq!(f.steps(), ["remove member a2 from the cluster"]);
    f.leave(2);
    f.plan();
    *f.view(2) = SlotView {
        leftovers: vec![Generation(0)],
        ..Fixture::vacant(2)
    };
    assert_eq!(f.steps(), ["set data of member 2 (g0) aside"]);
    f.view(2).asides = 4;
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["NoRoomAside"]));
}

#[test]
fn the_only_member_is_never_replaced_by_an_empty_one() {
    let mut f = Fixture::healthy(1);
    f.wipe(0).silence();
    let plan = f.later(Duration::from_secs(600)).plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["QuorumLost"]));
}

#[test]
fn the_only_member_running_from_deleted_files_is_not_touched() {
    let mut f = Fixture::healthy(1);
    f.view(0).volume = Volume::Empty;
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["QuorumLost"]));
    assert!(plan.blocks[0].detail.contains("take a snapshot now"));
}

#[test]
fn a_member_running_from_deleted_files_is_replaced_leadership_first() {
    let mut f = Fixture::healthy(3);
    f.view(0).volume = Volume::Empty;
    assert_eq!(f.steps(), ["move leadership from member a0 to member a1"]);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(1));
    assert_eq!(f.steps(), ["remove member a0 from the cluster"]);
}

#[test]
fn with_a_quorum_of_disks_lost_it_is_blocked_and_with_one_left_over_it_waits() {
    let mut f = Fixture::healthy(3);
    f.wipe(0).wipe(1).silence();
    let plan = f.plan();
    assert_eq!(
        (plan.steps.len(), reasons(&plan)),
        (0, vec!["MemberStarting", "QuorumLost"])
    );
    let mut f = Fixture::healthy(3);
    f.wipe(0).kill(1).silence();
    assert!(reasons(&f.plan()).contains(&"NoQuorum"));
    // One that runs on may have what its disk lost. If it hangs, nobody gets it from there.
    let mut f = Fixture::healthy(3);
    f.wipe(1).silence();
    let (view, long) = (f.view(0), pace::COME_UP);
    (view.volume, view.status) = (Volume::Empty, None);
    assert!(reasons(&f.plan()).contains(&"NoQuorum"));
    assert!(reasons(&f.later(long).plan()).contains(&"QuorumLost"));
}

#[test]
fn a_wiped_member_waits_while_the_others_are_no_healthy_quorum() {
    let mut f = Fixture::healthy(5);
    f.wipe(4).kill(3).kill(2);
    let plan = f.plan();
    assert!(plan.steps.iter().all(|s| !s.changes_membership()));
    assert!(reasons(&plan).contains(&"MembersUnhealthy"));
}

#[test]
fn a_member_that_never_gets_up_is_replaced_a_bounded_number_of_times() {
    let mut f = Fixture::healthy(3);
    f.kill(2);
    let slot = f.memory.slots.get_mut(&o(2)).unwrap();
    (slot.starts, slot.fails) = (6, 6);
    slot.last_start = f.now;
    // What must wait is not counted.
    f.memory.change_not_before = f.now + pace::CHANGE_RETRY;
    assert!(reasons(&f.plan()).contains(&"EtcdRefused"));
    assert_eq!(f.memory.slot(o(2)).replacements, 0);
    f.memory.change_not_before = f.now;
    assert!(
        f.steps()
            .contains(&"remove member a2 from the cluster".to_owned())
    );
    assert_eq!(f.memory.slot(o(2)).replacements, 1);
    f.memory.change = None;
    f.memory.slots.get_mut(&o(2)).unwrap().replacements = 2;
    let plan = f.plan();
    assert!(plan.steps.iter().all(|s| !s.changes_membership()), "{plan:?}");
}

#[test]
fn asides_are_thinned_out_only_once_the_slot_serves() {
    let mut f = Fixture::healthy(3);
    f.view(2).asides = 3;
    assert_eq!(f.steps(), ["delete old asides of member 2, all but 2"]);
    f.kill(2);
    let steps = f.steps();
    assert!(
        !steps.contains(&"delete old asides of member 2, all but 2".to_owned()),
        "{steps:?}"
    );
}

#[test]
fn a_dead_voter_waits_while_the_healthy_ones_are_no_quorum_of_all() {
    let mut f = Fixture::healthy(4);
    f.wipe(3).view(2).status = None;
    let plan = f.plan();
    assert!(plan.steps.iter().all(|s| !s.changes_membership()), "{plan:?}");
    assert!(reasons(&plan).contains(&"MembersUnhealthy"));
}

#[test]
fn a_member_that_was_told_to_stop_is_not_counted_on() {
    let mut f = Fixture::healthy(3);
    f.wipe(2).view(0).process = Process::Stopping;
    let plan = f.plan();
    assert!(plan.steps.iter().all(|s| !s.changes_membership()), "{plan:?}");
}

#[test]
fn foreign_data_that_comes_and_goes_does_not_mark_a_volume_as_started() {
    let mut f = Fixture::empty(3);
    f.plan();
    f.later(Duration::from_secs(60)).view(0).first_start = FirstStart::RanWithoutData;
    f.view(0).volume = Volume::Data {
        member: MemberId(1),
        cluster: ClusterId(0xbad),
    };
    f.plan();
    assert_eq!(f.memory.slot(o(0)).mark, Mark::Intended);
}

#[test]
fn a_volume_of_another_member_is_neither_started_nor_moved() {
    let foreign = || Volume::Foreign {
        belongs_to: "ns/e/e-0".into(),
        slot: None,
        owner_exists: None,
    };
    // In the place of a member, of one that is to come, and of one that is not wanted.
    for replicas in [3, 4, 2] {
        let mut f = Fixture::healthy(3);
        f.spec.replicas = replicas;
        let n = if replicas == 4 { 3 } else { 2 };
        if replicas == 4 {
            f.observed.slots.insert(o(3), Fixture::vacant(3));
        } else {
            f.kill(n);
        }
        f.view(n).volume = foreign();
        for _ in 0..10 {
            let plan = f.later(Duration::from_secs(60)).plan();
            let blocked = plan.blocks.iter().find(|b| b.reason == BlockReason::ForeignData);
            let name = format!("member {n}");
            let touched = plan
                .steps
                .iter()
                .map(Step::to_string)
                .filter(|s| s.contains(&name));
            assert_eq!(touched.collect::<Vec<_>>(), Vec::<String>::new());
            if replicas != 2 {
                let blocked = blocked.unwrap_or_else(|| panic!("{plan:?}"));
                assert!(blocked.detail.contains("ns/e/e-0"), "{}", blocked.detail);
            }
        }
    }
}

#[test]
fn a_member_whose_volume_is_to_be_deleted_is_not_stopped_before_it_is_replaced() {
    // The only one: neither a new version nor new settings stop it.
    let mut f = Fixture::healthy(1);
    f.spec.config = "new".into();
    f.view(0).deletion_pending = true;
    for _ in 0..10 {
        let plan = f.later(Duration::from_secs(60)).plan();
        assert_eq!(
            (plan.steps.len(), reasons(&plan)),
            (0, vec!["VolumeDeletionPending"])
        );
        assert!(
            plan.blocks[0].detail.contains("quorate snapshot save"),
            "{plan:?}"
        );
    }
    f.spec.paused = true;
    assert!(reasons(&f.plan()).contains(&"VolumeDeletionPending"));
    // But it may get company, and is replaced then.
    (f.spec.paused, f.spec.replicas) = (false, 2);
    f.observed.slots.insert(o(1), Fixture::vacant(1));
    assert_eq!(f.steps(), [format!("add member 1 ({}) as a learner", url(1))]);
    f.join(1, false);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(1));
    assert_eq!(
        f.later(Duration::from_secs(60)).steps(),
        ["remove member a0 from the cluster"]
    );
    // One of three: out of the list first, while it still runs.
    let mut f = Fixture::healthy(3);
    f.spec.config = "new".into();
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    f.view(1).deletion_pending = true;
    assert_eq!(f.steps(), ["remove member a1 from the cluster"]);
    // Unless the others could not do without it.
    let mut f = Fixture::healthy(3);
    f.view(1).deletion_pending = true;
    f.kill(2);
    let steps = f.later(Duration::from_secs(60)).steps();
    assert!(
        steps.iter().all(|s| !s.contains("member 1") && !s.contains("a1")),
        "{steps:?}"
    );
}

#[test]
fn a_learner_does_not_count_for_what_can_come_back() {
    let mut f = Fixture::healthy(2);
    f.spec.replicas = 3;
    f.join(2, true);
    f.plan();
    f.wipe(0).silence();
    assert!(reasons(&f.plan()).contains(&"QuorumLost"));
}

#[test]
fn a_member_that_gets_healthy_each_time_is_not_replaced_however_often_it_is_killed() {
    let mut f = Fixture::healthy(3);
    let well = f.view(2).clone();
    for _ in 0..20 {
        f.kill(2);
        let steps = f.later(Duration::from_secs(31)).steps();
        assert_eq!(steps, ["start member 2 (g0) from its data, etcd 3.6.1"]);
        *f.view(2) = well.clone();
        f.later(Duration::from_secs(1)).plan();
    }
}

/// Member `n` runs and does not answer.
fn hang(f: &mut Fixture, n: u32) {
    f.view(n).status = None;
}

#[test]
fn a_voter_that_runs_and_does_not_serve_is_restarted_ever_less_often() {
    let mut f = Fixture::healthy(3);
    let minute = Duration::from_secs(60);
    hang(&mut f, 2);
    assert!(f.steps().is_empty());
    assert!(f.later(9 * minute).steps().is_empty(), "it may replay a long log");
    assert_eq!(f.later(minute).steps(), ["stop member 2"]);
    // Stopped and started; still nothing.
    f.kill(2);
    assert_eq!(f.steps(), ["start member 2 (g0) from its data, etcd 3.6.1"]);
    f.view(2).process = Process::Running {
        since: f.now,
        version: V,
        config: "c".into(),
        generation: Generation(0),
    };
    assert!(f.later(minute).steps().is_empty());
    assert_eq!(f.later(10 * minute).steps(), ["stop member 2"]);
    f.kill(2);
    f.plan();
    f.view(2).process = Process::Running {
        since: f.now,
        version: V,
        config: "c".into(),
        generation: Generation(0),
    };
    assert!(f.steps().is_empty());
    assert!(f.later(19 * minute).steps().is_empty(), "twice as long");
    assert_eq!(f.later(minute).steps(), ["stop member 2"]);
}

#[test]
fn a_stuck_voter_is_left_alone_where_the_others_are_no_quorum_or_it_recovers() {
    let hour = Duration::from_secs(3600);
    let mut f = Fixture::healthy(3);
    hang(&mut f, 2);
    f.plan();
    hang(&mut f, 1);
    assert!(f.later(hour).steps().is_empty(), "no quorum without both");
    let mut f = Fixture::healthy(3);
    let status = f.view(2).status.clone();
    hang(&mut f, 2);
    f.plan();
    f.later(hour).view(2).status = status;
    assert!(f.steps().is_empty());
    hang(&mut f, 2);
    assert!(f.steps().is_empty(), "ill again, since now");
}

/// Where processes are looked at through an API, what is seen of one may be older than its answer.
#[test]
fn one_that_serves_is_not_started_whatever_was_seen_of_its_process() {
    let mut f = Fixture::healthy(3);
    let status = f.view(1).status.clone();
    f.kill(1).view(1).status = status;
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["OldView"]));
    f.view(1).status = None;
    assert_eq!(f.steps(), ["start member 1 (g0) from its data, etcd 3.6.1"]);
}

/// Of two voters both are needed for the quorum that answers, so neither is stuck, whatever one of them fails to say.
#[test]
fn one_of_two_voters_is_not_restarted_for_being_silent() {
    for replicas in [2, 3] {
        let mut f = Fixture::healthy(2);
        f.spec.replicas = replicas;
        hang(&mut f, 1);
        f.plan();
        let steps = f.later(Duration::from_secs(3600)).steps();
        assert!(
            !steps.contains(&"stop member 1".to_owned()),
            "{replicas}: {steps:?}"
        );
    }
}

#[test]
fn what_a_process_of_the_volume_before_says_counts_for_nothing() {
    let mut f = Fixture::healthy(3);
    let next = Slot {
        generation: Generation(1),
        ..Slot::default()
    };
    f.memory.slots.insert(o(2), next);
    f.plan();
    let slot = f.memory.slot(o(2));
    assert_eq!(
        (slot.version, slot.served, slot.healthy_since),
        (None, None, None)
    );
}

#[test]
fn a_place_that_is_told_again_at_once_has_not_failed_again() {
    let mut f = Fixture::healthy(3);
    for second in 0..20 {
        f.kill(2).view(2).process = Process::Stopped {
            last: Some(Exit {
                at: Time(0),
                asked: true,
                how: "it waits to be started".into(),
            }),
        };
        assert_eq!(f.steps().len(), 1);
        f.later(Duration::from_secs(1));
        assert!(f.memory.slot(o(2)).fails <= 1, "second {second}");
    }
}

#[test]
fn a_member_that_cannot_start_for_a_known_reason_keeps_its_data() {
    let mut f = Fixture::healthy(3);
    f.kill(2).view(2).cannot_start = Some("too little memory".into());
    f.memory.slots.get_mut(&o(2)).unwrap().fails = 20;
    let plan = f.later(Duration::from_secs(600)).plan();
    assert_eq!((plan.steps.len(), reasons(&plan)[0]), (0, "CannotStart"));
}

#[test]
fn one_that_was_started_before_anybody_saw_its_id_may_make_the_quorum() {
    let mut f = Fixture::healthy(3);
    f.memory.slots.get_mut(&o(2)).unwrap().member = None;
    f.kill(0).kill(2).silence();
    f.kill(1).view(1).volume = Volume::Damaged { why: "torn".into() };
    let plan = f.later(Duration::from_secs(60)).plan();
    let started: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        started,
        [
            "start member 0 (g0) from its data, etcd 3.6.1",
            "start member 2 (g0) from its data, etcd 3.6.1"
        ]
    );
    assert!(!reasons(&plan).contains(&"QuorumLost"), "{plan:?}");
}

fn alarm(f: &mut Fixture, kind: AlarmKind, n: u32) {
    let alarm = Alarm { kind, member: id(n) };
    for view in f.observed.slots.values_mut() {
        if let Some(status) = &mut view.status {
            status.alarms.insert(alarm);
        }
    }
}

#[test]
fn alarms_are_reported_and_one_of_corruption_stops_all_changes() {
    let mut f = Fixture::healthy(3);
    f.view(1).status.as_mut().unwrap().db_size = 2_147_483_648;
    alarm(&mut f, AlarmKind::NoSpace, 1);
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["NoSpace"]));
    let block = &plan.blocks[0];
    assert_eq!(block.member, Some(o(1)));
    assert!(block.detail.contains("t-1 (2147.4 MB"), "{}", block.detail);
    f.spec.config = "a larger quota".into();
    assert_eq!(f.steps(), ["stop member 2"], "it may be what mends it");
    f.spec.paused = true;
    assert!(reasons(&f.plan()).contains(&"NoSpace"));

    let mut f = Fixture::healthy(3);
    (f.spec.config, f.spec.replicas) = ("new".into(), 2);
    alarm(&mut f, AlarmKind::Corrupt, 2);
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["Corrupt"]));
    // But what ended is started again.
    f.kill(0);
    let steps = f.later(Duration::from_secs(60)).steps();
    assert_eq!(steps, ["start member 0 (g0) from its data, etcd 3.6.1"]);
}

#[test]
fn a_member_that_served_and_hangs_is_not_said_to_start() {
    let mut f = Fixture::healthy(3);
    f.view(1).status = None;
    f.plan();
    let plan = f.later(Duration::from_secs(30)).plan();
    assert_eq!(reasons(&plan), ["MemberUnresponsive"]);
    let wait = &plan.waits[0];
    let detail = &wait.detail;
    assert!(
        detail.contains("t-1 runs and does not answer any more"),
        "{detail}"
    );
    assert!(wait.until.is_some_and(|until| until > f.now));
    // One that was started and never served starts.
    let mut f = Fixture::healthy(3);
    f.view(1).status = None;
    f.memory.slots.get_mut(&o(1)).unwrap().fails = 1;
    assert_eq!(reasons(&f.plan()), ["MemberStarting"]);
}

#[test]
fn who_is_waited_for_can_be_found() {
    let details = |f: &mut Fixture| -> Vec<String> { f.plan().waits.into_iter().map(|w| w.detail).collect() };
    let mut f = Fixture::healthy(3);
    f.view(1).status = None;
    f.view(1).located = Some("pod t-1-x on node n2".into());
    f.plan();
    let silent = details(f.later(Duration::from_secs(1)));
    assert!(
        silent[0].starts_with("t-1 (pod t-1-x on node n2) runs and does not answer"),
        "{silent:?}"
    );
    f.observed.quorum = None;
    let none = details(&mut f);
    assert!(
        none.iter()
            .any(|d| d.contains("unhealthy: t-1 (pod t-1-x on node n2)")),
        "{none:?}"
    );
    f.kill(1).view(1).place = Place::Preparing {
        why: "its pod is being made".into(),
    };
    let made = details(f.later(Duration::from_secs(60)));
    assert!(
        made.iter()
            .any(|d| d == "t-1 (pod t-1-x on node n2): its pod is being made"),
        "{made:?}"
    );
}

#[test]
fn an_entry_is_written_for_one_that_is_silent_ever_less_often() {
    let mut f = Fixture::healthy(3);
    f.view(1).status = None;
    let mut written = vec![];
    for second in 0..=60 {
        let steps = f.plan().steps;
        if let [Step::Write { ordinal, before }] = &steps[..] {
            assert_eq!(
                (*ordinal, *before),
                (o(0), WriteBefore::Serving),
                "through the leader"
            );
            written.push(second);
        } else {
            assert_eq!(steps, [], "after {second} s");
        }
        f.later(Duration::from_secs(1));
    }
    assert_eq!(written, [2, 4, 8, 16, 32]);
    // Nobody can write without a quorum.
    let mut f = Fixture::healthy(3);
    f.view(1).status = None;
    f.plan();
    f.later(Duration::from_secs(5)).observed.quorum = None;
    assert_eq!(f.plan().steps, []);
}

#[test]
fn while_nothing_can_be_changed_what_is_lost_is_healed() {
    let frozen = Some(Frozen {
        reason: BlockReason::Invalid,
        detail: "spec.version: no such version".into(),
    });
    // Nobody is removed or restarted for it, whatever the spec says.
    let mut f = Fixture::healthy(3);
    (f.spec.replicas, f.spec.config, f.spec.frozen) = (2, "new".into(), frozen.clone());
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["Invalid"]));
    assert_eq!(plan.blocks[0].detail, "spec.version: no such version");
    // But who ended is started, and who is lost is replaced.
    let mut f = Fixture::healthy(3);
    f.spec.frozen = frozen.clone();
    f.kill(1);
    let steps = f.later(Duration::from_secs(60)).steps();
    assert_eq!(steps, ["start member 1 (g0) from its data, etcd 3.6.1"]);
    let mut f = Fixture::healthy(3);
    f.spec.frozen = frozen.clone();
    f.wipe(2);
    assert_eq!(
        f.later(Duration::from_secs(60)).steps(),
        ["remove member a2 from the cluster"]
    );
    let members = &mut f.observed.quorum.as_mut().unwrap().members;
    members.retain(|m| m.id != id(2));
    f.plan();
    *f.view(2) = Fixture::vacant(2);
    assert_eq!(f.steps(), [format!("add member 2 ({}) as a learner", url(2))]);
    // What was there makes room for it first.
    let mut f = Fixture::healthy(3);
    f.spec.frozen = frozen.clone();
    f.kill(2).view(2).volume = Volume::Damaged { why: "bad".into() };
    assert_eq!(
        f.later(Duration::from_secs(60)).steps(),
        ["remove member a2 from the cluster"]
    );
    f.leave(2);
    f.plan();
    *f.view(2) = SlotView {
        leftovers: vec![Generation(0)],
        ..Fixture::vacant(2)
    };
    assert_eq!(f.steps(), ["set data of member 2 (g0) aside"]);
    *f.view(2) = Fixture::vacant(2);
    assert_eq!(f.steps(), [format!("add member 2 ({}) as a learner", url(2))]);
    // And nothing is begun.
    let mut f = Fixture::empty(3);
    f.spec.frozen = frozen;
    assert_eq!((f.plan().steps.len(), f.memory.bootstrap.is_none()), (0, true));
}
