//! One life of a cluster with real etcd, as a newcomer would try it: up, look, change, kill, stop.

use std::process::Command;

use quorate_testkit::await_that;
use serde_json::Value;

use crate::up::{LIMIT, Up};

/// Nobody has to say which member, or with which certificates.
fn a_follower_is_saved(up: &Up) {
    let leaders = |status: &Value| -> Vec<Value> {
        let members = status["members"].as_array().unwrap().iter();
        let leaders = members.filter(|member| member["leader"] == true);
        leaders.map(|member| member["name"].clone()).collect()
    };
    // One that leads only since is not the one that was chosen among.
    let (saved, status) = await_that("a member is saved and the leader stays the same", LIMIT, || {
        let before = leaders(&up.status());
        let saved = up.run(&["snapshot", "save", "etcd.db", "-o", "json"]);
        let saved: Value = serde_json::from_str(saved.succeeds()).unwrap();
        let status = up.status();
        match before.len() == 1 && before == leaders(&status) {
            true => Ok((saved, status)),
            false => Err(format!("{before:?} led before {status}")),
        }
    });
    let members = status["members"].as_array().unwrap();
    let asked = members.iter().find(|member| member["name"] == saved["member"]);
    assert!(
        asked.is_some_and(|member| member["leader"] == false),
        "{saved} of {status}"
    );
    let length = std::fs::metadata(up.sandbox.path("etcd.db")).unwrap().len();
    assert_eq!(saved["size"], length);
}

/// One that hangs runs all the same: that backups are current is not to be read from its process.
fn a_silent_agent_is_shown(up: &Up) {
    let agent = up.status()["backup"]["pid"].as_u64().expect("an agent runs");
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &agent.to_string()]).status();
        assert!(sent.unwrap().success());
    };
    let silent = |status: &Value| {
        let problems = status["problems"].as_array().expect("a list");
        problems.iter().any(|problem| {
            problem
                .as_str()
                .is_some_and(|text| text.starts_with("BackupSilent: "))
        })
    };
    let until = |what: &str, wanted: bool| {
        await_that(what, LIMIT, || {
            let status = up.status();
            match silent(&status) == wanted {
                true => Ok(()),
                false => Err(status.to_string()),
            }
        });
    };
    assert!(!silent(&up.status()));
    signal("-STOP");
    until("a silent agent is shown", true);
    let told = up.run(&["status"]);
    assert!(
        told.succeeds().contains("quorate explain BackupSilent"),
        "{told:?}"
    );
    signal("-CONT");
    until("an agent that goes on is not silent", false);
}

/// Begins with a manifest that nobody can read: the members are started by the one before, and the fault is shown.
fn goes_on_without_its_manifest(up: &mut Up) {
    let file = up.sandbox.root().join("cluster.yaml");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, "replicas: [").unwrap();
    // Not by any file that is not there.
    up.run(&["up", "-f", "typo.yaml"])
        .fails(2, &["cannot read the manifest typo.yaml"]);
    up.again();
    up.reads("the last good one stays in force");
    await_that("three members that serve", LIMIT, || {
        let status = up.status();
        let members = status["members"].as_array().into_iter().flatten();
        match members.filter(|member| member["healthy"] == true).count() {
            3 => Ok(()),
            _ => Err(status.to_string()),
        }
    });
    // Not each look reaches every member of a busy machine, and a quorum comes first.
    let blocked = await_that("the status says that it is blocked", LIMIT, || {
        let status = up.run(&["status", "--exit-code"]);
        match status.err.contains("is blocked") {
            true => Ok(status),
            false => Err(format!("{status:?}")),
        }
    });
    blocked.fails(1, &["is blocked"]);
    std::fs::write(&file, good).unwrap();
    up.reads("etcd is up: 3 members");
}

#[test]
fn up_look_change_kill_stop() {
    let mut up = Up::start(1);
    up.reads("etcd is up: 1 member");
    assert!(
        up.reads("etcdctl --endpoints https://127.0.0.1:")
            .contains("/etcdctl ")
    );
    up.reads("Ctrl-C stops all members.");

    let status = await_that("a status of a cluster at rest", LIMIT, || {
        let status = up.status();
        let empty = |field: &str| status[field].as_array().is_some_and(Vec::is_empty);
        let at_rest = ["plan", "waits", "blocks"].into_iter().all(empty);
        match at_rest && status["members"][0]["healthy"] == true {
            true => Ok(status),
            false => Err(status.to_string()),
        }
    });
    let member = &status["members"][0];
    let said = ["name", "leader", "learner"].map(|field| member[field].clone());
    let expected = [Value::from("etcd-0"), true.into(), false.into()];
    assert_eq!(said, expected, "{status}");
    for field in ["id", "version", "dbSize", "dbSizeInUse"] {
        assert!(!member[field].is_null(), "{field} in {status}");
    }
    up.until_prints(&["status"], "is healthy: its only member serves");
    assert!(
        up.run(&["status", "-o", "yaml"])
            .succeeds()
            .contains("name: etcd-0")
    );
    assert!(
        up.run(&["logs", "etcd-0", "--lines", "1"])
            .succeeds()
            .starts_with('{')
    );
    up.until_prints(&["status", "--exit-code"], "is healthy");
    up.until_prints(&["healthcheck"], "is healthy");
    assert_eq!(
        (&status["stale"], status["age"].is_u64()),
        (&Value::from(false), true)
    );
    up.run(&["scale", "11"]).fails(3, &["--yes"]);
    up.run(&["logs", "etcd-1"]).fails(2, &["Its members are etcd-0."]);
    up.run(&["up"])
        .fails(3, &["is run by another quorate", "quorate down"]);

    let scaled = up.run(&["scale", "3", "--wait", "--timeout", "3m"]);
    assert!(
        scaled
            .succeeds()
            .contains("etcd-1 and etcd-2 will join, one at a time"),
        "{scaled:?}"
    );
    assert!(scaled.out.contains("Done in "), "{scaled:?}");
    assert_eq!(up.status()["members"].as_array().unwrap().len(), 3);
    a_follower_is_saved(&up);
    let before = up.status()["members"][2]["pid"].clone();
    up.run(&["redeploy", "--reason", "test", "--wait", "--timeout", "3m"])
        .succeeds();
    assert_ne!(up.status()["members"][2]["pid"], before);

    a_silent_agent_is_shown(&up);

    // The supervisor dies, the members do not.
    up.signal("-KILL");
    up.child.wait().unwrap();
    up.again();
    up.reads("runs already");
    up.reads("etcd is up: 3 members");

    up.signal("-TERM");
    up.reads("stopped; the data stays in");
    up.ends();
    goes_on_without_its_manifest(&mut up);

    up.signal("-INT");
    up.reads("stopped; the data stays in");
    up.ends();
    assert!(up.run(&["status"]).succeeds().contains("is stopped"));
    assert!(up.run(&["down"]).succeeds().starts_with("Nothing runs"));
}
