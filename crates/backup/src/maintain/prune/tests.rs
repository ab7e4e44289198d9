//! Archives in a directory, pruned: to the end, and cut off after each step.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::*;
use crate::format::digest::Sha256Hex;
use crate::format::names;
use crate::format::object::Facts;
use crate::format::record::{Delta, Level, Made, Proof};
use crate::hold::Hold;
use crate::log::SEGMENT;
use crate::{Store, StoreOptions, StoreUrl};

const DAY: i64 = 86_400;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + second).unwrap()
}

async fn open(path: &Path) -> Store {
    let url = StoreUrl::parse(&format!("file://{}", path.display())).unwrap();
    Store::open(&url, &StoreOptions::default()).await.unwrap()
}

fn facts(object: String) -> Facts {
    Facts {
        object,
        stored_bytes: 4,
        plain_bytes: 4,
        sha256: Sha256Hex::default(),
        index_sha256: Sha256Hex::default(),
        key: None,
    }
}

/// A delta for each revision, a full copy each day.
async fn filled(path: &Path, days: i64, each_day: i64) -> Archive {
    let mut archive = Archive::open_or_begin(&open(path).await, None, at(0))
        .await
        .unwrap();
    fill(&mut archive, 0..days, each_day).await;
    archive
}

/// The same, into a timeline of its own.
async fn fill(archive: &mut Archive, days: std::ops::Range<i64>, each_day: i64) {
    let store = archive.store().clone();
    let begun = at(days.start * DAY);
    let cluster = 7 + archive.timelines().len() as u64;
    let timeline = archive
        .begin_timeline(cluster, None, "a test", begun)
        .await
        .unwrap()
        .timeline;
    let mut log = archive.log(timeline, "agent").await.unwrap();
    log.claim("a test", begun).await.unwrap();
    for revision in 1..=(days.end - days.start) * each_day {
        let second = days.start * DAY + revision * DAY / each_day;
        if revision % each_day == 1 {
            let facts = facts(names::full(timeline, revision, "a"));
            store
                .put(&facts.object, Bytes::from_static(b"full"))
                .await
                .unwrap();
            let full = Full {
                facts,
                revision,
                compact_revision: -1,
                made: Made::Snapshot,
                taken: at(second),
                etcd_version: "3.6.16".to_owned(),
                auth_revision: 0,
                auth_from: None,
                hash: None,
            };
            log.append(Entry::Full(full), at(second)).await.unwrap();
        }
        if revision == 1 {
            continue;
        }
        let facts = facts(names::delta(timeline, revision, revision, "a"));
        store
            .put(&facts.object, Bytes::from_static(b"rows"))
            .await
            .unwrap();
        let delta = Delta {
            facts,
            from: revision,
            to: revision,
            rows: 1,
            row_bytes: 1,
            crc: 0,
            samples: Vec::new(),
            leases: Vec::new(),
            last: None,
        };
        log.append(Entry::Delta(delta), at(second)).await.unwrap();
    }
    log.say_head(0, at(days.end * DAY)).await.unwrap();
}

fn options(retention: &str, grace: u64) -> Options {
    Options {
        retention: Some(retention.parse().unwrap()),
        grace: Duration::from_secs(grace),
        writer: "a test".to_owned(),
    }
}

fn files(path: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![path.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => left.push(entry.path()),
                false => drop(found.insert(entry.path().strip_prefix(path).unwrap().display().to_string())),
            }
        }
    }
    found
}

fn make_old(path: &Path, name: &str) {
    let file = fs::File::options().write(true).open(path.join(name)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(200_000))
        .unwrap();
}

/// Which revisions are reachable: by full copies and changes that count and are there.
async fn reachable(archive: &Archive) -> BTreeSet<i64> {
    let history = archive.history(1).await.unwrap();
    assert_eq!(history.faults, []);
    let there: BTreeSet<String> = archive
        .store()
        .list("t", None)
        .await
        .unwrap()
        .into_iter()
        .map(|f| f.name)
        .collect();
    let deltas: BTreeSet<i64> = history
        .deltas()
        .iter()
        .inspect(|(_, delta)| assert!(there.contains(&delta.facts.object), "{}", delta.facts.object))
        .map(|(_, delta)| delta.to)
        .collect();
    let mut reachable = BTreeSet::new();
    for (_, full) in history.fulls() {
        assert!(there.contains(&full.facts.object), "{}", full.facts.object);
        reachable.extend((full.revision..).take_while(|r| *r == full.revision || deltas.contains(r)));
    }
    reachable
}

fn copy(from: &Path, to: &Path) {
    for name in files(from) {
        let target = to.join(&name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(from.join(&name), &target).unwrap();
        let modified = fs::metadata(from.join(&name)).unwrap().modified().unwrap();
        fs::File::options()
            .write(true)
            .open(target)
            .unwrap()
            .set_modified(modified)
            .unwrap();
    }
}

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("archive");
    Place {
        _directory: directory,
        path,
    }
}

#[tokio::test]
async fn cut_off_anywhere_it_loses_nothing_and_is_finished_by_the_next() {
    let place = place();
    let (days, each) = (30, 12);
    filled(&place.path, days, each).await;
    for name in files(&place.path).iter().filter(|name| name.contains("/log/")) {
        make_old(&place.path, name);
    }
    let orphan = names::delta(1, 5, 9, "orphan");
    fs::write(place.path.join(&orphan), b"rows").unwrap();
    make_old(&place.path, &orphan);
    let fresh = names::delta(1, 5, 9, "fresh");
    fs::write(place.path.join(&fresh), b"rows").unwrap();
    let now = at(days * DAY);
    let window: BTreeSet<i64> = ((days - 3) * each..=days * each).collect();
    let mut outcomes = BTreeSet::new();
    for steps in (0u32..6).chain((6..1000).step_by(150)) {
        let directory = tempfile::tempdir().unwrap();
        copy(&place.path, directory.path());
        let archive = Archive::open(&open(directory.path()).await, None).await.unwrap();
        let before = reachable(&archive).await;
        let options = options("3d,20d:5d", 0);
        let planned = plan(&archive, &options, now).await.unwrap();
        let (mut left, stop) = (steps, tokio::sync::Notify::new());
        let seen = |_| {
            if left == 0 && steps % 2 == 1 {
                return Err(Error::Cancelled);
            } else if left == 0 {
                stop.notify_one();
            }
            left = left.saturating_sub(1);
            Ok(())
        };
        let cut = tokio::select! {
            biased;
            () = stop.notified() => true,
            done = run(&archive, &options, &planned, now, seen) => match done {
                Err(Error::Cancelled) => true,
                done => { done.unwrap(); false }
            }
        };
        let between = reachable(&archive).await;
        assert!(
            between.is_superset(&window) && between.is_subset(&before),
            "after {steps}"
        );
        for _ in 0..2 {
            let planned = plan(&archive, &options, now).await.unwrap();
            run(&archive, &options, &planned, now, |_| Ok(())).await.unwrap();
        }
        let after = reachable(&archive).await;
        assert!(after.is_superset(&window), "after {steps}");
        let there = files(directory.path());
        assert!(
            !there.contains(&orphan) && there.contains(&fresh),
            "after {steps}"
        );
        let data = |name: &&String| name.contains("/full/") || name.contains("/delta/");
        outcomes.insert(there.iter().filter(data).cloned().collect::<Vec<_>>());
        assert!(plan(&archive, &options, now).await.unwrap().is_idle());
        if !cut {
            break;
        }
    }
    assert_eq!(
        outcomes.len(),
        1,
        "wherever it was cut off, the same stays in the end"
    );
    let stays = outcomes.pop_first().unwrap();
    assert_eq!(stays.iter().filter(|name| name.contains("/full/")).count(), 4 + 4);
}

#[tokio::test]
async fn a_log_is_trimmed_and_agents_go_on_behind_it() {
    let place = place();
    let archive = filled(&place.path, 40, 24).await;
    let mut agent = archive.log(1, "agent").await.unwrap();
    let proof = Proof {
        level: Level::Rebuilt,
        revision: 960,
        base: 937,
        hash: None,
        seconds: 1.0,
    };
    agent.append(Entry::Proof(proof), at(40 * DAY)).await.unwrap();
    let options = options("2d,30d:1d", 3600);
    let now = at(40 * DAY);
    let planned = plan(&archive, &options, now).await.unwrap();
    assert!(
        planned.timelines[0].segments.len() >= 6,
        "{:?}",
        planned.timelines[0].segments
    );
    let before = files(&place.path);
    run(&archive, &options, &planned, now, |_| Ok(())).await.unwrap();
    // Recorded, and all is still there.
    assert!(files(&place.path).is_superset(&before));
    assert!(plan(&archive, &options, now).await.unwrap().is_idle());
    agent
        .append(
            Entry::Claim(crate::format::record::Claim {
                epoch: 1,
                why: "on".to_owned(),
            }),
            now,
        )
        .await
        .unwrap();
    let later = at(40 * DAY + 3601);
    // Something that began to read before it was recorded keeps it all.
    let hold = Hold::take(&archive, "a restore", now).await.unwrap();
    hold.renew(later).await.unwrap();
    let planned = plan(&archive, &options, later).await.unwrap();
    assert!(
        planned.due.is_empty() && planned.held.objects > 800,
        "{:?}",
        planned.held
    );
    hold.release().await;
    let planned = plan(&archive, &options, later).await.unwrap();
    let done = run(&archive, &options, &planned, later, |_| Ok(()))
        .await
        .unwrap();
    assert_eq!(done.deleted.objects, planned.due.len() as u64);
    let after = files(&place.path);
    assert!(!after.contains(&names::record(1, SEGMENT)) && !after.contains(&names::segment(1, 1, SEGMENT)));
    let history = archive.history(1).await.unwrap();
    assert_eq!(history.faults, []);
    assert!(history.records[0].record.number > 6 * SEGMENT);
    assert_eq!(
        history.fulls().len(),
        29,
        "their records went, and they were told again"
    );
    agent
        .append(
            Entry::Claim(crate::format::record::Claim {
                epoch: 1,
                why: "on".to_owned(),
            }),
            later,
        )
        .await
        .unwrap();
    let tail = archive.log(1, "another").await.unwrap().tail().clone();
    assert_eq!(tail.next, agent.tail().next);
    assert_eq!((tail.end, tail.epoch), (Some(960), 1));
    assert_eq!(tail.last_proof.unwrap().0.base, 937);
}

#[tokio::test]
async fn where_the_log_is_damaged_nothing_is_taken_for_an_orphan() {
    let place = place();
    let archive = filled(&place.path, 3, 8).await;
    fs::write(place.path.join(names::record(1, 10)), b"nonsense").unwrap();
    for name in files(&place.path).iter().filter(|name| name.contains("/delta/")) {
        make_old(&place.path, name);
    }
    let options = options("1h", 0);
    let now = at(100 * DAY);
    let planned = plan(&archive, &options, now).await.unwrap();
    assert_eq!((planned.orphans.len(), planned.timelines[0].faults.len()), (0, 1));
    assert!(planned.timelines[0].segments.is_empty());
    let before = files(&place.path).len();
    run(&archive, &options, &planned, now, |_| Ok(())).await.unwrap();
    assert!(files(&place.path).len() < before);
    let history = archive.history(1).await.unwrap();
    assert_eq!(history.fulls().len(), 1, "the last resort");
    assert_eq!(history.deltas().len(), 7);
}

#[tokio::test]
async fn a_restored_cluster_beside_it_takes_nothing_from_the_one_that_goes_on() {
    let options = options("7d", 0);
    // The first of them goes on for so long, the second is of two days in between; then it is day 40.
    for (goes_on, window, last) in [(40, true, true), (30, false, true), (5, false, false)] {
        let place = place();
        let mut archive = filled(&place.path, goes_on, 6).await;
        fill(&mut archive, 10..12, 6).await;
        let now = at(40 * DAY);
        let planned = plan(&archive, &options, now).await.unwrap();
        run(&archive, &options, &planned, now, |_| Ok(())).await.unwrap();
        let reached = reachable(&archive).await;
        let end = goes_on * 6;
        assert_eq!(
            (end - 6 * 7..=end).all(|revision| reached.contains(&revision)),
            window,
            "until day {goes_on}"
        );
        assert_eq!(reached.contains(&end), last, "until day {goes_on}");
        let other = archive.history(2).await.unwrap();
        assert_eq!(other.fulls().len(), 1, "the newest of the other one stays");
    }
}
