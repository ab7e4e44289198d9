//! Data that went, or was exchanged: nothing starts anew by itself.

use quorate_core::model::FirstStart;
use quorate_pod::contract::Found;
use quorate_pod::{GoAhead, How};

use crate::pod::{Slot, copy, etcd, eventually};

#[test]
fn a_member_whose_data_is_gone_does_not_start() {
    let slot = Slot::new();
    let pod = slot.served(&etcd(6));
    let before = pod.look();
    std::fs::remove_dir_all(slot.data(0).join("member")).unwrap();
    pod.is_not_launched(3, "its data has gone");
    pod.is_held_up(3, "executed before");
    let report = pod.look();
    assert_eq!(report.volume, Found::Empty);
    assert!(report.fired && !report.fresh_id && report.volume_id == before.volume_id);
    assert_eq!(report.first_start(Some(&before.volume_id)), FirstStart::Unknown);
    let next = slot.pod(&etcd(6), "c1");
    next.go(&report.volume_id, slot.new_cluster());
    next.is_held_up(3, "executed before");
    next.go(&report.volume_id, How::Resume);
    next.is_held_up(3, "there is none");
}

#[test]
fn a_first_start_that_left_no_data_is_not_repeated() {
    let slot = Slot::new();
    let pod = slot.admitted(&etcd(6));
    let mut member = pod.launch();
    // Killed between its exec and its log, as near as a test can come.
    member.signal(rustix::process::Signal::STOP);
    eventually("stopped or ended", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", member.pid())).unwrap_or_default();
        stat.contains(") T ") || member.ended().is_some()
    });
    member.kill();
    let _ = std::fs::remove_dir_all(slot.data(0).join("member"));
    let executed = pod.dir.join("shared/executed").exists();
    let report = pod.look();
    assert_eq!(
        report.first_start(Some(&report.volume_id)) == FirstStart::NotRun,
        !executed,
        "{report:?}"
    );
    if executed {
        pod.is_not_launched(3, "its data has gone");
    }
}

#[test]
fn a_wiped_volume_is_another_volume() {
    let slot = Slot::new();
    let pod = slot.served(&etcd(6));
    let before = pod.look();
    slot.wipe();
    pod.is_not_launched(3, "wiped or exchanged");
    pod.is_held_up(3, "wiped or exchanged");
    let next = slot.pod(&etcd(6), "c1");
    let report = next.look();
    assert!(report.fresh_id && !report.fired && report.volume == Found::Empty);
    assert_ne!(report.volume_id, before.volume_id);
    assert_eq!(report.first_start(Some(&before.volume_id)), FirstStart::Unknown);
    next.go(&before.volume_id, slot.new_cluster());
    next.is_held_up(3, "the go-ahead was given for volume");
    pod.is_not_launched(3, "wiped or exchanged");
}

#[test]
fn data_of_another_cluster_is_refused() {
    let (slot, other) = (Slot::new(), Slot::new());
    let pod = slot.served(&etcd(6));
    other.served(&etcd(6));
    // Seen once more, as every pod after the first does.
    let seen = slot.pod(&etcd(6), "c1");
    seen.passes();
    let own = seen.look();
    std::fs::remove_dir_all(slot.data(0)).unwrap();
    copy(&other.data(0), &slot.data(0));
    seen.is_not_launched(3, "exchanged");
    pod.is_not_launched(3, "exchanged");
    let next = slot.pod(&etcd(6), "c1");
    next.is_held_up(1, "not of the member that was seen");
    let Found::Data { member, cluster } = own.volume else {
        panic!("{own:?}")
    };
    let expected = GoAhead {
        member: Some(member),
        cluster: Some(cluster),
        ..next.go_ahead(&own.volume_id, How::Resume)
    };
    next.annotate(&expected.to_annotation());
    next.is_held_up(3, "and not of member");
}

#[test]
fn a_replaced_member_leaves_its_old_data_aside_and_the_oldest_goes() {
    let slot = Slot::new();
    slot.served(&etcd(6));
    for generation in 1..=3 {
        let mut pod = slot.pod(&etcd(6), "c1");
        pod.generation = generation;
        let report = pod.look();
        assert!(!report.fired && report.volume == Found::Empty);
        pod.go(&report.volume_id, slot.new_cluster());
        pod.passes();
        let member = pod.launch();
        slot.is_healthy();
        member.stop();
        assert!(!slot.data(generation - 1).exists());
        assert_eq!(
            pod.look().asides,
            generation,
            "nothing is deleted for a first start"
        );
    }
    let old = slot.pod(&etcd(6), "c1");
    old.is_held_up(3, "gone on to g3");
    let mut pod = slot.pod(&etcd(6), "c1");
    pod.generation = 3;
    pod.passes();
    assert_eq!(pod.look().asides, 3, "nobody has said that it served");
    let mut pod = slot.pod(&etcd(6), "c2");
    pod.generation = 3;
    let served = GoAhead {
        served: true,
        ..pod.go_ahead(&pod.look().volume_id, How::Resume)
    };
    pod.annotate(&served.to_annotation());
    pod.passes();
    assert_eq!(pod.look().asides, 2);
    let kept: Vec<_> = slot.volume().join("aside").read_dir().unwrap().collect();
    assert!(kept.iter().all(|entry| {
        !entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .starts_with("g0-")
    }));
    let member = pod.launch();
    slot.is_healthy();
    member.stop();
}
