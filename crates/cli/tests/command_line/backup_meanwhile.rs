//! Commands on an archive that an agent writes: they disturb neither it nor one another, and nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use quorate_backup::record::{Entry, Level, Proof};
use quorate_backup::{Archive, Store, StoreOptions, StoreUrl};
use serde_json::Value;

use crate::agent::Agent;
use crate::etcd::{Etcd, newest};
use crate::sandbox::Sandbox;

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

fn hash(sandbox: &Sandbox, dir: &str) -> Value {
    let run = sandbox.run(&["snapshot", "hash", dir, "-o", "json"]);
    let hash: Value = serde_json::from_str(run.succeeds()).unwrap();
    hash["hash"].clone()
}

#[test]
fn everything_at_once() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    let archive = url(&sandbox.path("archive"));
    etcd.ctl(&["put", "a", "0"]);
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &[]);
    agent.catch_up(&etcd);
    let over = AtomicBool::new(false);
    let (over, archive, sandbox, etcd) = (&over, archive.as_str(), &sandbox, &etcd);
    std::thread::scope(|scope| {
        let again = |words: &'static [&'static str], more: Vec<String>| {
            scope.spawn(move || {
                let mut rounds = 0;
                while !over.load(Ordering::Relaxed) || rounds == 0 {
                    let more: Vec<&str> = more.iter().map(String::as_str).collect();
                    let run = sandbox.run(&[&["backup", words[0], archive], &more[..], &words[1..]].concat());
                    assert_eq!(run.code, 0, "{words:?}: {run:?}");
                    rounds += 1;
                }
                rounds
            })
        };
        let writing = scope.spawn(move || {
            for number in 0..300 {
                etcd.ctl(&["put", &format!("key-{}", number % 40), &number.to_string()]);
                if number % 60 == 59 {
                    etcd.ctl(&["del", "key-1", "key-2"]);
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        let rounds = [
            again(&["prune", "--keep", "1s", "--grace", "0s"], vec![]),
            again(&["verify"], vec![]),
            again(&["compact"], vec![]),
            again(&["copy"], vec![url(&sandbox.path("copy"))]),
            again(&["now"], vec!["--endpoints".to_owned(), etcd.url.clone()]),
        ];
        writing.join().unwrap();
        for round in rounds {
            assert!(round.join().unwrap() > 0);
        }
    });
    let last = agent.catch_up(etcd);
    agent.stop();
    sandbox.run(&["backup", "verify", archive]).succeeds();
    sandbox
        .run(&["backup", "copy", archive, &url(&sandbox.path("copy"))])
        .succeeds();
    let dirs = ["archive", "copy"].map(|from| {
        let dir = sandbox.path(&format!("from-{from}")).display().to_string();
        let from = url(&sandbox.path(from));
        let restored = sandbox.run(&["backup", "restore", &from, "--data-dir", &dir, "-o", "json"]);
        let restored: Value = serde_json::from_str(restored.succeeds()).unwrap();
        assert_eq!(restored["revision"], last);
        dir
    });
    assert_eq!(hash(sandbox, &dirs[0]), hash(sandbox, &dirs[1]));
    // What a person reads is what the cluster has.
    let values = |printed: &str| {
        let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
        lines.retain(|line| !line.is_empty());
        lines
    };
    let live = values(&etcd.ctl(&["get", "key-", "--prefix"]));
    let restored = sandbox.run(&["snapshot", "get", &dirs[0], "key-", "--prefix"]);
    assert_eq!(values(restored.succeeds()), live);
}

/// Makes every object of a log two days old.
fn age(dir: &Path) {
    let old = SystemTime::now() - Duration::from_secs(2 * 86_400);
    for entry in fs::read_dir(dir).unwrap() {
        let file = fs::File::options()
            .write(true)
            .open(entry.unwrap().path())
            .unwrap();
        file.set_modified(old).unwrap();
    }
}

fn names(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

#[test]
fn a_long_log_begins_later_and_goes_on() {
    let sandbox = Sandbox::new();
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    let archive = url(&sandbox.path("archive"));
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &[]);
    for number in 0..3 {
        etcd.ctl(&["put", "key", &number.to_string()]);
        agent.catch_up(&etcd);
    }
    agent.kill();
    // Records of months: what is in them matters no more.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = Store::open(&StoreUrl::parse(&archive).unwrap(), &StoreOptions::default())
            .await
            .unwrap();
        let archive = Archive::open(&store, None).await.unwrap();
        let mut log = archive.log(1, "a test").await.unwrap();
        for _ in 0..300 {
            let proof = Proof {
                level: Level::Rebuilt,
                revision: 2,
                base: 2,
                hash: None,
                seconds: 0.0,
            };
            log.append(Entry::Proof(proof), jiff::Timestamp::now())
                .await
                .unwrap();
        }
    });
    sandbox
        .run(&["backup", "now", &archive, "--endpoints", &etcd.url])
        .succeeds();
    sandbox.run(&["backup", "verify", &archive]).succeeds();
    let log = sandbox.path("archive/t/00000001/log");
    age(&log);
    for _ in 0..2 {
        sandbox
            .run(&["backup", "prune", &archive, "--keep", "1s", "--grace", "0s"])
            .succeeds();
    }
    let left = names(&log);
    assert!(left.len() < 128, "{} objects of the log are left", left.len());
    sandbox.run(&["backup", "verify", &archive]).succeeds();
    sandbox.run(&["backup", "list", &archive]).succeeds();
    sandbox
        .run(&["backup", "copy", &archive, &url(&sandbox.path("copy"))])
        .succeeds();
    let mut agent = Agent::start(&sandbox, &archive, &etcd, &[]);
    etcd.ctl(&["put", "key", "last"]);
    let last = agent.catch_up(&etcd);
    agent.stop();
    let dir = sandbox.path("restored").display().to_string();
    let restored = sandbox.run(&["backup", "restore", &archive, "--data-dir", &dir, "-o", "json"]);
    let restored: Value = serde_json::from_str(restored.succeeds()).unwrap();
    assert_eq!(restored["revision"], last);
    assert_eq!(sandbox.run(&["snapshot", "get", &dir, "key"]).succeeds(), "last");
}

/// Two on one machine have the same name; that is no reason to take over from one that is well.
#[test]
fn a_second_agent_stands_by_until_the_first_has_ended() {
    let (sandbox, other) = (Sandbox::new(), Sandbox::new());
    let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
    let archive = url(&sandbox.path("archive"));
    let writes = |status: &Value| status["state"] == "writing";
    let stands_by = |status: &Value| status["state"] == "standingBy";
    let mut first = Agent::start(&sandbox, &archive, &etcd, &[]);
    first.catch_up(&etcd);
    let mut second = Agent::start(&other, &archive, &etcd, &[]);
    let standing = second.until("it stands by", stands_by);
    assert!(
        standing["writer"]
            .as_str()
            .is_some_and(|writer| writer.ends_with("/agent")),
        "{standing}"
    );
    assert!(
        second
            .log()
            .contains("stands by and takes over when that one is silent")
    );
    etcd.ctl(&["put", "a", "1"]);
    first.catch_up(&etcd);
    assert!(writes(&first.status()) && stands_by(&second.status()));
    // Killed, it gives no last heartbeat: that its process has ended is enough.
    first.kill();
    second.until("it writes", writes);
    etcd.ctl(&["put", "a", "2"]);
    second.catch_up(&etcd);
    let mut third = Agent::start(&sandbox, &archive, &etcd, &["--take-over"]);
    third.until("it writes", writes);
    second.until("it stands by again", stands_by);
    etcd.ctl(&["put", "a", "3"]);
    third.catch_up(&etcd);
    third.stop();
    second.until("it writes again", writes);
    second.stop();
}
