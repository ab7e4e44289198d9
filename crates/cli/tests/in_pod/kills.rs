//! kill -9 at every moment a test can hit: the next try works, or is refused with the reason.

use std::time::Duration;

use quorate_core::model::FirstStart;
use quorate_pod::contract::Found;

use crate::pod::{Slot, etcd, eventually};

#[test]
fn a_gate_that_is_killed_is_passed_next_time() {
    let slot = Slot::new();
    let pod = slot.pod(&etcd(6), "c1");
    let id = pod.look().volume_id;
    let never_passed = || {
        let report = pod.look();
        assert_eq!(report.first_start(Some(&id)), FirstStart::NotRun, "{report:?}");
    };
    let mut gate = pod.waiting_gate();
    gate.waits_because("go-ahead for a first start");
    drop(gate);
    never_passed();
    pod.go(&id, slot.new_cluster());
    for delay in 0..40 {
        let mut gate = pod.gate("0s").spawn().unwrap();
        std::thread::sleep(Duration::from_micros(500 * delay));
        gate.kill().unwrap();
        gate.wait().unwrap();
        never_passed();
    }
    pod.passes();
    let member = pod.launch();
    slot.is_healthy();
    member.stop();
}

#[test]
fn a_first_start_that_is_killed_is_repeated_only_if_it_never_ran() {
    let (mut never_ran, mut has_data, mut blank, mut lost) = (0, 0, 0, 0);
    for delay in 0..24 {
        let slot = Slot::new();
        let pod = slot.admitted(&etcd(6));
        let id = pod.look().volume_id;
        // The first is killed before its first instruction.
        if delay > 0 {
            let member = pod.launch();
            std::thread::sleep(Duration::from_millis(4 * delay));
            member.kill();
        }
        let report = pod.look();
        let first_start = report.first_start(Some(&id));
        match report.volume {
            Found::Data { .. } => {
                has_data += 1;
                let member = pod.launch();
                slot.is_healthy();
                member.stop();
            }
            // Executed, and stopped with a log in which nothing is promised: the same container may do it again.
            _ if first_start == FirstStart::RanWithoutData => {
                blank += 1;
                let member = pod.launch();
                slot.is_healthy();
                member.stop();
                assert!(matches!(pod.look().volume, Found::Data { .. }));
            }
            _ if first_start == FirstStart::NotRun => {
                never_ran += 1;
                // Another pod, because this one may have the mark and the volume not.
                let next = slot.admitted(&etcd(6));
                let member = next.launch();
                slot.is_healthy();
                member.stop();
            }
            _ => {
                lost += 1;
                assert!(report.fired, "{report:?}");
                pod.is_not_launched(3, "its data has gone");
                let next = slot.pod(&etcd(6), "c1");
                next.go(&id, slot.new_cluster());
                next.is_held_up(3, "executed before");
            }
        }
    }
    eprintln!("never ran {never_ran}, blank {blank}, lost {lost}, with data {has_data}");
    assert!(never_ran > 0 && never_ran + blank + lost + has_data == 24);
}

#[test]
fn a_look_that_is_killed_leaves_one_identity() {
    let slot = Slot::new();
    let pod = slot.pod(&etcd(6), "c1");
    let mut id = None;
    for delay in 0..20 {
        let mut looking = std::process::Command::new(env!("CARGO_BIN_EXE_quorate"))
            .args([
                "prepare",
                "--look",
                "--generation",
                "0",
                "--patience",
                "0s",
                "--volume",
            ])
            .arg(slot.volume())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(500 * delay));
        looking.kill().unwrap();
        looking.wait().unwrap();
        let path = slot.volume().join(".quorate/volume.json");
        let now = std::fs::read_to_string(&path).ok();
        if id.is_some() {
            assert_eq!(now, id, "made once");
        }
        id = now;
    }
    eventually("it is looked at", || matches!(pod.look().volume, Found::Empty));
}
