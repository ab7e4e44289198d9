//! A snapshot made of a dead member's directory on a disk whose power goes, which fails at any operation, or which fills
//! up: the older file or the new one, whole; and the directory as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use quorate_datadir::{Progress, Restore, Revival, Revive, Source, restore, revive, verify};
use quorate_testkit::disk::{Disk, every_cut, every_failure};

/// A member that was restored and never ran, and an older snapshot beside it.
fn start() -> Disk {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/bolt");
    let mut found: Vec<_> = fs::read_dir(corpus)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.retain(|path| Source::open(path).is_ok_and(|source| verify(&source, &Progress::new()).is_ok()));
    found.sort();
    let root = tempfile::tempdir().unwrap();
    let wanted = Restore {
        snapshot: found[0].clone(),
        data_dir: root.path().join("data"),
        wal_dir: None,
        name: "m0".to_owned(),
        initial_cluster: "m0=http://127.0.0.1:2380".to_owned(),
        token: "t".to_owned(),
        peer_urls: "http://127.0.0.1:2380".to_owned(),
        skip_hash_check: true,
        bump: None,
        to_revision: None,
        for_version: None,
    };
    restore(&wanted, &Progress::new()).unwrap();
    fs::write(root.path().join("made.db"), "an older one").unwrap();
    Disk::of(root.path()).unwrap()
}

fn make(path: &Path) -> Result<Revival, quorate_datadir::Error> {
    let wanted = Revive {
        data_dir: &path.join("data"),
        wal_dir: None,
        file: &path.join("made.db"),
    };
    revive(&wanted, &Progress::new())
}

/// The file is the older one, or the new one and whole. Out: which.
fn is_new(path: &Path) -> bool {
    let file = path.join("made.db");
    if fs::read(&file).unwrap() == b"an older one" {
        return false;
    }
    let source = Source::open(&file).unwrap();
    assert!(verify(&source, &Progress::new()).unwrap().digest.is_some());
    true
}

fn listing(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(listing(&path));
        } else {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn the_older_snapshot_or_the_new_one() {
    let start = start();
    let copy = tempfile::tempdir().unwrap();
    start.copy_to(copy.path()).unwrap();
    let before = listing(&copy.path().join("data"));
    assert!(before.len() >= 3, "{:?}", before.keys());
    let act = |path: &Path| {
        assert!(matches!(make(path).unwrap(), Revival::Whole(_)));
    };
    let tally = every_cut(&start, 8, act, |cut, path| {
        assert!(is_new(path) || !cut.is_after_the_end());
        assert!(
            listing(&path.join("data")) == before,
            "the directory is as it was"
        );
    });
    println!("{tally:?}");
}

#[test]
fn a_disk_that_fails_is_told_of() {
    let tally = every_failure(&start(), make, |failed, result, path| {
        assert!(failed.is_some() || result.is_ok(), "{result:?}");
        // The new name may be there and its directory not synced: that is an error, too.
        assert!(is_new(path) || result.is_err(), "{result:?}");
    });
    println!("{tally:?}");
}
