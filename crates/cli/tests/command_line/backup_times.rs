//! Points of an archive as a person tells them: by the clock.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::Agent;
use crate::etcd::{Etcd, newest};
use crate::sandbox::Sandbox;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_mistake_between_two_times_is_undone() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest().1, &sandbox.path("etcd"));
    let archive = format!("file://{}", sandbox.path("archive").display());
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &[]);
    for (key, value) in [("app/a", "1"), ("app/b", "2"), ("app/c", "3"), ("other", "4")] {
        etcd.ctl(&["put", key, value]);
    }
    let before = agent.catch_up(&etcd);
    // As a person notes it: it was well at this time.
    let good = jiff::Timestamp::now().to_string();
    etcd.ctl(&["del", "app/", "--prefix"]);
    etcd.ctl(&["put", "app/b", "wrong"]);
    etcd.ctl(&["put", "other", "5"]);
    let after = agent.catch_up(&etcd);
    let undo = |to: &str, more: &[&str]| {
        let words = [
            "backup", "undo", &archive, "--prefix", "app/", "--from", &good, "--to", to, "--into", &etcd.url,
            "-o", "json",
        ];
        sandbox.run(&[&words[..], more].concat())
    };

    // A dry run, up to a second ago: until then the mistake may have been made later than that.
    let limit = Instant::now() + LIMIT;
    let planned = loop {
        let run = undo("1s ago", &[]);
        let planned: Value = serde_json::from_str(&run.out).unwrap_or_default();
        if planned["toRevision"] == after {
            break planned;
        }
        assert!(Instant::now() < limit, "{run:?}");
    };
    assert_eq!(planned["fromRevision"], before, "{planned}");
    assert_eq!(planned["counts"]["putBack"], 3, "{planned}");
    assert_eq!(planned["applied"], false, "{planned}");
    assert_eq!(agent.catch_up(&etcd), after, "a dry run writes nothing");

    // In earnest, up to a time: what was written since is nobody's mistake.
    let bad = jiff::Timestamp::now().to_string();
    etcd.ctl(&["put", "app/c", "since"]);
    agent.catch_up(&etcd);
    let done: Value = serde_json::from_str(undo(&bad, &["--apply", "--yes"]).succeeds()).unwrap();
    assert_eq!(
        (&done["fromRevision"], &done["toRevision"]),
        (&Value::from(before), &Value::from(after)),
        "{done}"
    );
    assert_eq!(done["done"]["putBack"], 2, "{done}");
    let printed = etcd.ctl(&["get", "", "--prefix"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines,
        ["app/a", "1", "app/b", "2", "app/c", "since", "other", "5"]
    );
    agent.stop();
}
