//! An archive under everything that can happen to it, and every point of it back again.
//!
//! Random work on three real etcd, whose leader is killed; the agent is killed; the store fails. Meanwhile the cluster is
//! asked what it holds. Afterwards each of those points is restored and held against the answer: every key with its
//! creation, modification and version, and HashKV.
#![cfg(feature = "e2e")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quorate_tests::backup::agent::{Agent, backup, json};
use quorate_tests::backup::reference::{Point, now};
use quorate_tests::backup::trio::Trio;
use quorate_tests::backup::work::Work;
use quorate_tests::etcd::{self, Fault, Proxy, StoreKind, StoreServer};
use quorate_wire::etcdserverpb::{LeaseLeasesRequest, LeaseLeasesResponse};
use serde_json::Value;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a store fails.
const FAULTS: &[Fault] = &[
    Fault::Refuse,
    Fault::Hang,
    Fault::Answer {
        status: 503,
        code: "SlowDown",
    },
    Fault::Answer {
        status: 507,
        code: "InsufficientStorage",
    },
    Fault::Answer {
        status: 403,
        code: "AccessDenied",
    },
    Fault::CutAnswer { after: 0 },
    Fault::CutRequest { after: 700 },
    Fault::Latency(Duration::from_millis(300)),
];

/// How long the disasters go on; a soak takes longer.
fn length() -> Duration {
    let named = std::env::var("QUORATE_BACKUP_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(named.unwrap_or(30))
}

/// How many points are restored at most.
fn restores() -> usize {
    let named = std::env::var("QUORATE_BACKUP_RESTORES")
        .ok()
        .and_then(|text| text.parse().ok());
    named.unwrap_or(40)
}

fn seed() -> u64 {
    let named = std::env::var("QUORATE_BACKUP_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    named.unwrap_or_else(|| fastrand::u64(..))
}

fn newest(list: &Value) -> &Value {
    list["timelines"]
        .as_array()
        .and_then(|all| all.last())
        .expect("a timeline")
}

fn end(list: &Value) -> i64 {
    list["timelines"]
        .as_array()
        .and_then(|all| all.last()?["reachable"].as_array()?.last()?["to"].as_i64())
        .unwrap_or(0)
}

/// Waits until the archive reaches this revision.
fn await_end(url: &str, revision: i64, agent: &Agent) -> Value {
    let began = Instant::now();
    loop {
        // Until the agent has begun it there is no archive.
        let output = backup(&["list", url, "-o", "json"]);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if end(&list) >= revision {
            return list;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "the archive is at {} and not at {revision}:\n{}",
            end(&list),
            agent.said()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Points, asked for all the while.
fn record(trio: &Arc<Trio>, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<Point>> {
    let (trio, stop) = (Arc::clone(trio), Arc::clone(stop));
    std::thread::spawn(move || {
        let mut points = Vec::new();
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            points.extend(Point::ask(&trio.client(number), number % 3 == 0));
            std::thread::sleep(Duration::from_millis(100));
        }
        points
    })
}

fn restore(url: &str, into: &Path, more: &[&str]) -> Value {
    let into = into.to_str().expect("a plain path");
    json(&[&["restore", url, "--data-dir", into][..], more].concat())
}

#[test]
fn every_point_comes_back_whatever_happens() {
    let seed = seed();
    println!("seed {seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("backups");
    let proxy = Proxy::start(server.address());
    let url = server.url("backups", "etcd");
    let through = server.url_at(proxy.address(), "backups", "etcd");
    let log = directory.path().join("agent.log");
    let trio = Arc::new(Trio::start(&etcd::newest("3.6"), directory.path()));
    let run = || {
        Agent::start(
            &through,
            &trio.endpoints(),
            &["--period", "1s", "--schedule", "* * * * *"],
            &log,
        )
    };
    let mut agent = run();
    let work = Work::begin(&trio, seed);
    let stop = Arc::<AtomicBool>::default();
    let recorder = record(&trio, &stop);

    let began = Instant::now();
    let (mut kills, mut crashes, mut failures) = (0, 0, 0);
    await_end(&url, 1, &agent);
    while began.elapsed() < length() {
        match chance.u32(..10) {
            0..4 => {
                agent.kill();
                std::thread::sleep(Duration::from_millis(chance.u64(..1500)));
                agent = run();
                kills += 1;
            }
            4..6 => {
                trio.crash(trio.leader());
                crashes += 1;
            }
            6..8 => {
                let length = Duration::from_millis(chance.u64(200..3000));
                proxy.set(chance.choice(FAULTS).cloned().expect("some faults"));
                std::thread::sleep(length);
                proxy.heal();
                failures += 1;
            }
            _ => {
                // Only what is in the archive may be forgotten; else there would be a gap, which is another test.
                let flushed = end(&json(&["list", &url]));
                work.may_compact.store(flushed - 200, Ordering::Relaxed);
            }
        }
        assert!(!agent.has_ended(), "the agent gave up:\n{}", agent.said());
        std::thread::sleep(Duration::from_millis(chance.u64(..2500)));
    }
    // A quiet second or five, with a time in the middle of it.
    let done = work.done.load(Ordering::Relaxed);
    work.end();
    let leader = trio.client(trio.leader());
    // Leases that run out would break it.
    let leases: LeaseLeasesResponse = leader.call("Lease/LeaseLeases", LeaseLeasesRequest {});
    for lease in leases.leases {
        leader.revoke(lease.id);
    }
    let quiet = Point::ask(&leader, true).expect("a quiet cluster answers");
    let quiet_since = now();
    let list = await_end(&url, quiet.revision, &agent);
    while now() - quiet_since < 5000 {
        std::thread::sleep(Duration::from_millis(100));
    }
    let quiet_at = quiet_since + 3500;
    // One more change, so that the archive learns how long it was quiet.
    let last = trio.client(trio.leader()).put(b"/last", b"word");
    await_end(&url, last, &agent);
    agent.kill();
    stop.store(true, Ordering::Relaxed);
    let mut points = recorder.join().expect("the recorder did not panic");
    points.push(quiet.clone());
    println!(
        "{done} calls, {} points, {kills} agents killed, {crashes} leaders killed, the store failed {failures} times ({} \
         requests)",
        points.len(),
        proxy.struck()
    );
    assert!(done > 100 && points.len() > 20, "little happened");
    assert_eq!(newest(&list)["gaps"], serde_json::json!([]), "{list}");

    let first = points.iter().map(|point| point.revision).min().unwrap_or(0);
    let reachable = newest(&list)["reachable"][0]["from"]
        .as_i64()
        .expect("a first revision that can be restored");
    println!("revisions {first} to {last}; restorable from {reachable}");
    points.retain(|point| point.revision >= reachable);
    assert!(points.len() > 20, "hardly any point can be restored: {list}");
    chance.shuffle(&mut points);
    let (mut hashes, into) = (0, directory.path().join("restored"));
    for point in points.iter().take(restores()) {
        let revision = point.revision.to_string();
        restore(&url, &into, &["--to-revision", &revision]);
        hashes += usize::from(point.compare(&into));
        std::fs::remove_dir_all(&into).unwrap();
    }
    assert!(hashes > 0, "no hash could be compared");
    println!(
        "{} points restored and equal, {hashes} of them by hash too",
        points.len().min(restores())
    );

    // By time: in the quiet there is only one right answer.
    let at = jiff::Timestamp::from_millisecond(quiet_at).unwrap().to_string();
    let restored = restore(&url, &into, &["--to-time", &at, "--yes"]);
    assert_eq!(restored["revision"].as_i64(), Some(quiet.revision), "{restored}");
    quiet.compare(&into);
    std::fs::remove_dir_all(&into).unwrap();
    // And elsewhere one that lies between two answers.
    for point in points.iter().take(5) {
        let at = jiff::Timestamp::from_millisecond(point.answered)
            .unwrap()
            .to_string();
        let restored = restore(&url, &into, &["--to-time", &at, "--yes"]);
        let revision = restored["revision"].as_i64().expect("a revision");
        let after = points.iter().filter(|other| other.asked > point.answered);
        let latest = after.map(|other| other.revision).min().unwrap_or(i64::MAX);
        assert!(
            revision <= latest,
            "{revision} was not there at {at}; {latest} came later"
        );
        std::fs::remove_dir_all(&into).unwrap();
    }
}
