//! Members of real etcd, killed at a random moment: what is made of their directories is what real etcd makes of them.
//!
//! Goal: HashKV at every revision tried, every row above the compaction, and all rows of leases, users, members and
//! the cluster are equal. Method: a random workload, `kill -9`, then etcd of the same version starts on one copy of the
//! directory and replays its log, while the other is made into a snapshot here. `QUORATE_DEAD_MEMBERS` says how many
//! (12 if nothing is said), `QUORATE_SEED` which; a failure prints its seed.

mod etcd;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use etcd::{Etcd, Flags};
use quorate_datadir::{Progress, Revival, Revive, Revived, RowKey, Source, hash_kv, revive};

/// Buckets whose rows must be equal.
const SMALL: [&str; 7] = [
    "auth",
    "authRoles",
    "authUsers",
    "cluster",
    "lease",
    "members",
    "members_removed",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

#[test]
fn what_is_made_of_a_dead_member_is_what_etcd_makes_of_it() {
    let binaries: Vec<_> = etcd::binaries()
        .into_iter()
        .filter(|(version, _)| version != "3.5.16")
        .collect();
    let count = number("QUORATE_DEAD_MEMBERS").unwrap_or(12);
    let first = number("QUORATE_SEED").unwrap_or(1);
    let (mut entries, mut whole) = (0, 0);
    for seed in first..first + count {
        let (version, binary) = &binaries[seed as usize % binaries.len()];
        let said = std::panic::catch_unwind(|| one(version, binary, seed));
        let said =
            said.unwrap_or_else(|_| panic!("QUORATE_SEED={seed} QUORATE_DEAD_MEMBERS=1, etcd {version}"));
        println!("{seed:>4} {version:<7} {}", said.line);
        entries += said.entries;
        whole += u64::from(said.whole);
    }
    println!("{count} dead members, {whole} of them made natively, {entries} entries replayed");
    assert!(whole * 3 >= count, "most of these need no real etcd");
}

struct Said {
    line: String,
    entries: u64,
    whole: bool,
}

fn one(version: &str, binary: &Path, seed: u64) -> Said {
    let mut random = fastrand::Rng::with_seed(seed);
    let root = tempfile::Builder::new()
        .disable_cleanup(std::env::var_os("QUORATE_KEEP").is_some())
        .tempdir()
        .unwrap();
    let flags = Flags {
        long_batches: random.u8(..4) > 0,
        ..Flags::default()
    };
    let mut etcd = Etcd::start(binary, &root.path().join("dead"), flags);
    // Most members have run before, and their database holds what they were then.
    let fresh = random.u8(..4) == 0;
    if !fresh {
        let operations = random.u32(1..200);
        workload::run(&etcd, &mut random, operations);
        etcd.stop();
        etcd = etcd.again(&root.path().join("dead"));
    }
    let operations = random.u32(1..400);
    workload::run_and_kill(&mut etcd, &mut random, operations);

    let dead = root.path().join("dead/data");
    let before = listing(&dead);
    let snapshot = root.path().join("made.db");
    let plan = Revive {
        data_dir: &dead,
        wal_dir: None,
        file: &snapshot,
    };
    let revival = revive(&plan, &Progress::new()).unwrap();
    assert_eq!(listing(&dead), before, "the directory is as it was");
    let kind = if fresh { "first run" } else { "ran before" };
    let revived = match revival {
        Revival::Whole(revived) => revived,
        Revival::Stopped(stopped) => {
            assert!(!snapshot.exists());
            // A member's first publication of its attributes, in the one minor whose releases differ in it.
            assert!(
                version.starts_with("3.5.") || version.starts_with("3.4."),
                "{}",
                stopped.stop
            );
            assert_eq!(stopped.stop.kind, "member attributes", "{}", stopped.stop);
            return Said {
                line: format!(
                    "{kind}, stopped at {}; {} remain: {}",
                    stopped.stop,
                    stopped.remaining.total(),
                    stopped.remaining
                ),
                entries: 0,
                whole: false,
            };
        }
    };
    let real = root.path().join("real");
    fs::create_dir(&real).unwrap();
    copy(&dead, &real.join("data"));
    let etcd = etcd.again(&real);
    compare(
        &etcd,
        &snapshot,
        &root.path().join("real.db"),
        &revived,
        &mut random,
    );
    let line = format!(
        "{kind}, revision {}, {} entries: {}",
        revived.revision,
        revived.applied.total(),
        revived.applied
    );
    Said {
        line,
        entries: revived.applied.total(),
        whole: true,
    }
}

/// Holds our snapshot against the etcd that replayed the log itself.
fn compare(etcd: &Etcd, ours: &Path, theirs: &Path, revived: &Revived, random: &mut fastrand::Rng) {
    let progress = Progress::new();
    let made = Source::open(ours).unwrap();
    assert!(made.bolt().has_digest());
    quorate_datadir::verify(&made, &progress).unwrap();
    let (revision, compacted) = etcd.revisions();
    assert_eq!(revived.revision, revision);
    assert_eq!(made.current_revision(), revision);
    // A compaction at revision 0 compacts nothing, and etcd forgets it at a restart.
    assert_eq!(made.compact_revision().unwrap_or(-1).max(0), compacted.max(0));
    let oldest = compacted.max(1) + 1;
    let mut revisions = vec![revision];
    revisions.extend((oldest < revision).then(|| oldest));
    revisions.extend(
        (0..4)
            .filter(|_| oldest < revision)
            .map(|_| random.i64(oldest..revision)),
    );
    for at in revisions.into_iter().filter(|at| *at > compacted) {
        let hash = hash_kv(&made, at, None, &progress).unwrap();
        let found = (hash.hash, hash.compact_revision.max(0));
        assert_eq!(found, etcd.hash_kv(at), "HashKV at {at} of {revision}");
    }
    etcd.save(theirs);
    let real = Source::open(theirs).unwrap();
    for bucket in SMALL {
        assert_eq!(rows(&made, bucket), rows(&real, bucket), "rows of {bucket}");
    }
    assert_eq!(
        history(&made, compacted),
        history(&real, compacted),
        "rows of key"
    );
}

fn rows(source: &Source, bucket: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Some(mut rows) = source.bolt().bucket(bucket.as_bytes()).unwrap() else {
        return found;
    };
    while let Some((key, value)) = rows.next().unwrap() {
        found.insert(key.escape_ascii().to_string(), value.escape_ascii().to_string());
    }
    found
}

fn history(source: &Source, above: i64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut rows = source.history().unwrap();
    while let Some((key, value)) = rows.next().unwrap() {
        if RowKey::read(key).unwrap().revision.main > above {
            found.push((key.to_owned(), value.to_owned()));
        }
    }
    found
}

/// Every file and what it holds.
fn listing(dir: &Path) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(listing(&path));
        } else {
            let name = path.display().to_string();
            found.insert(name, crc32c::crc32c(&fs::read(&path).unwrap()));
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp")
        .args(["-a", "--reflink=auto"])
        .args([from, to])
        .status();
    assert!(status.unwrap().success());
}
