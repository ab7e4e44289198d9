//! Two pods on one volume: a ReplicaSet replaces a pod that is still ending.

use quorate_core::model::FirstStart;
use quorate_pod::contract::Found;

use crate::pod::{Slot, etcd, eventually};

#[test]
fn the_second_waits_for_the_first_and_the_first_does_not_come_back() {
    let slot = Slot::new();
    let a = slot.admitted(&etcd(6));
    let running = a.launch();
    slot.is_healthy();
    slot.put("k");
    let b = slot.pod(&etcd(6), "c1");
    let report = b.look();
    assert!(matches!(&report.volume, Found::Unknown { why } if why.contains("still in use")));
    assert_eq!(report.first_start(Some(&report.volume_id)), FirstStart::Unknown);
    let mut gate = b.waiting_gate();
    gate.waits_because("still in use");
    assert!(slot.serves());
    running.stop();
    assert_eq!(gate.ends(), Some(0), "b passes by itself: {}", gate.words());
    let mut running = b.launch();
    slot.is_healthy();
    assert!(slot.has_the_key());
    a.is_not_launched(1, "still in use");
    assert_eq!(running.ended(), None);
    assert!(slot.serves());
}

#[test]
fn two_launches_at_once_make_one_etcd() {
    let slot = Slot::new();
    let a = slot.served(&etcd(6));
    let b = slot.pod(&etcd(6), "c1");
    b.passes();
    for _ in 0..4 {
        let mut both = [a.launch_patiently("2s"), b.launch_patiently("2s")];
        slot.is_healthy();
        let mut codes = Vec::new();
        eventually("one has given up", || {
            codes = both.iter_mut().filter_map(|member| member.ended()).collect();
            !codes.is_empty()
        });
        assert_eq!(codes, [Some(1)], "the launcher gave up, and etcd did not end");
        assert!(slot.serves() && slot.has_the_key());
        // Whichever has the lock, it is free when both are dead.
        let [first, second] = both;
        drop(first);
        second.kill();
    }
    let told = format!("{}{}", a.log(), b.log());
    assert!(told.contains("still in use"), "{told}");
    assert!(!told.contains("panic"), "{told}");
}

#[test]
fn a_first_start_given_to_a_second_pod_is_taken_from_the_first() {
    let slot = Slot::new();
    let a = slot.admitted(&etcd(6));
    // It was let through, and its container did not come up; then it was replaced.
    let b = slot.admitted(&etcd(6));
    a.is_not_launched(3, "given to another pod");
    let member = b.launch();
    slot.is_healthy();
    member.stop();
    // Now there is data, and they are alike.
    let member = a.launch();
    slot.is_healthy();
    member.stop();
}

#[test]
fn a_pod_of_an_older_version_does_not_come_back() {
    let slot = Slot::new();
    let a = slot.served(&etcd(6));
    let b = slot.pod(&etcd(7), "c1");
    b.go(&b.look().volume_id, quorate_pod::How::Resume);
    b.passes();
    a.is_not_launched(3, "with something else since");
}
