//! Events in any pieces, told twice, with room and without: the sequence has all of them, once, in order.

use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use prost::Message as _;
use quorate_wire::mvccpb::{self, KeyValue};

use super::*;
use crate::format::record::Entry;
use crate::format::{delta, object};
use crate::{Store, StoreOptions, StoreUrl};

struct Place {
    _dir: tempfile::TempDir,
    archive: Archive,
}

async fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let url = StoreUrl::parse(&format!("file://{}", dir.path().join("a").display())).unwrap();
    let store = Store::open(&url, &StoreOptions::default()).await.unwrap();
    let now = jiff::Timestamp::now();
    Place {
        archive: Archive::open_or_begin(&store, None, now).await.unwrap(),
        _dir: dir,
    }
}

const PACE: Pace = Pace {
    period: Duration::from_secs(3600),
    size: 4000,
};

fn event(revision: i64, sub: usize, value: usize) -> mvccpb::Event {
    let deletion = sub % 5 == 4;
    mvccpb::Event {
        r#type: i32::from(deletion),
        kv: Some(KeyValue {
            key: format!("key/{sub}").into_bytes(),
            mod_revision: revision,
            create_revision: if deletion { 0 } else { revision },
            version: i64::from(!deletion),
            value: vec![(revision % 251) as u8; if deletion { 0 } else { value }],
            lease: 0,
        }),
        prev_kv: None,
    }
}

/// Revisions behind `known`, each with some events, now and then with very many.
fn events(random: &mut Rng, known: i64) -> Vec<mvccpb::Event> {
    let mut events = Vec::new();
    for revision in known + 1..known + random.i64(2..60) {
        let count = if random.u8(..15) == 0 {
            900
        } else {
            random.usize(1..8)
        };
        let value = random.usize(..200);
        events.extend((0..count).map(|sub| event(revision, sub, value)));
    }
    events
}

fn revision_of(event: &mvccpb::Event) -> i64 {
    event.kv.as_ref().unwrap().mod_revision
}

fn batch(events: &[mvccpb::Event], continues: bool) -> Batch {
    let bytes = events.iter().map(|event| Bytes::from(event.encode_to_vec()));
    Batch::new(revision_of(events.last().unwrap()), continues, bytes.collect())
}

type Rows = Vec<(i64, i64, bool, Vec<u8>)>;

fn expected(events: &[mvccpb::Event]) -> Rows {
    let (mut main, mut sub) = (0, 0);
    let rows = events.iter().map(|event| {
        let mut kv = event.kv.clone().unwrap();
        (main, sub) = if kv.mod_revision == main {
            (main, sub + 1)
        } else {
            (kv.mod_revision, 0)
        };
        if event.r#type == 1 {
            kv = KeyValue {
                key: kv.key,
                ..KeyValue::default()
            };
        }
        (main, sub, event.r#type == 1, kv.encode_to_vec())
    });
    rows.collect()
}

/// Puts a job into the store and reads it back.
async fn written(place: &Place, job: Job, end: &mut i64, rows: &mut Rows) {
    let Entry::Delta(record) = job.entry else {
        panic!("{job:?}")
    };
    assert_eq!(record.from, *end + 1);
    *end = record.to;
    let store = place.archive.store();
    if let Some((name, bytes)) = job.object {
        store.put(&name, bytes).await.unwrap();
    }
    let opened = object::open(store, &record.facts, None).await.unwrap();
    for number in 0..opened.frames() {
        let frame = opened.frame(number).await.unwrap();
        for row in delta::rows(&frame).unwrap() {
            let row = row.unwrap();
            rows.push((
                row.revision.main,
                row.revision.sub,
                row.tombstone,
                row.value.to_vec(),
            ));
        }
    }
}

#[tokio::test]
async fn whatever_the_pieces_the_sequence_is_whole() {
    let place = place().await;
    for seed in 0..30 {
        let mut random = Rng::with_seed(seed);
        let known = random.i64(1..1000);
        let events = events(&mut random, known);
        let mut intake = Intake::new(&place.archive, 1, known, true, PACE, 0).unwrap();
        let (mut end, mut rows) = (known, Rows::new());
        let mut busy: Option<Job> = None;
        // What the reader knows to be complete, and the next event that it tells.
        let (mut complete, mut next) = (known, 0);
        while next < events.len() || intake.is_held() || busy.is_some() {
            if random.u8(..3) == 0
                && let Some(job) = busy.take()
            {
                written(&place, job, &mut end, &mut rows).await;
            }
            intake.flush(busy.is_some(), false).await.unwrap();
            assert_eq!(intake.go_on(busy.is_some()).await.unwrap(), Taken::Well);
            if busy.is_none() {
                busy = intake.outbox.pop_front();
            }
            let waiting = intake.waiting(busy.is_some(), false);
            // A full delta and a message: no more, but for a revision that is larger alone.
            if next == events.len() || intake.is_held() || !decide::may_read(&waiting, &PACE) {
                continue;
            }
            if random.u8(..10) == 0 {
                // The watch breaks, and begins anew with a revision that is complete.
                intake.opened();
                next = events
                    .iter()
                    .position(|event| revision_of(event) >= complete)
                    .unwrap();
            }
            let upto = (next + random.usize(1..300)).min(events.len());
            let whole = upto == events.len() || revision_of(&events[upto]) > revision_of(&events[upto - 1]);
            let continues = !whole || (upto < events.len() && random.bool());
            let last = revision_of(&events[upto - 1]);
            complete = complete.max(if continues { last - 1 } else { last });
            let taken = intake.take(batch(&events[next..upto], continues), busy.is_some());
            assert_eq!(taken.await.unwrap(), Taken::Well);
            next = upto;
        }
        assert_eq!(intake.complete(), revision_of(events.last().unwrap()));
        while intake.building().rows() > 0 || !intake.outbox.is_empty() {
            if let Some(job) = intake.outbox.pop_front() {
                written(&place, job, &mut end, &mut rows).await;
            }
            intake.flush(false, true).await.unwrap();
        }
        assert_eq!(end, intake.complete(), "seed {seed}");
        assert!(rows == expected(&events), "seed {seed}");
    }
}

#[tokio::test]
async fn holes_are_asked_about_and_then_told() {
    let place = place().await;
    let mut intake = Intake::new(&place.archive, 1, 10, true, PACE, 0).unwrap();
    let first = [event(11, 0, 5)];
    assert_eq!(
        intake.take(batch(&first, false), false).await.unwrap(),
        Taken::Well
    );
    let later = [event(14, 0, 5)];
    for _ in 1..HOLES_BEFORE_GAP {
        intake.opened();
        assert_eq!(
            intake.take(batch(&later, false), false).await.unwrap(),
            Taken::Torn
        );
        assert_eq!(intake.complete(), 11);
    }
    intake.opened();
    assert_eq!(
        intake.take(batch(&later, false), false).await.unwrap(),
        Taken::Well
    );
    intake.flush(false, true).await.unwrap();
    intake.seal().await.unwrap();
    let told: Vec<(bool, i64, i64)> = intake
        .outbox
        .iter()
        .map(|job| match &job.entry {
            Entry::Delta(delta) => (true, delta.from, delta.to),
            Entry::Gap(gap) => (false, gap.from, gap.to),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [(true, 11, 11), (false, 12, 13), (true, 14, 14)]);
    assert_eq!(intake.lost_to(), Some(13));
}

#[tokio::test]
async fn compaction_loses_only_what_was_not_whole() {
    let place = place().await;
    for (continues, from) in [(false, 12), (true, 11)] {
        let mut intake = Intake::new(&place.archive, 1, 10, true, PACE, 0).unwrap();
        let events = [event(11, 0, 5), event(11, 1, 5)];
        intake.take(batch(&events, continues), false).await.unwrap();
        intake.compacted(20).await.unwrap();
        assert_eq!((intake.lost_to(), intake.start()), (Some(20), 10));
        let last = intake.outbox.pop_back().unwrap().entry;
        assert!(
            matches!(&last, Entry::Gap(gap) if (gap.from, gap.to) == (from, 20)),
            "{last:?}"
        );
        assert_eq!(intake.outbox.len(), usize::from(!continues));
        // It goes on behind it; what is told of before is known, or lost.
        intake.opened();
        intake
            .take(batch(&[event(20, 0, 1), event(21, 0, 1)], false), false)
            .await
            .unwrap();
        assert_eq!((intake.complete(), intake.building().rows()), (21, 1));
        intake.compacted(15).await.unwrap();
        assert_eq!((intake.complete(), intake.lost_to()), (21, Some(20)));
    }
}

/// Before anything is recorded nothing is missing; from the first full copy on it is.
#[tokio::test]
async fn what_is_lost_is_missing_once_the_sequence_has_begun() {
    let place = place().await;
    let mut intake = Intake::new(&place.archive, 1, 10, false, PACE, 0).unwrap();
    intake.compacted(20).await.unwrap();
    assert_eq!(
        (intake.start(), intake.lost_to(), intake.outbox.len()),
        (20, None, 0)
    );
    intake.begin();
    intake.compacted(4000).await.unwrap();
    assert_eq!((intake.start(), intake.lost_to()), (20, Some(4000)));
    let told = intake.outbox.pop_front().unwrap().entry;
    assert!(
        matches!(&told, Entry::Gap(gap) if (gap.from, gap.to) == (21, 4000)),
        "{told:?}"
    );
}

/// A delta that streams and whose object fails at its very end was taken by nobody: it is told again from its first row.
#[tokio::test]
async fn a_stream_that_fails_at_its_end_is_begun_anew() {
    let place = place().await;
    let mut intake = Intake::new(&place.archive, 1, 10, true, PACE, 0).unwrap();
    // What does not become smaller when it is packed.
    let mut random = Rng::with_seed(1);
    let events: Vec<mvccpb::Event> = (0..300)
        .map(|sub| {
            let mut event = event(11, sub, 100);
            if let Some(kv) = event.kv.as_mut().filter(|kv| !kv.value.is_empty()) {
                kv.value = std::iter::repeat_with(|| random.u8(..)).take(100).collect();
            }
            event
        })
        .collect();
    intake.take(batch(&events, true), false).await.unwrap();
    assert_eq!(intake.flush(false, false).await.unwrap(), Flush::Stream);
    assert!(intake.building().is_streaming());
    // A file where the directory of the deltas would be.
    let in_the_way = place._dir.path().join("a/t/00000001/delta");
    std::fs::create_dir_all(in_the_way.parent().unwrap()).unwrap();
    std::fs::write(&in_the_way, b"in the way").unwrap();
    let next = [event(12, 0, 5)];
    let failed = intake.take(batch(&next, false), false).await.unwrap_err();
    assert!(matches!(failed, Error::Store { .. }), "{failed}");
    assert_eq!(intake.give_up().unwrap(), 10);
    std::fs::remove_file(&in_the_way).unwrap();
    intake.opened();
    let (mut end, mut rows) = (10, Rows::new());
    let all: Vec<mvccpb::Event> = events.into_iter().chain(next).collect();
    intake.take(batch(&all, false), false).await.unwrap();
    intake.seal().await.unwrap();
    while let Some(job) = intake.outbox.pop_front() {
        written(&place, job, &mut end, &mut rows).await;
    }
    assert_eq!(end, 12);
    assert!(rows == expected(&all));
}
