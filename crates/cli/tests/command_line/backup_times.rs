//! Points of an archive as a person tells them: by the clock.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::Agent;
use crate::etcd::{Etcd, newest};
use crate::sandbox::Sandbox;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_mistake_between_two_times_is_undone() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
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

/// What comes of a question, on a terminal, that `keys` are typed at. The shell in between gives way: one that stays
/// hears Ctrl-C too, and some then end by it, whatever their child said.
fn answered(sandbox: &Sandbox, words: &[&str], keys: &[u8]) -> (Option<i32>, String) {
    let command = sandbox.command(words);
    let quoted: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut child = Command::new("timeout")
        .args([
            "60",
            "script",
            "--quiet",
            "--return",
            "--command",
            &format!("exec {}", quoted.join(" ")),
            "/dev/null",
        ])
        .current_dir(sandbox.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut shown, mut byte) = (Vec::new(), [0]);
    while !shown.ends_with(b"[y/N] ") && stdout.read(&mut byte).unwrap() > 0 {
        shown.extend(byte);
    }
    stdin.write_all(keys).unwrap();
    stdout.read_to_end(&mut shown).unwrap();
    (child.wait().unwrap().code(), String::from_utf8(shown).unwrap())
}

#[test]
fn a_time_that_little_is_known_of_has_to_be_agreed_to() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    let archive = format!("file://{}", sandbox.path("archive").display());
    sandbox
        .run(&["backup", "now", &archive, "--endpoints", &etcd.url])
        .succeeds();
    let restore = [
        "backup",
        "restore",
        &archive,
        "--data-dir",
        "new",
        "--to-time",
        "2099-01-01T00:00:00Z",
    ];
    sandbox.run(&restore).fails(3, &["what is known of", "--yes"]);
    for keys in [&b"n\n"[..], b"\x03"] {
        let (code, shown) = answered(&sandbox, &restore, keys);
        assert_eq!(code, Some(3), "{keys:?}: {shown}");
        assert!(shown.contains("Nothing was done."), "{keys:?}: {shown}");
        assert!(!sandbox.path("new").exists(), "{keys:?}: {shown}");
    }
    let (code, shown) = answered(&sandbox, &restore, b"y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(sandbox.path("new/member/snap/db").is_file());
}
