//! `quorate backup …` with a real etcd and a directory: from the first full copy to the second before the mistake.

use std::path::Path;

use quorate_testkit::binary;
use serde_json::Value;

use crate::agent::{Agent, revision};
use crate::etcd::{Etcd, newest};
use crate::sandbox::Sandbox;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Keys and values under `app/`, as `quorate snapshot get` reads them.
fn content(sandbox: &Sandbox, dir: &str) -> Vec<(String, String)> {
    let printed = sandbox.run(&["snapshot", "get", dir, "app/", "--prefix"]);
    let lines: Vec<&str> = printed.succeeds().lines().collect();
    lines
        .chunks(2)
        .map(|pair| (pair[0].to_owned(), pair[1].to_owned()))
        .collect()
}

#[test]
fn the_life_of_an_archive() {
    let sandbox = Sandbox::new();
    let version = newest();
    let etcd = Etcd::start(&version, &sandbox.path("etcd"));
    let archive = url(&sandbox.path("archive"));
    for number in 0..5 {
        etcd.ctl(&["put", &format!("app/{number}"), &format!("one {number}")]);
    }

    // A full copy, then every change behind it, one agent after the other.
    let taken = sandbox.run(&["backup", "now", &archive, "--endpoints", &etcd.url, "-o", "json"]);
    assert_eq!(json(taken.succeeds())["revision"], revision(&etcd));
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &["--metrics-listen", "127.0.0.1:0"]);
    agent.catch_up(&etcd);
    etcd.ctl(&["put", "app/0", "two"]);
    let good = agent.catch_up(&etcd);
    agent.kill();
    etcd.ctl(&["del", "app/", "--prefix"]);
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &["--keep", "7d", "--keep", "30d:1d"]);
    let last = agent.catch_up(&etcd);
    let listed = json(
        sandbox
            .run(&["backup", "list", &archive, "--deltas", "-o", "json"])
            .succeeds(),
    );
    let timeline = &listed["timelines"][0];
    assert_eq!(timeline["writer"]["writing"], true, "{listed}");
    agent.stop();

    let listed = json(
        sandbox
            .run(&["backup", "list", &archive, "--deltas", "-o", "json"])
            .succeeds(),
    );
    let timeline = &listed["timelines"][0];
    assert_eq!(timeline["writer"]["writing"], false);
    assert_eq!(timeline["reachable"][0]["to"], last);
    assert_eq!(
        (
            timeline["gaps"].as_array().unwrap().len(),
            timeline["proven"].as_array().unwrap().len()
        ),
        (0, 0)
    );
    assert!(timeline["deltas"].as_array().unwrap().len() >= 2, "{listed}");
    let page = sandbox.run(&["backup", "list", &archive]);
    for part in ["REVISION", "snapshot", "proven", "never"] {
        assert!(page.succeeds().contains(part), "{page:?}");
    }

    // The plan first; then the revision before the mistake, for two members.
    let target = sandbox.path("members").display().to_string();
    let to = good.to_string();
    let wanted = [
        "backup",
        "restore",
        &archive,
        "--data-dir",
        &target,
        "--to-revision",
        &to,
        "--every-member",
        "--initial-cluster",
        "a=http://127.0.0.1:1,b=http://127.0.0.1:2",
    ];
    let planned = sandbox.run(&[&wanted[..], &["--dry-run"]].concat());
    assert!(
        planned.succeeds().contains("full copy") && planned.out.contains("dry run"),
        "{planned:?}"
    );
    assert!(!sandbox.path("members").exists());
    let restored = json(sandbox.run(&[&wanted[..], &["-o", "json"]].concat()).succeeds());
    assert_eq!(
        (&restored["revision"], &restored["timeline"]),
        (&Value::from(good), &Value::from(1))
    );
    assert_eq!(restored["members"][1]["name"], "b");
    for member in ["members/a", "members/b"] {
        let dir = sandbox.path(member).display().to_string();
        let mut expected: Vec<(String, String)> =
            (0..5).map(|n| (format!("app/{n}"), format!("one {n}"))).collect();
        expected[0].1 = "two".to_owned();
        assert_eq!(content(&sandbox, &dir), expected);
    }

    // A new full copy of what is there; proven, and by a real etcd.
    let compacted = json(
        sandbox
            .run(&["backup", "compact", &archive, "--to-revision", &to, "-o", "json"])
            .succeeds(),
    );
    assert_eq!(
        (&compacted["revision"], &compacted["wasThere"]),
        (&Value::from(good), &Value::from(false))
    );
    // And of nothing at all, which is what is there in the end.
    sandbox.run(&["backup", "compact", &archive]).succeeds();
    let etcd_program = binary(&version, "etcd").display().to_string();
    let proven = sandbox.run(&[
        "backup",
        "verify",
        &archive,
        "--level",
        "served",
        "--etcd",
        &etcd_program,
        "-o",
        "json",
    ]);
    let proven = json(proven.succeeds());
    assert_eq!(
        (&proven["proof"]["level"], &proven["proof"]["revision"]),
        (&Value::from("served"), &Value::from(last))
    );
    let page = sandbox.run(&["backup", "list", &archive]);
    assert!(
        page.succeeds().contains(&format!("served up to revision {last}")),
        "{page:?}"
    );

    // A copy has all of it; what is old goes, and what was proven stays.
    let copy = url(&sandbox.path("copy"));
    let copied = json(
        sandbox
            .run(&["backup", "copy", &archive, &copy, "-o", "json"])
            .succeeds(),
    );
    assert_eq!(copied["damaged"].as_array().unwrap().len(), 0);
    let pruned = sandbox.run(&[
        "backup",
        "prune",
        &archive,
        "--keep",
        "1s",
        "--grace",
        "0s",
        "--dry-run",
    ]);
    assert!(pruned.succeeds().contains("dry run"), "{pruned:?}");
    let pruned = json(
        sandbox
            .run(&[
                "backup", "prune", &archive, "--keep", "1s", "--grace", "0s", "-o", "json",
            ])
            .succeeds(),
    );
    assert!(
        pruned["done"]["deleted"]["objects"].as_u64() > Some(0),
        "{pruned}"
    );
    sandbox.run(&["backup", "verify", &archive]).succeeds();
    let late = sandbox.path("late").display().to_string();
    sandbox
        .run(&["backup", "restore", &archive, "--data-dir", &late])
        .succeeds();
    assert!(content(&sandbox, &late).is_empty());
    let early = sandbox.path("early").display().to_string();
    sandbox
        .run(&[
            "backup",
            "restore",
            &copy,
            "--data-dir",
            &early,
            "--to-revision",
            &to,
        ])
        .succeeds();
    assert_eq!(content(&sandbox, &early).len(), 5);
}

#[test]
fn a_restored_cluster_goes_on_in_a_timeline_of_its_own() {
    let sandbox = Sandbox::new();
    let version = newest();
    let archive = url(&sandbox.path("archive"));
    let key = sandbox.file("key", &"5e".repeat(32));
    let etcd = Etcd::start(&version, &sandbox.path("etcd"));
    etcd.ctl(&["put", "app/a", "secret-value-of-the-first"]);
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &["--key-file", &key]);
    let first = agent.catch_up(&etcd);
    etcd.ctl(&["put", "app/b", "two"]);
    agent.catch_up(&etcd);
    agent.stop();
    etcd.stop();
    let dir = sandbox.path("restored");
    let to = first.to_string();
    let shown = dir.display().to_string();
    let restore = [
        "backup",
        "restore",
        &archive,
        "--data-dir",
        &shown,
        "--to-revision",
        &to,
    ];
    // Nothing of it can be read without the key.
    sandbox
        .run(&restore)
        .fails(3, &["is encrypted with key", "--key-file"]);
    let other = sandbox.file("other", &"5f".repeat(32));
    sandbox
        .run(&[&restore[..], &["--key-file", &other]].concat())
        .fails(3, &["is encrypted with key", "the one given is"]);
    let objects = sandbox.path("archive/t/00000001/delta");
    for entry in std::fs::read_dir(objects).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("secret-value"));
    }
    assert!(!dir.exists());
    sandbox
        .run(&[&restore[..], &["--key-file", &key]].concat())
        .succeeds();
    let etcd = Etcd::start_restored(&version, &dir);
    assert_eq!(
        etcd.ctl(&["get", "app/", "--prefix", "--keys-only"]).trim(),
        "app/a"
    );
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &["--key-file", &key]);
    etcd.ctl(&["put", "app/c", "three"]);
    agent.catch_up(&etcd);
    agent.stop();
    let listed = json(
        sandbox
            .run(&["backup", "list", &archive, "-o", "json"])
            .succeeds(),
    );
    let second = &listed["timelines"][1];
    assert_eq!(
        (&second["parent"]["timeline"], &second["parent"]["revision"]),
        (&Value::from(1), &Value::from(first))
    );
    for (timeline, keys) in [("1", ["app/a", "app/b"]), ("2", ["app/a", "app/c"])] {
        let dir = sandbox
            .path(&format!("timeline-{timeline}"))
            .display()
            .to_string();
        let restore = [
            "backup",
            "restore",
            &archive,
            "--data-dir",
            &dir,
            "--timeline",
            timeline,
            "--key-file",
            &key,
        ];
        sandbox.run(&restore).succeeds();
        let found: Vec<String> = content(&sandbox, &dir).into_iter().map(|(key, _)| key).collect();
        assert_eq!(found, keys);
    }
}
