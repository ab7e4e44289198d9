//! An archive copied into another store, as it is.
//!
//! In: an archive, a store that is empty or holds an earlier copy of it. Out: the same archive there: objects first, each
//! hashed on its way, then the records that name them, in order. Whoever stops in between leaves a shorter archive; the
//! next one goes on. The source may be written and pruned meanwhile.
//! Never: an object in the copy whose hash is wrong; a copy over another archive, or over one that has gone its own way;
//! a sound record written over; a log that looks whole where the source's does not; something deleted that whoever reads
//! the copy could not know to be given up.

mod objects;
mod records;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use quorate_datadir::Progress;
use serde::Serialize;

use super::prune;
use crate::format::object::Facts;
use crate::format::record::{Entry, Signed};
use crate::format::{lines, names};
use crate::log::{Head, History, SEGMENT};
use crate::restore::Holding;
use crate::store::Created;
use crate::{Archive, Error, Store};

/// The longest that the small objects here may be.
const SMALL: u64 = 1 << 20;

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    /// Objects that were copied.
    pub objects: u64,
    pub bytes: u64,
    /// Objects that were there already.
    pub were_there: u64,
    /// Records that were copied.
    pub records: u64,
    /// Objects that the source gave up, deleted from the copy.
    pub deleted: u64,
    /// What was damaged in the copy's own log, and is sound again.
    pub repaired: Vec<Damage>,
    /// What is damaged in the source and is not in the copy, or is damaged in the copy and could not be repaired.
    pub damaged: Vec<Damage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Damage {
    pub object: String,
    /// What is wrong with it.
    pub why: String,
}

/// One archive on its way.
struct Way<'a> {
    from: &'a Store,
    to: &'a Store,
    progress: &'a Progress,
    copied: Copied,
    /// Prunes that the copy had before: timeline, number, and since when.
    prunes: Vec<(u32, u64, Timestamp)>,
}

/// Copies it. `writer` is who does it, for the copy's log.
pub async fn copy(
    from: &Archive,
    to: &Store,
    writer: &str,
    progress: &Arc<Progress>,
    now: Timestamp,
) -> Result<Copied, Error> {
    if from.store().describe() == to.describe() {
        return Err(Error::refused(
            format!("{} would be copied onto itself", to.describe()),
            "name another place to copy to",
        ));
    }
    let holding = Holding::begin(from, "copy", now).await;
    let mut way = Way {
        from: from.store(),
        to,
        progress,
        copied: Copied::default(),
        prunes: Vec::new(),
    };
    let outcome = way.all(from, writer, now).await;
    holding.end().await;
    outcome?;
    way.forget(from, writer, now).await?;
    Ok(way.copied)
}

impl Way<'_> {
    async fn all(&mut self, archive: &Archive, writer: &str, now: Timestamp) -> Result<(), Error> {
        self.same(names::IDENTITY, "another archive").await?;
        for origin in archive.timelines() {
            let (timeline, name) = (origin.timeline, names::origin(origin.timeline));
            let ours = archive.history(timeline).await?;
            let theirs = History::read(self.to, timeline).await?;
            judge(timeline, &ours, &theirs, self.to, now)?;
            self.same(&name, "another cluster's timeline").await?;
            self.timeline(timeline, &ours, &theirs).await?;
            self.head(timeline, &ours, writer, now).await?;
            self.tell(timeline, &theirs).await?;
        }
        // Which clusters were made from it.
        for found in self.from.list(names::RESTORED, None).await? {
            let bytes = self.from.get(&found.name, SMALL).await?;
            self.to.put(&found.name, bytes).await?;
        }
        Ok(())
    }

    /// Copies a small object that is never changed; one that is there must be the same.
    async fn same(&mut self, name: &str, other: &str) -> Result<(), Error> {
        let ours = self.from.get(name, SMALL).await?;
        let theirs = match self.to.create(name, ours.clone()).await? {
            Created::New => return Ok(()),
            Created::Exists => self.to.get(name, SMALL).await?,
        };
        match ours == theirs {
            true => Ok(()),
            false => Err(Error::refused(
                format!("{} holds {other}", self.to.describe()),
                "copy to a place that is empty, or that holds an earlier copy of this archive",
            )),
        }
    }

    /// A block of the log at a time: what it names, then itself.
    async fn timeline(&mut self, timeline: u32, ours: &History, theirs: &History) -> Result<(), Error> {
        for fault in &ours.faults {
            self.copied.damaged.push(Damage {
                object: fault.object.clone(),
                why: fault.why.clone(),
            });
        }
        let there = objects::There::look(self.to, timeline, theirs).await?;
        let is_prune = |signed: &&Signed| matches!(signed.record.entry, Entry::Prune(_));
        for signed in theirs.records.iter().filter(is_prune) {
            let number = signed.record.number;
            let since = there.since(number);
            self.prunes.extend(since.map(|since| (timeline, number, since)));
        }
        let pruned = ours.pruned();
        let mut blocks: BTreeMap<u64, Vec<&Signed>> = BTreeMap::new();
        for signed in &ours.records {
            let block = (signed.record.number - 1) / SEGMENT;
            blocks.entry(block).or_default().push(signed);
        }
        let named =
            |signed: &&Signed| facts(&signed.record.entry).map(|facts| (signed.record.number, facts.clone()));
        let wanted = |(number, facts): &(u64, Facts)| {
            !pruned.contains(facts.object.as_str()) && !there.is_sure(*number, facts)
        };
        let expected = ours
            .records
            .iter()
            .filter_map(|signed| named(&signed))
            .filter(wanted);
        self.progress
            .expect(expected.map(|(_, facts)| facts.stored_bytes).sum());
        for (block, records) in &blocks {
            let all: Vec<(u64, Facts)> = records.iter().filter_map(named).collect();
            let counting = all
                .iter()
                .filter(|(_, facts)| !pruned.contains(facts.object.as_str()));
            let (missing, sure): (Vec<_>, Vec<_>) = counting.cloned().partition(wanted);
            self.copied.were_there += sure.len() as u64;
            self.objects(missing, &there).await?;
            self.records(timeline, *block, records, &there).await?;
        }
        Ok(())
    }

    /// Says how far the copy is: as far as the source says it is. If that lost its end, the copy has none either.
    async fn head(
        &mut self,
        timeline: u32,
        ours: &History,
        writer: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let said = ours
            .head
            .as_ref()
            .map(|head| (head.number, head.hash, head.epoch));
        let last = ours
            .records
            .last()
            .map(|last| (last.record.number, last.hash, last.record.epoch));
        let Some((number, hash, epoch)) = said.into_iter().chain(last).max_by_key(|(number, ..)| *number)
        else {
            return Ok(());
        };
        let head = Head {
            number,
            hash,
            epoch,
            writer: writer.to_owned(),
            at: now,
            every: 0,
            sample: ours.head.as_ref().and_then(|head| head.sample),
            instance: None,
        };
        let bytes = Bytes::from(lines::write(&head).0);
        self.to.put(&names::head(timeline), bytes).await
    }

    /// Deletes from the copy what the source gave up long enough ago, once the copy has known of it for long enough, too:
    /// whatever reads the copy knows only what is there.
    async fn forget(&mut self, from: &Archive, writer: &str, now: Timestamp) -> Result<(), Error> {
        let copy = Archive::open(self.to, from.key().cloned()).await?;
        let grace = SignedDuration::try_from(prune::GRACE).unwrap_or(SignedDuration::MAX);
        let mut known = BTreeSet::new();
        for origin in copy.timelines() {
            let mut prunes = self
                .prunes
                .iter()
                .filter(|prune| prune.0 == origin.timeline)
                .peekable();
            if prunes.peek().is_none() {
                continue;
            }
            // Written just now: what time it is by the store's clock.
            let now = self.to.head(&names::head(origin.timeline)).await?.modified;
            let long = prunes.filter(|(.., since)| now.duration_since(*since) >= grace);
            known.extend(long.map(|(timeline, number, _)| (*timeline, *number)));
        }
        let options = prune::Options {
            retention: None,
            grace: prune::GRACE,
            writer: writer.to_owned(),
        };
        let plan = prune::plan_copy(&copy, &options, &known, now).await?;
        let done = prune::run(&copy, &options, &plan, now, |_| Ok(())).await?;
        self.copied.deleted = done.deleted.objects;
        Ok(())
    }
}

fn facts(entry: &Entry) -> Option<&Facts> {
    match entry {
        Entry::Full(full) => Some(&full.facts),
        Entry::Delta(delta) => Some(&delta.facts),
        _ => None,
    }
}

/// Refuses a copy that has gone its own way, or is too far behind to be gone on with.
fn judge(timeline: u32, ours: &History, theirs: &History, to: &Store, now: Timestamp) -> Result<(), Error> {
    let refused = |what: &str| {
        Err(Error::refused(
            format!("the copy of timeline {timeline} in {} {what}", to.describe()),
            "copy to a place that is empty; that one stays as it is",
        ))
    };
    let fresh = |head: &Head| {
        let silent = now.duration_since(head.at).as_secs().unsigned_abs();
        head.every > 0 && silent < head.every.saturating_mul(6)
    };
    if theirs.head.as_ref().is_some_and(fresh) {
        return refused("is written by an agent just now");
    }
    let hashes: BTreeMap<u64, _> = ours.records.iter().map(|s| (s.record.number, s.hash)).collect();
    let differs = |signed: &Signed| {
        hashes
            .get(&signed.record.number)
            .is_some_and(|hash| *hash != signed.hash)
    };
    let last = |history: &History| history.records.last().map_or(0, |last| last.record.number);
    if theirs.records.iter().any(differs) || last(theirs) > last(ours) {
        return refused("has records of its own, which the source does not have");
    }
    let first = ours.records.first().map_or(1, |first| first.record.number);
    if last(theirs) > 0 && first > last(theirs) + 1 {
        return refused("ends before the source begins: what was between has been given up there");
    }
    Ok(())
}
