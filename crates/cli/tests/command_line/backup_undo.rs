//! `quorate backup undo`: a mistake taken back on a cluster that runs.

use serde_json::Value;

use crate::agent::{Agent, revision};
use crate::etcd::{Etcd, newest};
use crate::sandbox::Sandbox;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

#[test]
fn a_mistake_is_undone_and_nothing_else() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    let archive = format!("file://{}", sandbox.path("archive").display());
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &[]);
    for number in 0..150 {
        etcd.ctl(&["put", &format!("app/{number:03}"), &format!("value {number}")]);
    }
    let grant = || {
        let granted = etcd.ctl(&["lease", "grant", "600"]);
        granted.split(' ').nth(1).unwrap().to_owned()
    };
    let lease = grant();
    etcd.ctl(&["put", "app/leased", "x", "--lease", &lease]);
    etcd.ctl(&["put", "app/registered", "y", "--lease", &lease]);
    etcd.ctl(&["put", "other", "1"]);
    let before = agent.catch_up(&etcd).to_string();
    etcd.ctl(&["del", "app/", "--prefix"]);
    etcd.ctl(&["put", "app/007", "wrong"]);
    etcd.ctl(&["put", "app/new", "new"]);
    // Registered again, by a process that was started anew: the same value, another lease.
    etcd.ctl(&["put", "app/registered", "y", "--lease", &grant()]);
    etcd.ctl(&["put", "other", "2"]);
    let after = agent.catch_up(&etcd).to_string();
    etcd.ctl(&["put", "app/008", "since"]);
    let undo = |more: &[&str]| {
        let words = [
            "backup", "undo", &archive, "--prefix", "app/", "--from", &before, "--to", &after, "--into",
            &etcd.url,
        ];
        sandbox.run(&[&words[..], more].concat())
    };
    let leased = |key: &str| json(&etcd.ctl(&["get", key, "-w", "json"]))["kvs"][0]["lease"].clone();
    let registered = leased("app/registered");
    let dry = undo(&[]);
    for part in [
        "vanished",
        "changed since: left alone",
        "without its lease",
        "Nothing was written",
    ] {
        assert!(dry.succeeds().contains(part), "{dry:?}");
    }
    let at = revision(&etcd);
    let done = json(undo(&["--apply", "-o", "json"]).succeeds());
    assert_eq!(done["done"]["putBack"], 150, "{done}");
    assert_eq!(
        (&done["counts"]["changedSince"], &done["counts"]["stays"]),
        (&Value::from(1), &Value::from(1))
    );
    assert_eq!(done["withoutLease"], 1);
    // 149 + 1 keys, at most 64 in a transaction.
    assert_eq!(revision(&etcd), at + 3);
    let value = |key: &str| etcd.ctl(&["get", key, "--print-value-only"]).trim().to_owned();
    assert_eq!(
        (value("app/007"), value("app/149")),
        ("value 7".to_owned(), "value 149".to_owned())
    );
    assert_eq!(
        (value("app/008"), value("app/new"), value("other")),
        ("since".to_owned(), "new".to_owned(), "2".to_owned())
    );
    assert_eq!(leased("app/leased"), Value::Null);
    assert_eq!(leased("app/registered"), registered, "it was not to be written");
    // Again there is nothing left to do; and a new key goes only if that is asked for.
    let again = json(undo(&["--apply", "-o", "json"]).succeeds());
    assert_eq!(
        (&again["done"]["putBack"], &again["counts"]["already"]),
        (&Value::from(0), &Value::from(150))
    );
    assert_eq!(
        json(undo(&["--apply", "--delete-new", "-o", "json"]).succeeds())["done"]["deleted"],
        1
    );
    assert_eq!(value("app/new"), "");
    // Another cluster's keys are not this one's to change.
    let other = Etcd::start(&newest(), &sandbox.path("other"));
    let words = [
        "backup", "undo", &archive, "--prefix", "app/", "--from", &before, "--to", &after, "--apply",
    ];
    sandbox
        .run(&[&words[..], &["--into", &other.url]].concat())
        .fails(3, &["the archive in", "is of another"]);
    assert_eq!(revision(&other), 1);
    sandbox
        .run(&[
            "backup", "undo", &archive, "--prefix", "app/", "--from", &after, "--to", &before, "--into",
            &etcd.url,
        ])
        .fails(3, &["nothing between them"]);
}

#[test]
fn a_cluster_that_branched_off_before_is_left_alone() {
    let sandbox = Sandbox::new();
    let version = newest();
    let archive = format!("file://{}", sandbox.path("archive").display());
    let etcd = Etcd::start(&version, &sandbox.path("etcd"));
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &[]);
    etcd.ctl(&["put", "app/a", "1"]);
    let first = agent.catch_up(&etcd).to_string();
    etcd.ctl(&["del", "app/a"]);
    let branch = agent.catch_up(&etcd).to_string();
    etcd.ctl(&["put", "app/b", "theirs"]);
    let from = agent.catch_up(&etcd).to_string();
    etcd.ctl(&["put", "app/b", "theirs, changed"]);
    let to = agent.catch_up(&etcd).to_string();
    agent.stop();
    drop(etcd);

    let dir = sandbox.path("restored");
    let shown = dir.display().to_string();
    let restore = [
        "backup",
        "restore",
        &archive,
        "--to-revision",
        &branch,
        "--data-dir",
        &shown,
    ];
    sandbox.run(&restore).succeeds();
    let etcd = Etcd::start_restored(&version, &dir);
    // The same revisions, of another history.
    etcd.ctl(&["put", "app/b", "ours"]);
    etcd.ctl(&["put", "app/b", "ours, changed"]);
    assert_eq!(revision(&etcd).to_string(), to);
    let undo = |from: &str, to: &str, more: &[&str]| {
        let words = [
            "backup", "undo", &archive, "--prefix", "app/", "--from", from, "--to", to, "--into", &etcd.url,
            "-o", "json",
        ];
        sandbox.run(&[&words[..], more].concat())
    };
    let why = format!("up to revision {branch}");
    undo(&from, &to, &["--apply"]).fails(3, &["restored", "timeline 1", &why]);
    // With a timeline of its own that is still so, and its own points are taken.
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &[]);
    agent.catch_up(&etcd);
    agent.stop();
    undo(&from, &to, &["--timeline", "1", "--apply"]).fails(3, &["timeline 1", &why]);
    assert_eq!(revision(&etcd).to_string(), to, "nothing was written");
    // What both have in common can be undone: nothing has to be agreed to before it is.
    let planned = json(undo(&first, &branch, &["--timeline", "1"]).succeeds());
    assert_eq!(planned["counts"]["putBack"], 1, "{planned}");
    assert_eq!(planned["consents"], Value::Array(Vec::new()), "{planned}");
    undo(&first, &branch, &["--timeline", "1", "--apply"]).succeeds();
    assert_eq!(etcd.ctl(&["get", "app/a", "--print-value-only"]).trim(), "1");
}
