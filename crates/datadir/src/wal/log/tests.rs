//! Logs made by hand: what counts in them.

use super::super::encode::Encoder;
use super::super::read::tests::put;
use super::*;
use proptest::prelude::*;

fn log(segments: &[Vec<u8>]) -> (tempfile::TempDir, Log) {
    let dir = tempfile::tempdir().unwrap();
    let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
    put(dir.path(), &segments);
    let log = Log::read(dir.path()).unwrap();
    (dir, log)
}

fn entries(log: &Log, from: u64) -> Vec<(u64, u64, Vec<u8>)> {
    let mut entries = log.entries(from).unwrap();
    let mut found = Vec::new();
    while let Some(entry) = entries.read_next().unwrap() {
        found.push((entry.term, entry.index, entry.data.to_vec()));
    }
    found
}

fn damage(segments: &[Vec<u8>]) -> String {
    match log(segments).1.end() {
        End::Damaged { why, .. } => why.clone(),
        other => panic!("{other:?}"),
    }
}

fn one(add: impl FnOnce(Encoder) -> Encoder) -> Vec<Vec<u8>> {
    vec![add(Encoder::first_segment(7, 8)).into_bytes()]
}

#[test]
fn a_later_entry_overwrites_the_tail() {
    let first = Encoder::first_segment(7, 8)
        .entry(1, 1, b"a")
        .entry(1, 2, b"stale")
        .entry(1, 3, b"stale")
        .state(2, 7, 1)
        .entry(2, 2, b"b")
        .entry(2, 3, b"c")
        .entry(2, 4, b"stale");
    let second = Encoder::segment(first.chain(), 7, 8)
        .state(2, 7, 1)
        .entry(3, 4, b"d")
        .entry(3, 5, b"")
        .state(3, 7, 4);
    let (_dir, log) = log(&[first.into_bytes(), second.into_bytes()]);
    assert_eq!(*log.end(), End::Clean);
    let expected: Vec<(u64, u64, Vec<u8>)> = vec![
        (1, 1, b"a".to_vec()),
        (2, 2, b"b".to_vec()),
        (2, 3, b"c".to_vec()),
        (3, 4, b"d".to_vec()),
        (3, 5, Vec::new()),
    ];
    for from in 1..7 {
        assert_eq!(
            entries(&log, from),
            expected[(from - 1).min(5) as usize..],
            "{from}"
        );
    }
    assert_eq!(
        (log.first_index(), log.last_index(), log.last_term()),
        (Some(1), 5, 3)
    );
    assert_eq!((log.state().term, log.state().commit), (3, 4));
    let error = log.entries(0).unwrap_err();
    assert!(error.to_string().contains("no entries before 1"), "{error}");
}

#[test]
fn a_gap_is_damage_unless_a_snapshot_stands_for_what_is_missing() {
    let why = damage(&one(|log| log.entry(1, 1, b"").entry(1, 3, b"").state(1, 7, 1)));
    assert_eq!(why, "entries 2 to 2 are missing before entry 3");
    let why = damage(&one(|log| log.entry(1, 2, b"").state(1, 7, 0)));
    assert_eq!(why, "entries 1 to 1 are missing before entry 2");
    // Before the gap it can still be read.
    let (_dir, before) = log(&one(|log| {
        log.entry(1, 1, b"a")
            .entry(1, 5, b"")
            .entry(1, 9, b"")
            .state(1, 7, 1)
    }));
    assert_eq!(entries(&before, 1), [(1, 1, b"a".to_vec())]);
    assert!(matches!(before.end(), End::Damaged { why, .. } if why.contains("2 to 4")));

    let (_dir, caught_up) = log(&one(|log| {
        log.entry(1, 1, b"")
            .state(2, 7, 1)
            .snapshot(100, 2)
            .state(2, 7, 100)
            .entry(2, 101, b"x")
    }));
    assert_eq!(*caught_up.end(), End::Clean);
    assert_eq!(entries(&caught_up, 101), [(2, 101, b"x".to_vec())]);
    assert_eq!(
        (caught_up.first_index(), caught_up.last_index()),
        (Some(101), 101)
    );
    assert!(caught_up.entries(100).is_err());

    // The snapshot is all there is.
    let (_dir, alone) = log(&one(|log| log.entry(1, 1, b"").snapshot(100, 2).state(2, 7, 100)));
    assert_eq!((alone.last_index(), alone.last_term()), (100, 2));
    // One that is not committed stands for nothing.
    let why = damage(&one(|log| log.snapshot(100, 2).state(2, 7, 0).entry(2, 101, b"")));
    assert!(why.contains("entries 1 to 100 are missing"), "{why}");
}

#[test]
fn what_etcd_would_not_start_with_is_damage() {
    assert_eq!(damage(&[Encoder::segment(0, 7, 8).into_bytes()]), NO_SNAPSHOT);
    let why = damage(&one(|log| log.entry(1, 1, b"").state(1, 7, 2)));
    assert_eq!(why, "entry 2 is committed, and the last one in it is 1");
    let (_dir, many) = log(&one(|log| {
        (1..2000)
            .fold(log, |log, n| log.entry(1, n * 2, b""))
            .state(1, 7, 0)
    }));
    assert!(matches!(many.end(), End::Damaged { why, .. } if why.contains("too many")));
}

#[test]
fn a_log_that_changes_while_it_is_read_is_noticed() {
    let (dir, log) = log(&one(|log| log.entry(1, 1, b"a").entry(1, 2, b"b").state(1, 7, 2)));
    let mut entries = log.entries(1).unwrap();
    std::fs::write(dir.path().join(log.segments()[0].to_string()), b"").unwrap();
    let error = entries.read_next().unwrap_err();
    assert!(error.to_string().contains("entry 1"), "{error}");
}

proptest! {
    /// Whatever is overwritten: what counts is what a plain list would hold.
    #[test]
    fn the_entries_that_count_are_those_of_a_list(steps in proptest::collection::vec((0u64..5, 1usize..6), 1..30), cuts: u64) {
        let mut list: Vec<(u64, u64, Vec<u8>)> = Vec::new();
        let mut segments = Vec::new();
        let mut segment = Encoder::first_segment(7, 8);
        let mut number = 0u8;
        for (step, (back, count)) in steps.into_iter().enumerate() {
            list.truncate(list.len().saturating_sub(back as usize));
            for _ in 0..count {
                number = number.wrapping_add(1);
                let entry = (step as u64 + 1, list.len() as u64 + 1, vec![number; usize::from(number) % 40]);
                segment = segment.entry(entry.0, entry.1, &entry.2);
                list.push(entry);
            }
            if cuts >> step & 1 == 1 {
                let next = Encoder::segment(segment.chain(), 7, 8);
                segments.push(std::mem::replace(&mut segment, next).into_bytes());
            }
        }
        segments.push(segment.into_bytes());
        let (_dir, log) = log(&segments);
        prop_assert_eq!(log.end(), &End::Clean);
        prop_assert_eq!(log.last_index(), list.len() as u64);
        prop_assert_eq!(log.last_term(), list.last().unwrap().0);
        for from in [1, 2, list.len() as u64 / 2, list.len() as u64, list.len() as u64 + 1] {
            let from = from.max(1);
            prop_assert_eq!(&entries(&log, from)[..], &list[(from as usize - 1).min(list.len())..]);
        }
    }
}
