//! More members and fewer.

use std::time::Duration;

use super::fixture::*;
use crate::memory::Mark;
use crate::model::*;
use crate::plan::{StartHow, Step};

fn grown(f: &mut Fixture, to: u32) {
    f.spec.replicas = to;
    for n in 0..to {
        f.observed.slots.entry(o(n)).or_insert_with(|| Fixture::vacant(n));
    }
}

#[test]
fn growing_adds_the_lowest_free_ordinal_as_a_learner_starts_it_and_promotes_it() {
    let mut f = Fixture::healthy(1);
    grown(&mut f, 3);
    assert_eq!(f.steps(), ["add member 1 (https://127.0.0.1:2382) as a learner"]);
    // Added, not started: it has no name and no data.
    let learner = Listed {
        id: id(1),
        name: String::new(),
        peer_urls: vec![url(1)],
        learner: true,
    };
    f.observed.quorum.as_mut().unwrap().members.push(learner);
    let plan = f.later(Duration::from_secs(1)).plan();
    let [
        Step::Start {
            ordinal,
            how: StartHow::Join { initial },
            ..
        },
    ] = &plan.steps[..]
    else {
        panic!("{plan:?}")
    };
    assert_eq!((*ordinal, initial.len(), initial[1].0.as_str()), (o(1), 2, "t-1"));
    // It runs and catches up.
    f.observed.quorum.as_mut().unwrap().members.pop();
    f.join(1, true);
    f.view(1).status.as_mut().unwrap().applied = 10;
    let plan = f.later(Duration::from_secs(1)).plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["LearnerCatchingUp"]));
    f.view(1).status.as_mut().unwrap().applied = 950;
    assert_eq!(f.steps(), ["promote learner 1 (a1)"]);
    let plan = f.later(Duration::from_secs(1)).plan();
    assert_eq!(
        (plan.steps.len(), reasons(&plan)),
        (0, vec!["ChangeInFlight"]),
        "never a second change beside it"
    );
    f.observed.quorum.as_mut().unwrap().members[1].learner = false;
    assert_eq!(f.steps(), ["add member 2 (https://127.0.0.1:2384) as a learner"]);
}

#[test]
fn a_refused_change_is_asked_again_soon_and_one_that_vanished_after_its_deadline() {
    let mut f = Fixture::healthy(1);
    grown(&mut f, 2);
    f.plan();
    let at = f.later(Duration::from_millis(10)).now;
    let result = StepResult::Refused(Refused::UnhealthyCluster);
    f.observed.last = Some(Outcome {
        step: StepKind::AddLearner,
        result,
        at,
    });
    assert_eq!(reasons(&f.plan()), vec!["EtcdRefused"]);
    f.observed.last = None;
    assert_eq!(f.later(Duration::from_millis(500)).steps().len(), 1);
    assert_eq!(
        reasons(&f.later(Duration::from_secs(6)).plan()),
        vec!["ChangeInFlight"]
    );
    assert_eq!(
        f.later(Duration::from_secs(1)).steps().len(),
        1,
        "it never showed: void, and asked again"
    );
}

#[test]
fn nothing_is_added_while_a_member_is_unhealthy_or_its_place_is_taken() {
    let mut f = Fixture::healthy(3);
    grown(&mut f, 4);
    f.kill(2);
    let plan = f.plan();
    assert!(plan.steps.iter().all(|s| !s.changes_membership()));
    let mut f = Fixture::healthy(3);
    grown(&mut f, 4);
    f.view(3).cannot_start = Some("port taken".into());
    assert_eq!(reasons(&f.plan()), vec!["CannotStart"]);
}

/// A member that was removed had too little memory. Its place is still there, and the limit was raised since.
#[test]
fn what_kept_a_former_member_from_starting_says_nothing_of_other_settings() {
    let mut f = Fixture::healthy(3);
    f.leave(2);
    *f.view(2) = SlotView {
        volume: Volume::Unknown,
        made_for: Some(setup(V)),
        cannot_start: Some("it needs more memory".to_owned()),
        ..Fixture::vacant(2)
    };
    f.plan();
    assert_eq!(reasons(&f.plan()), vec!["CannotStart"]);
    f.spec.config = "more memory".to_owned();
    assert_eq!(f.steps(), ["take the place of member 2 away"]);
}

#[test]
fn a_learner_is_withdrawn_when_not_wanted_when_wiped_and_when_stuck() {
    let learner = |f: &mut Fixture| {
        grown(f, 3);
        f.join(2, true);
        f.view(2).status.as_mut().unwrap().applied = 10;
        f.plan();
    };
    let mut f = Fixture::healthy(2);
    learner(&mut f);
    f.spec.replicas = 2;
    assert_eq!(f.steps(), ["remove member a2 from the cluster"]);

    let mut f = Fixture::healthy(2);
    learner(&mut f);
    f.wipe(2);
    assert_eq!(f.steps(), ["remove member a2 from the cluster"]);

    let mut f = Fixture::healthy(2);
    learner(&mut f);
    assert_eq!(f.later(Duration::from_secs(599)).steps(), [""; 0]);
    assert_eq!(
        f.later(Duration::from_secs(2)).steps(),
        ["remove member a2 from the cluster"]
    );
}

#[test]
fn a_learner_that_fails_is_tried_a_few_times_and_then_left_alone() {
    let mut f = Fixture::healthy(2);
    grown(&mut f, 3);
    let mut added = 0;
    // A day, in which it never comes up.
    for _ in 0..(24 * 3600 / 20) {
        let plan = f.later(Duration::from_secs(20)).plan();
        for step in &plan.steps {
            let members = &mut f.observed.quorum.as_mut().unwrap().members;
            match step {
                Step::AddLearner { peer_url, .. } => {
                    added += 1;
                    members.push(Listed {
                        id: MemberId(0xb00 + added),
                        name: String::new(),
                        peer_urls: vec![peer_url.clone()],
                        learner: true,
                    });
                }
                Step::Remove { member, .. } => members.retain(|m| m.id != *member),
                Step::Start { .. } => {
                    f.kill(2).view(2).first_start = FirstStart::RanWithoutData;
                }
                _ => {}
            }
        }
        if f.memory.slot(o(2)).mark == Mark::Never {
            *f.view(2) = Fixture::vacant(2);
        }
    }
    // Three at once, six while the pause grows to an hour, then one an hour.
    assert!((20..=3 + 6 + 24).contains(&added), "{added}");
    let plan = f.plan();
    assert!(reasons(&plan).contains(&"LearnerFails"));
    assert_eq!(
        plan.requeue_after,
        Duration::from_secs(2),
        "nothing comes of looking sooner"
    );
    f.spec.config = "mended".into();
    let plan = f.plan();
    assert!(
        plan.steps.iter().any(|s| matches!(s, Step::AddLearner { .. })),
        "{plan:?}"
    );
}

#[test]
fn a_learner_that_gets_on_is_news_only_now_and_then() {
    let mut f = Fixture::healthy(2);
    grown(&mut f, 3);
    f.join(2, true);
    let mut look = |applied: u64, later: u64| {
        f.view(2).status.as_mut().unwrap().applied = applied;
        let reported = f.later(Duration::from_secs(later)).plan();
        (
            f.memory.learner.clone().unwrap().applied,
            reported.waits[0].detail.clone(),
        )
    };
    let first = look(110, 0);
    assert_eq!(first, (110, "t-2 has copied about 10% of the log".to_owned()));
    assert_eq!(look(120, 1), first);
    assert_eq!(look(130, 8), first);
    assert_eq!(look(190, 1).0, 190, "ten seconds on, it is marked");
    assert!(look(210, 1).1.contains("20%"));
}

#[test]
fn shrinking_goes_by_number_from_the_top_and_moves_the_leader_first() {
    let mut f = Fixture::healthy(11);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(10));
    f.spec.replicas = 9;
    assert_eq!(
        f.steps(),
        ["move leadership from member aa to member a0"],
        "-10 comes after -9"
    );
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    assert_eq!(f.steps(), ["remove member aa from the cluster"]);
}

#[test]
fn an_unhealthy_surplus_member_goes_first_but_never_below_a_healthy_quorum() {
    let mut f = Fixture::healthy(5);
    f.spec.replicas = 3;
    f.kill(3);
    let steps = f.steps();
    assert!(
        steps.contains(&"remove member a3 from the cluster".to_owned()),
        "{steps:?}"
    );
    let mut f = Fixture::healthy(3);
    f.spec.replicas = 2;
    f.kill(1);
    let plan = f.plan();
    assert!(plan.steps.iter().all(|s| !s.changes_membership()), "{plan:?}");
    assert!(reasons(&plan).contains(&"MembersUnhealthy"));
}

#[test]
fn a_removed_member_is_stopped_its_data_set_aside_and_its_place_can_be_used_again() {
    let mut f = Fixture::healthy(3);
    f.spec.replicas = 2;
    f.plan();
    f.leave(2);
    assert_eq!(f.steps(), ["stop member 2"]);
    assert_eq!(f.memory.slot(o(2)).generation, Generation(1));
    *f.view(2) = SlotView {
        leftovers: vec![Generation(0)],
        ..Fixture::vacant(2)
    };
    assert_eq!(f.steps(), ["set data of member 2 (g0) aside"]);
    *f.view(2) = SlotView {
        asides: 1,
        ..Fixture::vacant(2)
    };
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec![]));
    f.spec.replicas = 3;
    assert_eq!(f.steps(), ["add member 2 (https://127.0.0.1:2384) as a learner"]);
}

#[test]
fn one_that_was_removed_before_its_id_was_noted_is_stopped_too_and_its_place_can_be_used_again() {
    let mut f = Fixture::healthy(3);
    f.plan();
    f.leave(2);
    f.memory.slots.get_mut(&o(2)).unwrap().member = None;
    assert_eq!(f.steps(), ["stop member 2"]);
    assert_eq!(f.memory.slot(o(2)).generation, Generation(1));
}

#[test]
fn a_ground_that_has_no_room_for_old_data_is_reported() {
    let mut f = Fixture::healthy(3);
    f.kill(2).view(2).no_room_aside = Some("4 sets of old data".to_owned());
    f.view(2).place = Place::Preparing { why: String::new() };
    let plan = f.plan();
    assert_eq!(plan.blocks[0].reason.name(), "NoRoomAside");
    assert_eq!(plan.blocks[0].detail, "t-2: 4 sets of old data");
}

#[test]
fn members_nobody_here_added_are_left_alone_and_hold_up_changes() {
    let mut f = Fixture::healthy(3);
    let stranger = Listed {
        id: MemberId(0xee),
        name: "x".into(),
        peer_urls: vec![PeerUrl("https://10.0.0.9:2380".into())],
        learner: false,
    };
    f.observed.quorum.as_mut().unwrap().members.push(stranger);
    f.spec.replicas = 1;
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["UnknownMember"]));
}

#[test]
fn a_change_of_voters_is_followed_by_an_entry_through_the_leader_if_it_stays() {
    let mut f = Fixture::healthy(4);
    (f.spec.replicas, f.observed.quorum.as_mut().unwrap().leader) = (3, Some(id(1)));
    let steps: Vec<String> = f.plan().steps.iter().map(Step::to_string).collect();
    assert_eq!(
        steps,
        [
            "remove member a3 from the cluster",
            "have member 1 write an entry, so that the change of voters outlasts an outage"
        ]
    );
}

#[test]
fn the_last_voter_is_never_the_one_to_go() {
    let mut f = Fixture::healthy(2);
    f.observed.quorum.as_mut().unwrap().members.remove(0);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(1));
    *f.view(0) = Fixture::vacant(0);
    f.spec.replicas = 1;
    f.plan();
    assert_eq!(f.steps(), ["add member 0 (https://127.0.0.1:2380) as a learner"]);
    f.join(0, false);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    assert_eq!(f.steps(), ["remove member a1 from the cluster"]);
}

#[test]
fn an_add_that_takes_effect_after_the_user_changed_their_mind_is_withdrawn() {
    let mut f = Fixture::healthy(3);
    grown(&mut f, 4);
    f.plan();
    f.spec.replicas = 3;
    let late = Listed {
        id: id(3),
        name: String::new(),
        peer_urls: vec![url(3)],
        learner: true,
    };
    f.observed.quorum.as_mut().unwrap().members.push(late);
    assert_eq!(f.steps(), ["remove member a3 from the cluster"]);
}

#[test]
fn of_two_voters_the_one_that_stays_must_lead_before_the_other_goes() {
    let mut f = Fixture::healthy(2);
    f.spec.replicas = 1;
    f.observed.quorum.as_mut().unwrap().leader = Some(id(1));
    for _ in 0..10 {
        assert_eq!(f.steps(), ["move leadership from member a1 to member a0"]);
    }
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    assert_eq!(f.steps(), ["remove member a1 from the cluster"]);
}

#[test]
fn a_leader_is_not_removed_while_the_rest_could_not_find_out_without_it() {
    let mut f = Fixture::healthy(4);
    f.spec.replicas = 3;
    f.observed.quorum.as_mut().unwrap().leader = Some(id(3));
    f.view(1).status = None;
    for _ in 0..10 {
        assert_eq!(f.steps(), ["move leadership from member a3 to member a0"]);
    }
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    assert_eq!(f.steps(), ["remove member a3 from the cluster"]);
}

#[test]
fn a_learner_votes_only_where_the_voters_can_do_without_it() {
    let mut f = Fixture::healthy(3);
    grown(&mut f, 4);
    f.join(3, true);
    f.kill(2);
    let plan = f.plan();
    assert!(
        matches!(
            plan.steps[..],
            [Step::Start {
                ordinal: Ordinal(2),
                ..
            }]
        ),
        "{plan:?}"
    );
    assert!(reasons(&plan).contains(&"MembersUnhealthy"), "{plan:?}");
    let plan = f.later(Duration::from_secs(3600)).plan();
    assert!(
        !plan.steps.iter().any(Step::changes_membership),
        "withdrawn for waiting: {plan:?}"
    );
    f.wipe(2);
    f.observed.quorum.as_mut().unwrap().leader = Some(id(0));
    assert_eq!(
        f.steps(),
        ["remove member a2 from the cluster"],
        "a dead voter goes first"
    );
    f.leave(2);
    assert_eq!(
        f.later(Duration::from_secs(1)).steps(),
        ["promote learner 3 (a3)"]
    );
}

#[test]
fn a_new_member_is_of_the_version_of_a_voter_whose_volume_nobody_could_look_at_yet() {
    let mut f = Fixture::healthy(1);
    let slot = f.memory.slots.get_mut(&o(0)).unwrap();
    (slot.mark, slot.voter) = (Mark::Intended, true);
    f.view(0).volume = Volume::Unknown;
    grown(&mut f, 2);
    f.spec.version = Version::new(3, 9, 0);
    f.join(1, true);
    f.wipe(1);
    let fresh = f.memory.slots.get_mut(&o(1)).unwrap();
    (fresh.mark, fresh.version, fresh.served) = (Mark::Never, None, None);
    *f.view(1) = Fixture::vacant(1);
    let plan = f.plan();
    assert!(
        matches!(plan.steps[..], [Step::Start { version: V, .. }]),
        "{plan:?}"
    );
}
