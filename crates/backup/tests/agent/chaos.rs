//! Random writes, and at random the agent is killed, the store fails, members die: every recorded point comes back.
//!
//! `QUORATE_CHAOS_SECONDS` makes it longer, `QUORATE_CHAOS_SEED` repeats its choices.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;
use quorate_backup::Archive;
use quorate_backup::agent::{Board, Cluster, Options, Reach, Schedule};
use quorate_backup::plan::{Plan, To, Wanted, plan};
use quorate_backup::restore::restore;
use quorate_client::{Credentials, Endpoint, HashKv, KeyValue, Keys, Op, Range, Timeouts, Txn};
use quorate_datadir::{self as datadir, Members, Progress, RowKey, Seat, Source};
use quorate_workloads::{Server, Start, newest};
use tokio::time::Instant;

use crate::members::{eventually, serve, starts};
use crate::world::{Agent, archived_rows, check_samples, sequence, store};

/// So many revisions are kept by compactions: more than happen in any outage here.
const KEPT: i64 = 3000;
const WRITERS: u64 = 3;

type Keyspace = BTreeMap<Vec<u8>, KeyValue>;

/// What the cluster was at a revision.
struct Point {
    before: Timestamp,
    revision: i64,
    after: Timestamp,
    keys: Keyspace,
    hash: Option<HashKv>,
}

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(otherwise, |text| text.parse().expect("a number"))
}

/// One writer: whatever it is told, it goes on.
async fn write(endpoints: Vec<Endpoint>, mut random: Rng, newest: Arc<AtomicI64>, stop: Arc<AtomicBool>) {
    let mut leases = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let endpoint = &endpoints[random.usize(..endpoints.len())];
        let key =
            |random: &mut Rng| format!("key/{:02}/{:02}", random.u8(..10), random.u8(..50)).into_bytes();
        let length = random.usize(..200);
        let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
        let lease = leases.get(random.usize(..8)).copied().unwrap_or(0);
        match random.u8(..20) {
            0 => drop(endpoint.delete_range(Keys::prefix(&key(&mut random)[..6])).await),
            1 | 2 => drop(endpoint.delete(&key(&mut random)).await),
            3 => {
                if let Ok(lease) = endpoint.lease_grant(0, random.i64(100..1000)).await {
                    leases.push(lease);
                }
            }
            4 if leases.len() > 6 => drop(endpoint.lease_revoke(leases.remove(0)).await),
            5..=9 => {
                let keys: BTreeMap<Vec<u8>, ()> =
                    (0..random.u8(1..30)).map(|_| (key(&mut random), ())).collect();
                let then = keys.into_keys().map(|key| Op::Put {
                    key,
                    value: value.clone(),
                    lease: 0,
                });
                let txn = Txn {
                    then: then.collect(),
                    ..Txn::default()
                };
                drop(endpoint.txn(txn).await);
            }
            _ => {
                if let Ok(revision) = endpoint.put_leased(&key(&mut random), &value, lease).await {
                    newest.fetch_max(revision, Ordering::Relaxed);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(random.u64(1..10))).await;
    }
}

/// Records points, compacts, and adds users now and then.
async fn record(endpoints: Vec<Endpoint>, mut random: Rng, stop: Arc<AtomicBool>) -> Vec<Point> {
    let mut points = Vec::new();
    let mut turn = 0u32;
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(random.u64(300..700))).await;
        turn += 1;
        let endpoint = &endpoints[random.usize(..endpoints.len())];
        if turn.is_multiple_of(9) {
            let user = Credentials {
                user: format!("user{turn}"),
                password: "password".into(),
            };
            drop(endpoint.user_add(&user).await);
        }
        if let Some(point) = point(endpoint).await {
            if turn.is_multiple_of(4) && point.revision > KEPT {
                drop(endpoint.compact(point.revision - KEPT).await);
            }
            points.push(point);
        }
    }
    points
}

async fn point(endpoint: &Endpoint) -> Option<Point> {
    let before = Timestamp::now();
    let revision = endpoint.linearizable_read().await.ok()?.revision?;
    let after = Timestamp::now();
    let range = Range {
        revision: Some(revision),
        ..Range::of(Keys::all())
    };
    let page = endpoint.read_range(range).await.ok()?;
    assert!(!page.more);
    let keys = page
        .pairs
        .into_iter()
        .map(|pair| (pair.key.clone(), pair))
        .collect();
    let hash = endpoint.hash_kv(revision).await.ok();
    Some(Point {
        before,
        revision,
        after,
        keys,
        hash,
    })
}

/// Something in the way of a directory of the store, for a while.
async fn obstruct(path: &Path, time: Duration) {
    let aside = path.with_extension("aside");
    if fs::rename(path, &aside).is_err() {
        return;
    }
    fs::write(path, b"in the way").unwrap();
    tokio::time::sleep(time).await;
    fs::remove_file(path).unwrap();
    fs::rename(&aside, path).unwrap();
}

fn keyspace(data_dir: &Path) -> Keyspace {
    let source = Source::open(data_dir).unwrap();
    let mut rows = source.history().unwrap();
    let mut keys = Keyspace::new();
    while let Some((key, value)) = rows.next().unwrap() {
        let pair = datadir::KeyValue::read(value).unwrap();
        if RowKey::read(key).unwrap().tombstone {
            keys.remove(pair.key);
            continue;
        }
        let found = KeyValue {
            key: pair.key.to_vec(),
            create_revision: pair.create_revision,
            mod_revision: pair.mod_revision,
            version: pair.version,
            value: pair.value.to_vec(),
            lease: pair.lease,
        };
        keys.insert(found.key.clone(), found);
    }
    keys
}

fn alone(data_dir: &Path) -> Members {
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

async fn come_back(archive: &Archive, point: &Point, dir: &Path) {
    let wanted = |to| Wanted {
        timeline: Some(1),
        to,
    };
    let by_time = plan(archive, wanted(To::Time(point.after))).await.unwrap();
    let bracket = by_time.bracket.unwrap();
    assert!(bracket.known <= point.after, "{bracket:?}");
    let plan = plan(archive, wanted(To::Revision(point.revision))).await.unwrap();
    let progress = Arc::new(Progress::new());
    let outcome = restore(plan, &alone(dir), &progress, Timestamp::now(), &mut |_: &Plan| {})
        .await
        .unwrap();
    assert_eq!(outcome.members[0].revision, point.revision);
    assert_eq!(keyspace(dir), point.keys, "at {}", point.revision);
    if let Some(told) = &point.hash {
        let compacted = (told.compact_revision > 0).then_some(told.compact_revision);
        let source = Source::open(dir).unwrap();
        let own = source.compact_revision();
        if own.is_none() || own <= compacted {
            let hash = datadir::hash_kv(&source, point.revision, compacted, &Progress::new()).unwrap();
            assert_eq!(hash.hash, told.hash, "at {} {told:?}", point.revision);
        }
    }
    fs::remove_dir_all(dir).unwrap();
}

struct Faults {
    servers: Vec<Option<Server>>,
    starts: Vec<Start>,
    archive: std::path::PathBuf,
    options: Options,
    agent: Option<Agent>,
    counts: BTreeMap<&'static str, u32>,
}

impl Faults {
    fn start_agent(&mut self) {
        let mut options = self.options.clone();
        options.board = Board::default();
        self.agent = Some(Agent::start(options));
    }

    async fn one(&mut self, random: &mut Rng) {
        let time = Duration::from_millis(random.u64(200..2500));
        let what = match random.u8(..6) {
            0 | 1 => {
                self.agent.take().unwrap().kill().await;
                tokio::time::sleep(time / 3).await;
                self.start_agent();
                "the agent killed"
            }
            2 => {
                obstruct(&self.archive.join("t/00000001/delta"), time).await;
                "no deltas taken"
            }
            3 => {
                obstruct(&self.archive.join("t"), time).await;
                "nothing taken"
            }
            _ => {
                let n = random.usize(..self.servers.len());
                let killed = self.servers[n].take().unwrap();
                tokio::task::spawn_blocking(|| killed.kill()).await.unwrap();
                tokio::time::sleep(time / 2).await;
                self.servers[n] = serve(vec![self.starts[n].clone()]).await.pop();
                "a member killed"
            }
        };
        *self.counts.entry(what).or_default() += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_point_comes_back() {
    let seconds = setting("QUORATE_CHAOS_SECONDS", 20);
    let seed = setting("QUORATE_CHAOS_SEED", fastrand::u64(..));
    eprintln!("QUORATE_CHAOS_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let version = newest(["3.5", "3.6", "3.7"][random.usize(..3)]);
    let dir = tempfile::tempdir().unwrap();
    let starts = starts(dir.path(), &version);
    let urls: Vec<String> = starts
        .iter()
        .map(|start| start.addresses.as_ref().unwrap().client.clone())
        .collect();
    let servers = serve(starts.clone()).await.into_iter().map(Some).collect();
    let endpoints: Vec<Endpoint> = urls
        .iter()
        .map(|url| Endpoint::connect_lazy(url, None, Timeouts::default()).unwrap())
        .collect();
    let archive_dir = dir.path().join("archive");
    let store = store(&archive_dir).await;
    let reach = Reach {
        urls,
        ..Reach::default()
    };
    let mut options = Options::new(store.clone(), Cluster::at(reach));
    options.pace.period = Duration::from_secs(1);
    options.pace.size = 64 << 10;
    options.schedule = Schedule::parse("* * * * *").unwrap();
    let mut faults = Faults {
        servers,
        starts,
        archive: archive_dir,
        options,
        agent: None,
        counts: BTreeMap::new(),
    };
    faults.start_agent();
    let agent = faults.agent.as_ref().unwrap();
    agent.until("a full copy", |status| status.full.is_some()).await;

    let (stop, revision) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let writing: Vec<_> = (0..WRITERS)
        .map(|_| {
            tokio::spawn(write(
                endpoints.clone(),
                random.fork(),
                revision.clone(),
                stop.clone(),
            ))
        })
        .collect();
    let recording = tokio::spawn(record(endpoints.clone(), random.fork(), stop.clone()));
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        faults.one(&mut random).await;
        tokio::time::sleep(Duration::from_millis(random.u64(100..1500))).await;
    }
    stop.store(true, Ordering::Relaxed);
    for one in writing {
        one.await.unwrap();
    }
    let points = recording.await.unwrap();
    let last = eventually(&endpoints[0]).await;
    let agent = faults.agent.take().unwrap();
    let status = agent.until_archived(last).await;
    assert_eq!(status.missing, 0, "{status:#?}");
    agent.stop().await.unwrap();
    eprintln!(
        "etcd {version}, {:?}, {} points up to {last}",
        faults.counts,
        points.len()
    );

    let archive = Archive::open(&store, None).await.unwrap();
    let history = archive.history(1).await.unwrap();
    assert_eq!(sequence(&history).1, last);
    check_samples(&history);
    archived_rows(&archive, &history).await;
    let first = history.fulls()[0].1.revision;
    let restored = dir.path().join("restored");
    let mut count = 0;
    for point in points.iter().filter(|point| point.revision >= first) {
        come_back(&archive, point, &restored).await;
        count += 1;
    }
    assert!(count >= 5, "{count} points");
    // By time: never a state that the cluster came to only later.
    for (earlier, later) in points.iter().zip(points.iter().skip(1)) {
        if earlier.revision < first {
            continue;
        }
        let to = To::Time(later.before);
        let wanted = Wanted {
            timeline: Some(1),
            to,
        };
        let planned = plan(&archive, wanted).await.unwrap();
        assert!(planned.revision <= later.revision, "{}", planned.revision);
    }
}
