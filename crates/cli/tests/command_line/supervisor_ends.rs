//! The supervisor ends, by a kill or by signals: what its status says then, and what becomes of the members.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use quorate_testkit::await_that;
use serde_json::Value;

use crate::up::{LIMIT, Up};

/// Two signals within this time are one request, whatever the machine does between them.
const CLOSE: Duration = Duration::from_secs(1);
/// How often they are sent again where the machine stood still between them.
const ATTEMPTS: u32 = 5;

fn process(pid: &Value) -> PathBuf {
    PathBuf::from(format!("/proc/{}", pid.as_u64().expect("a process")))
}

/// The file that it leaves is of before, and says that all is well.
#[test]
fn a_killed_supervisor_leaves_nothing_that_passes_for_healthy_or_backed_up() {
    let mut up = Up::start(1);
    up.reads("etcd is up: 1 member");
    let file = up.sandbox.root().join("status.json");
    let current = |status: &Value| {
        let report = &status["backup"]["report"];
        let whole = report["archived"].is_i64() && report["archived"] == report["revision"];
        whole && status["ready"] == true
    };
    let left = || serde_json::from_slice::<Value>(&std::fs::read(&file).unwrap()).unwrap();
    await_that("a healthy cluster with current backups", LIMIT, || match left() {
        status if current(&status) => Ok(()),
        status => Err(status.to_string()),
    });
    let text = up.run(&["status"]);
    assert!(text.succeeds().contains("everything up to revision"), "{text:?}");

    up.signal("-KILL");
    up.child.wait().unwrap();
    let text = up.run(&["status"]);
    assert!(
        text.succeeds().contains("is not supervised") && !text.out.contains(" healthy"),
        "{text:?}"
    );
    up.run(&["healthcheck"]).fails(1, &["is not supervised"]);
    up.run(&["status", "--exit-code"])
        .fails(1, &["is not supervised"]);
    // The agent archives what it has, and ends.
    let shown = await_that("the end of the backup agent", LIMIT, || match up.status() {
        status if status["backup"]["pid"].is_null() => Ok(status),
        status => Err(status.to_string()),
    });
    assert!(current(&left()), "the file is the old one: {}", left());
    let no = Value::from(false);
    let member = &shown["members"][0];
    assert_eq!(
        [
            &shown["ready"],
            &shown["supervisor"]["running"],
            &member["healthy"],
            &member["leader"]
        ],
        [&no; 4],
        "{shown}"
    );
    assert_eq!(
        (&shown["stale"], &shown["endpoints"], &shown["backup"]["ended"]),
        (
            &true.into(),
            &Value::Array(Vec::new()),
            &"its process is gone".into()
        ),
        "{shown}"
    );
    assert!(process(&member["pid"]).exists(), "it serves all the same");
    let text = up.run(&["status"]);
    assert!(
        text.succeeds().contains("no agent runs") && !text.out.contains("is in it"),
        "{text:?}"
    );
}

/// `timeout make up` ends a group of processes: each is told, and a parent passes it on. That is one request.
#[test]
fn two_signals_close_together_stop_the_cluster_once() {
    let mut up = Up::start(1);
    for _ in 0..ATTEMPTS {
        up.reads("etcd is up: 1 member");
        let status = up.status();
        let sent = Instant::now();
        up.signal("-TERM");
        up.reads("stopping the members");
        up.signal("-TERM");
        if sent.elapsed() >= CLOSE {
            up.child.wait().unwrap();
            up.run(&["down"]).succeeds();
            up.again();
            continue;
        }
        up.reads("stopped; the data stays in");
        assert!(up.child.wait().unwrap().success());
        assert!(!process(&status["members"][0]["pid"]).exists(), "{status}");
        let stopped = up.status();
        assert_eq!(
            (
                &stopped["members"][0]["process"],
                &stopped["supervisor"]["running"]
            ),
            (&"stopped".into(), &false.into()),
            "{stopped}"
        );
        assert!(up.run(&["status"]).succeeds().contains("is stopped"));
        assert!(up.run(&["down"]).succeeds().starts_with("Nothing runs"));
        return;
    }
    panic!("this machine does not send two signals within {CLOSE:?}");
}
