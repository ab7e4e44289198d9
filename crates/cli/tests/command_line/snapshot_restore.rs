//! `quorate snapshot restore`, and real etcd on what it made: one member, three, an older revision, a raised one.

use quorate_testkit::{Addresses, ClusterSlot, binary, versions};
use serde_json::Value;

use crate::etcd::{Etcd, newest};
use crate::sandbox::{Run, Sandbox};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Peer URLs that are free.
fn peers(count: usize) -> Vec<String> {
    (0..count).map(|_| Addresses::free().peer).collect()
}

/// A snapshot: a=1 at 2, b=1 at 3, a=2 at 4, b deleted at 5.
fn saved(sandbox: &Sandbox, version: &str) {
    let etcd = Etcd::start(version, &sandbox.path("source"));
    for words in [
        &["put", "a", "1"][..],
        &["put", "b", "1"],
        &["put", "a", "2"],
        &["del", "b"],
    ] {
        etcd.ctl(words);
    }
    sandbox
        .run(&["snapshot", "save", "etcd.db", "--endpoints", &etcd.url])
        .succeeds();
}

struct Member<'a> {
    name: &'a str,
    peer: &'a str,
    cluster: &'a str,
}

impl Member<'_> {
    fn restore(&self, sandbox: &Sandbox, more: &[&str]) -> Run {
        let first = [
            "snapshot",
            "restore",
            "etcd.db",
            "--data-dir",
            self.name,
            "--name",
            self.name,
        ];
        let identity = [
            "--initial-cluster",
            self.cluster,
            "--initial-advertise-peer-urls",
            self.peer,
            "--initial-cluster-token",
            "again",
            "-o",
            "json",
        ];
        let all: Vec<&str> = first.iter().chain(&identity).chain(more).copied().collect();
        sandbox.run(&all)
    }

    fn start(&self, sandbox: &Sandbox, version: &str) -> Etcd {
        Etcd::start_member(
            version,
            &sandbox.path(self.name),
            self.name,
            self.peer,
            self.cluster,
        )
    }
}

#[test]
fn one_member_of_every_version() {
    for version in versions() {
        let sandbox = Sandbox::new();
        saved(&sandbox, &version);
        let peer = &peers(1)[0];
        let cluster = format!("m={peer}");
        let member = Member {
            name: "m",
            peer,
            cluster: &cluster,
        };
        let restored = json(member.restore(&sandbox, &[]).succeeds());
        assert_eq!(restored["revision"], 5, "{version}");
        let hash = json(
            sandbox
                .run(&["snapshot", "hash", "etcd.db", "-o", "json"])
                .succeeds(),
        );
        let verdict = json(sandbox.run(&["snapshot", "verify", "m", "-o", "json"]).succeeds());
        assert_eq!(verdict["hashKv"], hash["hash"], "{version}");
        assert_eq!(verdict["member"]["memberId"], restored["memberId"], "{version}");
        let again = member.restore(&sandbox, &[]);
        again.fails(3, &["nothing is overwritten"]);

        let etcd = member.start(&sandbox, &version);
        let asked = json(&etcd.ctl(&["endpoint", "hashkv", "-w", "json"]));
        assert_eq!(asked[0]["HashKV"]["hash"], hash["hash"], "{version}");
        let id = asked[0]["HashKV"]["header"]["member_id"]
            .as_u64()
            .map(|id| format!("{id:x}"));
        assert_eq!(restored["memberId"].as_str(), id.as_deref(), "{version}");
        assert_eq!(etcd.ctl(&["get", "", "--prefix"]), "a\n2\n", "{version}");
        etcd.ctl(&["put", "a", "3"]);
    }
}

/// What is only in the log yet of a member that was killed is in its snapshot.
#[test]
fn a_dead_member_is_saved_with_the_tail_of_its_log() {
    for version in versions() {
        let sandbox = Sandbox::new();
        let etcd = Etcd::start(&version, &sandbox.path("etcd"));
        etcd.ctl(&["put", "a", "1"]);
        let data_dir = etcd.data_dir.to_str().unwrap().to_owned();
        let binary = binary(&version, "etcd");
        let save = [
            "snapshot",
            "save",
            "dead.db",
            "--from-data-dir",
            &data_dir,
            // An etcd that was killed very early leaves a log that only etcd can begin with.
            "--etcd",
            binary.to_str().unwrap(),
            "-o",
            "json",
        ];
        sandbox.run(&save).fails(3, &["is in use"]);
        etcd.ctl(&["put", "a", "2"]);
        // Killed at once, before the database has it.
        drop(etcd);
        let saved = json(sandbox.run(&save).succeeds());
        assert_eq!(saved["revision"], 3, "{version}: {saved}");
        sandbox.run(&["snapshot", "verify", "dead.db"]).succeeds();
        assert_eq!(
            sandbox.run(&["snapshot", "get", "dead.db", "a"]).succeeds(),
            "2",
            "{version}"
        );
    }
}

#[test]
fn three_members_become_a_cluster() {
    let _slot = ClusterSlot::acquire();
    let version = newest();
    let sandbox = Sandbox::new();
    saved(&sandbox, &version);
    let peers = peers(3);
    let names = ["m0", "m1", "m2"];
    let pairs: Vec<String> = names
        .iter()
        .zip(&peers)
        .map(|(name, peer)| format!("{name}={peer}"))
        .collect();
    let cluster = pairs.join(",");
    let members: Vec<Member<'_>> = names
        .iter()
        .zip(&peers)
        .map(|(name, peer)| Member {
            name,
            peer,
            cluster: &cluster,
        })
        .collect();
    let mut clusters: Vec<String> = members
        .iter()
        .map(|member| json(member.restore(&sandbox, &[]).succeeds())["clusterId"].to_string())
        .collect();
    clusters.dedup();
    assert_eq!(clusters.len(), 1);
    let running: Vec<Etcd> = std::thread::scope(|scope| {
        let starting: Vec<_> = members
            .iter()
            .map(|member| scope.spawn(|| member.start(&sandbox, &version)))
            .collect();
        starting
            .into_iter()
            .map(|started| started.join().unwrap())
            .collect()
    });
    running[0].ctl(&["put", "c", "1"]);
    for etcd in &running {
        assert_eq!(etcd.ctl(&["get", "", "--prefix"]), "a\n2\nc\n1\n");
        let list = etcd.ctl(&["member", "list"]);
        assert_eq!(
            list.lines().filter(|line| line.contains(", started, m")).count(),
            3,
            "{list}"
        );
    }
}

#[test]
fn an_older_revision_and_a_raised_one() {
    let sandbox = Sandbox::new();
    let version = quorate_testkit::newest("3.6");
    saved(&sandbox, &version);
    let peers = peers(2);
    let clusters = [format!("old={}", peers[0]), format!("raised={}", peers[1])];
    let old = Member {
        name: "old",
        peer: &peers[0],
        cluster: &clusters[0],
    };
    let restored = json(old.restore(&sandbox, &["--to-revision", "3"]).succeeds());
    assert_eq!(restored["revision"], 3);
    let etcd = old.start(&sandbox, &version);
    assert_eq!(etcd.ctl(&["get", "", "--prefix"]), "a\n1\nb\n1\n");
    drop(etcd);

    let raised = Member {
        name: "raised",
        peer: &peers[1],
        cluster: &clusters[1],
    };
    let restored = json(
        raised
            .restore(&sandbox, &["--bump-revision", "1000", "--mark-compacted"])
            .succeeds(),
    );
    assert_eq!(restored["revision"], 1005);
    let etcd = raised.start(&sandbox, &version);
    assert_eq!(etcd.ctl(&["get", "", "--prefix"]), "a\n2\n");
    let at = json(&etcd.ctl(&["get", "a", "-w", "json"]));
    assert_eq!(at["header"]["revision"], 1005);
    let older = etcd.ctl_command(&["get", "a", "--rev", "5"]).output().unwrap();
    assert!(
        String::from_utf8_lossy(&older.stderr).contains("compacted"),
        "{older:?}"
    );
}

#[test]
fn what_makes_no_sense_is_refused_and_nothing_is_made() {
    let sandbox = Sandbox::new();
    saved(&sandbox, &newest());
    let restore = |more: &[&str]| {
        let first = ["snapshot", "restore", "etcd.db", "--data-dir", "new"];
        let all: Vec<&str> = first.iter().chain(more).copied().collect();
        sandbox.run(&all)
    };
    restore(&["--name", "x"]).fails(3, &["x"]);
    restore(&["--initial-advertise-peer-urls", "http://127.0.0.1:1"]).fails(3, &["http://127.0.0.1:1"]);
    restore(&["--to-revision", "99"]).fails(3, &["99"]);
    restore(&["--for-version", "2.3"]).fails(3, &["2.3"]);
    restore(&["--for-version", "new"]).fails(2, &["no version of etcd"]);
    restore(&["--bump-revision", "5"]).fails(2, &["--mark-compacted"]);
    restore(&["--mark-compacted"]).fails(2, &["--bump-revision"]);
    sandbox
        .run(&["snapshot", "restore", "etcd.db"])
        .fails(2, &["--data-dir"]);
    sandbox
        .run(&["snapshot", "restore", "none.db", "--data-dir", "new"])
        .fails(1, &["cannot read none.db"]);
    let mut bytes = std::fs::read(sandbox.path("etcd.db")).unwrap();
    bytes.truncate(bytes.len() - 32);
    std::fs::write(sandbox.path("etcd.db"), &bytes).unwrap();
    restore(&[]).fails(3, &["no hash", "--skip-hash-check"]);
    bytes.truncate(bytes.len() - 4096);
    std::fs::write(sandbox.path("etcd.db"), &bytes).unwrap();
    restore(&["--skip-hash-check"]).fails(1, &["etcd.db is damaged"]);
    assert!(!sandbox.path("new").exists());
}
