//! The launcher refuses what is not safe, whoever asks, and says why in the member's log.

use std::path::Path;
use std::process::Command;

use quorate_core::model::{Generation, Time, Version};
use quorate_host::run::launch::Launch;

/// A launch that would become `true`, on a volume without data.
fn launch(dir: &Path) -> Launch {
    Launch {
        member: "t-0".to_owned(),
        program: "/bin/true".into(),
        version: Version::new(3, 6, 1),
        arguments: Vec::new(),
        data_dir: dir.join("g0"),
        generation: Generation(0),
        config: String::new(),
        trusted: None,
        record: dir.join("t-0.json"),
        alive: dir.join("t-0.alive"),
        log: dir.join("t-0.log"),
        volume: None,
        first_start: Some(dir.join("t-0-g0.first")),
        directory: dir.to_owned(),
        supervisor: std::process::id(),
        since: Time(1),
    }
}

fn run(launch: &Launch) -> (Option<i32>, String) {
    let json = serde_json::to_string(launch).unwrap();
    let program = env!("CARGO_BIN_EXE_quorate-launch-member");
    let status = Command::new(program)
        .args(["launch-member", "--spec", &json])
        .output()
        .unwrap()
        .status;
    (
        status.code(),
        std::fs::read_to_string(&launch.log).unwrap_or_default(),
    )
}

fn write_wal(dir: &Path) {
    std::fs::create_dir_all(dir.join("g0/member/wal")).unwrap();
    std::fs::write(dir.join("g0/member/wal/0-0.wal"), "x").unwrap();
}

fn evidence(launch: &Launch) -> String {
    std::fs::read_to_string(launch.first_start.as_ref().unwrap()).unwrap_or_default()
}

#[test]
fn a_first_start_needs_evidence_and_fires_it() {
    let dir = tempfile::tempdir().unwrap();
    let launch = launch(dir.path());
    let (code, log) = run(&launch);
    assert!(code == Some(3) && log.contains("without proof"), "{code:?} {log}");
    std::fs::write(launch.first_start.as_ref().unwrap(), "armed").unwrap();
    assert_eq!(run(&launch).0, Some(0));
    assert_eq!(evidence(&launch), "fired");
    let (code, log) = run(&launch);
    assert!(code == Some(3) && log.contains("Fired"), "{code:?} {log}");
}

#[test]
fn a_first_start_over_data_and_a_resumption_without_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = launch(dir.path());
    let resume = Launch {
        first_start: None,
        ..first.clone()
    };
    let (code, log) = run(&resume);
    assert!(code == Some(3) && log.contains("there is none"), "{code:?} {log}");
    write_wal(dir.path());
    assert_eq!(run(&resume).0, Some(0));
    std::fs::write(first.first_start.as_ref().unwrap(), "armed").unwrap();
    let (code, log) = run(&first);
    assert!(code == Some(3) && log.contains("over data"), "{code:?} {log}");
    assert_eq!(evidence(&first), "armed", "nothing was fired");
}

#[test]
fn a_second_process_of_a_member_is_refused_while_the_first_lives() {
    let dir = tempfile::tempdir().unwrap();
    write_wal(dir.path());
    let resume = Launch {
        first_start: None,
        ..launch(dir.path())
    };
    let sleeper = Launch {
        program: "/bin/sleep".into(),
        arguments: vec!["60".to_owned()],
        ..resume.clone()
    };
    let json = serde_json::to_string(&sleeper).unwrap();
    let program = env!("CARGO_BIN_EXE_quorate-launch-member");
    let mut first = Command::new(program)
        .args(["launch-member", "--spec", &json])
        .spawn()
        .unwrap();
    quorate_testkit::await_that(
        "the launcher has become its program",
        crate::harness::PATIENCE,
        || {
            let name = std::fs::read_to_string(format!("/proc/{}/comm", first.id()));
            name.is_ok_and(|name| name.starts_with("sleep"))
        },
    );
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(&resume.record).unwrap()).unwrap();
    assert_eq!(
        record["pid"],
        first.id(),
        "the launcher's process is the member's"
    );
    let (code, log) = run(&resume);
    assert!(code == Some(3) && log.contains("still runs"), "{code:?} {log}");
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(run(&resume).0, Some(0), "the lock ended with the process");
}

#[test]
fn a_launcher_that_outlived_its_supervisor_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    write_wal(dir.path());
    let orphan = Launch {
        first_start: None,
        supervisor: 1,
        ..launch(dir.path())
    };
    let (code, log) = run(&orphan);
    assert!(code == Some(3) && log.contains("has ended"), "{code:?} {log}");
    assert!(!orphan.record.exists());
}

#[test]
fn etcds_variables_do_not_reach_etcd() {
    let dir = tempfile::tempdir().unwrap();
    write_wal(dir.path());
    let show = Launch {
        program: "/usr/bin/env".into(),
        first_start: None,
        ..launch(dir.path())
    };
    let json = serde_json::to_string(&show).unwrap();
    let program = env!("CARGO_BIN_EXE_quorate-launch-member");
    let mut command = Command::new(program);
    command
        .args(["launch-member", "--spec", &json])
        .env("ETCD_FORCE_NEW_CLUSTER", "true")
        .env("KEPT", "yes");
    assert!(command.status().unwrap().success());
    let log = std::fs::read_to_string(&show.log).unwrap();
    assert!(log.contains("KEPT=yes") && !log.contains("ETCD_"), "{log}");
}
