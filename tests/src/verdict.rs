//! Was an acknowledged write lost, or a read stale? Judged from the record alone, by etcd's own revisions.
//!
//! Every value is written once, and every write has its own revision, so each rule is exact:
//! 1. a revision belongs to one write (a second cluster, or a history that was rolled back, would use it again);
//! 2. a read that began after a write was acknowledged shows that write or a later one;
//! 3. reads never go back in revision, across all clients;
//! 4. what a read shows was really asked for, and is not what was certainly refused;
//! 5. a key's count of writes covers every acknowledged one, also those overwritten since;
//! 6. two acknowledged swaps never built on the same revision.

use std::collections::BTreeMap;

use crate::history::{Answer, Ask, Entry, Found};

/// What is wrong, in words; empty if nothing is.
pub fn judge(entries: &[Entry]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut keys: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        keys.entry(&entry.key).or_default().push(entry);
    }
    revisions_are_unique(entries, &mut wrong);
    for (key, entries) in keys {
        reads_are_fresh(key, &entries, &mut wrong);
        reads_are_real(key, &entries, &mut wrong);
        writes_are_counted(key, &entries, &mut wrong);
        swaps_build_on_different_states(key, &entries, &mut wrong);
    }
    wrong
}

fn value_of(entry: &Entry) -> Option<u64> {
    match entry.ask {
        Ask::Put(value) | Ask::Swap { value, .. } => Some(value),
        Ask::Read => None,
    }
}

fn found(entry: &Entry) -> Option<Found> {
    if let Answer::Found(found) = entry.answer {
        found
    } else {
        None
    }
}

fn revisions_are_unique(entries: &[Entry], wrong: &mut Vec<String>) {
    let mut owner: BTreeMap<i64, (&str, u64)> = BTreeMap::new();
    for entry in entries {
        let seen = match (&entry.answer, value_of(entry)) {
            (Answer::Written(revision), Some(value)) => Some((*revision, value)),
            _ => found(entry).map(|f| (f.revision, f.value)),
        };
        let Some((revision, value)) = seen else { continue };
        let first = *owner.entry(revision).or_insert((&entry.key, value));
        if first != (&entry.key, value) {
            wrong.push(format!(
                "revision {revision} is {first:?} and also {:?}",
                (&entry.key, value)
            ));
        }
    }
}

/// Rules 2 and 3: what was known of the key when a read began bounds what it may show from below.
fn reads_are_fresh(key: &str, entries: &[&Entry], wrong: &mut Vec<String>) {
    let known = |e: &&&Entry| match &e.answer {
        Answer::Written(revision) => Some((e.answered, *revision)),
        Answer::Found(Some(f)) => Some((e.answered, f.revision)),
        _ => None,
    };
    let mut facts: Vec<_> = entries.iter().filter_map(|e| known(&e)).collect();
    facts.sort();
    let mut newest = 0;
    let running: Vec<_> = facts
        .into_iter()
        .map(|(at, revision)| {
            newest = newest.max(revision);
            (at, newest)
        })
        .collect();
    for read in entries.iter().filter(|e| matches!(e.answer, Answer::Found(_))) {
        let before = running.partition_point(|(at, _)| *at < read.asked);
        let Some((at, least)) = before.checked_sub(1).map(|i| running[i]) else {
            continue;
        };
        let shown = found(read).map_or(0, |f| f.revision);
        if shown < least {
            wrong.push(format!(
                "{key}: a read asked at {:?} shows revision {shown}, although {least} was known at {at:?}",
                read.asked
            ));
        }
    }
}

fn reads_are_real(key: &str, entries: &[&Entry], wrong: &mut Vec<String>) {
    let writes: BTreeMap<u64, &Answer> = entries
        .iter()
        .filter_map(|e| Some((value_of(e)?, &e.answer)))
        .collect();
    for (read, shown) in entries.iter().filter_map(|e| Some((e, found(e)?))) {
        match writes.get(&shown.value) {
            None => wrong.push(format!("{key}: {} was read but never written", shown.value)),
            Some(Answer::Refused | Answer::Declined) => {
                wrong.push(format!(
                    "{key}: {} was refused, and read at {:?}",
                    shown.value, read.answered
                ));
            }
            Some(Answer::Written(revision)) if *revision != shown.revision => {
                wrong.push(format!(
                    "{key}: {} was written at {revision} and read at {}",
                    shown.value, shown.revision
                ));
            }
            Some(_) => {}
        }
    }
}

/// Rule 5, at every read: the writes acknowledged up to the revision it shows are at most those the key counts.
fn writes_are_counted(key: &str, entries: &[&Entry], wrong: &mut Vec<String>) {
    let mut acked: Vec<i64> = entries
        .iter()
        .filter_map(|e| {
            if let Answer::Written(r) = e.answer {
                Some(r)
            } else {
                None
            }
        })
        .collect();
    acked.sort_unstable();
    let uncertain = entries
        .iter()
        .filter(|e| e.answer == Answer::Unknown && value_of(e).is_some())
        .count();
    for shown in entries.iter().filter_map(|e| found(e)) {
        let certain = acked.partition_point(|r| *r <= shown.revision);
        let count = shown.version as usize;
        if count < certain || count > certain + uncertain {
            wrong.push(format!(
                "{key}: at revision {} it counts {count} writes; {certain} were acknowledged, {uncertain} unclear",
                shown.revision
            ));
            return;
        }
    }
}

fn swaps_build_on_different_states(key: &str, entries: &[&Entry], wrong: &mut Vec<String>) {
    let mut built: BTreeMap<i64, u64> = BTreeMap::new();
    for entry in entries {
        let (Ask::Swap { expected, value }, Answer::Written(_)) = (&entry.ask, &entry.answer) else {
            continue;
        };
        if let Some(other) = built.insert(*expected, *value) {
            wrong.push(format!(
                "{key}: {other} and {value} were both swapped in on revision {expected}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(asked: u64, answered: u64, ask: Ask, answer: Answer) -> Entry {
        let ms = Duration::from_millis;
        Entry {
            asked: ms(asked),
            answered: ms(answered),
            key: "k".into(),
            ask,
            answer,
        }
    }

    fn read(asked: u64, value: u64, revision: i64, version: i64) -> Entry {
        entry(
            asked,
            asked + 1,
            Ask::Read,
            Answer::Found(Some(Found {
                value,
                revision,
                version,
            })),
        )
    }

    fn put(asked: u64, value: u64, answer: Answer) -> Entry {
        entry(asked, asked + 1, Ask::Put(value), answer)
    }

    #[test]
    fn a_true_history_passes() {
        let history = [
            put(0, 1, Answer::Written(2)),
            read(5, 1, 2, 1),
            put(10, 2, Answer::Unknown),
            read(20, 2, 3, 2),
            put(30, 3, Answer::Refused),
            entry(
                40,
                41,
                Ask::Swap {
                    expected: 3,
                    value: 4,
                },
                Answer::Written(4),
            ),
            entry(
                42,
                43,
                Ask::Swap {
                    expected: 3,
                    value: 5,
                },
                Answer::Declined,
            ),
            read(50, 4, 4, 3),
        ];
        assert_eq!(judge(&history), Vec::<String>::new());
    }

    #[test]
    fn a_read_that_overlaps_a_write_may_show_either_state() {
        let slow = entry(10, 30, Ask::Put(2), Answer::Written(3));
        assert_eq!(
            judge(&[put(0, 1, Answer::Written(2)), slow, read(15, 1, 2, 1)]),
            Vec::<String>::new()
        );
    }

    fn caught(history: &[Entry], word: &str) {
        let wrong = judge(history);
        assert!(wrong.iter().any(|w| w.contains(word)), "{wrong:?} lacks {word:?}");
    }

    #[test]
    fn every_kind_of_loss_is_caught() {
        let first = put(0, 1, Answer::Written(2));
        let second = put(10, 2, Answer::Written(3));
        caught(
            &[first.clone(), second.clone(), read(20, 1, 2, 1)],
            "although 3 was known",
        );
        let gone = entry(20, 21, Ask::Read, Answer::Found(None));
        caught(&[first.clone(), gone], "shows revision 0");
        caught(&[first.clone(), put(10, 2, Answer::Written(2))], "and also");
        caught(
            &[first.clone(), second.clone(), read(20, 2, 3, 1)],
            "counts 1 writes",
        );
        caught(&[first.clone(), read(20, 9, 5, 2)], "never written");
        caught(
            &[first.clone(), put(10, 2, Answer::Refused), read(20, 2, 3, 2)],
            "was refused",
        );
        let swap = |value, revision| {
            entry(
                30,
                31,
                Ask::Swap { expected: 2, value },
                Answer::Written(revision),
            )
        };
        caught(&[first, swap(7, 3), swap(8, 4)], "both swapped in");
    }
}
