//! A database that arrives from elsewhere, with the rows that came after it put behind: what a real etcd would be at.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use quorate_datadir::bolt::{Bolt, KeyAndValue, Pages};
use quorate_datadir::rewrite::Later;
use quorate_datadir::{
    Arrival, Assembly, Base, Error, HashKv, Landing, LaterRows, Lease, Members, Progress, RowKey, Seat,
    Source, hash_kv, restore_members, verify, verify_member, write_snapshot,
};
use quorate_testkit::{Addresses, ClusterSlot, Said, Server, Start, Workload, newest, versions};
use quorate_wire::etcdserverpb::{LeaseTimeToLiveRequest, LeaseTimeToLiveResponse};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// A lease that is granted between the two snapshots.
const LEASE: Lease = Lease {
    id: 77_777,
    ttl: 4321,
};

/// Two snapshots of one history.
struct History {
    root: tempfile::TempDir,
    early: PathBuf,
    late: PathBuf,
    /// The revision of the early one.
    between: i64,
    said: Said,
}

fn save(server: &Server, path: &Path) {
    server.etcdctl(None, &["snapshot", "save", path.to_str().unwrap()]);
}

fn history(version: &str) -> History {
    let root = tempfile::tempdir().unwrap();
    let (early, late) = (root.path().join("early.db"), root.path().join("late.db"));
    let start = Start::new(version, &root.path().join("data")).flag("--unsafe-no-fsync");
    let server = start.serve();
    let mut client = server.client();
    server.await_settled(&client);
    Workload::Leases.run(&mut client);
    Workload::Compacted.run(&mut client);
    save(&server, &early);
    let between = Source::open(&early).unwrap().current_revision();
    Workload::Txns.run(&mut client);
    client.grant(LEASE.id, LEASE.ttl);
    client.put_with_lease(b"leased/later", b"x", LEASE.id);
    Workload::Large.run(&mut client);
    client.delete(b"large/1", b"");
    save(&server, &late);
    let said = Said::by(&client);
    drop(client);
    server.stop();
    History {
        root,
        early,
        late,
        between,
        said,
    }
}

impl History {
    /// The rows of the late snapshot from a revision on, to another.
    fn rows(&self, after: i64, to: i64) -> Listed {
        let source = Source::open(&self.late).unwrap();
        let mut rows = Rows::new();
        let mut cursor = source.history().unwrap();
        cursor.seek(&(after + 1).to_be_bytes()).unwrap();
        while let Some((key, value)) = cursor.next().unwrap() {
            if RowKey::read(key).unwrap().revision.main <= to {
                rows.push((key.to_vec(), value.to_vec()));
            }
        }
        Listed(rows, 0)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn hash(&self, path: &Path, revision: i64, compacted: Option<i64>) -> HashKv {
        hash_kv(
            &Source::open(path).unwrap(),
            revision,
            compacted,
            &Progress::new(),
        )
        .unwrap()
    }
}

/// Rows of a list, one after the other.
struct Listed(Rows, usize);

impl Later for Listed {
    fn leases(&mut self) -> Vec<Lease> {
        assert!(
            self.0.is_empty() || self.1 > self.0.len(),
            "asked when all were given"
        );
        vec![LEASE]
    }

    fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, Error> {
        self.1 += 1;
        let row = self.0.get(self.1 - 1);
        Ok(row.map(|(key, value)| (&key[..], &value[..])))
    }
}

/// A snapshot that comes in pieces, in no order, from two threads.
#[derive(Debug)]
struct Pieces {
    bytes: Vec<u8>,
    vouched: bool,
}

impl Pieces {
    fn of(path: &Path) -> Pieces {
        Pieces {
            bytes: fs::read(path).unwrap(),
            vouched: false,
        }
    }
}

impl Arrival for Pieces {
    fn arrive(&mut self, landing: &Landing, progress: &Progress) -> Result<(), Error> {
        let mut pieces: Vec<(usize, &[u8])> = self.bytes.chunks(100_000).enumerate().collect();
        fastrand::Rng::with_seed(1).shuffle(&mut pieces);
        let left = Mutex::new(pieces);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let next = left.lock().unwrap().pop();
                        let Some((number, piece)) = next else { return };
                        landing.write_at(piece, number as u64 * 100_000).unwrap();
                        progress.add(piece.len() as u64).unwrap();
                    }
                });
            }
        });
        Ok(())
    }

    fn is_vouched_for(&self) -> bool {
        self.vouched
    }
}

fn members(at: &[(String, Addresses, PathBuf)]) -> Members {
    let all: Vec<String> = at
        .iter()
        .map(|(name, at, _)| format!("{name}={}", at.peer))
        .collect();
    Members {
        initial_cluster: all.join(","),
        token: "assembled".to_owned(),
        seats: at
            .iter()
            .map(|(name, at, data_dir)| Seat {
                name: name.clone(),
                peer_urls: at.peer.clone(),
                data_dir: data_dir.clone(),
                wal_dir: None,
            })
            .collect(),
        bump: None,
        for_version: None,
    }
}

/// One member, whose etcd is not started.
fn alone(data_dir: &Path) -> Members {
    let at = Addresses {
        client: "http://127.0.0.1:2379".to_owned(),
        peer: "http://127.0.0.1:2380".to_owned(),
    };
    members(&[("m0".to_owned(), at, data_dir.to_owned())])
}

/// Every cached version: an early snapshot and the rows after it are the late one, for etcd too, as one of three members.
#[test]
fn later_rows_behind_an_early_snapshot_are_the_late_one() {
    let _slot = ClusterSlot::acquire();
    for version in versions() {
        let history = history(&version);
        let end = history.said.revision;
        let seats: Vec<_> = (0..3)
            .map(|number| {
                let name = format!("m{number}");
                let data_dir = history.at(&name);
                (name, Addresses::free(), data_dir)
            })
            .collect();
        let last = history.said.hashes.last().unwrap();
        let expect = HashKv {
            hash: last.hash,
            revision: end,
            compact_revision: last.compact_revision,
        };
        let (mut pieces, mut rows) = (Pieces::of(&history.early), history.rows(history.between, end));
        let assembly = Assembly {
            later: Some(LaterRows {
                rows: &mut rows,
                to: Some(end),
            }),
            leases: vec![LEASE],
            expect: Some(expect),
            ..Assembly::of(Base::Arriving(&mut pieces))
        };
        let all = members(&seats);
        let restored = restore_members(&all, assembly, &Progress::new()).unwrap();
        assert_eq!(restored.len(), 3);
        for (restored, (_, _, data_dir)) in restored.iter().zip(&seats) {
            assert_eq!(restored.revision, end);
            verify_member(data_dir, &Progress::new()).unwrap();
        }
        let start = |(name, at, data_dir): &(String, Addresses, PathBuf)| Start {
            name: name.clone(),
            addresses: Some(at.clone()),
            initial_cluster: Some(all.initial_cluster.clone()),
            flags: vec!["--initial-cluster-token=assembled".to_owned()],
            ..Start::new(&version, data_dir)
        };
        let mut servers: Vec<Server> = seats.iter().map(|seat| start(seat).spawn()).collect();
        for server in &mut servers {
            server.await_serving();
        }
        for server in &servers {
            let said = Said::by(&server.client());
            assert_eq!(said.hashes, history.said.hashes, "etcd {version}");
        }
        let request = LeaseTimeToLiveRequest {
            id: LEASE.id,
            keys: true,
        };
        let lease: LeaseTimeToLiveResponse = servers[0].client().call("Lease/LeaseTimeToLive", request);
        assert_eq!(
            (lease.granted_ttl, &lease.keys[..]),
            (LEASE.ttl, &[b"leased/later".to_vec()][..])
        );
        servers.into_iter().for_each(Server::kill);
    }
}

/// Any point of the history: inside the early snapshot, and between the two.
#[test]
fn any_revision_is_reached() {
    let history = history(&newest("3.6"));
    let late = Source::open(&history.late).unwrap();
    let oldest = late.compact_revision().unwrap();
    let end = history.said.revision;
    let step = usize::try_from((end - oldest) / 23).unwrap();
    for revision in (oldest..=end)
        .step_by(step)
        .chain([history.between, history.between + 1, end])
    {
        for vouched in [false, true] {
            let (mut pieces, mut rows) = (
                Pieces::of(&history.early),
                history.rows(history.between, revision),
            );
            pieces.vouched = vouched;
            let behind = revision > history.between;
            let data_dir = history.at(&format!("at-{revision}-{vouched}"));
            let assembly = Assembly {
                to_revision: (!behind).then_some(revision),
                later: behind.then_some(LaterRows {
                    rows: &mut rows,
                    // Where they end is known before, or not.
                    to: (!vouched).then_some(revision),
                }),
                expect: Some(history.hash(&history.late, revision, Some(oldest))),
                ..Assembly::of(Base::Arriving(&mut pieces))
            };
            let mut wanted = alone(&data_dir);
            wanted.bump = vouched.then_some(1_000_000);
            let restored = restore_members(&wanted, assembly, &Progress::new()).unwrap();
            if vouched {
                assert_eq!(restored[0].revision, revision + 1_000_000);
                verify(&Source::open(&data_dir).unwrap(), &Progress::new()).unwrap();
            } else {
                verify_member(&data_dir, &Progress::new()).unwrap();
                assert_eq!(
                    history.hash(&data_dir, 0, None),
                    history.hash(&history.late, revision, Some(oldest))
                );
            }
            fs::remove_dir_all(&data_dir).unwrap();
        }
    }
}

/// A new snapshot of both, compacted, is what etcd's own would be.
#[test]
fn a_fresh_snapshot_is_compacted_and_verified() {
    let history = history(&newest("3.5"));
    let end = history.said.revision;
    for compact in [None, Some(history.between), Some(end - 3), Some(end)] {
        for arriving in [false, true] {
            let (mut pieces, mut rows) = (Pieces::of(&history.early), history.rows(history.between, end));
            let base = if arriving {
                Base::Arriving(&mut pieces)
            } else {
                Base::File {
                    path: history.early.clone(),
                    skip_hash_check: false,
                }
            };
            let assembly = Assembly {
                later: Some(LaterRows {
                    rows: &mut rows,
                    to: Some(end),
                }),
                compact,
                ..Assembly::of(base)
            };
            let path = history.at("fresh.db");
            let fresh = write_snapshot(assembly, &path, &Progress::new()).unwrap();
            assert_eq!(
                (fresh.revision, fresh.bytes),
                (end, fs::metadata(&path).unwrap().len())
            );
            assert!(fresh.verdict.digest.is_some());
            let leases = Source::open(&path).unwrap().leases().unwrap();
            assert!(leases.contains(&LEASE) && leases.len() > 10, "{leases:?}");
            assert_eq!(fresh.verdict.hash_kv, history.hash(&history.late, end, compact));
            let names: Vec<_> = fs::read_dir(history.root.path())
                .unwrap()
                .map(|e| e.unwrap().file_name())
                .collect();
            let strange = |name: &&std::ffi::OsString| name.to_string_lossy().starts_with('.');
            assert!(!names.iter().any(|name| strange(&name)), "{names:?}");
        }
    }
}

/// What does not fit together is refused, and nothing is made.
#[test]
fn what_does_not_fit_is_refused() {
    let history = history(&newest("3.7"));
    let (between, end) = (history.between, history.said.revision);
    let whole = || (history.rows(between, end), end);
    let refuse =
        |what: &str, pieces: Pieces, (mut rows, to): (Listed, i64), change: &dyn Fn(&mut Assembly<'_>)| {
            let (mut pieces, data_dir) = (pieces, history.at("never"));
            let mut assembly = Assembly {
                later: Some(LaterRows {
                    rows: &mut rows,
                    to: Some(to),
                }),
                ..Assembly::of(Base::Arriving(&mut pieces))
            };
            change(&mut assembly);
            let error = restore_members(&alone(&data_dir), assembly, &Progress::new()).unwrap_err();
            assert!(!data_dir.exists(), "{what}");
            assert!(!history.at(".never.restoring").exists(), "{what}");
            error.to_string()
        };
    let nothing = |_: &mut Assembly<'_>| {};
    let early = || Pieces::of(&history.early);
    refuse(
        "a hole before",
        early(),
        (history.rows(between + 1, end), end),
        &nothing,
    );
    refuse(
        "an overlap",
        early(),
        (history.rows(between - 1, end), end),
        &nothing,
    );
    refuse(
        "an early end",
        early(),
        (history.rows(between, end - 1), end),
        &nothing,
    );
    let mut hole = whole();
    hole.0.0.remove(7);
    refuse("a hole between", early(), hole, &nothing);
    refuse(
        "before the base",
        early(),
        (Listed(Rows::new(), 0), between - 1),
        &nothing,
    );
    let why = refuse("another hash", early(), whole(), &|assembly| {
        assembly.expect = Some(HashKv {
            hash: 1,
            revision: end,
            compact_revision: -1,
        });
    });
    assert!(why.contains("HashKV"), "{why}");
    let mut damaged = early();
    let middle = damaged.bytes.len() / 2;
    damaged.bytes[middle] ^= 1;
    refuse("a flipped bit", damaged, whole(), &nothing);
    let mut short = early();
    short.bytes.truncate(middle / 512 * 512);
    refuse("half of it", short, whole(), &nothing);
    let why = refuse("a cut before the compaction", early(), whole(), &|assembly| {
        assembly.to_revision = Some(1);
    });
    assert!(why.contains("compacted"), "{why}");
    refuse("compacted behind the end", early(), whole(), &|assembly| {
        assembly.compact = Some(end + 1);
    });
}

/// A database somewhere else, which counts what is read of it.
#[derive(Debug)]
struct Remote(fs::File, std::sync::Arc<std::sync::atomic::AtomicU64>);

impl Pages for Remote {
    fn length(&self) -> std::io::Result<u64> {
        self.0.length()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let read = self.0.read_at(buffer, offset)?;
        self.1
            .fetch_add(read as u64, std::sync::atomic::Ordering::Relaxed);
        Ok(read)
    }
}

/// Its numbers and single rows take a few of its pages.
#[test]
fn a_database_is_read_where_it_lies() {
    let history = history(&newest("3.6"));
    let read = std::sync::Arc::default();
    let remote = Remote(
        fs::File::open(&history.late).unwrap(),
        std::sync::Arc::clone(&read),
    );
    let source = Source::of(Bolt::from_pages(Box::new(remote), Path::new("late.full")).unwrap()).unwrap();
    assert_eq!(source.current_revision(), history.said.revision);
    assert!(source.numbers().storage_version.is_some());
    let leases = source.leases().unwrap();
    assert!(leases.contains(&LEASE), "{leases:?}");
    assert!(source.auth_revision().unwrap() >= 1);
    let (bytes, size) = (
        read.load(std::sync::atomic::Ordering::Relaxed),
        source.bolt().size(),
    );
    // Where a leaf lies just behind the one before it, a quarter of a MiB is read at once.
    assert!(
        bytes < 1 << 20 && bytes < size / 8,
        "{bytes} bytes of {size} were read"
    );
    // What needs all of it is refused in words.
    assert!(matches!(
        verify(&source, &Progress::new()),
        Err(Error::Refused { .. })
    ));
}
