//! Data directories of real etcd, every version in the cache: what is seen in them is what etcd said.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use quorate_datadir::{
    Attempt, Db, DbLock, Error, Identity, Look, Replay, db_path, look, move_aside, replay,
};

use etcd::{Etcd, binaries, copy_dir, with_byte};

#[path = "real/etcd.rs"]
mod etcd;

fn data(dir: &Path) -> Identity {
    match look(dir).unwrap() {
        Look::Data(identity) => identity,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_version() {
    for (version, binary) in binaries() {
        eprintln!("etcd {version}");
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        let mut etcd = Etcd::start(&binary, root.path(), &[]);
        let (member_id, cluster_id, cluster_version) = etcd.says();

        // While it runs: it has the lock, and its directory cannot be moved.
        let Attempt::Busy { holder } = DbLock::try_hold(&dir).unwrap() else {
            panic!("{version}: not busy")
        };
        assert_eq!(holder, Some(etcd.child.id()), "{version}");
        let error = move_aside(&dir, &root.path().join("aside")).unwrap_err();
        assert!(
            matches!(error, Error::InUse { holder: Some(pid), .. } if pid == etcd.child.id()),
            "{error}"
        );
        let seen = data(&dir);
        assert_eq!(
            (seen.member_id, seen.cluster_id),
            (member_id, cluster_id),
            "{version}"
        );

        // 3.6 and newer write the storage version a little after the cluster's is decided.
        let minor: u64 = version.split('.').nth(1).unwrap().parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let seen = loop {
            let seen = data(&dir);
            if seen.cluster_version.is_some() && (minor < 6 || seen.storage_version.is_some()) {
                break seen;
            }
            assert!(Instant::now() < deadline, "{version}: {seen:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(
            seen.cluster_version.unwrap().to_string(),
            cluster_version,
            "{version}"
        );
        let storage = seen.storage_version.map(|storage| storage.to_string());
        assert_eq!(storage, (minor >= 6).then(|| format!("3.{minor}.0")), "{version}");

        etcd.kill();
        let seen = data(&dir);
        assert_eq!(
            (seen.member_id, seen.cluster_id),
            (member_id, cluster_id),
            "{version}"
        );
        assert_eq!(
            (seen.wal_segments, seen.first_segment.sequence),
            (1, 0),
            "{version}"
        );
        assert!(
            matches!(
                seen.db,
                Db::Present {
                    one_meta_damaged: false,
                    ..
                }
            ),
            "{version}: {:?}",
            seen.db
        );

        damage_is_seen(&version, &dir, (member_id, cluster_id));

        let Attempt::Held(lock) = DbLock::try_hold(&dir).unwrap() else {
            panic!("{version}: not released")
        };
        drop(lock);
        let aside = root.path().join("aside");
        move_aside(&dir, &aside).unwrap();
        assert_eq!(look(&dir).unwrap(), Look::Empty);
        assert_eq!(data(&aside).member_id, member_id);
        fs::remove_file(db_path(&aside)).unwrap();
        assert_eq!(data(&aside).db, Db::Missing, "{version}");
    }
}

/// etcd killed between making its log and its first write. Every version leaves a log that is told from any other.
#[test]
fn a_log_that_nothing_was_written_to_is_told_apart() {
    for (version, binary) in binaries() {
        let seen = (0..50)
            .map(|_| killed_at_birth(&binary))
            .find(|look| *look != Look::Empty);
        let Some(Look::Unborn {
            member_id,
            cluster_id,
        }) = seen
        else {
            panic!("{version}: {seen:?}");
        };
        assert!(member_id != 0 && cluster_id != 0, "{version}");
    }
}

/// What a first start leaves that is killed as soon as its log is there; empty if it was caught before or after that.
fn killed_at_birth(binary: &Path) -> Look {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let wal = dir.join("member/wal");
    let mut etcd = Etcd::spawn(binary, root.path(), &[]);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !wal.exists() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    etcd.kill();
    match look(&dir).unwrap() {
        unborn @ Look::Unborn { .. } => unborn,
        _ => Look::Empty,
    }
}

/// Cuts and flips the heads of the log and the database, one at a time; puts everything back.
fn damage_is_seen(version: &str, dir: &Path, ids: (u64, u64)) {
    let wal_dir = dir.join("member/wal");
    let first = wal_dir.join(data(dir).first_segment.to_string());
    let mut head = vec![0; 512];
    File::open(&first).unwrap().read_exact(&mut head).unwrap();
    // The crc and metadata records take less than this.
    for bit in 0..64 * 8 {
        with_byte(
            &first,
            bit / 8,
            |byte| byte ^ (1 << (bit % 8)),
            || match look(dir).unwrap() {
                Look::Data(seen) => assert_eq!((seen.member_id, seen.cluster_id), ids, "{version} bit {bit}"),
                Look::Damaged { path, .. } => assert_eq!(path, first),
                other => panic!("{version} bit {bit}: {other:?}"),
            },
        );
    }
    let whole = wal_dir.join("whole");
    fs::rename(&first, &whole).unwrap();
    for length in 0..48 {
        fs::write(&first, &head[..length]).unwrap();
        assert!(
            matches!(look(dir).unwrap(), Look::Damaged { .. }),
            "{version} length {length}"
        );
    }
    fs::rename(&whole, &first).unwrap();

    let db = db_path(dir);
    let Db::Present { page_size, .. } = data(dir).db else {
        panic!("{version}")
    };
    let second_meta = usize::try_from(page_size).unwrap();
    for offset in (16..80).chain(second_meta + 16..second_meta + 80) {
        with_byte(
            &db,
            offset,
            |byte| !byte,
            || {
                let seen = data(dir).db;
                assert!(
                    matches!(
                        seen,
                        Db::Present {
                            one_meta_damaged: true,
                            ..
                        }
                    ),
                    "{version} at {offset}: {seen:?}"
                );
            },
        );
    }
    with_byte(
        &db,
        20,
        |byte| !byte,
        || {
            with_byte(
                &db,
                second_meta + 20,
                |byte| !byte,
                || {
                    assert!(
                        matches!(look(dir).unwrap(), Look::Damaged { path, .. } if path == db),
                        "{version}"
                    );
                },
            );
        },
    );
    // Anything beyond the metas may be garbage: versions may then be unknown, and nothing panics.
    let length = fs::metadata(&db).unwrap().len().min(256 * 1024);
    for offset in (2 * second_meta..usize::try_from(length).unwrap()).step_by(61) {
        with_byte(
            &db,
            offset,
            |byte| byte ^ 0x81,
            || assert_eq!(data(dir).member_id, ids.0),
        );
    }
    assert_eq!((data(dir).member_id, data(dir).cluster_id), ids, "{version}");
}

/// A member upgraded from an older minor cannot be started as the next one while its log still holds requests that one
/// cannot replay; a raft snapshot puts them behind it. What is foretold is what etcd then does.
#[test]
fn what_a_newer_etcd_cannot_replay_is_foretold() {
    let all = binaries();
    let newest = |minor: &str| {
        let (_, path) = all
            .iter()
            .rfind(|(version, _)| version.starts_with(minor))
            .unwrap();
        path.clone()
    };
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let run = |minor: &str, extra: &[&str]| Etcd::start(&newest(minor), root.path(), extra).kill();
    let refuses = |minor: &str| {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(&dir, &copy.path().join("data"));
        let ended = Etcd::spawn(&newest(minor), copy.path(), &[])
            .child
            .wait()
            .unwrap();
        assert!(
            !ended.success(),
            "etcd {minor} replays what it was thought not to"
        );
    };
    // 3.4 writes a request for every look at /health, which is how readiness is awaited here.
    run("3.4.", &[]);
    run("3.5.", &[]);
    assert_eq!(replay(&dir).unwrap(), Replay::UpTo35);
    refuses("3.6.");
    run("3.5.", &["--snapshot-count=1"]);
    assert!(replay(&dir).unwrap() >= Replay::UpTo36);
    run("3.6.", &[]);
    run("3.6.", &["--snapshot-count=1"]);
    assert_eq!(replay(&dir).unwrap(), Replay::Free);
    run("3.7.", &[]);

    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let run = |minor: &str, extra: &[&str]| Etcd::start(&newest(minor), root.path(), extra).kill();
    run("3.5.", &[]);
    run("3.6.", &[]);
    assert_eq!(replay(&dir).unwrap(), Replay::UpTo36);
    run("3.6.", &["--snapshot-count=1"]);
    assert_eq!(replay(&dir).unwrap(), Replay::Free);
    run("3.7.", &[]);
    assert_eq!(replay(&dir).unwrap(), Replay::Free);
}
