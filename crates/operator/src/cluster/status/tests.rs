use std::collections::BTreeSet;

use quorate_core::model::{Time, Token};
use quorate_core::plan::{Block, BlockReason, Wait};

use super::*;

#[test]
fn a_peer_without_a_cluster_is_reported_once() {
    let (names, at) = (Names::of("n", "c"), |s| jiff::Timestamp::from_second(s).unwrap());
    let reported = ownerless(&PeerStatus::default(), &names, Some(1), at(1));
    let message = &reported.conditions[0].message;
    assert!(message.contains("no EtcdCluster \"c\""), "{message}");
    assert_eq!(
        ownerless(&reported, &names, Some(1), at(9)),
        reported,
        "time alone changes nothing"
    );
}

#[test]
fn a_status_that_stays_the_same_is_written_every_ten_minutes() {
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let last = ClusterStatus {
        observed_at: Some(K8sTime(at(10_000))),
        ..ClusterStatus::default()
    };
    assert!(
        is_due(&last, &ClusterStatus::default(), at(0)),
        "it was never written"
    );
    assert!(!is_due(&last, &last, at(10_599)));
    assert!(is_due(&last, &last, at(10_600)));
    assert!(is_due(&last, &last, at(9_400)), "the clock was set back");
    let other = ClusterStatus {
        replicas: 3,
        ..last.clone()
    };
    assert!(is_due(&other, &last, at(10_001)));
}

#[test]
fn a_peer_of_a_held_cluster_is_not_said_to_be_ready() {
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let ready = Holds {
        kind: "Ready",
        status: Some(true),
        reason: "Serving",
        message: String::new(),
    };
    let last = PeerStatus {
        server_version: "3.6.1".into(),
        conditions: vec![condition(ready, &[], Some(1), at(1))],
        observed_generation: Some(1),
    };
    let next = unasked_peer(&last, "Invalid", Some(1), at(2));
    assert_eq!(next.server_version, "3.6.1", "as last seen");
    let [ready] = &next.conditions[..] else {
        panic!("{next:?}")
    };
    assert_eq!((&*ready.status, &*ready.reason), ("Unknown", "Invalid"));
    assert_eq!(
        unasked_peer(&next, "Invalid", Some(1), at(9)),
        next,
        "time alone changes nothing"
    );
}

#[test]
fn a_held_cluster_is_not_shown_as_what_it_was_before() {
    let at = |second| jiff::Timestamp::from_second(second).unwrap();
    let (before, later) = (at(1), at(2));
    let holds = |kind, status| Holds {
        kind,
        status: Some(status),
        reason: "Before",
        message: String::new(),
    };
    let kinds = ["Ready", "Quorate", "Progressing", "Blocked"].into_iter();
    let status = [true, true, true, false].into_iter();
    let last = ClusterStatus {
        conditions: kinds
            .zip(status)
            .map(|(kind, status)| condition(holds(kind, status), &[], Some(1), before))
            .collect(),
        ..ClusterStatus::default()
    };
    let next = held(&last, ("Invalid", "why"), Some(2), later);
    let reported: Vec<_> = next.conditions.iter().map(|c| (&*c.type_, &*c.status)).collect();
    let expected = [
        ("Ready", "False"),
        ("Quorate", "Unknown"),
        ("Progressing", "False"),
        ("Blocked", "True"),
    ];
    assert_eq!(reported, expected);
    let progress = &next.conditions[2];
    assert_eq!(
        (&*progress.reason, &*progress.message),
        ("Invalid", "why"),
        "nothing is done"
    );
    assert_eq!(next.conditions[0].last_transition_time.0, later);
    let again = held(&next, ("Invalid", "why"), Some(2), at(3));
    assert_eq!(again, next, "time alone changes nothing");
    let (held, next) = (
        next,
        refused(&last, ("RequestRefused", "exceeded quota"), Some(2), later),
    );
    assert_eq!(next.conditions[2].reason, "RequestRefused");
    assert_eq!(
        (&*next.conditions[0].type_, &*next.conditions[0].status),
        ("Ready", "False")
    );
    let quorate = &next.conditions[1];
    assert_eq!((&*quorate.type_, &*quorate.status), ("Quorate", "Unknown"));
    assert_eq!(
        quorate.message, held.conditions[1].message,
        "nobody asked, either way"
    );
    assert_eq!(next.conditions[3], last.conditions[3], "it is not blocked");
}

#[test]
fn members_that_nobody_hears_are_not_shown_as_healthy() {
    let member = MemberStatus {
        name: "c-0".to_owned(),
        healthy: Some(true),
        leader: Some(true),
        ..MemberStatus::default()
    };
    let last = ClusterStatus {
        members: vec![member],
        ready_replicas: Some(1),
        ..ClusterStatus::default()
    };
    let at = jiff::Timestamp::UNIX_EPOCH;
    for next in [
        held(&last, ("Invalid", "why"), Some(1), at),
        refused(&last, ("RequestRefused", "exceeded quota"), Some(1), at),
    ] {
        let member = &next.members[0];
        assert_eq!(
            (next.ready_replicas, member.healthy, member.leader),
            (None, None, None)
        );
    }
    let unheard = unserved(&last.members, Some(false));
    assert_eq!(
        (unheard[0].healthy, unheard[0].leader),
        (Some(false), Some(false))
    );
    assert_eq!(unheard[0].name, "c-0");
}

#[test]
fn what_stops_or_delays_a_plan_is_the_same_in_the_condition_the_events_and_the_metrics() {
    use crate::requests::events::new_warnings;
    use crate::runtime::metrics::Metrics;
    let (names, asides, memory) = (Names::of("n", "c"), BTreeMap::new(), Memory::default());
    let spec = Spec {
        name: "c".to_owned(),
        replicas: 3,
        version: Version::new(3, 6, 1),
        config: String::new(),
        storage: None,
        paused: false,
        accept_rolled_back: None,
        frozen: None,
        manifest: None,
        fallback: None,
        own_configs: Default::default(),
        own_fallbacks: Default::default(),
    };
    let observed = Observed {
        at: Time(0),
        fresh_token: Token(String::new()),
        slots: BTreeMap::new(),
        quorum: None,
        login_refused: None,
        unasked: false,
        last: None,
        lost_ca: Default::default(),
    };
    let shown = |plan: &Plan| {
        let seen = StatusInput {
            names: &names,
            spec: &spec,
            observed: &observed,
            plan,
            memory: &memory,
            asides: &asides,
            peers: 3,
            generation: Some(1),
            warnings: &[],
            trouble: None,
            now: jiff::Timestamp::from_second(1).unwrap(),
        };
        let metrics = Metrics::default();
        metrics.seen(&names, &spec, &observed, plan);
        let events = new_warnings(&names, plan, &mut Default::default());
        assert!(events.iter().all(|news| news.warning));
        let events: BTreeSet<&str> = events.iter().map(|news| news.reason).collect();
        let status = seen.cluster(&ClusterStatus::default(), &mut Default::default());
        (status, events, metrics.text(true, &BTreeMap::new()))
    };
    let reported = |status: &ClusterStatus, kind: &str| {
        let condition = status.conditions.iter().find(|c| c.type_ == kind).unwrap();
        (condition.reason.clone(), condition.message.clone())
    };
    let counted = |metrics: &str, what: &str, reason: &str| {
        let line = format!("quorate_cluster_{what}{{namespace=\"n\",cluster=\"c\",reason=\"{reason}\"}} 1");
        assert!(metrics.lines().any(|l| l == line), "{line} is not in {metrics}");
    };
    for pair in BlockReason::ALL.windows(2) {
        let block = |reason: &BlockReason, n| Block {
            reason: *reason,
            member: Some(Ordinal(n)),
            detail: format!("detail {n}"),
        };
        let (status, events, metrics) = shown(&Plan {
            blocks: vec![block(&pair[0], 0), block(&pair[1], 1)],
            ..Plan::default()
        });
        let both = format!("detail 0; {}: detail 1", pair[1].name());
        assert_eq!(reported(&status, "Blocked"), (pair[0].name().to_owned(), both));
        assert_eq!(events, pair.iter().map(|reason| reason.name()).collect());
        for reason in pair {
            counted(&metrics, "blocks", reason.name());
        }
    }
    for reason in WaitReason::ALL {
        let name = reason.name();
        let (status, events, metrics) = shown(&Plan {
            waits: vec![Wait {
                reason: *reason,
                member: Some(Ordinal(0)),
                detail: "detail".to_owned(),
                until: None,
            }],
            ..Plan::default()
        });
        assert_eq!(reported(&status, "Ready"), (name.to_owned(), "detail".to_owned()));
        let costs_service = matches!(name, "NoQuorum" | "MemberUnresponsive" | "CaLost");
        assert_eq!(events.contains(name), costs_service, "{name}: {events:?}");
        counted(&metrics, "waits", name);
    }
}

#[test]
fn the_version_of_a_cluster_is_the_lowest_of_all_its_members() {
    let version = |minor| Some(Version::new(3, minor, 9));
    let table = [
        (vec![version(6), version(6), version(6)], Some("3.6.0")),
        (vec![version(6), version(5), version(6)], Some("3.5.0")),
        // The one that does not answer may be the last of the old minor.
        (vec![version(6), None, version(6)], None),
        (vec![], None),
    ];
    for (versions, expected) in table {
        assert_eq!(
            agreed(versions.iter().copied()).as_deref(),
            expected,
            "{versions:?}"
        );
    }
}
