//! An archive under everything that can happen to it, and every point of it back again.
//!
//! Random work on three real etcd, whose leader is killed; the agent is killed; the store fails. Meanwhile the cluster is
//! asked what it holds. Afterwards each of those points is restored and held against the answer: every key with its
//! creation, modification and version, and HashKV.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use quorate_tests::backup::agent::{Agent, backup, json};
use quorate_tests::backup::reference::{Point, now};
use quorate_tests::backup::trio::Trio;
use quorate_tests::backup::work::Work;
use quorate_tests::cluster::{Cluster, kill_member};
use quorate_tests::etcd::{self, Fault, Proxy, StoreKind, StoreServer, await_that};
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
    named.unwrap_or(7)
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
                await_that("the agent has opened the archive", PATIENCE, || {
                    agent.has_begun().then_some(()).ok_or_else(|| agent.said())
                });
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
    await_that("no lease is left", PATIENCE, || {
        let listed = leader.try_call("Lease/LeaseLeases", LeaseLeasesRequest {});
        listed.and_then(|listed: LeaseLeasesResponse| {
            let mut leases = listed.leases.iter();
            leases.try_for_each(|lease| leader.try_revoke(lease.id))
        })
    });
    let quiet = await_that("a quiet cluster answers", PATIENCE, || Point::ask(&leader, true));
    let list = await_end(&url, quiet.revision, &agent);
    // The archive knows the time of a change only by when the agent took it in.
    let quiet_since = now();
    while now() - quiet_since < 5000 {
        std::thread::sleep(Duration::from_millis(100));
    }
    let quiet_at = quiet_since + 3500;
    // One more change, so that the archive learns how long it was quiet.
    let last = await_that("one more change is written", PATIENCE, || {
        trio.client(trio.leader()).try_put(b"/last", b"word")
    });
    await_end(&url, last, &agent);
    agent.kill();
    stop.store(true, Ordering::Relaxed);
    let mut points = recorder.join().expect("the recorder did not panic");
    points.push(quiet.clone());
    println!(
        "figures: calls={done}; points={}; agents_killed={kills}; leaders_killed={crashes}; store_failures={failures}; \
         failed_requests={}",
        points.len(),
        proxy.struck()
    );
    assert!(done > 100 && points.len() > 20, "little happened");
    assert_eq!(newest(&list)["gaps"], serde_json::json!([]), "{list}");

    let first = points.iter().map(|point| point.revision).min().unwrap_or(0);
    let reachable = newest(&list)["reachable"][0]["from"]
        .as_i64()
        .expect("a first revision that can be restored");
    println!("figures: first_revision={first}; last_revision={last}; restorable_from={reachable}");
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
        "figures: restored_equal={}; equal_by_hash={hashes}",
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

/// Restored, a cluster has a new id, and goes on in the same archive as a new timeline. Both lead back.
#[test]
fn a_restored_cluster_goes_on_in_the_same_archive() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let url = format!("file://{}", at("archive").display());
    let version = etcd::newest("3.5");
    let first = etcd::Start::new(&version, &at("first")).serve();
    let agent = Agent::start(
        &url,
        &first.addresses().client,
        &["--period", "1s"],
        &at("first.log"),
    );
    for number in 0..50 {
        first
            .client()
            .put(format!("/key/{number:02}").as_bytes(), b"first");
    }
    let before = Point::ask(&first.client(), true).expect("an answer");
    await_end(&url, before.revision, &agent);
    first.client().delete(b"/key/", b"/key0");
    let mistake = Point::ask(&first.client(), true).expect("an answer");
    await_end(&url, mistake.revision, &agent);
    agent.stop();
    first.stop();

    let addresses = etcd::Addresses::free();
    let members = format!("m0={}", addresses.peer);
    let revision = before.revision.to_string();
    let as_member = [
        "--name",
        "m0",
        "--initial-cluster",
        &members,
        "--initial-advertise-peer-urls",
        &addresses.peer,
    ];
    let token = ["--initial-cluster-token", "again"];
    let wanted = [&["--to-revision", &revision][..], &as_member, &token].concat();
    restore(&url, &at("second"), &wanted);
    before.compare(&at("second"));
    let start = etcd::Start {
        addresses: Some(addresses.clone()),
        ..etcd::Start::new(&version, &at("second"))
    };
    let second = start.serve();
    let agent = Agent::start(&url, &addresses.client, &["--period", "1s"], &at("second.log"));
    second.client().put(b"/key/second", b"second");
    let after = Point::ask(&second.client(), true).expect("an answer");
    let began = Instant::now();
    let list = loop {
        let list = json(&["list", &url]);
        if list["timelines"].as_array().is_some_and(|all| all.len() == 2) && end(&list) >= after.revision {
            break list;
        }
        let wanted = after.revision;
        let late = began.elapsed() >= PATIENCE;
        assert!(
            !late,
            "no second timeline to revision {wanted}: {list}\n{}",
            agent.said()
        );
        std::thread::sleep(Duration::from_millis(200));
    };
    let parent = &list["timelines"][1]["parent"];
    assert_eq!(
        (parent["timeline"].as_i64(), parent["revision"].as_i64()),
        (Some(1), Some(before.revision))
    );
    agent.stop();
    second.stop();

    for (name, timeline, point) in [("a", "1", &mistake), ("b", "1", &before), ("c", "2", &after)] {
        let revision = point.revision.to_string();
        let restored = restore(
            &url,
            &at(name),
            &["--timeline", timeline, "--to-revision", &revision],
        );
        assert_eq!(restored["timeline"].to_string(), timeline, "{restored}");
        assert!(point.compare(&at(name)), "the hash of {name}");
    }

    // A stranger is turned away, and nothing of the archive changes.
    let timelines = json(&["list", &url])["timelines"].clone();
    let stranger = etcd::Start::new(&version, &at("stranger"))
        .flag("--initial-cluster-token=stranger")
        .serve();
    let output = backup(&["run", &url, "--endpoints", &stranger.addresses().client]);
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{reported}");
    assert!(reported.contains("is that of cluster"), "{reported}");
    assert_eq!(json(&["list", &url])["timelines"], timelines, "{reported}");
}

/// `quorate up` takes backups as its manifest says, through the death of the agent and of the supervisor.
#[test]
fn a_cluster_of_this_machine_is_backed_up_as_its_manifest_says() {
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(1, &version);
    let manifest = std::fs::read_to_string(cluster.manifest()).unwrap();
    let manifest = format!("{manifest}  backup:\n    deltas:\n      period: 1s\n");
    std::fs::write(cluster.manifest(), manifest).unwrap();
    let url = format!("file://{}", cluster.root().join("archive").display());
    cluster.up();
    let mut agents = Vec::new();
    for round in 0..3 {
        cluster.await_ready(1, &version);
        let status = cluster.await_status("an agent that writes, and everything in the archive", |status| {
            let backup = status.backup.as_ref();
            let report = backup.and_then(|backup| backup.report.as_ref());
            let pid = backup.and_then(|backup| backup.pid);
            pid.is_some_and(|pid| !agents.contains(&pid))
                && report.is_some_and(|report| {
                    report["state"] == "writing"
                        && report["revision"].is_i64()
                        && report["revision"] == report["archived"]
                })
        });
        let backup = status.backup.expect("backups");
        assert_eq!(backup.archive, url);
        let agent = backup.pid.expect("an agent");
        agents.push(agent);
        match round {
            0 => kill_member(agent),
            1 => {
                cluster.kill_supervisor();
                // It ends with its supervisor, so that there are never two.
                let began = Instant::now();
                while Path::new(&format!("/proc/{agent}")).exists() {
                    assert!(began.elapsed() < PATIENCE, "the agent outlives its supervisor");
                    std::thread::sleep(Duration::from_millis(20));
                }
                cluster.up();
            }
            _ => {}
        }
    }
    assert!(cluster.must(&["status"]).contains("is in it"));
    cluster.stop();
    let list = json(&["list", &url]);
    assert_eq!(
        (newest(&list)["faults"].clone(), newest(&list)["gaps"].clone()),
        (serde_json::json!([]), serde_json::json!([]))
    );
}
