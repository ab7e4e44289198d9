//! A real etcd's history in an archive, written as an agent writes it: full copies, deltas, time.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use quorate_backup::delta::{Builder, Row};
use quorate_backup::object::{Assembler, Facts, Kind, pack};
use quorate_backup::record::{Delta, Entry, Full, Hash, Lease, Made, Sample};
use quorate_backup::{Archive, Store, StoreOptions, StoreUrl, names};
use quorate_datadir::{HashKv, Members, Progress, RowKey, Seat, Source, hash_kv};
use quorate_testkit::{Said, Server, Start, Workload};

/// The first moment of the history, in milliseconds since 1970.
pub const BEGIN: i64 = 1_700_000_000_000;
/// A revision takes so many milliseconds.
pub const STEP: i64 = 10;
/// Revisions of a delta.
const DELTA: i64 = 97;

/// When a revision was committed.
pub fn time_of(revision: i64) -> i64 {
    BEGIN + revision * STEP
}

pub fn timestamp(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap()
}

/// Snapshots of one history, and what etcd said at its end.
pub struct Told {
    pub root: tempfile::TempDir,
    pub snapshots: Vec<PathBuf>,
    pub said: Said,
    pub version: String,
}

impl Told {
    /// Runs a real etcd.
    pub fn by(version: &str) -> Told {
        let root = tempfile::tempdir().unwrap();
        let start = Start::new(version, &root.path().join("data")).flag("--unsafe-no-fsync");
        let server = start.serve();
        let mut client = server.client();
        let mut snapshots = Vec::new();
        let mut save = |server: &Server| {
            let path = root.path().join(format!("{}.db", snapshots.len()));
            server.etcdctl(None, &["snapshot", "save", path.to_str().unwrap()]);
            snapshots.push(path);
        };
        client.put(b"first", b"1");
        save(&server);
        Workload::Txns.run(&mut client);
        client.grant(4242, 600);
        client.put_with_lease(b"leased/one", b"x", 4242);
        client.put_with_lease(b"leased/two", b"x", 4242);
        Workload::Compacted.run(&mut client);
        save(&server);
        Workload::RangeDelete.run(&mut client);
        client.grant(777, 900);
        client.put_with_lease(b"leased/three", b"x", 777);
        Workload::Txns.run(&mut client);
        save(&server);
        let said = Said::by(&client);
        drop(client);
        server.stop();
        Told {
            root,
            snapshots,
            said,
            version: version.to_owned(),
        }
    }

    /// The HashKV of a revision, by the last snapshot. The first one was taken before anything was compacted.
    pub fn hash(&self, revision: i64, compacted: Option<i64>) -> HashKv {
        let source = Source::open(self.snapshots.last().unwrap()).unwrap();
        hash_kv(&source, revision, compacted, &Progress::new()).unwrap()
    }

    pub fn compacted(&self) -> i64 {
        let source = Source::open(self.snapshots.last().unwrap()).unwrap();
        source.compact_revision().unwrap()
    }

    pub fn revision_of(&self, snapshot: usize) -> i64 {
        Source::open(&self.snapshots[snapshot])
            .unwrap()
            .current_revision()
    }
}

/// An archive in a directory.
pub struct Archived {
    pub dir: PathBuf,
    pub archive: Archive,
}

pub async fn open(dir: &Path) -> Archive {
    let url = StoreUrl::parse(&format!("file://{}", dir.display())).unwrap();
    let store = Store::open(&url, &StoreOptions::default()).await.unwrap();
    Archive::open_or_begin(&store, None, timestamp(BEGIN))
        .await
        .unwrap()
}

/// The rows of a history from the end of the snapshot `from` to that of `to`; etcd must not have compacted between.
fn rows(from: i64, source: &Source) -> Vec<(RowKey, Vec<u8>)> {
    let mut cursor = source.history().unwrap();
    cursor.seek(&(from + 1).to_be_bytes()).unwrap();
    let mut rows = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((RowKey::read(key).unwrap(), value.to_vec()));
    }
    rows
}

/// Writes all of it: every snapshot as a full copy, every change between the second and the last as deltas.
pub async fn archived(told: &Told, dir: &Path) -> Archived {
    std::fs::create_dir_all(dir).unwrap();
    let mut archive = open(dir).await;
    let origin = archive
        .begin_timeline(0xc1, None, "a test", timestamp(BEGIN))
        .await
        .unwrap();
    let mut log = archive.log(origin.timeline, "test/1").await.unwrap();
    log.claim("a test", timestamp(BEGIN)).await.unwrap();
    // The first one is compacted away by the second; deltas begin behind the second.
    for index in 1..told.snapshots.len() {
        let full = write_full(&archive, told, index).await;
        let at = full.taken;
        let revision = full.revision;
        if index > 1 {
            let before = told.revision_of(index - 1);
            write_deltas(&archive, &mut log, told, before, revision).await;
        }
        log.append(Entry::Full(full), at).await.unwrap();
    }
    log.say_head(10, timestamp(time_of(told.said.revision)))
        .await
        .unwrap();
    Archived {
        dir: dir.to_owned(),
        archive,
    }
}

async fn write_full(archive: &Archive, told: &Told, index: usize) -> Full {
    let path = &told.snapshots[index];
    let source = Source::open(path).unwrap();
    let revision = source.current_revision();
    let bytes = std::fs::read(path).unwrap();
    let name = names::full(1, revision, &names::unique());
    let frames = bytes.chunks(300_000).enumerate();
    let frames = frames.map(|(number, piece)| (number as u64 * 300_000, piece.to_vec()));
    let facts = write(archive, &name, Kind::Full, frames.collect()).await;
    let compact = source.compact_revision().unwrap_or(-1);
    let hash = hash_kv(&source, 0, None, &Progress::new()).unwrap();
    Full {
        facts,
        revision,
        compact_revision: compact,
        made: Made::Snapshot,
        taken: timestamp(time_of(revision)),
        etcd_version: told.version.clone(),
        auth_revision: source.auth_revision().unwrap(),
        auth_from: None,
        hash: Some(Hash {
            hash: hash.hash,
            revision: hash.revision,
            compact_revision: hash.compact_revision,
        }),
    }
}

async fn write_deltas(
    archive: &Archive,
    log: &mut quorate_backup::log::Log,
    told: &Told,
    after: i64,
    to: i64,
) {
    let source = Source::open(told.snapshots.last().unwrap()).unwrap();
    let all = rows(after, &source);
    let mut from = after + 1;
    while from <= to {
        let last = (from + DELTA - 1).min(to);
        let mut builder = Builder::new(from);
        let mut frames = Vec::new();
        for (row, value) in all
            .iter()
            .filter(|(row, _)| (from..=last).contains(&row.revision.main))
        {
            let row = Row {
                revision: row.revision,
                tombstone: row.tombstone,
                value,
            };
            frames.extend(builder.push(row).unwrap());
            // Several frames, and revisions that go on in the next one.
            if builder.pending_bytes() > 40_000 {
                frames.extend(builder.rest());
            }
        }
        frames.extend(builder.rest());
        let content = builder.content().unwrap();
        let frames = frames
            .into_iter()
            .map(|frame| (frame.first, frame.bytes))
            .collect();
        let name = names::delta(1, from, last, &names::unique());
        let facts = write(archive, &name, Kind::Delta, frames).await;
        let sample = |revision| {
            let at = time_of(revision);
            Sample {
                before: at,
                revision,
                after: at + 2,
            }
        };
        let delta = Delta {
            facts,
            from,
            to: last,
            rows: content.rows,
            row_bytes: content.bytes,
            crc: content.crc,
            samples: (from..=last).step_by(5).map(sample).collect(),
            leases: vec![
                Lease {
                    id: 777,
                    ttl: (from > after + 1).then_some(900),
                },
                Lease { id: 9999, ttl: None },
            ],
            last: None,
        };
        log.append(Entry::Delta(delta), timestamp(time_of(last) + 3))
            .await
            .unwrap();
        from = last + 1;
    }
}

async fn write(archive: &Archive, name: &str, kind: Kind, frames: Vec<(u64, Vec<u8>)>) -> Facts {
    let (mut object, first) = Assembler::new(name, kind, archive.key()).unwrap();
    let mut upload = archive.store().upload(name).await.unwrap();
    upload.write(first).await.unwrap();
    let packer = object.packer();
    for (number, (first, plain)) in frames.iter().enumerate() {
        let frame = pack(&packer, number as u32, *first, plain).unwrap();
        upload.write(object.add(frame).unwrap()).await.unwrap();
    }
    let (last, facts) = object.finish();
    upload.write(last).await.unwrap();
    upload.finish().await.unwrap();
    facts
}

/// One member, whose etcd is not started.
pub fn alone(data_dir: &Path) -> Members {
    Members {
        initial_cluster: "m0=http://127.0.0.1:2380".to_owned(),
        token: "t".to_owned(),
        seats: vec![Seat {
            name: "m0".to_owned(),
            peer_urls: "http://127.0.0.1:2380".to_owned(),
            data_dir: data_dir.to_owned(),
            wal_dir: None,
        }],
        bump: None,
        for_version: None,
    }
}
