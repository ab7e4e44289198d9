//! Members of real etcd, killed at a random moment: what is made of their directories is what real etcd makes of them.
//!
//! Goal: HashKV at every revision tried, every row above the compaction, and all rows of leases, alarms, users, roles,
//! members and the cluster are equal. Method: a random workload, `kill -9`, then etcd of the same version starts on one
//! copy of the directory and replays its log, while another is made into a snapshot here. Every sixth has
//! authentication in its log, every sixth an alarm: those take a real etcd on our side, too, on a copy that it makes
//! itself. `QUORATE_DEAD_MEMBERS` says how many (12 if nothing is said), `QUORATE_SEED` where to begin; a failure says
//! which it was.

mod compare;
mod followers;
mod member;
mod received;
mod workload;

use std::path::Path;
use std::sync::Mutex;

use member::{Member, long_batches};
use quorate_datadir::{Progress, Revive};
use quorate_host::etcd::find::Places;
use quorate_host::etcd::revive::{ReviveEvent, RevivedSnapshot, revive};
use quorate_testkit::{Start, newest_of_each_minor};
use workload::Mode;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

/// Runs `one` for as many seeds as are wanted, two at a time, and tells what each said. Out: all of it.
fn for_seeds<T: Send>(by_default: u64, one: impl Fn(u64) -> (String, T) + Sync) -> Vec<T> {
    let count = number("QUORATE_DEAD_MEMBERS").unwrap_or(by_default);
    let first = number("QUORATE_SEED").unwrap_or(1);
    let next = Mutex::new(first..first + count);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(seed) = next.lock().unwrap().next() else {
                        break;
                    };
                    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one(seed)));
                    let (line, value) =
                        said.unwrap_or_else(|_| panic!("failed: QUORATE_SEED={seed} QUORATE_DEAD_MEMBERS=1"));
                    println!("{seed:>4} {line}");
                    all.lock().unwrap().push(value);
                }
            });
        }
    });
    all.into_inner().unwrap()
}

#[test]
fn what_is_made_of_a_dead_member_is_what_etcd_makes_of_it() {
    let versions = newest_of_each_minor();
    let all = for_seeds(12, |seed| one(&versions[seed as usize % versions.len()], seed));
    let native = all.iter().filter(|made| made.by.is_none()).count();
    let entries: u64 = all.iter().map(|made| made.revived.applied.total()).sum();
    println!(
        "figures: dead_members={}; without_etcd={native}; entries_replayed={entries}",
        all.len()
    );
    assert!(
        all.len() < 6 || native * 2 >= all.len(),
        "most of these need no real etcd"
    );
}

fn one(version: &str, seed: u64) -> (String, RevivedSnapshot) {
    let mut random = fastrand::Rng::with_seed(seed);
    let root = tempfile::tempdir().unwrap();
    let mode = match seed % 6 {
        4 => Mode::Auth,
        5 => Mode::Alarm,
        _ => Mode::Plain,
    };
    let data_dir = root.path().join("dead/data");
    let mut start = Start::new(version, &data_dir);
    if mode != Mode::Plain || random.u8(..4) > 0 {
        start = long_batches(start);
    }
    let mut etcd = Member::serve(&start);
    let mut workload = workload::Workload::new(mode, mode == Mode::Plain && random.bool());
    // Most members have run before, and their database holds what they were then.
    let fresh = mode == Mode::Plain && random.u8(..4) == 0;
    if !fresh {
        workload.before(&etcd);
        workload.run(&etcd, &mut random, 1..200);
        etcd.stop();
        etcd = etcd.again(&data_dir);
    }
    workload.amid(&mut etcd, version);
    workload.run_and_kill(&mut etcd, &mut random, 1..400);

    let before = compare::listing(&data_dir);
    let snapshot = root.path().join("made.db");
    let made = make(&data_dir, &snapshot, &etcd.binary());
    assert_eq!(compare::listing(&data_dir), before, "the directory is as it was");
    let left: Vec<_> = root
        .path()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "nothing is left beside the snapshot: {left:?}");
    if mode != Mode::Plain && made.revived.applied.total() > 0 {
        assert!(made.by.is_some(), "{mode:?} is not decided without etcd");
    }

    let real = root.path().join("real/data");
    compare::copy(&data_dir, &real);
    let etcd = etcd.again(&real);
    compare::compare(&etcd, &snapshot, &root.path().join("real.db"), &made, &mut random);
    let kind = if fresh { "first run" } else { "ran before" };
    let by = made
        .by
        .as_ref()
        .map_or(String::new(), |by| format!(" by etcd {}", by.version));
    let line = format!(
        "{version:<7} {kind}, revision {}, {} entries{by}: {}",
        made.revived.revision,
        made.revived.applied.total(),
        made.revived.applied
    );
    (line, made)
}

/// Makes a snapshot of a dead member.
fn make(data_dir: &Path, snapshot: &Path, binary: &Path) -> RevivedSnapshot {
    let wanted = Revive {
        data_dir,
        wal_dir: None,
        file: snapshot,
    };
    let places = Places {
        explicit: Some(binary.to_owned()),
        ..Places::default()
    };
    let mut reported = Vec::new();
    let made = revive(
        &wanted,
        &places,
        &mut |what| {
            reported.push(match what {
                ReviveEvent::UnsupportedEntry(stopped) => format!(
                    "{}; {} remain: {}",
                    stopped.stop,
                    stopped.remaining.total(),
                    stopped.remaining
                ),
                ReviveEvent::EtcdStarted(etcd) => format!("etcd {}", etcd.version),
                ReviveEvent::Retrying(kinds) => format!("again, because of {kinds}"),
            });
        },
        &Progress::new(),
    );
    let made = made.unwrap_or_else(|error| panic!("{}\n{reported:?}", error.chain()));
    assert_eq!(made.by.is_some(), !reported.is_empty());
    made
}
