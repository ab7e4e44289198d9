//! First start, restarts, versions: what a member goes through when nothing is lost.

use quorate_core::model::{ClusterId, FirstStart, MemberId};
use quorate_datadir::{Attempt, Look};
use quorate_pod::contract::Found;
use quorate_pod::{GoAhead, How, Started};
use quorate_testkit::Start;

use crate::pod::{Slot, etcd, etcds, eventually};

#[test]
fn a_first_start_restarts_and_a_new_pod_with_every_etcd() {
    for etcd in etcds() {
        let slot = Slot::new();
        let pod = slot.pod(&etcd, "c1");
        let report = pod.look();
        assert!(report.fresh_id && !report.fired && report.volume == Found::Empty);
        pod.is_held_up(1, "go-ahead for a first start");
        pod.go(&report.volume_id, slot.new_cluster());
        pod.passes();
        let between = pod.look();
        assert_eq!(
            between.first_start(Some(&report.volume_id)),
            FirstStart::NotRun,
            "let through is not executed"
        );
        let member = pod.launch();
        slot.is_healthy();
        slot.put("k");
        // The container is restarted, without its init containers.
        member.kill();
        let member = pod.launch();
        slot.is_healthy();
        assert!(slot.has_the_key(), "etcd {}", etcd.version);
        member.stop();
        // Another pod, with the operator away.
        let pod = slot.pod(&etcd, "c1");
        let report = pod.look();
        assert!(!report.fresh_id && report.fired && matches!(report.volume, Found::Data { .. }));
        let started = Started {
            version: etcd.version,
            config: "c1".to_owned(),
        };
        assert_eq!(report.started, Some(started));
        pod.passes();
        let member = pod.launch();
        slot.is_healthy();
        assert!(slot.has_the_key(), "etcd {}", etcd.version);
        assert!(
            !pod.log().contains("unrecognized environment variable"),
            "{}",
            pod.log()
        );
        member.stop();
    }
}

/// A wrong option costs a new cluster nothing but the time until somebody corrects it.
#[test]
fn a_first_start_that_came_to_nothing_is_made_once_more_with_every_etcd() {
    for etcd in etcds() {
        let slot = Slot::new();
        let pod = slot.admitted(&etcd);
        let id = pod.look().volume_id;
        for _ in 0..2 {
            pod.is_launched_in_vain();
            let report = pod.look();
            assert!(report.fired && report.volume == Found::Empty, "{report:?}");
            assert_eq!(report.first_start(Some(&id)), FirstStart::RanWithoutData);
        }
        let corrected = slot.pod(&etcd, "c2");
        corrected.is_held_up(1, "go-ahead for a first start");
        corrected.go(&id, slot.new_cluster());
        corrected.passes();
        pod.is_not_launched(3, "with something else since");
        let member = corrected.launch();
        slot.is_healthy();
        slot.put("k");
        member.stop();
        // Once there was a log, nothing counts as come to nothing any more.
        std::fs::remove_dir_all(slot.data(0)).unwrap();
        assert_eq!(pod.look().first_start(Some(&id)), FirstStart::Unknown);
        corrected.is_not_launched(3, "its data has gone");
    }
}

/// The launcher stays beside a first start, and passes on what it is told.
#[test]
fn a_first_start_ends_when_its_container_is_stopped() {
    let slot = Slot::new();
    let pod = slot.admitted(&etcd(6));
    let member = pod.launch();
    slot.is_healthy();
    slot.put("k");
    member.stop();
    assert!(!slot.serves());
    let member = pod.launch();
    slot.is_healthy();
    assert!(slot.has_the_key());
    member.stop();
}

#[test]
fn another_version_or_configuration_waits_for_a_go_ahead_to_this_very_pod() {
    let slot = Slot::new();
    slot.served(&etcd(6));
    let pod = slot.pod(&etcd(7), "c1");
    let id = pod.look().volume_id;
    pod.is_held_up(1, "with etcd 3.7");
    slot.pod(&etcd(6), "c2").is_held_up(1, "another configuration");
    let foreign = GoAhead {
        pod: "another".to_owned(),
        ..pod.go_ahead(&id, How::Resume)
    };
    let mut gate = pod.waiting_gate();
    let refused = [
        (String::new(), "no go-ahead yet"),
        ("{".to_owned(), "cannot be understood"),
        (foreign.to_annotation(), "for the pod another"),
    ];
    for (text, part) in &refused {
        pod.annotate(text);
        gate.waits_because(part);
    }
    pod.go(&id, How::Resume);
    assert_eq!(gate.ends(), Some(0), "{}", gate.words());
    for (_, part) in &refused {
        let told = gate.words();
        assert_eq!(told.matches(part).count(), 1, "{part:?} in {told}");
    }
    let member = pod.launch();
    slot.is_healthy();
    assert!(slot.has_the_key());
    member.stop();
    // The way back is barred, whoever says so.
    let old = slot.pod(&etcd(6), "c1");
    old.go(&id, How::Resume);
    let member = pod.launch();
    slot.is_healthy();
    slot.is_settled(7);
    member.stop();
    old.is_held_up(3, "older than the data");
}

#[test]
fn a_member_is_settled_and_what_it_could_replay_is_foretold() {
    let slot = Slot::new();
    slot.served(&etcd(5));
    let pod = slot.pod(&etcd(5), "c1-settle");
    let report = pod.look_with(&["--foretell"]);
    assert_eq!(report.replay_limit, Some(6));
    assert_eq!(pod.look().replay_limit, None, "nobody asked");
    let Found::Data { member, cluster } = report.volume else {
        panic!("{report:?}")
    };
    let settle = GoAhead {
        member: Some(member),
        cluster: Some(cluster),
        ..pod.go_ahead(&report.volume_id, How::Settle)
    };
    let other = GoAhead {
        member: Some(MemberId(1)),
        ..settle.clone()
    };
    pod.annotate(&other.to_annotation());
    pod.is_held_up(3, "and not of member 1,");
    let other = GoAhead {
        cluster: Some(ClusterId(1)),
        ..settle.clone()
    };
    pod.annotate(&other.to_annotation());
    pod.is_held_up(3, "cluster 1");
    pod.annotate(&settle.to_annotation());
    pod.passes();
    let member = pod.launch();
    slot.is_healthy();
    slot.put("k");
    member.stop();
    assert_eq!(
        pod.look_with(&["--foretell"]).replay_limit,
        None,
        "it has a snapshot behind it"
    );
}

#[test]
fn data_of_the_older_operator_is_taken_over() {
    let slot = Slot::new();
    let older = etcd(5);
    let running = Start {
        name: "c-0".to_owned(),
        ..Start::new(&older.version.to_string(), &slot.volume())
    };
    let running = running.spawn();
    let pod = slot.pod(&older, "c1");
    let wal = slot.volume().join("member/wal");
    // A log without entries is no data yet: etcd makes the file before it writes the first of them.
    eventually("its log has entries, and its database is open", || {
        let lock = quorate_datadir::DbLock::try_hold(&slot.volume());
        matches!(quorate_datadir::look(&slot.volume()), Ok(Look::Data(_)))
            && matches!(lock, Ok(Attempt::Busy { .. }))
    });
    let report = pod.look();
    assert!(matches!(&report.volume, Found::Unknown { why } if why.contains("still in use")));
    pod.is_held_up(1, "still in use");
    assert!(wal.exists(), "nothing is moved from under it");
    running.kill();
    let report = pod.look();
    assert!(
        report.fresh_id && report.fired && matches!(report.volume, Found::Data { .. }),
        "{report:?}"
    );
    assert!(slot.data(0).join("member/wal").exists() && !wal.exists());
    pod.is_held_up(1, "no record of");
    pod.go(&report.volume_id, How::Resume);
    pod.passes();
    let member = pod.launch();
    slot.is_healthy();
    member.stop();
}

#[test]
fn a_gate_that_waits_ends_when_it_is_told_to() {
    let slot = Slot::new();
    let pod = slot.pod(&etcd(6), "c1");
    pod.look();
    let mut gate = pod.waiting_gate();
    gate.waits_because("go-ahead for a first start");
    let pid = rustix::process::Pid::from_child(&gate.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(gate.ends(), Some(143), "{}", gate.words());
}
