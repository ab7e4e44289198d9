//! Archives copied from directory to directory: at once, bit by bit, damaged, to the wrong place.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::*;
use crate::format::record::{Delta, Full, Made, Prune};
use crate::hold::Hold;
use crate::log::Log;
use crate::{Sha256Hex, StoreOptions, StoreUrl};

fn now() -> Timestamp {
    Timestamp::from_second(1_900_000_000).unwrap()
}

async fn open(path: &Path) -> Store {
    let url = StoreUrl::parse(&format!("file://{}", path.display())).unwrap();
    Store::open(&url, &StoreOptions::default()).await.unwrap()
}

async fn put(store: &Store, object: String, content: Vec<u8>) -> Facts {
    let facts = Facts {
        object,
        stored_bytes: content.len() as u64,
        plain_bytes: 0,
        sha256: Sha256Hex::of(&content),
        index_sha256: Sha256Hex::default(),
        key: None,
    };
    store.put(&facts.object, Bytes::from(content)).await.unwrap();
    facts
}

/// A full copy of 5 MB, and deltas of a few bytes.
async fn fill(archive: &Archive, log: &mut Log, revisions: std::ops::RangeInclusive<i64>) {
    for revision in revisions {
        if revision == 1 {
            let content = (0..5_000_000u32).flat_map(|n| [n as u8]).collect();
            let full = Full {
                facts: put(archive.store(), names::full(1, revision, "a"), content).await,
                revision,
                compact_revision: -1,
                made: Made::Snapshot,
                taken: now(),
                etcd_version: "3.6.16".to_owned(),
                auth_revision: 0,
                auth_from: None,
                hash: None,
            };
            log.append(Entry::Full(full), now()).await.unwrap();
            continue;
        }
        let name = names::delta(1, revision, revision, "a");
        let delta = Delta {
            facts: put(archive.store(), name, format!("rows of {revision}").into_bytes()).await,
            from: revision,
            to: revision,
            rows: 1,
            row_bytes: 1,
            crc: 0,
            samples: Vec::new(),
            leases: Vec::new(),
            last: None,
        };
        log.append(Entry::Delta(delta), now()).await.unwrap();
    }
    log.say_head(0, now()).await.unwrap();
}

struct Place {
    _directory: tempfile::TempDir,
    from: PathBuf,
    to: PathBuf,
    archive: Archive,
    log: Log,
}

async fn place(revisions: i64) -> Place {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    let mut archive = Archive::open_or_begin(&open(&from).await, None, now())
        .await
        .unwrap();
    archive.begin_timeline(7, None, "a test", now()).await.unwrap();
    let mut log = archive.log(1, "agent").await.unwrap();
    fill(&archive, &mut log, 1..=revisions).await;
    Place {
        _directory: directory,
        from,
        to,
        archive,
        log,
    }
}

async fn run(place: &Place) -> Result<Copied, Error> {
    run_at(place, now()).await
}

async fn run_at(place: &Place, now: Timestamp) -> Result<Copied, Error> {
    let progress = Arc::new(Progress::new());
    copy(&place.archive, &open(&place.to).await, "a test", &progress, now).await
}

async fn give_up(log: &mut Log, object: String) {
    let prune = Prune {
        objects: vec![object],
        delete_after: now(),
        why: "a test".to_owned(),
    };
    log.append(Entry::Prune(prune), now()).await.unwrap();
    log.say_head(0, now()).await.unwrap();
}

/// Two hours pass for the log of the copy.
fn age_log(place: &Place) {
    for entry in fs::read_dir(place.to.join(names::log(1))).unwrap() {
        let file = fs::File::options()
            .write(true)
            .open(entry.unwrap().path())
            .unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(7200))
            .unwrap();
    }
}

fn flip(path: &Path) {
    let mut content = fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(path, content).unwrap();
}

fn objects(told: &[Damage]) -> BTreeSet<&str> {
    told.iter().map(|damage| damage.object.as_str()).collect()
}

/// What a copy must have: every data object and the same records.
async fn assert_same(place: &Place) {
    let copy = Archive::open(&open(&place.to).await, None).await.unwrap();
    assert_eq!(copy.identity(), place.archive.identity());
    assert_eq!(copy.timelines(), place.archive.timelines());
    let (ours, theirs) = (
        place.archive.history(1).await.unwrap(),
        copy.history(1).await.unwrap(),
    );
    assert_eq!(theirs.faults, []);
    assert_eq!(ours.records, theirs.records);
    for (_, delta) in theirs.deltas() {
        crate::format::object::rehash(copy.store(), &delta.facts, |_| ())
            .await
            .unwrap();
    }
    for (_, full) in theirs.fulls() {
        crate::format::object::rehash(copy.store(), &full.facts, |_| ())
            .await
            .unwrap();
    }
}

fn data(path: &Path) -> BTreeSet<String> {
    let below = |part: &str| path.join("t/00000001").join(part);
    let all = ["full", "delta"].map(|part| fs::read_dir(below(part)));
    all.into_iter()
        .filter_map(Result::ok)
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn a_copy_is_the_same_and_grows_with_the_source() {
    let mut place = place(140).await;
    let copied = run(&place).await.unwrap();
    assert_eq!((copied.objects, copied.records, copied.were_there), (140, 140, 0));
    assert_same(&place).await;
    let again = run(&place).await.unwrap();
    assert_eq!((again.objects, again.records, again.were_there), (0, 0, 140));
    fill(&place.archive, &mut place.log, 141..=260).await;
    give_up(&mut place.log, names::delta(1, 2, 2, "a")).await;
    let more = run(&place).await.unwrap();
    assert_eq!((more.objects, more.records, more.deleted), (120, 121, 0));
    assert_same(&place).await;
    age_log(&place);
    assert_eq!(run(&place).await.unwrap().deleted, 1);
    assert_same(&place).await;
    assert_eq!(data(&place.to).len(), 259);
}

#[tokio::test]
async fn who_reads_the_copy_keeps_what_the_source_gave_up_long_ago() {
    let mut place = place(10).await;
    run(&place).await.unwrap();
    give_up(&mut place.log, names::delta(1, 2, 2, "a")).await;
    // A day later it is long due in the source. Whoever reads the copy does not know of it before it is copied.
    let day = now() + jiff::SignedDuration::from_hours(24);
    let copy = Archive::open(&open(&place.to).await, None).await.unwrap();
    let hold = Hold::take(&copy, "a restore", day).await.unwrap();
    assert_eq!(run_at(&place, day).await.unwrap().deleted, 0);
    age_log(&place);
    assert_eq!(run_at(&place, day).await.unwrap().deleted, 0);
    hold.release().await;
    assert_eq!(run_at(&place, day).await.unwrap().deleted, 1);
    // One that can leave no mark has an hour, however often it is copied.
    give_up(&mut place.log, names::delta(1, 3, 3, "a")).await;
    for _ in 0..2 {
        assert_eq!(run_at(&place, day).await.unwrap().deleted, 0);
    }
    age_log(&place);
    assert_eq!(run_at(&place, day).await.unwrap().deleted, 1);
    assert_same(&place).await;
}

#[tokio::test]
async fn a_source_that_lost_its_end_has_a_copy_that_says_so() {
    let place = place(10).await;
    for (lost, left) in [(9..=10, 8), (1..=8, 0)] {
        for number in lost {
            fs::remove_file(place.from.join(names::record(1, number))).unwrap();
        }
        // Copied again it says the same, and what the copy shares with the source is told once.
        for _ in 0..2 {
            let copied = run(&place).await.unwrap();
            assert_eq!(objects(&copied.damaged), BTreeSet::from([&*names::record(1, 10)]));
            assert_eq!((copied.damaged.len(), copied.repaired.len()), (1, 0));
            let theirs = History::read(&open(&place.to).await, 1).await.unwrap();
            assert_eq!(theirs.faults, place.archive.history(1).await.unwrap().faults);
            assert_eq!(theirs.records.len(), left);
        }
        fs::remove_dir_all(&place.to).unwrap();
    }
}

#[tokio::test]
async fn a_damaged_log_of_the_copy_is_written_anew() {
    let place = place(140).await;
    run(&place).await.unwrap();
    let damaged = [names::segment(1, 1, 128), names::record(1, 135), names::head(1)];
    for name in &damaged {
        flip(&place.to.join(name));
    }
    let copied = run(&place).await.unwrap();
    assert_eq!(
        objects(&copied.repaired),
        damaged.iter().map(String::as_str).collect()
    );
    assert_eq!((copied.damaged.len(), copied.objects), (0, 0));
    assert_same(&place).await;
    // A segment that was cut off at the end of a record, beside records that say the same.
    let segment = place.to.join(names::segment(1, 1, 128));
    let record = fs::read(place.from.join(names::record(1, 1))).unwrap();
    for number in 1..=128 {
        let name = names::record(1, number);
        fs::copy(place.from.join(&name), place.to.join(&name)).unwrap();
    }
    fs::write(&segment, record).unwrap();
    let copied = run(&place).await.unwrap();
    assert_eq!((copied.repaired.len(), copied.records), (1, 0));
    assert_same(&place).await;
    assert_eq!(run(&place).await.unwrap().repaired, []);
}

#[tokio::test]
async fn what_neither_log_has_is_told_once() {
    let place = place(140).await;
    run(&place).await.unwrap();
    let lost = names::record(1, 135);
    fs::remove_file(place.from.join(&lost)).unwrap();
    flip(&place.to.join(&lost));
    let copied = run(&place).await.unwrap();
    assert_eq!(objects(&copied.damaged), BTreeSet::from([lost.as_str()]));
    assert_eq!((copied.damaged.len(), copied.repaired.len()), (1, 0));
    // A segment that the source cannot give as a whole: its records, one by one, and what is left is told.
    let (segment, record) = (names::segment(1, 1, 128), names::record(1, 7));
    fs::remove_file(place.from.join(&segment)).unwrap();
    fs::remove_file(place.from.join(&record)).unwrap();
    flip(&place.to.join(&segment));
    let copied = run(&place).await.unwrap();
    assert_eq!(
        objects(&copied.damaged),
        BTreeSet::from([lost.as_str(), segment.as_str(), record.as_str()])
    );
    assert_eq!((copied.damaged.len(), copied.records), (3, 127));
    let theirs = History::read(&open(&place.to).await, 1).await.unwrap();
    assert_eq!(theirs.records, place.archive.history(1).await.unwrap().records);
}

#[tokio::test]
async fn cut_off_it_is_gone_on_with() {
    let place = place(135).await;
    // Half of the objects, a wrong one among them, and no record yet.
    let to = open(&place.to).await;
    for (count, name) in data(&place.from).into_iter().enumerate() {
        let part = if name.ends_with(".full") { "full" } else { "delta" };
        let name = format!("t/00000001/{part}/{name}");
        let mut content = fs::read(place.from.join(&name)).unwrap();
        match count % 3 {
            0 => content[0] ^= 1,
            1 => continue,
            _ => {}
        }
        to.put(&name, Bytes::from(content)).await.unwrap();
    }
    let copied = run(&place).await.unwrap();
    assert_eq!((copied.objects, copied.were_there), (90, 45));
    assert_same(&place).await;
    // An object of the copy that got lost comes back.
    fs::remove_file(place.to.join(names::delta(1, 9, 9, "a"))).unwrap();
    assert_eq!(run(&place).await.unwrap().objects, 1);
    assert_same(&place).await;
    // Cancelled, nothing of what is there is lost.
    let progress = Arc::new(Progress::new());
    progress.cancel();
    fs::remove_file(place.to.join(names::delta(1, 9, 9, "a"))).unwrap();
    let cancelled = copy(&place.archive, &to, "a test", &progress, now()).await;
    assert!(matches!(
        cancelled,
        Err(Error::Data(quorate_datadir::Error::Cancelled))
    ));
    run(&place).await.unwrap();
    assert_same(&place).await;
}

#[tokio::test]
async fn what_is_damaged_is_told_and_not_copied() {
    let place = place(10).await;
    let (changed, gone) = (names::full(1, 1, "a"), names::delta(1, 4, 4, "a"));
    let mut content = fs::read(place.from.join(&changed)).unwrap();
    content[4_000_000] ^= 4;
    fs::write(place.from.join(&changed), content).unwrap();
    fs::remove_file(place.from.join(&gone)).unwrap();
    let copied = run(&place).await.unwrap();
    assert_eq!(
        objects(&copied.damaged),
        BTreeSet::from([changed.as_str(), gone.as_str()])
    );
    assert_eq!(
        (copied.objects, data(&place.to).len(), copied.records),
        (8, 8, 10)
    );
}

#[tokio::test]
async fn nothing_is_copied_to_the_wrong_place() {
    let place = place(3).await;
    let other = self::place(2).await;
    let refused = |outcome: Result<Copied, Error>, word: &str| {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    let progress = Arc::new(Progress::new());
    let onto = |store: Store| {
        let (archive, progress) = (place.archive.clone(), Arc::clone(&progress));
        async move { copy(&archive, &store, "a test", &progress, now()).await }
    };
    refused(onto(open(&other.from).await).await, "holds another archive");
    refused(onto(open(&place.from).await).await, "onto itself");
    // A sound record that is not the source's, of a later version, is not taken for a damaged one.
    run(&place).await.unwrap();
    let record = place.to.join(names::record(1, 3));
    let (later, _) = lines::write(&BTreeMap::from([("number", 3)]));
    fs::write(&record, &later).unwrap();
    refused(run(&place).await, "is sound and not the source's");
    assert_eq!(fs::read(&record).unwrap(), later);
    fs::copy(place.from.join(names::record(1, 3)), &record).unwrap();
    // A copy that has gone its own way, and one that an agent writes.
    let mut log = Log::open(&open(&place.to).await, 1, "another").await.unwrap();
    log.say_head(10, now()).await.unwrap();
    refused(run(&place).await, "is written by an agent");
    log.say_head(0, now()).await.unwrap();
    log.claim("a test", now()).await.unwrap();
    refused(run(&place).await, "records of its own");
    assert_eq!(data(&other.from).len(), 2);
}
