//! The oldest of a log, once nothing in it matters any more.
//!
//! In: a log, what stays. Out: the segments that may go, the full copies that must be told again before, and the order
//! in which a log's objects are deleted: from its beginning on, so that whoever stops in between leaves a log that
//! begins later, and no hole.

use std::collections::{BTreeMap, BTreeSet};

use super::Trimmed;
use crate::Found;
use crate::format::names::{self, LogObject};
use crate::format::record::{Entry, Full, Level};
use crate::log::{History, SEGMENT};

/// Records up to this number may go; 0: none.
pub(super) fn cut(
    history: &History,
    staying: &BTreeSet<&str>,
    there: &BTreeSet<&str>,
    changes_after: Option<i64>,
) -> u64 {
    let last = history.records.last().map_or(0, |last| last.record.number);
    let mut proofs: BTreeMap<Level, u64> = BTreeMap::new();
    for (record, proof) in history.proofs() {
        proofs.insert(proof.level, record.number);
    }
    let matters = history.records.iter().find(|signed| match &signed.record.entry {
        // A full copy can be told again.
        Entry::Claim(_) | Entry::Full(_) => false,
        Entry::Delta(delta) => staying.contains(delta.facts.object.as_str()),
        Entry::Gap(gap) => changes_after.is_some_and(|after| gap.to > after),
        Entry::Proof(proof) => proofs.get(&proof.level) == Some(&signed.record.number),
        // What it names is still to be deleted.
        Entry::Prune(prune) => prune.objects.iter().any(|name| there.contains(name.as_str())),
    });
    let first = matters.map_or(last + 1, |signed| signed.record.number);
    // The end stays, whatever is in it.
    let cut = (first - 1).min(last.saturating_sub(SEGMENT)) / SEGMENT * SEGMENT;
    let begin = history.records.first().map_or(0, |first| first.record.number);
    if cut < begin { 0 } else { cut }
}

/// The names of the segments up to `cut`, and the full copies whose only records are in them.
pub(super) fn parts(
    history: &History,
    timeline: u32,
    staying: &BTreeSet<&str>,
    cut: u64,
) -> (Vec<String>, Vec<Full>) {
    if cut == 0 {
        return (Vec::new(), Vec::new());
    }
    let named = history.pruned();
    let begin = history.records.first().map_or(1, |first| first.record.number);
    let mut segments = Vec::new();
    let mut first = (begin - 1) / SEGMENT * SEGMENT + 1;
    while first < cut {
        let segment = names::segment(timeline, first, first + SEGMENT - 1);
        // Given up before, and not deleted yet.
        if !named.contains(segment.as_str()) {
            segments.push(segment);
        }
        first += SEGMENT;
    }
    if segments.is_empty() {
        return (segments, Vec::new());
    }
    let mut again: BTreeMap<&str, &Full> = BTreeMap::new();
    for signed in &history.records {
        if let Entry::Full(full) = &signed.record.entry {
            match signed.record.number <= cut {
                true => drop(again.insert(&full.facts.object, full)),
                false => drop(again.remove(full.facts.object.as_str())),
            }
        }
    }
    let again = again.into_iter().filter(|(name, _)| staying.contains(name));
    (segments, again.map(|(_, full)| full.clone()).collect())
}

/// Objects of a log up to record `last`, in the order in which they are deleted.
pub(super) fn order(log: &[Found], last: u64) -> Trimmed {
    let mut numbered: Vec<(u64, &str)> = log
        .iter()
        .filter_map(|found| match LogObject::parse(&found.name)? {
            LogObject::Record(number) if number <= last => Some((number, found.name.as_str())),
            LogObject::Segment(first, end) if end <= last => Some((first, found.name.as_str())),
            _ => None,
        })
        .collect();
    // A segment before its records: they say the same.
    numbered.sort_by_key(|(number, name)| (*number, name.ends_with(".rec")));
    Trimmed {
        objects: numbered.into_iter().map(|(_, name)| name.to_owned()).collect(),
    }
}
