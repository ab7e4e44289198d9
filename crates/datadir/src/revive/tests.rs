//! Directories made here, with requests in their logs that no etcd ever saw.

use prost::Message;
use quorate_wire::etcdserverpb::{AuthEnableRequest, InternalRaftRequest, LeaseGrantRequest, PutRequest};

use super::*;
use crate::bolt::BoltWriter;
use crate::restore::{Restore, restore};
use crate::wal::Extension;
use crate::{hash_kv, verify};

fn put(key: &str, value: &str, lease: i64) -> InternalRaftRequest {
    InternalRaftRequest {
        put: Some(PutRequest {
            key: key.into(),
            value: value.into(),
            lease,
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A member of a cluster of its own, whose store holds one key, and whose log these requests behind that.
fn dead_member(root: &Path, requests: &[InternalRaftRequest]) -> PathBuf {
    let snapshot = root.join("before.db");
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&snapshot);
    let mut writer = BoltWriter::new(file.unwrap(), &snapshot, 4096).unwrap();
    writer.begin(bucket::KEY).unwrap();
    let first = KeyValue {
        key: b"first",
        create_revision: 2,
        mod_revision: 2,
        version: 1,
        value: b"1",
        lease: 0,
    };
    writer
        .put(
            &[0, 0, 0, 0, 0, 0, 0, 2, b'_', 0, 0, 0, 0, 0, 0, 0, 0],
            &first.bytes(),
        )
        .unwrap();
    writer.begin(b"meta").unwrap();
    writer.put(b"storageVersion", b"3.6.0").unwrap();
    writer.finish().unwrap();
    let data_dir = root.join("data");
    let wanted = Restore {
        snapshot,
        data_dir: data_dir.clone(),
        wal_dir: None,
        name: "m".into(),
        initial_cluster: "m=http://127.0.0.1:1".into(),
        token: "token".into(),
        peer_urls: "http://127.0.0.1:1".into(),
        skip_hash_check: true,
        bump: None,
        to_revision: None,
        for_version: None,
    };
    restore(&wanted, &Progress::new()).unwrap();
    let mut log = Extension::begin(&data_dir.join("member/wal")).unwrap();
    for request in requests {
        log.add(&request.encode_to_vec()).unwrap();
    }
    log.end().unwrap();
    data_dir
}

fn run(data_dir: &Path, file: &Path) -> Result<Revival, Error> {
    let wanted = Revive {
        data_dir,
        wal_dir: None,
        file,
    };
    revive(&wanted, &Progress::new())
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn the_tail_is_in_the_snapshot() {
    let root = tempfile::tempdir().unwrap();
    let grant = InternalRaftRequest {
        lease_grant: Some(LeaseGrantRequest { id: 7, ttl: 60 }),
        ..Default::default()
    };
    let requests = [
        grant,
        put("first", "2", 7),
        put("second", "x", 8),
        put("third", &"y".repeat(9000), 0),
    ];
    let data_dir = dead_member(root.path(), &requests);
    let file = root.path().join("made.db");
    let Revival::Whole(revived) = run(&data_dir, &file).unwrap() else {
        panic!("stopped")
    };
    assert_eq!(
        (revived.revision, revived.index, revived.beyond_commit),
        (4, 5, 0)
    );
    assert_eq!(revived.applied.to_string(), "1 lease grant, 3 put");
    assert_eq!(revived.bytes, file.metadata().unwrap().len());
    let source = Source::open(&file).unwrap();
    let verdict = verify(&source, &Progress::new()).unwrap();
    assert_eq!((verdict.keys, verdict.versions), (2, 3));
    assert!(verdict.digest.is_some());
    assert_eq!(hash_kv(&source, 0, None, &Progress::new()).unwrap().revision, 4);
    assert_eq!(source.numbers().consistent_index, Some(5));
    assert_eq!(source.numbers().term, Some(1));
    let lease = source.bolt().value(b"lease", &7u64.to_be_bytes()).unwrap();
    assert_eq!(lease.unwrap(), [8, 7, 16, 60]);
    // Made again it is the same, and takes the place of the first.
    let before = fs::read(&file).unwrap();
    run(&data_dir, &file).unwrap();
    assert!(fs::read(&file).unwrap() == before);
    assert_eq!(names(root.path()), ["before.db", "data", "made.db"]);
}

#[test]
fn where_it_stops_there_is_no_file() {
    let root = tempfile::tempdir().unwrap();
    let enable = InternalRaftRequest {
        auth_enable: Some(AuthEnableRequest {}),
        ..Default::default()
    };
    // Told before anything is written, and while it is.
    let lost = PutRequest {
        ignore_lease: true,
        ..put("first", "", 0).put.unwrap()
    };
    let revoked = |id| InternalRaftRequest {
        lease_revoke: Some(quorate_wire::etcdserverpb::LeaseRevokeRequest { id }),
        ..Default::default()
    };
    let negative = InternalRaftRequest {
        put: Some(lost),
        ..revoked(0)
    };
    for (number, odd) in [enable, negative, revoked(-1)].into_iter().enumerate() {
        let at = root.path().join(number.to_string());
        fs::create_dir(&at).unwrap();
        let data_dir = dead_member(&at, &[put("a", "", 0), odd, put("b", "", 0)]);
        let Revival::Stopped(stopped) = run(&data_dir, &at.join("made.db")).unwrap() else {
            panic!("not stopped")
        };
        assert_eq!((stopped.stop.index, stopped.last_index, stopped.minor), (3, 4, 6));
        assert_eq!(stopped.applied.to_string(), "1 put");
        assert_eq!(stopped.remaining.total(), 2);
        assert_eq!(names(&at), ["before.db", "data"]);
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let root = tempfile::tempdir().unwrap();
    let data_dir = dead_member(root.path(), &[put("a", "", 0)]);
    let said = |data_dir: &Path, file: &Path| run(data_dir, file).unwrap_err().to_string();
    let file = root.path().join("made.db");
    assert!(said(&data_dir, &data_dir.join("made.db")).contains("lies in the directory"));
    assert!(said(&data_dir, &data_dir.join("member/snap/db")).contains("lies in the directory"));
    assert!(said(root.path(), &root.path().join("../made.db")).contains("has no database"));
    let lock = hold(&data_dir).unwrap();
    assert!(said(&data_dir, &file).contains("in use"));
    drop(lock);
    // A log that begins after the database ends.
    let wal = data_dir.join("member/wal");
    let first = fs::read_dir(&wal)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .min()
        .unwrap();
    let held = fs::read(&first).unwrap();
    fs::write(&first, &held[..held.len() - 40]).unwrap();
    assert!(said(&data_dir, &file).contains("damaged"));
    fs::write(&first, &held).unwrap();
    let cancelled = Progress::new();
    cancelled.cancel();
    let wanted = Revive {
        data_dir: &data_dir,
        wal_dir: None,
        file: &file,
    };
    assert!(matches!(revive(&wanted, &cancelled), Err(Error::Cancelled)));
    assert_eq!(names(root.path()), ["before.db", "data"]);
    run(&data_dir, &file).unwrap();
}

#[test]
fn a_copy_for_etcd_holds_the_requests_and_no_other_member() {
    let root = tempfile::tempdir().unwrap();
    let enable = InternalRaftRequest {
        auth_enable: Some(AuthEnableRequest {}),
        ..Default::default()
    };
    let data_dir = dead_member(root.path(), &[put("a", "", 0), enable, put("b", "", 0)]);
    let work = root.path().join("work");
    fs::create_dir(&work).unwrap();
    let file = root.path().join("made.db");
    let wanted = Revive {
        data_dir: &data_dir,
        wal_dir: None,
        file: &file,
    };
    let version = semver::Version::new(3, 6, 16);
    let staged = stage(&wanted, &work, &version, "http://127.0.0.1:9", &Progress::new()).unwrap();
    assert_eq!(staged.left_out().total(), 0);
    assert_eq!(names(&work), ["data"]);
    let log = Log::read(&staged.data_dir().join("member/wal")).unwrap();
    assert_eq!(
        (log.first_index(), log.last_index(), log.state().commit),
        (Some(1), 4, 4)
    );
    let member = log.metadata().unwrap().member_id;
    let (source, index) = opened(&crate::examine::look::db_path(staged.data_dir())).unwrap();
    assert_eq!(index, 1);
    let mut rows = source.bolt().bucket(bucket::MEMBERS).unwrap().unwrap();
    let (key, _) = rows.next().unwrap().unwrap();
    assert_eq!(key, format!("{member:x}").as_bytes());
    assert!(rows.next().unwrap().is_none());
    // An etcd that never ran on it has not replayed it.
    let unfinished = staged.finish(&Progress::new()).unwrap_err().to_string();
    assert!(unfinished.contains("entries up to 1 of 4"), "{unfinished}");
    assert!(!file.exists());
}
