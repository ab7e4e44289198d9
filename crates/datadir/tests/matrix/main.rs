//! Databases by real workloads, of every etcd version: read, verified, restored and defragmented here; then real etcd
//! of that version starts on what came of it, says the same, and goes on as if nothing had been.
//!
//! `QUORATE_MATRIX=full` takes every cached version and millions of small keys (`make soak matrix`).

mod after;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use after::goes_on;
use quorate_datadir::{
    Error, Progress, Restore, Source, db_path, defrag, hash_kv, restore, status, verify, verify_member,
};
use quorate_testkit::{
    Addresses, ClusterSlot, Made, Said, Start, Workload, binary, newest, patches, versions,
};
use semver::Version;

const TOKEN: &str = "restored";

fn full() -> bool {
    std::env::var("QUORATE_MATRIX").is_ok_and(|wanted| wanted == "full")
}

/// Every version with every workload, on two threads: each waits for its etcd most of the time. All say the same of the
/// same history.
#[test]
fn every_database_is_read_restored_and_defragmented() {
    let versions = if full() { patches() } else { versions() };
    let workloads = Workload::ALL.map(|workload| match workload {
        Workload::Small(_) if full() => Workload::Small(2_000_000),
        Workload::Small(_) => Workload::Small(20_000),
        other => other,
    });
    let cases: Vec<(String, Workload)> = versions
        .iter()
        .flat_map(|version| workloads.map(|workload| (version.clone(), workload)))
        .collect();
    let next = AtomicUsize::new(0);
    let histories = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((version, workload)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let made = workload.make(version);
                    let hashes: Vec<_> = made.said.hashes.iter().map(|it| (it.revision, it.hash)).collect();
                    let (first, before) = histories
                        .lock()
                        .unwrap()
                        .entry(*workload)
                        .or_insert_with(|| (version.clone(), hashes.clone()))
                        .clone();
                    assert_eq!(before, hashes, "{workload}: {first} and {version}");
                    is_read(&made);
                    is_restored(&made);
                    is_defragmented(&made);
                    println!("etcd {version}, {workload}: revision {}", made.said.revision);
                }
            });
        }
    });
    println!("figures: versions={}; databases={}", versions.len(), cases.len());
}

/// A database that was copied from a directory has no hash. It is restored if it is asked for, and if it is whole.
#[test]
fn without_a_hash_only_what_holds_together_is_restored() {
    let made = Workload::Txns.make(&newest("3.6"));
    let db = db_path(&made.data_dir);
    let wanted = |snapshot: &Path, skip_hash_check| Restore {
        snapshot: snapshot.to_owned(),
        data_dir: made.root().join("copied"),
        wal_dir: None,
        name: "m0".to_owned(),
        initial_cluster: "m0=http://127.0.0.1:2380".to_owned(),
        token: TOKEN.to_owned(),
        peer_urls: "http://127.0.0.1:2380".to_owned(),
        skip_hash_check,
        bump: None,
        to_revision: None,
        for_version: None,
    };
    let refused = restore(&wanted(&db, false), &Progress::new()).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    let mut bytes = fs::read(&db).unwrap();
    // Its kind, said by every page behind the metas.
    for kind in bytes.iter_mut().skip(2 * 4096 + 8).step_by(4096) {
        *kind ^= 0x80;
    }
    let damaged = made.root().join("damaged.db");
    fs::write(&damaged, &bytes).unwrap();
    let refused = restore(&wanted(&damaged, true), &Progress::new()).unwrap_err();
    assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
    assert!(!made.root().join("copied").exists(), "nothing was made");
    let done = restore(&wanted(&db, true), &Progress::new()).unwrap();
    assert_eq!(done.revision, made.said.revision);
}

/// A newer etcd starts on it as it is; an older one if it was made for it.
#[test]
fn other_versions_start_on_what_was_restored() {
    let versions = ["3.4", "3.5", "3.6", "3.7"].map(newest);
    for saved in &versions {
        let made = Workload::Compacted.make(saved);
        for started in versions.iter().filter(|version| *version != saved) {
            let at = Addresses::free();
            let data_dir = made.root().join(format!("for-{started}"));
            let started_version = started.parse::<Version>().unwrap();
            let older = started_version < saved.parse::<Version>().unwrap();
            let wanted = Restore {
                snapshot: made.snapshot.clone(),
                data_dir: data_dir.clone(),
                wal_dir: None,
                name: "m0".to_owned(),
                initial_cluster: format!("m0={}", at.peer),
                token: TOKEN.to_owned(),
                peer_urls: at.peer.clone(),
                skip_hash_check: false,
                bump: None,
                to_revision: None,
                for_version: older.then_some(started_version),
            };
            restore(&wanted, &Progress::new()).unwrap();
            let start = Start {
                addresses: Some(at),
                flags: vec![format!("--initial-cluster-token={TOKEN}")],
                ..Start::new(started, &data_dir)
            };
            let server = start.serve();
            let client = server.client();
            let said = Said::by(&client);
            assert_eq!(said.revision, made.said.revision, "{saved} on {started}");
            let last = |said: &Said| said.hashes.last().map(|hash| hash.hash);
            assert_eq!(last(&said), last(&made.said), "{saved} on {started}");
            goes_on(&client);
            server.kill();
        }
    }
}

/// Our numbers are those of etcd and of its own tool.
fn is_read(made: &Made) {
    let what = format!("etcd {}, {}", made.version, made.workload);
    let source = Source::open(&made.snapshot).unwrap();
    let verdict = verify(&source, &Progress::new()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(verdict.digest.is_some(), "{what}: a snapshot has a hash");
    assert_eq!(source.current_revision(), made.said.revision, "{what}");
    for said in &made.said.hashes {
        // 3.4 says 0 where others say -1, and both mean that nothing was compacted.
        let compacted = Some(said.compact_revision).filter(|revision| *revision > 0);
        let ours = hash_kv(&source, said.revision, compacted, &Progress::new()).unwrap();
        assert_eq!(ours.hash, said.hash, "{what}: HashKV at {}", said.revision);
    }
    assert_eq!(
        verdict.hash_kv.hash,
        made.said.hashes.last().unwrap().hash,
        "{what}"
    );
    let ours = status(&source, &Progress::new()).unwrap();
    assert_eq!(ours.hash, verdict.hash, "{what}");
    assert_eq!(ours.keys, verdict.keys, "{what}");
    let theirs = snapshot_status(&made.snapshot);
    assert_eq!(theirs["hash"], ours.hash, "{what}: {theirs}");
    assert_eq!(
        theirs["revision"],
        if ours.revision == 1 { 0 } else { ours.revision },
        "{what}: {theirs}"
    );
    assert_eq!(theirs["totalKey"], ours.keys, "{what}: {theirs}");
    assert_eq!(theirs["totalSize"], ours.size, "{what}: {theirs}");
    assert_eq!(theirs["version"], *ours.version, "{what}: {theirs}");
    let member =
        verify_member(&made.data_dir, &Progress::new()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let own = &made.said.members[0];
    assert_eq!(member.log.member_id, Some(own.id), "{what}");
    assert_eq!(member.database.hash_kv.hash, verdict.hash_kv.hash, "{what}");
}

/// What etcdutl 3.6 says of a snapshot.
fn snapshot_status(snapshot: &Path) -> serde_json::Value {
    let output = Command::new(binary(&newest("3.6"), "etcdutl"))
        .args(["snapshot", "status", "-w", "json"])
        .arg(snapshot)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn restored(made: &Made, name: &str, dir: &str, addresses: &[(String, Addresses)]) -> PathBuf {
    let data_dir = made.root().join(dir);
    let all: Vec<String> = addresses
        .iter()
        .map(|(name, at)| format!("{name}={}", at.peer))
        .collect();
    let (_, own) = addresses.iter().find(|(n, _)| n == name).unwrap();
    let wanted = Restore {
        snapshot: made.snapshot.clone(),
        data_dir: data_dir.clone(),
        wal_dir: None,
        name: name.to_owned(),
        initial_cluster: all.join(","),
        token: TOKEN.to_owned(),
        peer_urls: own.peer.clone(),
        skip_hash_check: false,
        bump: None,
        to_revision: None,
        for_version: None,
    };
    let done = restore(&wanted, &Progress::new()).unwrap();
    assert_eq!(done.revision, made.said.revision);
    verify_member(&data_dir, &Progress::new()).unwrap();
    data_dir
}

/// One member, or each of three; etcd of the snapshot's version starts and says the same. The gate restores three of one
/// workload, the soak of all but the largest.
fn is_restored(made: &Made) {
    let three = match made.workload {
        Workload::Small(_) | Workload::Large => false,
        workload => full() || workload == Workload::Txns,
    };
    let sizes: &[usize] = if three { &[1, 3] } else { &[1] };
    for size in sizes {
        let _slot = (*size >= 3).then(ClusterSlot::acquire);
        let members: Vec<(String, Addresses)> =
            (0..*size).map(|n| (format!("r{n}"), Addresses::free())).collect();
        let cluster: Vec<String> = members.iter().map(|(n, at)| format!("{n}={}", at.peer)).collect();
        let starts: Vec<Start> = members
            .iter()
            .map(|(name, at)| Start {
                name: name.clone(),
                addresses: Some(at.clone()),
                initial_cluster: Some(cluster.join(",")),
                flags: vec![format!("--initial-cluster-token={TOKEN}")],
                ..Start::new(
                    &made.version,
                    &restored(made, name, &format!("{name}-of-{size}"), &members),
                )
            })
            .collect();
        let mut servers: Vec<_> = starts.iter().map(Start::spawn).collect();
        for server in &mut servers {
            server.await_serving();
        }
        for server in &servers {
            let said = Said::by(&log_in(server.client(), made));
            assert_eq!(said.revision, made.said.revision);
            assert_eq!(
                said.hashes, made.said.hashes,
                "etcd {}, {}",
                made.version, made.workload
            );
            let mut names: Vec<_> = said.members.iter().map(|m| m.name.clone()).collect();
            names.sort();
            assert_eq!(names, members.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>());
        }
        goes_on(&log_in(servers[0].client(), made));
        for server in servers {
            server.kill();
        }
    }
}

/// A stopped member, and its snapshot, packed; etcd starts on the member and says the same, as the same member.
fn is_defragmented(made: &Made) {
    let before = Source::open(&made.snapshot).unwrap().bolt().size();
    let packed = defrag(&made.snapshot, &Progress::new()).unwrap();
    assert!(packed.after <= before + 4 * 4096 + 32, "{packed:?}");
    let verdict = verify(&Source::open(&made.snapshot).unwrap(), &Progress::new()).unwrap();
    assert!(verdict.digest.is_some());
    assert_eq!(verdict.hash_kv.hash, made.said.hashes.last().unwrap().hash);
    defrag(&made.data_dir, &Progress::new()).unwrap();
    verify_member(&made.data_dir, &Progress::new()).unwrap();
    let mut status = Command::new(binary(&newest("3.7"), "etcdutl"));
    let status = status
        .args(["snapshot", "status"])
        .arg(db_path(&made.data_dir))
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let server = Start::new(&made.version, &made.data_dir).serve();
    let client = log_in(server.client(), made);
    let said = Said::by(&client);
    assert_eq!(
        said.hashes, made.said.hashes,
        "etcd {}, {}",
        made.version, made.workload
    );
    assert_eq!(said.members[0].id, made.said.members[0].id);
    goes_on(&client);
    server.kill();
}

fn log_in(mut client: quorate_testkit::Client, made: &Made) -> quorate_testkit::Client {
    if let Some(user) = &made.user {
        client.log_in(user);
    }
    client
}
