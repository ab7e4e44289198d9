//! Which objects bring a cluster back to a point, and which points cannot be reached.
//!
//! ```text
//! Full 0..100   Incr 101..150   Incr 141..180   (hole)   Incr 191..200
//! base ─────────▶ covered 150 ──▶ covered 180 ──▶ 181 to 190 are missing
//! ```
//!
//! In: a listing, where to go, and what has turned out to be unreadable. Out: a base and the fewest deltas that follow it
//! without a hole; or how far one gets and what is missing. Names are a promise only: the true revision of a full is
//! known when it is open, and [`Plan::settle`] plans again from there. It can be later than the name (the revision was
//! asked first) or earlier (a member behind was copied).
//! Never: a byte read or written here; a plan over a hole.

use std::collections::BTreeSet;
use std::fmt;

use super::list::{Listing, Object};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// As far as anything there reaches.
    Newest,
    Revision(i64),
    /// To somewhere in this second since 1970; which revision that is, the events tell.
    Time(i64),
}

/// Revisions that nothing there has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    pub from: i64,
    pub to: i64,
}

/// What to read, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The full to begin with.
    pub base: Object,
    /// What follows it. They may overlap each other and the base.
    pub deltas: Vec<Object>,
    /// The revision that this gets to, by the names.
    pub reaches: i64,
    /// The base is later than what is wanted: its own history must reach back there.
    pub inside: bool,
}

/// It cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    /// How far one gets; `None` if there is no full to begin with.
    pub reaches: Option<i64>,
    /// What would be needed next.
    pub missing: Option<Missing>,
    /// The revision that was to be reached, where one was known.
    pub wanted: Option<i64>,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reaches, self.missing, self.wanted) {
            (None, ..) => write!(f, "there is no full to begin with"),
            (Some(reaches), Some(Missing { from, to }), _) => {
                write!(
                    f,
                    "revisions {from} to {to} are missing; {reaches} can be reached"
                )
            }
            (Some(reaches), None, Some(wanted)) => {
                write!(f, "revision {wanted} is not there; {reaches} can be reached")
            }
            (Some(reaches), None, None) => {
                write!(f, "there is nothing from so early; {reaches} can be reached")
            }
        }
    }
}

/// Plans the way to `wanted` without the objects whose keys are in `without`, from the newest full that can begin it.
pub fn plan(listing: &Listing, wanted: Wanted, without: &BTreeSet<String>) -> Result<Plan, Unreachable> {
    let usable = |object: &&Object| !without.contains(&object.key);
    let fulls: Vec<&Object> = listing.fulls.iter().filter(usable).collect();
    let Some(target) = target(listing, wanted, without) else {
        return Err(Unreachable {
            reaches: None,
            missing: None,
            wanted: None,
        });
    };
    let mut best: Option<Covered> = None;
    for base in fulls.iter().rev().filter(|full| begins(full, wanted, target)) {
        let covered = cover(listing, base.name.last, target, without);
        if covered.missing.is_none() {
            return Ok(Plan {
                base: (*base).clone(),
                reaches: covered.reaches,
                deltas: covered.deltas,
                inside: false,
            });
        }
        if best.as_ref().is_none_or(|best| covered.reaches > best.reaches) {
            best = Some(covered);
        }
    }
    if let Wanted::Revision(revision) = wanted
        && let Some(base) = fulls.iter().find(|full| full.name.last > revision)
    {
        return Ok(Plan {
            base: (*base).clone(),
            deltas: Vec::new(),
            reaches: base.name.last,
            inside: true,
        });
    }
    Err(Unreachable {
        reaches: best.as_ref().map(|best| best.reaches),
        missing: best.and_then(|best| best.missing),
        wanted: Some(target),
    })
}

/// Whether a full can be the beginning, by its name.
fn begins(full: &Object, wanted: Wanted, target: i64) -> bool {
    full.name.last <= target
        && match wanted {
            // Its name was made when it had been taken: all it holds had been seen before that second was over.
            Wanted::Time(second) => full.name.created < second,
            _ => true,
        }
}

/// The revision to get to, by the names.
fn target(listing: &Listing, wanted: Wanted, without: &BTreeSet<String>) -> Option<i64> {
    let all = || listing.fulls.iter().chain(&listing.deltas);
    let newest = || {
        all()
            .filter(|o| !without.contains(&o.key))
            .map(|o| o.name.last)
            .max()
    };
    match wanted {
        Wanted::Newest => newest(),
        Wanted::Revision(revision) => Some(revision),
        // Events of that second are in the first delta that was uploaded after it, or before that one.
        Wanted::Time(second) => {
            let after = listing.deltas.iter().filter(|o| !without.contains(&o.key));
            let first = after
                .filter(|o| o.name.created > second)
                .map(|o| o.name.last)
                .min();
            first.or_else(newest)
        }
    }
}

impl Plan {
    /// The same from the revision that the base turned out to have.
    pub fn settle(
        &self,
        listing: &Listing,
        revision: i64,
        wanted: Wanted,
        without: &BTreeSet<String>,
    ) -> Result<Plan, Unreachable> {
        let target = target(listing, wanted, without).unwrap_or(revision);
        let covered = cover(listing, revision, target, without);
        if let Some(missing) = covered.missing {
            return Err(Unreachable {
                reaches: Some(covered.reaches),
                missing: Some(missing),
                wanted: Some(target),
            });
        }
        Ok(Plan {
            base: self.base.clone(),
            reaches: covered.reaches,
            deltas: covered.deltas,
            inside: matches!(wanted, Wanted::Revision(wanted) if revision > wanted),
        })
    }
}

/// How far one gets from a revision.
struct Covered {
    deltas: Vec<Object>,
    reaches: i64,
    missing: Option<Missing>,
}

/// The fewest deltas that lead from `after` to `target`: of those that continue without a hole always the one that leads
/// farthest, of equal ones the newest.
fn cover(listing: &Listing, after: i64, target: i64, without: &BTreeSet<String>) -> Covered {
    let mut deltas: Vec<&Object> = listing.deltas.iter().collect();
    deltas.retain(|delta| !without.contains(&delta.key) && delta.name.last > after);
    deltas.sort_by_key(|delta| (delta.name.start, delta.name.last, delta.name.created));
    let mut covered = Covered {
        deltas: Vec::new(),
        reaches: after,
        missing: None,
    };
    let mut candidates = deltas.into_iter().peekable();
    let mut farthest: Option<&Object> = None;
    while covered.reaches < target {
        while let Some(delta) = candidates.next_if(|delta| delta.name.start - 1 <= covered.reaches) {
            let order = |delta: &Object| (delta.name.last, delta.name.created);
            if farthest.is_none_or(|best| order(delta) >= order(best)) {
                farthest = Some(delta);
            }
        }
        match farthest.filter(|delta| delta.name.last > covered.reaches) {
            Some(delta) => {
                covered.reaches = delta.name.last;
                covered.deltas.push(delta.clone());
            }
            None => {
                let next = candidates.peek().map_or(target, |delta| delta.name.start - 1);
                covered.missing = Some(Missing {
                    from: covered.reaches + 1,
                    to: next.min(target),
                });
                break;
            }
        }
    }
    covered
}

#[cfg(test)]
mod tests;
