//! Logs of real etcd, every version in the cache: what is read from them is what etcd reads, what is written is what
//! etcd writes, and what is called damaged is what etcd refuses.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use quorate_datadir::wal::{self, End, EntryKind, Found, Log, Position, Reader, Record};
use quorate_datadir::{Roster, Target, inspect, snap_file};
use quorate_testkit::{binary, in_full, minor, oldest_and_newest, versions};

use real::{Raft, member, status, tool, with_byte};

#[path = "real/member.rs"]
mod real;

const THREE: &str = "m0=http://127.0.0.1:23801,m1=http://127.0.0.1:23811,m2=http://127.0.0.1:23821";
const SEGMENT: &str = "member/wal/0000000000000000-0000000000000000.wal";

fn target(version: &str) -> Target {
    Target::of(&semver::Version::parse(version).unwrap()).unwrap()
}

/// A file up to its last byte that is not zero.
fn used(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}

#[test]
fn restored_members_are_those_of_etcds_own_tool() {
    for version in versions() {
        let root = tempfile::tempdir().unwrap();
        let snapshot = root.path().join("snapshot.db");
        let snapshot = snapshot.to_str().unwrap();
        let etcd = member(&version, root.path()).serve();
        etcd.client().put(b"key", b"value");
        etcd.etcdctl(None, &["snapshot", "save", snapshot]);
        etcd.kill();
        let own = match minor(&version) {
            ..5 => binary(&version, "etcdctl"),
            _ => binary(&version, "etcdutl"),
        };
        for members in [1, 3] {
            let (theirs, ours) = (
                root.path().join(format!("theirs{members}")),
                root.path().join(format!("ours{members}")),
            );
            let cluster: Vec<&str> = THREE.split(',').take(members).collect();
            let (cluster, url) = (cluster.join(","), "http://127.0.0.1:23801");
            let pairs = [
                ("name", "m0"),
                ("initial-cluster", &cluster),
                ("initial-cluster-token", "tok1"),
                ("initial-advertise-peer-urls", url),
                ("data-dir", theirs.to_str().unwrap()),
            ];
            let flags: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("--{name}={value}"))
                .collect();
            let mut arguments = vec!["snapshot", "restore", snapshot];
            arguments.extend(flags.iter().map(String::as_str));
            tool(&own, &arguments);

            let roster = Roster::parse(&cluster, "tok1").unwrap();
            let me = roster.member("m0", url).unwrap().id;
            let target = target(&version);
            wal::write_restored(&ours.join("member/wal"), me, &roster, target).unwrap();
            snap_file::write_restored(&ours.join("member/snap"), &roster, target).unwrap();
            assert_eq!(
                used(&ours.join(SEGMENT)),
                used(&theirs.join(SEGMENT)),
                "{version}, {members} members"
            );
            let snap = format!("member/snap/0000000000000001-{members:016x}.snap");
            let (our_snap, their_snap) = (ours.join(&snap), theirs.join(&snap));
            assert_eq!(
                snap_file::read(&our_snap).unwrap(),
                snap_file::read(&their_snap).unwrap()
            );
            let (mut our_bytes, mut their_bytes) =
                (fs::read(our_snap).unwrap(), fs::read(their_snap).unwrap());
            if members > 1 && target >= Target::V3_6 {
                // Its order of members is another each time, and so is the checksum before it.
                for bytes in [&mut our_bytes, &mut their_bytes] {
                    let start = bytes.windows(7).position(|window| window == b"{\"Root\"");
                    bytes.drain(..start.unwrap());
                    bytes.sort_unstable();
                }
            }
            assert!(our_bytes == their_bytes, "{version}, {members} members: {snap}");
            if target > Target::V3_4 {
                let db = fs::read(theirs.join("member/snap/db")).unwrap();
                for (key, value) in roster.rows() {
                    let row = [key, value].concat();
                    let there = db.windows(row.len()).any(|window| window == row);
                    assert!(there, "{version}: {}", String::from_utf8_lossy(&row));
                }
            }
            let (mut seen, expected) = (inspect(&ours).unwrap(), inspect(&theirs).unwrap());
            seen.snap_files[0].path.clone_from(&expected.snap_files[0].path);
            assert_eq!(seen, expected, "{version}");
        }
        // Their database, our log and snapshot file: it runs, and knows its keys.
        let (theirs, ours) = (root.path().join("theirs1"), root.path().join("ours1"));
        fs::copy(theirs.join("member/snap/db"), ours.join("member/snap/db")).unwrap();
        fs::remove_dir_all(root.path().join("data")).unwrap();
        fs::rename(&ours, root.path().join("data")).unwrap();
        let etcd = member(&version, root.path()).serve();
        assert_eq!(
            etcd.client().get(b"key").as_deref(),
            Some(&b"value"[..]),
            "{version}"
        );
        etcd.kill();
        assert_eq!(
            inspect(&root.path().join("data")).unwrap().end,
            End::Clean,
            "{version}"
        );
    }
}

/// The data directory of an etcd that was killed after some writes.
fn killed(version: &str, root: &Path) -> PathBuf {
    let etcd = member(version, root).serve();
    let client = etcd.client();
    for number in 0..12u32 {
        let value = vec![b'x'; usize::try_from(number * 130).unwrap()];
        client.put(format!("key{number}").as_bytes(), &value);
    }
    let index = status(&client).raft_index;
    etcd.kill();
    let dir = root.join("data");
    let seen = inspect(&dir).unwrap();
    assert_eq!(
        (seen.end.clone(), seen.last_index, seen.segments),
        (End::Clean, index, 1),
        "{version}"
    );
    dir
}

/// What an etcd says of a log of this one segment; none if it does not start.
fn started(version: &str, segment: &[u8]) -> Option<Raft> {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data").join(SEGMENT);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, segment).unwrap();
    let mut etcd = member(version, root.path()).spawn();
    Raft::of(&mut etcd)
}

/// What we say of it.
fn judged(segment: &[u8]) -> (Log, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("0000000000000000-0000000000000000.wal"), segment).unwrap();
    (Log::read(dir.path()).unwrap(), dir)
}

fn positions(dir: &Path) -> Vec<(u64, bool)> {
    let mut reader = Reader::open(&dir.join("member/wal")).unwrap();
    let mut found = Vec::new();
    while let Some(Found { position, record }) = reader.read_next().unwrap() {
        found.push((position.offset, matches!(record, Record::Entry(_))));
    }
    found
}

fn agree(version: &str, what: &str, segment: &[u8]) {
    let (log, _dir) = judged(segment);
    let ours = match log.end() {
        End::Damaged { .. } => None,
        End::Clean | End::Torn { .. } => Some(Raft {
            term: log.state().term,
            commit: log.state().commit,
            last_index: log.last_index(),
            last_term: log.last_term(),
        }),
    };
    let theirs = started(version, segment);
    // Cut within its first three records a log holds nothing. Up to 3.6 etcd goes on from that, knowing of no members.
    let nothing = Some(Raft::default());
    if target(version) < Target::V3_7 && log.metadata().is_some() && theirs == nothing {
        return assert!(
            ours.is_none() || ours == nothing,
            "{version}, {what}: {}",
            log.end()
        );
    }
    assert_eq!(theirs, ours, "{version}, {what}: {}", log.end());
}

/// Without its database, which etcd makes anew from such a log: cut at record borders and within records, left short or filled up with zeros: etcd starts where we say that it does,
/// and has the entries that we say it has.
#[test]
fn a_torn_tail_is_what_etcd_cuts() {
    for version in versions() {
        let root = tempfile::tempdir().unwrap();
        let dir = killed(&version, root.path());
        let whole = used(&dir.join(SEGMENT));
        let records = positions(&dir);
        let mut cuts = vec![0, 7, 16, 20];
        for (number, (offset, _)) in records.iter().enumerate() {
            let offset = usize::try_from(*offset).unwrap();
            // The first records, a few in the middle, the last.
            if number < 5 || number % 9 == 0 || number + 3 > records.len() {
                cuts.extend([offset, offset + 3 + number % 5, offset + 9 + number]);
            }
        }
        cuts.extend([whole.len() - 1, whole.len()]);
        for cut in cuts {
            let cut = cut.min(whole.len());
            let short = &whole[..cut];
            agree(&version, &format!("cut at {cut}"), short);
            let filled = [short, &vec![0; 100_000 - cut % 8]].concat();
            let torn = matches!(judged(&filled).0.end(), End::Torn { .. } | End::Damaged { .. });
            // Most of those are alike.
            if torn && cut % 3 == 0 {
                agree(&version, &format!("zeros from {cut}"), &filled);
            }
        }
    }
}

/// A flipped bit in the middle: etcd does not start, and we say why.
#[test]
fn a_flipped_bit_is_damage_for_etcd_too() {
    for version in versions() {
        let root = tempfile::tempdir().unwrap();
        let dir = killed(&version, root.path());
        let whole = used(&dir.join(SEGMENT));
        let entries: Vec<u64> = positions(&dir)
            .into_iter()
            .filter(|found| found.1)
            .map(|found| found.0)
            .collect();
        // Past the frame's length, the record's type and its checksum: the data of an entry. Then the checksum itself.
        for (entry, within) in [(0, 25), (entries.len() / 2, 60), (entries.len() - 1, 90), (2, 11)] {
            let place = usize::try_from(entries[entry]).unwrap() + within;
            let mut flipped = whole.clone();
            flipped[place] ^= 0x10;
            flipped.resize(1 << 20, 0);
            let (log, _dir) = judged(&flipped);
            let End::Damaged { offset, why, .. } = log.end() else {
                panic!("{version}, byte {place}: {}", log.end());
            };
            assert_eq!(*offset, entries[entry], "{version}, byte {place}: {why}");
            assert_eq!(started(&version, &flipped), None, "{version}, byte {place}");
        }
    }
}

/// Bits of the first records that a real etcd wrote, in the oldest and the newest version: flipped, each is found, or it is
/// padding and all records are the same. The gate tries every seventh, `QUORATE_FULL=1` every one.
#[test]
fn every_flipped_bit_of_a_real_log_is_found() {
    let every = if in_full() { 1 } else { 7 };
    for version in &oldest_and_newest() {
        let root = tempfile::tempdir().unwrap();
        let dir = killed(version, root.path());
        let end = positions(&dir)[8].0;
        let log = used(&dir.join(SEGMENT))[..usize::try_from(end).unwrap()].to_owned();
        let path = root.path().join("0000000000000000-0000000000000000.wal");
        let read = |log: &[u8]| {
            fs::write(&path, log).unwrap();
            let mut reader = Reader::open(root.path()).unwrap();
            let mut records = Vec::new();
            while let Some(found) = reader.read_next().unwrap() {
                records.push(format!("{found:?}"));
            }
            (records, reader.end().unwrap().clone())
        };
        let (whole, clean) = read(&log);
        assert_eq!((whole.len(), clean), (8, End::Clean), "{version}");
        for bit in (0..log.len() * 8).step_by(every) {
            let mut flipped = log.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (records, end) = read(&flipped);
            if end == End::Clean {
                assert_eq!(log[bit / 8], 0, "{version}, bit {bit} is not padding");
                assert_eq!(records, whole, "{version}, bit {bit}");
            } else {
                assert!(whole.starts_with(&records), "{version}, bit {bit}: {end}");
            }
        }
    }
}

/// More than a segment holds, in the oldest and the newest version.
#[test]
fn logs_of_several_segments() {
    for version in &oldest_and_newest() {
        let root = tempfile::tempdir().unwrap();
        let etcd = member(version, root.path()).flag("--unsafe-no-fsync").serve();
        let client = etcd.client();
        let value = vec![b'v'; 1_400_000];
        for number in 0..50 {
            client.put(format!("key{number}").as_bytes(), &value);
        }
        let index = status(&client).raft_index;
        etcd.kill();
        let dir = root.path().join("data");
        let wal_dir = dir.join("member/wal");
        let log = Log::read(&wal_dir).unwrap();
        assert_eq!(*log.end(), End::Clean, "{version}");
        assert_eq!(log.segments().len(), 2, "{version}");
        assert_eq!(log.last_index(), index, "{version}");
        let first_in_second = log.segments()[1].first_index;
        for from in [1, first_in_second - 1, first_in_second, index, index + 1] {
            let mut entries = log.entries(from).unwrap();
            let (mut next, mut puts) = (from, 0);
            while let Some(entry) = entries.read_next().unwrap() {
                assert_eq!(entry.index, next, "{version}");
                next += 1;
                puts += u32::from(entry.kind == EntryKind::Normal && entry.data.len() > value.len());
            }
            assert_eq!(next, index + 1, "{version}");
            assert!(from > 1 || puts == 50, "{version}: {puts}");
        }

        let starts = || Raft::of(&mut member(version, root.path()).spawn());
        let (first, second) = (
            wal_dir.join(log.segments()[0].to_string()),
            wal_dir.join(log.segments()[1].to_string()),
        );
        let damaged_in = |path: &Path| {
            let end = Log::read(&wal_dir).unwrap().end().clone();
            assert!(
                matches!(&end, End::Damaged { path: found, .. } if found == path),
                "{version}: {end}"
            );
        };
        with_byte(
            &first,
            5_000_000,
            |byte| byte ^ 1,
            || {
                damaged_in(&first);
                assert_eq!(starts(), None, "{version}");
            },
        );
        // A checksum record does not go on from the segment before.
        with_byte(
            &second,
            11,
            |byte| byte ^ 1,
            || {
                damaged_in(&second);
                assert_eq!(starts(), None, "{version}");
            },
        );
        let length = first.metadata().unwrap().len();
        let mut file = OpenOptions::new().read(true).write(true).open(&first).unwrap();
        let mut last = vec![0; 100];
        file.seek(SeekFrom::Start(length - 100)).unwrap();
        file.read_exact(&mut last).unwrap();
        file.set_len(length - 100).unwrap();
        damaged_in(&first);
        assert_eq!(starts(), None, "{version}");
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(&last).unwrap();
        assert_eq!(*Log::read(&wal_dir).unwrap().end(), End::Clean, "{version}");
        // A segment that is missing in the middle is one that does not follow.
        let away = wal_dir.join("away");
        fs::rename(&first, &away).unwrap();
        assert!(
            matches!(Log::read(&wal_dir).unwrap().end(), End::Damaged { .. }),
            "{version}"
        );
        fs::rename(&away, &first).unwrap();

        let seen = inspect(&dir).unwrap();
        let raft = starts().unwrap();
        assert_eq!(
            (raft.last_index, raft.last_term),
            (seen.last_index, seen.last_term),
            "{version}"
        );
    }
}

/// Snapshots and overwritten tails in the log of a running cluster's member are what etcd makes of them.
#[test]
fn snapshots_are_told() {
    for version in versions() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        let etcd = member(&version, root.path()).flag("--snapshot-count=5").serve();
        let client = etcd.client();
        for number in 0..30 {
            client.put(format!("key{number}").as_bytes(), b"value");
        }
        etcd.kill();
        let seen = inspect(&dir).unwrap();
        assert_eq!(seen.end, End::Clean, "{version}");
        let newest = seen.start(target(&version)).unwrap();
        assert!(
            newest.index > 5 && newest.index <= seen.state.commit,
            "{version}: {seen}"
        );
        assert!(seen.has_entries_after(newest));
        let readable = seen
            .snap_files
            .iter()
            .filter(|file| file.known && file.content.is_ok())
            .count();
        assert!(readable > 1, "{version}: {seen}");
        let raft = Raft::of(&mut member(&version, root.path()).spawn()).unwrap();
        assert_eq!(raft.last_index, seen.last_index, "{version}");
        assert_eq!(
            (raft.last_term, raft.term),
            (seen.last_term, seen.state.term),
            "{version}"
        );
        // What lies before a snapshot may be gone, and the file of one may be. One that etcd was killed over has a file that
        // the log does not know yet, and is no start anyway.
        let started_from = seen.snap_files.iter().position(|file| file.known).unwrap();
        let file = File::create(&seen.snap_files[started_from].path).unwrap();
        file.set_len(10).unwrap();
        let without = inspect(&dir).unwrap();
        assert!(without.snap_files[started_from].content.is_err(), "{version}");
        if target(&version) < Target::V3_7 {
            assert!(
                without.start(target(&version)).unwrap().index < newest.index,
                "{version}"
            );
        }
        let place = Position {
            segment: 0,
            offset: 16,
        };
        let mut reader = Reader::open(&dir.join("member/wal")).unwrap();
        assert_eq!(reader.read_next().unwrap().unwrap().position, place);
    }
}
