//! First starts, restarts, and what is never started.

use std::time::Duration;

use super::fixture::*;
use crate::memory::Mark;
use crate::model::*;
use crate::plan::{BlockReason, StartHow, Step, pace};

#[test]
fn a_new_cluster_starts_all_its_members_at_once_under_one_fresh_token() {
    let mut f = Fixture::empty(3);
    let plan = f.plan();
    assert_eq!(plan.steps.len(), 3);
    for (n, step) in plan.steps.iter().enumerate() {
        let Step::Start {
            ordinal,
            how: StartHow::New { token, initial },
            version,
            ..
        } = step
        else {
            panic!("{step}");
        };
        assert_eq!((ordinal.0 as usize, token.as_str(), *version), (n, "tok", V));
        assert_eq!(initial.len(), 3);
    }
    assert!(
        f.memory.slots.values().all(|s| s.mark == Mark::Intended),
        "the mark is written before the first exec"
    );
}

#[test]
fn data_that_is_not_on_record_is_never_bootstrapped_over() {
    let mut f = Fixture::empty(3);
    f.view(1).volume = Volume::Data {
        member: id(1),
        cluster: ClusterId(9),
    };
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["ForeignData"]));
    assert_eq!(f.memory.bootstrap, None);
}

/// What storage kept may be bound to a place of a cluster that was made again, and its pod goes on by itself.
#[test]
fn a_place_where_a_process_runs_is_not_taken_away_to_begin() {
    let running = Fixture::healthy(3).view(1).process.clone();
    for (process, reason) in [(running, "ForeignData"), (Process::Stopping, "MemberStopping")] {
        let mut f = Fixture::empty(3);
        f.view(1).process = process;
        f.view(1).made_for = Some(Setup {
            version: V,
            config: "another".to_owned(),
        });
        let plan = f.plan();
        assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec![reason]));
        assert_eq!(f.memory.bootstrap, None);
    }
}

/// The limit was raised as the block asked.
#[test]
fn what_kept_a_former_process_from_starting_does_not_keep_a_cluster_from_beginning() {
    let mut f = Fixture::empty(3);
    f.view(1).cannot_start = Some("it needs more memory".to_owned());
    f.view(1).made_for = Some(f.spec.setup_of(o(1)));
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["CannotStart"]));
    f.spec.config = "more memory".to_owned();
    assert_eq!(f.steps(), ["take the place of member 1 away"]);
}

#[test]
fn a_first_start_that_provably_never_ran_is_repeated_with_the_same_token() {
    let mut f = Fixture::empty(3);
    f.plan();
    f.observed.fresh_token = Token("another".into());
    for n in 0..3 {
        f.view(n).first_start = FirstStart::NotRun;
    }
    let plan = f.later(Duration::from_secs(2)).plan();
    assert_eq!(plan.steps.len(), 3);
    assert!(plan.steps.iter().all(
        |s| matches!(s, Step::Start { how: StartHow::New { token, .. }, .. } if token.as_str() == "tok")
    ));
}

#[test]
fn a_first_member_that_may_have_run_and_is_empty_never_starts_as_new_again() {
    for evidence in [
        FirstStart::Unknown,
        FirstStart::NotRun,
        FirstStart::RanWithoutData,
    ] {
        for mark in [Mark::Intended, Mark::Started] {
            let mut f = Fixture::empty(1);
            f.plan();
            f.memory.slots.get_mut(&o(0)).unwrap().mark = mark;
            f.view(0).first_start = evidence;
            let plan = f.later(Duration::from_secs(60)).plan();
            let proven = mark == Mark::Intended && evidence != FirstStart::Unknown;
            assert_eq!(plan.steps.len(), usize::from(proven), "{mark:?} {evidence:?}");
            assert_eq!(
                reasons(&plan),
                vec![if proven { "Forming" } else { "QuorumLost" }]
            );
        }
    }
}

#[test]
fn while_forming_one_lost_volume_of_three_does_not_keep_the_others_from_starting() {
    let mut f = Fixture::empty(3);
    f.plan();
    f.view(1).volume = Volume::Data {
        member: id(1),
        cluster: CLUSTER,
    };
    f.view(2).volume = Volume::Data {
        member: id(2),
        cluster: CLUSTER,
    };
    let steps = f.later(Duration::from_secs(60)).steps();
    assert_eq!(
        steps,
        [
            "start member 1 (g0) from its data, etcd 3.6.1",
            "start member 2 (g0) from its data, etcd 3.6.1"
        ]
    );
}

#[test]
fn after_a_power_cut_all_members_start_from_their_data_without_asking_anyone() {
    let mut f = Fixture::healthy(3);
    f.kill(0).kill(1).kill(2).silence();
    let plan = f.plan();
    assert_eq!(plan.steps.len(), 3);
    assert!(plan.steps.iter().all(|s| matches!(
        s,
        Step::Start {
            how: StartHow::Resume,
            ..
        }
    )));
    assert_eq!(reasons(&plan), vec!["NoQuorum"]);
}

#[test]
fn a_member_that_keeps_crashing_is_started_after_growing_pauses() {
    let mut f = Fixture::healthy(3);
    f.kill(2);
    assert_eq!(f.steps().len(), 1, "at once after a healthy life");
    for pause in [1, 2, 4, 8, 16] {
        let plan = f.later(Duration::from_millis(pause * 1000 - 1)).plan();
        assert_eq!(
            (plan.steps.len(), reasons(&plan)[0]),
            (0, "BackingOff"),
            "before {pause} s"
        );
        assert_eq!(
            f.later(Duration::from_millis(1)).steps().len(),
            1,
            "after {pause} s"
        );
    }
}

#[test]
fn a_clock_that_was_set_back_does_not_postpone_a_restart() {
    let mut f = Fixture::healthy(3);
    f.kill(2).plan();
    f.now = Time(5_000);
    f.observed.at = f.now;
    assert_eq!(f.steps(), ["start member 2 (g0) from its data, etcd 3.6.1"]);
}

#[test]
fn the_data_of_another_member_is_neither_started_nor_moved() {
    let mut f = Fixture::healthy(3);
    f.kill(2).view(2).volume = Volume::Data {
        member: MemberId(77),
        cluster: CLUSTER,
    };
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["ForeignData"]));
}

#[test]
fn another_cluster_at_our_addresses_is_not_acted_on() {
    let mut f = Fixture::healthy(3);
    f.observed.quorum.as_mut().unwrap().cluster = ClusterId(0xbad);
    f.spec.replicas = 1;
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["ForeignData"]));
}

#[test]
fn paused_means_nothing_is_done() {
    let mut f = Fixture::healthy(3);
    f.kill(1).spec.paused = true;
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["Paused"]));
}

#[test]
fn an_old_look_is_not_acted_on() {
    let mut f = Fixture::healthy(3);
    f.kill(2);
    f.now = f.observed.at + Duration::from_secs(6);
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["OldView"]));
}

#[test]
fn a_look_from_before_what_is_remembered_is_not_acted_on() {
    let mut f = Fixture::healthy(3);
    f.spec.replicas = 4;
    f.observed.slots.insert(o(3), Fixture::vacant(3));
    let before = f.observed.clone();
    f.later(Duration::from_secs(1)).plan();
    f.join(3, true);
    f.later(Duration::from_secs(1)).plan();
    f.observed = before;
    // The list of that look lacks the learner; its slot must not be given up for that.
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["OldView"]));
    assert_eq!(f.memory.slot(o(3)).generation, Generation(0));
}

#[test]
fn what_cannot_be_started_is_said_and_nothing_else_is_done_for_it() {
    let mut f = Fixture::healthy(3);
    f.kill(2).view(2).cannot_start = Some("port 2384 is held by sshd (pid 7)".into());
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["CannotStart"]));
    assert!(plan.blocks[0].detail.contains("sshd (pid 7)"));
}

#[test]
fn foreign_data_that_turns_up_while_the_cluster_forms_is_not_started() {
    let forming = || {
        let mut f = Fixture::empty(3);
        f.plan();
        f.later(Duration::from_secs(60));
        f
    };
    let foreign = Volume::Data {
        member: MemberId(1),
        cluster: ClusterId(0xbad),
    };
    let mut f = forming();
    f.view(0).volume = foreign.clone();
    f.view(1).volume = Volume::Data {
        member: id(1),
        cluster: CLUSTER,
    };
    assert_eq!(f.steps(), [""; 0], "two clusters among the first members");
    let mut f = forming();
    f.view(0).volume = foreign;
    f.view(0).first_start = FirstStart::NotRun;
    let plan = f.plan();
    assert_eq!(plan.steps.len(), 0, "it never ran, so it has no data of its own");
    assert!(reasons(&plan).contains(&"ForeignData"));
}

#[test]
fn a_supervisor_that_begins_waits_for_nothing() {
    let mut f = Fixture::healthy(3);
    for n in 0..3 {
        f.view(n).process = Process::Stopped { last: None };
        f.view(n).status = None;
    }
    f.observed.quorum = None;
    for _ in 0..20 {
        f.memory = std::mem::take(&mut f.memory).taken_up();
        assert_eq!(f.later(Duration::from_millis(100)).steps().len(), 3);
        let again = f.later(Duration::from_millis(100)).steps();
        assert_eq!(again.len(), 0, "but a start that came to nothing is waited for");
    }
}

#[test]
fn a_place_is_made_before_anything_is_started_in_it() {
    let mut f = Fixture::empty(3);
    for n in 0..3 {
        f.view(n).place = Place::Absent;
        f.view(n).volume = Volume::Unknown;
    }
    let made = |n| format!("make a place for member {n} (g0), etcd {V}");
    assert_eq!(f.steps(), [made(0), made(1), made(2)], "all at once");
    for n in 0..3 {
        let why = "the pod is being scheduled".to_owned();
        f.view(n).place = Place::Preparing { why };
    }
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["Preparing"; 3]));
    assert_eq!(
        f.memory.bootstrap, None,
        "nothing is latched before all are there"
    );
    for n in 0..2 {
        f.view(n).place = Place::Ready;
        f.view(n).volume = Volume::Empty;
    }
    assert_eq!(f.steps().len(), 0, "and none is started before the last");
    f.view(2).place = Place::Ready;
    f.view(2).volume = Volume::Empty;
    assert_eq!(f.steps().len(), 3);
}

#[test]
fn a_place_for_another_version_is_recreated() {
    let mut f = Fixture::healthy(3);
    f.kill(1).view(1).place = Place::Preparing {
        why: "no such image".to_owned(),
    };
    f.view(1).made_for = Some(setup(Version::new(3, 6, 99)));
    f.view(1).volume = Volume::Unknown;
    assert_eq!(f.steps(), ["take the place of member 1 away"]);
    f.view(1).place = Place::Absent;
    f.view(1).made_for = None;
    assert_eq!(f.steps(), [format!("make a place for member 1 (g0), etcd {V}")]);
    f.view(1).place = Place::Unfit;
    f.view(1).made_for = Some(setup(V));
    assert_eq!(
        f.steps(),
        ["take the place of member 1 away"],
        "for another volume"
    );
}

#[test]
fn a_member_is_added_only_once_there_is_a_place_for_it() {
    let mut f = Fixture::healthy(1);
    f.spec.replicas = 2;
    f.observed.slots.insert(o(1), Fixture::vacant(1));
    f.view(1).place = Place::Absent;
    f.view(1).volume = Volume::Unknown;
    assert_eq!(f.steps(), [format!("make a place for member 1 (g0), etcd {V}")]);
    f.view(1).place = Place::Ready;
    f.view(1).volume = Volume::Empty;
    assert!(f.steps()[0].starts_with("add member 1"));
}

/// Certificates to ask them with are missing, say. Silence for as long as you like is no sign of anything then.
#[test]
fn members_that_nobody_asked_are_started_when_they_end_and_nothing_else_is_done() {
    let mut f = Fixture::healthy(3);
    f.spec.config = "new".into();
    for _ in 0..5 {
        f.plan();
        f.later(Duration::from_secs(1));
    }
    f.memory.disturbance = None;
    f.spec.frozen = Some(Frozen {
        reason: BlockReason::Certificates,
        detail: "no Secret".into(),
    });
    (f.observed.unasked, f.observed.quorum) = (true, None);
    for n in 0..3 {
        f.view(n).status = None;
    }
    for _ in 0..400 {
        let plan = f.later(Duration::from_secs(10)).plan();
        assert_eq!((plan.steps, plan.waits), (vec![], vec![]));
        assert_eq!(plan.blocks.len(), 1, "{:?}", plan.blocks);
    }
    let silent = |s: &crate::memory::Slot| s.unhealthy_since.is_some() || s.unanswered.0 > 0;
    assert!(!f.memory.slots.values().any(silent), "nor is it counted");
    f.kill(1);
    let steps = f.later(Duration::from_secs(60)).steps();
    assert_eq!(steps, ["start member 1 (g0) from its data, etcd 3.6.1"]);
    // A place that is taken away could not be made again.
    f.kill(2).view(2).place = Place::Unfit;
    f.view(1).place = Place::Absent;
    let steps = f.later(Duration::from_secs(60)).plan().steps;
    assert!(
        matches!(
            steps[..],
            [Step::Provide {
                ordinal: Ordinal(1),
                ..
            }]
        ),
        "{steps:?}"
    );
}

#[test]
fn a_member_that_clients_are_not_sent_to_yet_is_waited_for_and_not_without_end() {
    let mut f = Fixture::healthy(3);
    let now = f.now;
    let view = f.view(1);
    (view.in_service, view.located) = (false, Some("pod t-1-x on node n2".into()));
    let Process::Running { since, .. } = &mut view.process else {
        panic!()
    };
    *since = now;
    let plan = f.plan();
    assert_eq!(reasons(&plan), ["MemberStarting"]);
    let wait = &plan.waits[0];
    assert_eq!(
        wait.detail,
        "t-1 (pod t-1-x on node n2) serves, and clients are not sent to it yet"
    );
    assert_eq!(wait.until, Some(now + pace::IN_SERVICE));
    assert_eq!(plan.steps, []);
    // What its readiness says later is not believed more than the member.
    f.later(Duration::from_secs(61));
    assert_eq!(reasons(&f.plan()), Vec::<&str>::new());
}

#[test]
fn a_voter_that_ends_while_certificates_are_wrong_is_not_replaced() {
    let wrong = Some(Frozen {
        reason: BlockReason::Certificates,
        detail: "the Secret \"own\": tls.crt is no certificate".into(),
    });
    let started = ["start member 2 (g0) from its data, etcd 3.6.1"];
    let ends = |f: &mut Fixture| f.kill(2).later(Duration::from_secs(3600)).steps();
    let waits = |f: &mut Fixture| f.kill(2).later(Duration::from_secs(1)).steps();
    let mut f = Fixture::healthy(3);
    f.plan();
    f.spec.frozen = wrong.clone();
    for _ in 0..2 * pace::CRASH_LIMIT {
        assert_eq!(ends(&mut f), started);
    }
    assert!(waits(&mut f).is_empty());
    // Once they are right its data has as many tries as that of any other.
    f.spec.frozen = None;
    for _ in 0..pace::CRASH_LIMIT {
        assert!(waits(&mut f).is_empty());
        assert_eq!(ends(&mut f), started);
    }
    // What it failed before they were wrong is no reason to give it up while they are.
    f.spec.frozen = wrong;
    assert!(waits(&mut f).is_empty());
    f.spec.frozen = None;
    assert_eq!(waits(&mut f), ["remove member a2 from the cluster"]);
}
