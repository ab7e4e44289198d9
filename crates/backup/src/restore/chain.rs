//! Which full copy and which deltas lead to a point.
//!
//! ```text
//! full 100 ── delta 101..150 ── delta 151..180 ──┐ hole ┌── delta 191..200
//!    └ inside it, down to its compaction         └ 180  │   full 195 ── reaches 195..200
//! ```
//!
//! In: the full copies and the deltas that count, and a point. Out: the newest full copy at or before the point from which
//! deltas lead there without a hole; if there is none, a later one that still has the point in its history. Overlaps are
//! taken once. If there is neither: what can be reached.
//! Never: a chain with a hole.

#[cfg(test)]
mod tests;

use crate::format::record::{Delta, Full};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    pub revision: i64,
    /// History before this one is not in it; -1 or 0: never compacted.
    pub compact_revision: i64,
}

impl Base {
    /// The oldest revision that it can be cut to.
    pub fn oldest(&self) -> i64 {
        self.compact_revision.max(1).min(self.revision)
    }
}

/// Changes of a range of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub from: i64,
    pub to: i64,
}

impl From<&Full> for Base {
    fn from(full: &Full) -> Base {
        Base {
            revision: full.revision,
            compact_revision: full.compact_revision,
        }
    }
}

impl From<&Delta> for Link {
    fn from(delta: &Delta) -> Link {
        Link {
            from: delta.from,
            to: delta.to,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// As far as possible.
    End,
    Revision(i64),
}

/// A part of a chain: revisions `from..=to` of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub link: usize,
    /// The first revision that is taken of it.
    pub from: i64,
    pub to: i64,
}

/// What leads to a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    pub base: usize,
    /// It is cut off here.
    pub cut: Option<i64>,
    /// What follows it, in order.
    pub steps: Vec<Step>,
    pub revision: i64,
}

/// A range of revisions, both ends included.
pub type Range = (i64, i64);

/// Finds the chain to `goal`; `None` if there is none.
pub fn chain(bases: &[Base], links: &[Link], goal: Goal) -> Option<Chain> {
    let cover = Cover::of(links);
    let by_age = |(index, base): &(usize, &Base)| (base.revision, *index);
    let newest_first = {
        let mut order: Vec<(usize, &Base)> = bases.iter().enumerate().collect();
        order.sort_by_key(by_age);
        order.reverse();
        order
    };
    let wanted = match goal {
        Goal::Revision(revision) => revision,
        Goal::End => newest_first
            .iter()
            .map(|(_, base)| cover.reach(base.revision, i64::MAX))
            .max()?,
    };
    let before = newest_first.iter().filter(|(_, base)| base.revision <= wanted);
    for (index, base) in before {
        if cover.reach(base.revision, wanted) == wanted {
            return Some(Chain {
                base: *index,
                cut: None,
                steps: cover.steps(base.revision, wanted),
                revision: wanted,
            });
        }
    }
    let after = newest_first
        .iter()
        .rev()
        .filter(|(_, base)| base.revision > wanted);
    let within = after.into_iter().find(|(_, base)| base.oldest() <= wanted)?;
    Some(Chain {
        base: within.0,
        cut: Some(wanted),
        steps: Vec::new(),
        revision: wanted,
    })
}

/// All that can be reached, as ranges in order that do not touch.
pub fn reachable(bases: &[Base], links: &[Link]) -> Vec<Range> {
    let cover = Cover::of(links);
    let mut ranges: Vec<Range> = bases
        .iter()
        .map(|base| (base.oldest(), cover.reach(base.revision, i64::MAX)))
        .collect();
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::new();
    for (from, to) in ranges {
        match merged.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// The last revision that anything speaks of; 0 if nothing does.
pub fn last_known(bases: &[Base], links: &[Link]) -> i64 {
    let bases = bases.iter().map(|base| base.revision);
    bases.chain(links.iter().map(|link| link.to)).max().unwrap_or(0)
}

/// Links by where they begin, and which of those before reaches farthest.
struct Cover<'a> {
    links: &'a [Link],
    order: Vec<usize>,
    farthest: Vec<usize>,
}

impl<'a> Cover<'a> {
    fn of(links: &'a [Link]) -> Cover<'a> {
        let mut order: Vec<usize> = (0..links.len())
            .filter(|index| links[*index].from <= links[*index].to)
            .collect();
        order.sort_by_key(|index| (links[*index].from, *index));
        let mut farthest: Vec<usize> = Vec::with_capacity(order.len());
        for index in &order {
            let best = match farthest.last() {
                Some(best) if links[*best].to >= links[*index].to => *best,
                _ => *index,
            };
            farthest.push(best);
        }
        Cover {
            links,
            order,
            farthest,
        }
    }

    /// The link that has revision `next` and reaches farthest.
    fn holding(&self, next: i64) -> Option<usize> {
        let begun = self
            .order
            .partition_point(|index| self.links[*index].from <= next);
        let best = *self.farthest.get(begun.checked_sub(1)?)?;
        (self.links[best].to >= next).then_some(best)
    }

    /// How far one gets from behind `base`, at most to `wanted`.
    fn reach(&self, base: i64, wanted: i64) -> i64 {
        let mut at = base;
        while at < wanted {
            match at.checked_add(1).and_then(|next| self.holding(next)) {
                Some(link) => at = self.links[link].to,
                None => return at,
            }
        }
        at.min(wanted.max(base))
    }

    fn steps(&self, base: i64, wanted: i64) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut at = base;
        while at < wanted {
            let from = at + 1;
            let Some(link) = self.holding(from) else { break };
            at = self.links[link].to;
            steps.push(Step {
                link,
                from,
                to: at.min(wanted),
            });
        }
        steps
    }
}
