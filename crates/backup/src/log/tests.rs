//! Logs in a directory: written by several, damaged, read again.

use std::fs;
use std::path::{Path, PathBuf};

use super::read::Order;
use super::*;
use crate::format::record::{Gap, Prune};
use crate::store::{StoreOptions, StoreUrl};

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
    store: Store,
}

async fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("archive");
    let url = StoreUrl::parse(&format!("file://{}", path.display())).unwrap();
    let store = Store::open(&url, &StoreOptions::default()).await.unwrap();
    Place {
        _directory: directory,
        path,
        store,
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn gap(at: i64) -> Entry {
    Entry::Gap(Gap {
        from: at,
        to: at,
        why: "a test".to_owned(),
    })
}

async fn filled(place: &Place, records: i64) -> Log {
    let mut log = Log::open(&place.store, 1, "one").await.unwrap();
    for at in 1..=records {
        log.append(gap(at), now()).await.unwrap();
    }
    log.say_head(0, now()).await.unwrap();
    log
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(path.join("t/00000001/log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_log_is_read_as_it_was_written() {
    let place = place().await;
    let log = filled(&place, 300).await;
    assert_eq!(files(&place.path).len(), 300 + 2, "two segments");
    let history = History::read(&place.store, 1).await.unwrap();
    assert_eq!(history.faults, []);
    let ends: Vec<i64> = history.gaps().map(|(_, gap)| gap.to).collect();
    assert_eq!(ends, (1..=300).collect::<Vec<i64>>());
    let again = Log::open(&place.store, 1, "two").await.unwrap();
    assert_eq!(again.tail(), log.tail());
    // What is in a segment need not be there twice.
    for file in files(&place.path) {
        if matches!(LogName::of(&file), Some(number) if number <= 256) {
            fs::remove_file(file).unwrap();
        }
    }
    let history = History::read(&place.store, 1).await.unwrap();
    assert_eq!((history.records.len(), history.faults), (300, vec![]));
}

struct LogName;

impl LogName {
    fn of(path: &Path) -> Option<u64> {
        match names::LogObject::parse(path.to_str()?)? {
            names::LogObject::Record(number) => Some(number),
            names::LogObject::Segment(..) => None,
        }
    }
}

#[tokio::test]
async fn writers_at_once_write_one_behind_the_other() {
    let place = place().await;
    let append = |writer: &'static str| {
        let store = place.store.clone();
        async move {
            let mut log = Log::open(&store, 1, writer).await.unwrap();
            for at in 0..40 {
                log.append(gap(at), now()).await.unwrap();
            }
        }
    };
    tokio::join!(append("one"), append("two"), append("three"));
    let history = History::read(&place.store, 1).await.unwrap();
    let wrong: Vec<&Fault> = history
        .faults
        .iter()
        .filter(|fault| fault.number.is_some())
        .collect();
    assert_eq!((history.records.len(), wrong), (120, vec![]));
}

#[tokio::test]
async fn an_agent_that_was_relieved_writes_no_more() {
    let place = place().await;
    let mut one = Log::open(&place.store, 1, "one").await.unwrap();
    let mut two = Log::open(&place.store, 1, "two").await.unwrap();
    let mut command = Log::open(&place.store, 1, "command").await.unwrap();
    assert_eq!(one.claim("first", now()).await.unwrap(), 1);
    // At the same moment: it had not seen the other's claim.
    let lost = two.claim("first", now()).await.unwrap_err();
    assert!(
        matches!(&lost, Error::Fenced { writer, .. } if writer == "one"),
        "{lost}"
    );
    one.append(gap(1), now()).await.unwrap();
    command.append(gap(2), now()).await.unwrap();
    one.append(gap(3), now()).await.unwrap();
    two.catch_up().await.unwrap();
    assert_eq!(two.claim("the other is silent", now()).await.unwrap(), 2);
    let relieved = one.append(gap(4), now()).await.unwrap_err();
    assert!(
        matches!(&relieved, Error::Fenced { writer, .. } if writer == "two"),
        "{relieved}"
    );
    two.append(gap(4), now()).await.unwrap();
    assert_eq!(command.append(gap(5), now()).await.unwrap().record.epoch, 2);
    let history = History::read(&place.store, 1).await.unwrap();
    let ends: Vec<i64> = history.gaps().map(|(_, gap)| gap.to).collect();
    assert_eq!(ends, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn damage_is_told_and_the_rest_still_counts() {
    let place = place().await;
    filled(&place, 140).await;
    for (number, file) in files(&place.path).into_iter().enumerate() {
        let before = fs::read(&file).unwrap();
        let covered = LogName::of(&file).is_none_or(|record| record <= SEGMENT);
        let mut changed = before.clone();
        let bit = (number * 7919) % (changed.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        for content in [Some(changed), None] {
            match &content {
                Some(content) => fs::write(&file, content).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
            let history = History::read(&place.store, 1).await.unwrap();
            let told = history
                .faults
                .iter()
                .any(|fault| file.ends_with(fault.object.rsplit('/').next().unwrap()));
            // A record that is in a whole segment too is not read.
            let spare = covered && LogName::of(&file).is_some();
            assert!(
                told || spare || (content.is_none() && covered),
                "{} {:?}",
                file.display(),
                history.faults
            );
            assert_eq!(
                history.records.len(),
                if covered { 140 } else { 139 },
                "{}",
                file.display()
            );
        }
        fs::write(&file, before).unwrap();
    }
    assert_eq!(History::read(&place.store, 1).await.unwrap().faults, []);
}

#[tokio::test]
async fn nothing_follows_an_end_that_cannot_be_read() {
    let place = place().await;
    filled(&place, 3).await;
    let last = files(&place.path).pop().unwrap();
    fs::write(&last, b"nonsense").unwrap();
    let refused = Log::open(&place.store, 1, "one").await.err().unwrap();
    assert!(
        matches!(&refused, Error::Damaged { object, .. } if object.ends_with("3.rec")),
        "{refused}"
    );
    fs::remove_file(&last).unwrap();
    let history = History::read(&place.store, 1).await.unwrap();
    assert!(
        history.faults[0].why.contains("was at 3 already"),
        "{:?}",
        history.faults
    );
}

#[tokio::test]
async fn the_oldest_may_go_if_a_record_says_so() {
    let place = place().await;
    let mut log = filled(&place, 130).await;
    for file in files(&place.path) {
        if LogName::of(&file).is_none_or(|number| number <= SEGMENT) {
            fs::remove_file(file).unwrap();
        }
    }
    let history = History::read(&place.store, 1).await.unwrap();
    assert!(
        history.faults[0].why.contains("records up to 128 are gone"),
        "{:?}",
        history.faults
    );
    let prune = Prune {
        objects: vec![names::segment(1, 1, SEGMENT)],
        delete_after: now(),
        why: "a test".to_owned(),
    };
    log.append(Entry::Prune(prune), now()).await.unwrap();
    let history = History::read(&place.store, 1).await.unwrap();
    assert_eq!((history.records.len(), history.faults), (3, vec![]));
}

#[tokio::test]
async fn a_log_that_has_just_begun_has_lost_nothing() {
    let place = place().await;
    let mut log = Log::open(&place.store, 1, "one").await.unwrap();
    log.append(gap(1), now()).await.unwrap();
    assert_eq!(History::read(&place.store, 1).await.unwrap().faults, []);
    fs::remove_file(place.path.join(names::head(1))).unwrap();
    let faults = History::read(&place.store, 1).await.unwrap().faults;
    assert_eq!(faults[0].object, names::head(1));
}

#[tokio::test]
async fn what_is_put_away_while_it_is_read_is_no_fault() {
    let place = place().await;
    let mut log = filled(&place, 130).await;
    let given_up = names::segment(1, 1, SEGMENT);
    let prune = Prune {
        objects: vec![given_up.clone()],
        delete_after: now(),
        why: "a test".to_owned(),
    };
    log.append(Entry::Prune(prune), now()).await.unwrap();
    let records = History::read(&place.store, 1).await.unwrap().records;
    // The segment was listed and is gone; then its first records are, too.
    for gone in [0, 40, SEGMENT] {
        for (end, faults) in [(records.len(), 0), (records.len() - 1, 1 + gone)] {
            let mut order = Order::new(1);
            let mut found = 0;
            let mut take = |read: Result<Signed, Fault>| found += u64::from(read.is_err());
            order.judge(Err(Fault::gone(given_up.clone(), None)), &mut take);
            for signed in &records[..end] {
                let number = signed.record.number;
                let read = match number <= gone {
                    true => Err(Fault::gone(names::record(1, number), Some(number))),
                    false => Ok(signed.clone()),
                };
                order.judge(read, &mut take);
            }
            order.end(&mut take);
            assert_eq!(found, faults, "{gone} records gone, read up to {end}");
        }
    }
}

/// What is lost after readings in each of which these objects were missing, and how many readings that took.
async fn lost_after(missing: &[&[&str]]) -> (Vec<String>, usize) {
    let mut readings = 0;
    let history = History::settled(async || {
        let names = missing[readings.min(missing.len() - 1)];
        readings += 1;
        let gone = |name: &&str| Fault::gone((*name).to_owned(), None);
        Ok(History {
            faults: names.iter().map(gone).collect(),
            ..History::default()
        })
    })
    .await
    .unwrap();
    let objects = history.faults.into_iter().map(|fault| fault.object);
    (objects.collect(), readings)
}

/// A prune that goes on beside a reader puts something else away each time.
#[tokio::test]
async fn lost_is_what_is_missing_each_time_and_not_what_has_just_gone() {
    let lost = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(lost_after(&[&[]]).await, (lost(&[]), 1));
    assert_eq!(lost_after(&[&["a"]]).await, (lost(&["a"]), 3));
    assert_eq!(lost_after(&[&["1"], &["2"], &[]]).await, (lost(&[]), 3));
    assert_eq!(lost_after(&[&["a", "1"], &["a"]]).await, (lost(&["a"]), 3));
    let going: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let going: Vec<Vec<&str>> = going.iter().map(|name| vec!["a", name.as_str()]).collect();
    let going: Vec<&[&str]> = going.iter().map(Vec::as_slice).collect();
    assert_eq!(lost_after(&going).await, (lost(&["a"]), 32), "not for ever");
}

#[tokio::test]
async fn a_writer_that_slept_does_not_take_a_number_that_only_looks_free() {
    let place = place().await;
    let mut slept = filled(&place, 120).await;
    filled_on(&place, 100).await;
    // What a segment holds, too, may be deleted when it is old.
    for file in files(&place.path) {
        if matches!(LogName::of(&file), Some(number) if number <= SEGMENT) {
            fs::remove_file(file).unwrap();
        }
    }
    slept.known -= KNOWN_FOR;
    assert_eq!(slept.append(gap(9), now()).await.unwrap().record.number, 221);
    let history = History::read(&place.store, 1).await.unwrap();
    assert_eq!((history.records.len(), history.faults), (221, vec![]));
}

async fn filled_on(place: &Place, records: i64) {
    let mut log = Log::open(&place.store, 1, "two").await.unwrap();
    for at in 1..=records {
        log.append(gap(at), now()).await.unwrap();
    }
}

#[tokio::test]
async fn a_damaged_segment_keeps_nobody_from_writing() {
    let place = place().await;
    filled(&place, 130).await;
    fs::write(place.path.join(names::segment(1, 1, SEGMENT)), b"nonsense").unwrap();
    let mut log = Log::open(&place.store, 1, "one").await.unwrap();
    assert_eq!(log.append(gap(9), now()).await.unwrap().record.number, 131);
}
