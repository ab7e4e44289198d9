//! Data directories of real etcd, every version in the cache: what is seen in them is what etcd said.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use quorate_datadir::{
    Attempt, Db, DbLock, Error, Identity, Look, Replay, db_path, look, move_aside, replay,
};
use quorate_testkit::birth::cut_to_birth;
use quorate_testkit::{await_that, minor, newest, versions};

use real::{PATIENCE, copy_dir, member, status, with_byte};

#[path = "real/member.rs"]
mod real;

fn data(dir: &Path) -> Identity {
    match look(dir).unwrap() {
        Look::Data(identity) => identity,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_version() {
    for version in versions() {
        eprintln!("etcd {version}");
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        let etcd = member(&version, root.path()).serve();
        let said = status(&etcd.client()).header.unwrap();
        let (member_id, cluster_id) = (said.member_id, said.cluster_id);

        // While it runs: it has the lock, and its directory cannot be moved.
        let Attempt::Busy { holder } = DbLock::try_hold(&dir).unwrap() else {
            panic!("{version}: not busy")
        };
        assert_eq!(holder, Some(etcd.pid()), "{version}");
        let error = move_aside(&dir, &root.path().join("aside")).unwrap_err();
        assert!(
            matches!(error, Error::InUse { holder: Some(pid), .. } if pid == etcd.pid()),
            "{error}"
        );
        let seen = data(&dir);
        assert_eq!(
            (seen.member_id, seen.cluster_id),
            (member_id, cluster_id),
            "{version}"
        );

        // 3.6 and newer write the storage version a little after the cluster's is decided.
        let minor = minor(&version);
        let seen = await_that(
            "the versions of cluster and storage are written",
            PATIENCE,
            || {
                let seen = data(&dir);
                let has_both =
                    seen.cluster_version.is_some() && (minor < 6 || seen.storage_version.is_some());
                if has_both {
                    Ok(seen)
                } else {
                    Err(format!("{seen:?}"))
                }
            },
        );
        let said = etcd.get("/version").unwrap();
        let (_, after) = said.split_once("\"etcdcluster\":\"").unwrap();
        assert_eq!(
            Some(seen.cluster_version.unwrap().to_string().as_str()),
            after.split('"').next(),
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
    for version in versions() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        let wal = dir.join("member/wal");
        let etcd = member(&version, root.path()).spawn();
        await_that("etcd makes its log", PATIENCE, || wal.exists().then_some(()));
        etcd.kill();
        cut_to_birth(&dir);
        let seen = look(&dir).unwrap();
        let Look::Unborn {
            member_id,
            cluster_id,
        } = seen
        else {
            panic!("{version}: {seen:?}");
        };
        assert!(member_id != 0 && cluster_id != 0, "{version}");
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
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let run = |minor: &str, flags: &[&str]| run_and_kill(root.path(), minor, flags);
    let refuses = |minor: &str| {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(&dir, &copy.path().join("data"));
        let ended = member(&newest(minor), copy.path()).spawn().await_end();
        assert!(
            !ended.success(),
            "etcd {minor} replays what it was thought not to"
        );
    };
    // 3.4 writes a request for every look at /health.
    run("3.4", &[]);
    run("3.5", &[]);
    assert_eq!(replay(&dir).unwrap(), Replay::UpTo35);
    refuses("3.6");
    run("3.5", &["--snapshot-count=1"]);
    assert!(replay(&dir).unwrap() >= Replay::UpTo36);
    run("3.6", &[]);
    run("3.6", &["--snapshot-count=1"]);
    assert_eq!(replay(&dir).unwrap(), Replay::Free);
    run("3.7", &[]);

    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let run = |minor: &str, flags: &[&str]| run_and_kill(root.path(), minor, flags);
    run("3.5", &[]);
    run("3.6", &[]);
    assert_eq!(replay(&dir).unwrap(), Replay::UpTo36);
    run("3.6", &["--snapshot-count=1"]);
    assert_eq!(replay(&dir).unwrap(), Replay::Free);
    run("3.7", &[]);
    assert_eq!(replay(&dir).unwrap(), Replay::Free);
}

/// Starts the newest etcd of a minor, looks at its health, and kills it.
fn run_and_kill(root: &Path, minor: &str, flags: &[&str]) {
    let mut start = member(&newest(minor), root);
    start.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let etcd = start.serve();
    await_that("etcd is healthy", PATIENCE, || {
        etcd.get("/health")
            .is_ok_and(|answer| answer.contains("\"true\""))
    });
    etcd.kill();
}
