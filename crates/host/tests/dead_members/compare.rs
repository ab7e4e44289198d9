//! Our snapshot, held against the etcd that replayed the log itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use quorate_datadir::{Progress, RowKey, Source, hash_kv, verify};
use quorate_host::etcd::revive::RevivedSnapshot;

use super::member::Member;

/// Buckets whose rows must be equal.
const SMALL: [&str; 8] = [
    "alarm",
    "auth",
    "authRoles",
    "authUsers",
    "cluster",
    "lease",
    "members",
    "members_removed",
];

/// All of it, after `etcd` replayed the log.
pub fn compare(
    etcd: &Member,
    ours: &Path,
    theirs: &Path,
    made: &RevivedSnapshot,
    random: &mut fastrand::Rng,
) {
    let snapshot = Source::open(ours).unwrap();
    hashes(etcd, &snapshot, made.revived.revision, random);
    assert_eq!(etcd.revisions().0, made.revived.revision);
    let (_, compacted) = etcd.revisions();
    etcd.save(theirs);
    let real = Source::open(theirs).unwrap();
    assert_eq!(made.left_out.total(), 0, "{}", made.left_out);
    for bucket in SMALL {
        assert_eq!(rows(&snapshot, bucket), rows(&real, bucket), "rows of {bucket}");
    }
    assert!(
        history(&snapshot, compacted) == history(&real, compacted),
        "rows of key"
    );
}

/// HashKV at the last revision, and at some before.
pub fn hashes(etcd: &Member, snapshot: &Source, revision: i64, random: &mut fastrand::Rng) {
    let progress = Progress::new();
    assert!(snapshot.bolt().has_digest());
    verify(snapshot, &progress).unwrap();
    let (_, compacted) = etcd.revisions();
    assert_eq!(snapshot.current_revision(), revision);
    // A compaction at revision 0 compacts nothing, and etcd forgets it at a restart.
    assert_eq!(snapshot.compact_revision().unwrap_or(-1).max(0), compacted.max(0));
    let oldest = compacted.max(1) + 1;
    let mut revisions = vec![revision];
    if oldest < revision {
        revisions.push(oldest);
        revisions.extend((0..4).map(|_| random.i64(oldest..revision)));
    }
    // At the compacted revision itself a member may answer from before the compaction, or not at all.
    for at in revisions.into_iter().filter(|at| *at > compacted) {
        let hash = hash_kv(snapshot, at, None, &progress).unwrap();
        let found = (hash.hash, hash.compact_revision.max(0));
        assert_eq!(found, etcd.hash_kv(at), "HashKV at {at} of {revision}");
    }
}

/// The rows of a small bucket.
pub fn rows(source: &Source, bucket: &str) -> BTreeMap<String, String> {
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
pub fn listing(dir: &Path) -> BTreeMap<String, u32> {
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

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let status = std::process::Command::new("cp")
        .args(["-a", "--reflink=auto"])
        .args([from, to])
        .status();
    assert!(status.unwrap().success());
}
