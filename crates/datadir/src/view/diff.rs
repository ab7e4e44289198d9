//! What two states differ in: two stores, or one at two revisions.
//!
//! In: two sides. Out: every key that is on one side only, or has another value (or lease) on the other. Two passes build an
//! index of both sides (at most 64 bytes a key); two more tell the names of what differs, as they come: first what is
//! gone, in the order in which it was written, then what is new or changed, in the order in which that was.

use std::ops::ControlFlow;

use super::index::{Entry, Index};
use super::selection::Selection;
use super::sweep::sweep;
use crate::{Error, Progress, Source};

/// A state of a store.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub source: &'a Source,
    pub revision: i64,
}

/// What of a key is held against the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    Value,
    /// Its value, and the lease that it is bound to.
    ValueAndLease,
}

/// How a key differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It is on the second side only.
    Added,
    /// It has another value, or another lease where that counts.
    Changed,
    /// It is on the first side only.
    Deleted,
}

/// A key that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    pub kind: Kind,
    pub key: &'a [u8],
    /// The revision that last wrote it, on the first side.
    pub before: Option<i64>,
    /// The revision that last wrote it, on the second side.
    pub after: Option<i64>,
}

/// How many keys differ, and how many do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// On the second side only.
    pub added: u64,
    /// With another value, or another lease where that counts.
    pub changed: u64,
    /// On the first side only.
    pub deleted: u64,
    /// With the same value, though it was written again.
    pub rewritten: u64,
    /// The same, and not written again.
    pub same: u64,
}

/// Tells `each` what differs, until it wants no more.
pub fn diff(
    sides: [Side<'_>; 2],
    selection: &Selection,
    compared: Compared,
    progress: &Progress,
    mut each: impl FnMut(&Change<'_>) -> ControlFlow<()>,
) -> Result<Totals, Error> {
    let mut index = Index::new();
    for (number, side) in sides.iter().enumerate() {
        index.begin(number);
        sweep(side.source, side.revision, progress, |row, written| {
            if selection.has(written.key) {
                if row.tombstone {
                    index.delete(written.key);
                } else {
                    let lease = match compared {
                        Compared::Value => 0,
                        Compared::ValueAndLease => written.lease,
                    };
                    index.put(written.key, row.revision.main, written.value, lease);
                }
            }
            ControlFlow::Continue(())
        })?;
    }
    let totals = count(index.entries());
    index.retain(|entry| kind(entry).is_some());
    let mut wants_more = true;
    for (number, side) in sides.iter().enumerate() {
        let told_here = |kind: Kind| (kind == Kind::Deleted) == (number == 0);
        if !wants_more || !index.entries().iter().filter_map(kind).any(told_here) {
            continue;
        }
        sweep(side.source, side.revision, progress, |row, written| {
            if row.tombstone || !selection.has(written.key) {
                return ControlFlow::Continue(());
            }
            let Some(entry) = index.of(written.key) else {
                return ControlFlow::Continue(());
            };
            let [before, after] = entry.states.map(|state| state.revision);
            let is_last = row.revision.main == if number == 0 { before } else { after };
            let Some(kind) = kind(entry).filter(|kind| is_last && told_here(*kind)) else {
                return ControlFlow::Continue(());
            };
            let revision = |revision: i64| Some(revision).filter(|revision| *revision != 0);
            let change = Change {
                kind,
                key: written.key,
                before: revision(before),
                after: revision(after),
            };
            // Told once, even if one transaction wrote it twice.
            entry.states = Default::default();
            let answer = each(&change);
            wants_more = answer.is_continue();
            answer
        })?;
    }
    Ok(totals)
}

/// How an entry differs; `None` if it does not, or was told.
fn kind(entry: &Entry) -> Option<Kind> {
    let [before, after] = entry.states;
    match (before.is_there(), after.is_there()) {
        (true, true) => (before.content != after.content).then_some(Kind::Changed),
        (true, false) => Some(Kind::Deleted),
        (false, true) => Some(Kind::Added),
        (false, false) => None,
    }
}

fn count(entries: &[Entry]) -> Totals {
    let mut totals = Totals::default();
    for entry in entries {
        let [before, after] = entry.states;
        *match kind(entry) {
            Some(Kind::Added) => &mut totals.added,
            Some(Kind::Changed) => &mut totals.changed,
            Some(Kind::Deleted) => &mut totals.deleted,
            None if before.revision != after.revision => &mut totals.rewritten,
            None => &mut totals.same,
        } += 1;
    }
    totals
}
