//! What a prune would do. It reads, and changes nothing.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Item, Options, Plan, Staying, Tally, TimelinePlan, trim};
use crate::format::names::{self, LogObject};
use crate::format::record::Entry;
use crate::hold::{self, Mark};
use crate::log::History;
use crate::maintain::retention::{Changes, FullCopy, Line, Why, judge};
use crate::{Archive, Error, Found};

/// What no record names is left alone for so long: an upload may have ended and its record be on the way.
const ORPHAN_AGE: SignedDuration = SignedDuration::from_hours(24);
/// Clocks of readers and writers may differ by so much.
const SKEW: SignedDuration = SignedDuration::from_mins(10);
/// Where stores are probed.
const PROBES: &str = "probe";

/// Everything about one timeline.
struct Looked {
    number: u32,
    /// Listed before the log was read: what is recorded meanwhile is in the log.
    data: Vec<Found>,
    log: Vec<Found>,
    history: History,
}

/// Finds out what there is to do.
pub async fn plan(archive: &Archive, options: &Options, now: Timestamp) -> Result<Plan, Error> {
    gather(archive, options, None, now).await
}

/// The same for a copy, to which records come long after they were written. Of these it has had for long enough, as
/// timeline and number; whatever reads the copy may not know of the others.
pub(crate) async fn plan_copy(
    archive: &Archive,
    options: &Options,
    known: &BTreeSet<(u32, u64)>,
    now: Timestamp,
) -> Result<Plan, Error> {
    gather(archive, options, Some(known), now).await
}

async fn gather(
    archive: &Archive,
    options: &Options,
    known: Option<&BTreeSet<(u32, u64)>>,
    now: Timestamp,
) -> Result<Plan, Error> {
    let mut looked = Vec::new();
    for origin in archive.timelines() {
        looked.push(look(archive, origin.timeline).await?);
    }
    let mut plan = Plan {
        marks: hold::marks(archive, now).await?,
        ..Plan::default()
    };
    // By the store's own clock, as far as it is known: ours may be far ahead.
    let newest = looked
        .iter()
        .flat_map(|looked| looked.data.iter().chain(&looked.log))
        .map(|found| found.modified)
        .max();
    let store_now = newest.unwrap_or(now).min(now);
    let lines = lines(&looked);
    for (looked, line) in looked.iter().zip(&lines) {
        let timeline = judge_timeline(looked, line, options, now);
        gather_due(looked, known, &mut plan, now);
        if looked.history.faults.is_empty() {
            gather_orphans(looked, &mut plan, store_now);
            gather_spare(looked, &mut plan, store_now);
        }
        plan.timelines.push(timeline);
    }
    for old in gather_marks(archive, store_now).await? {
        plan.spare.push(old);
    }
    Ok(plan)
}

async fn look(archive: &Archive, number: u32) -> Result<Looked, Error> {
    let store = archive.store();
    let below = |part: &str| format!("{}/{part}", names::timeline(number));
    let mut data = store.list(&below("full"), None).await?;
    data.extend(store.list(&below("delta"), None).await?);
    let log = store.list(&names::log(number), None).await?;
    // A head that says how far it is makes the store's clock known.
    let history = archive.history(number).await?;
    Ok(Looked {
        number,
        data,
        log,
        history,
    })
}

/// What retention looks at, of each timeline.
fn lines(looked: &[Looked]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for looked in looked {
        let fulls = looked.history.fulls();
        let revisions: BTreeSet<i64> = fulls.iter().map(|(_, full)| full.revision).collect();
        let bases = looked.history.proofs().map(|(_, proof)| proof.base);
        lines.push(Line {
            fulls: fulls
                .iter()
                .map(|(_, full)| FullCopy {
                    revision: full.revision,
                    taken: full.taken,
                })
                .collect(),
            deltas: looked
                .history
                .deltas()
                .iter()
                .map(|(_, delta)| Changes { to: delta.to })
                .collect(),
            proven: bases.filter(|base| revisions.contains(base)).collect(),
            superseded: None,
            last_resort: false,
        });
    }
    let mut since: Option<Timestamp> = None;
    let (mut newest, mut proven) = (false, false);
    for (line, looked) in lines.iter_mut().zip(looked).rev() {
        let written = last_written(&looked.history);
        // A cluster that was restored beside it, for a trial, does not take its place.
        let beside = since.zip(written).is_some_and(|(since, written)| written > since);
        line.superseded = since.into_iter().chain(written.filter(|_| since.is_some())).max();
        line.last_resort =
            !line.fulls.is_empty() && (!newest || beside) || !proven && !line.proven.is_empty();
        newest |= !line.fulls.is_empty();
        proven |= !line.proven.is_empty();
        let first = looked.history.fulls().iter().map(|(record, _)| record.at).min();
        since = since.into_iter().chain(first).min();
    }
    lines
}

/// When a cluster was last heard of in this timeline.
fn last_written(history: &History) -> Option<Timestamp> {
    let records = history
        .records
        .iter()
        .filter_map(|signed| match &signed.record.entry {
            Entry::Delta(_) | Entry::Gap(_) | Entry::Claim(_) => Some(signed.record.at),
            // It may have been told again, long after.
            Entry::Full(full) => Some(full.taken),
            Entry::Proof(_) | Entry::Prune(_) => None,
        });
    let head = history
        .head
        .iter()
        .filter(|head| head.every > 0)
        .map(|head| head.at);
    records.chain(head).max()
}

fn judge_timeline(looked: &Looked, line: &Line, options: &Options, now: Timestamp) -> TimelinePlan {
    let mut timeline = TimelinePlan {
        timeline: looked.number,
        faults: looked
            .history
            .faults
            .iter()
            .map(|fault| format!("{}: {}", fault.object, fault.why))
            .collect(),
        ..TimelinePlan::default()
    };
    let Some(retention) = &options.retention else {
        return timeline;
    };
    let kept = judge(retention, line, now);
    let mut staying: BTreeMap<u8, Staying> = BTreeMap::new();
    let mut stay = |why: Why, tally: fn(&mut Staying) -> &mut Tally, bytes: u64| {
        let empty = Staying {
            why,
            fulls: Tally::default(),
            deltas: Tally::default(),
        };
        tally(staying.entry(why as u8).or_insert(empty)).add(bytes);
    };
    let mut names_staying: BTreeSet<&str> = BTreeSet::new();
    for ((_, full), why) in looked.history.fulls().into_iter().zip(&kept.fulls) {
        match why {
            Some(why) => {
                stay(*why, |staying| &mut staying.fulls, full.facts.stored_bytes);
                names_staying.insert(&full.facts.object);
            }
            None => timeline.going.push(Item {
                object: full.facts.object.clone(),
                bytes: full.facts.stored_bytes,
            }),
        }
    }
    for ((_, delta), why) in looked.history.deltas().into_iter().zip(&kept.deltas) {
        match why {
            Some(why) => {
                stay(*why, |staying| &mut staying.deltas, delta.facts.stored_bytes);
                names_staying.insert(&delta.facts.object);
            }
            None => timeline.going.push(Item {
                object: delta.facts.object.clone(),
                bytes: delta.facts.stored_bytes,
            }),
        }
    }
    timeline.staying = staying.into_values().collect();
    if looked.history.faults.is_empty() {
        let there: BTreeSet<&str> = looked
            .data
            .iter()
            .chain(&looked.log)
            .map(|f| f.name.as_str())
            .collect();
        let cut = trim::cut(&looked.history, &names_staying, &there, kept.changes_after);
        (timeline.segments, timeline.told_again) =
            trim::parts(&looked.history, looked.number, &names_staying, cut);
    }
    timeline
}

/// Objects that were given up before.
fn gather_due(looked: &Looked, known: Option<&BTreeSet<(u32, u64)>>, plan: &mut Plan, now: Timestamp) {
    let sizes: BTreeMap<&str, u64> = looked.data.iter().map(|f| (f.name.as_str(), f.size)).collect();
    let mut trimmed_to = 0;
    for signed in &looked.history.records {
        let Entry::Prune(prune) = &signed.record.entry else {
            continue;
        };
        let held = match known {
            None => plan.marks.iter().any(|mark| may_use(mark, signed.record.at)),
            // When a copy's reader began says nothing of which records it found there.
            Some(known) => !plan.marks.is_empty() || !known.contains(&(looked.number, signed.record.number)),
        };
        for name in &prune.objects {
            if let Some(LogObject::Segment(_, last)) = LogObject::parse(name) {
                if prune.delete_after <= now && !held {
                    trimmed_to = trimmed_to.max(last);
                }
                continue;
            }
            let Some(bytes) = sizes.get(name.as_str()) else {
                continue;
            };
            if prune.delete_after > now {
                plan.waiting.add(*bytes);
                plan.next = plan.next.into_iter().chain([prune.delete_after]).min();
            } else if held {
                plan.held.add(*bytes);
            } else {
                plan.due.push(Item {
                    object: name.clone(),
                    bytes: *bytes,
                });
            }
        }
    }
    plan.due.sort_by(|a, b| a.object.cmp(&b.object));
    plan.due.dedup();
    let trimmed = trim::order(&looked.log, trimmed_to);
    if !trimmed.objects.is_empty() {
        plan.trimmed.push(trimmed);
    }
}

/// Whether what left the mark may have read the log before this was recorded.
fn may_use(mark: &Mark, recorded: Timestamp) -> bool {
    mark.since
        .is_none_or(|since| since <= recorded.checked_add(SKEW).unwrap_or(Timestamp::MAX))
}

/// Objects that no record names.
fn gather_orphans(looked: &Looked, plan: &mut Plan, store_now: Timestamp) {
    let named = named(&looked.history);
    let orphans = looked
        .data
        .iter()
        .filter(|found| !named.contains(found.name.as_str()) && is_old(found, store_now));
    plan.orphans.extend(orphans.map(Item::from));
}

/// All objects that records name, whether they still count or not.
pub(super) fn named(history: &History) -> BTreeSet<&str> {
    let mut named = history.pruned();
    for signed in &history.records {
        match &signed.record.entry {
            Entry::Full(full) => drop(named.insert(&full.facts.object)),
            Entry::Delta(delta) => drop(named.insert(&delta.facts.object)),
            _ => {}
        }
    }
    named
}

/// Records that a segment holds, too. The segment was read without a fault just now.
fn gather_spare(looked: &Looked, plan: &mut Plan, store_now: Timestamp) {
    let parsed = |found: &Found| LogObject::parse(&found.name);
    let segments: BTreeMap<u64, u64> = looked
        .log
        .iter()
        .filter_map(|found| match parsed(found) {
            Some(LogObject::Segment(first, last)) if is_old(found, store_now) => Some((first, last)),
            _ => None,
        })
        .collect();
    let covered = |number: u64| {
        segments
            .range(..=number)
            .next_back()
            .is_some_and(|(_, last)| *last >= number)
    };
    let spare = looked.log.iter().filter(|found| match parsed(found) {
        Some(LogObject::Record(number)) => covered(number) && is_old(found, store_now),
        _ => false,
    });
    plan.spare.extend(spare.map(|found| found.name.clone()));
}

/// Marks that ran out long ago, and what probes left behind.
async fn gather_marks(archive: &Archive, store_now: Timestamp) -> Result<Vec<String>, Error> {
    let mut found = archive.store().list(names::HOLDS, None).await?;
    found.extend(archive.store().list(PROBES, None).await?);
    found.retain(|found| is_old(found, store_now));
    Ok(found.into_iter().map(|found| found.name).collect())
}

fn is_old(found: &Found, store_now: Timestamp) -> bool {
    store_now.duration_since(found.modified) > ORPHAN_AGE
}
