//! From what a watch tells to what goes into the archive.
//!
//! In: messages of events, in whatever pieces they come, some of them twice. Out: deltas and gaps in one sequence
//! without holes, ready to be written. A row is what etcd keeps: of a put the key-value pair as it came, of a deletion
//! the key alone; its place in its revision is counted here, since a watch does not tell it.
//! Never: a delta that ends inside a revision; memory for more than one that is full and a message.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use quorate_client::{Batch, Event, EventKind};
use quorate_datadir::Revision;

use super::building::Building;
use super::recall::Recall;
use crate::agent::ask::leases::Leases;
use crate::agent::ask::sample::Samples;
use crate::agent::decide::{self, Flush, Pace, Waiting};
use crate::agent::writer::Job;
use crate::format::delta::Row;
use crate::format::record::{Delta, Entry, Gap};
use crate::{Archive, Error};

/// So often in a row the next revision may be missing from what a watch tells, until it counts as lost.
const HOLES_BEFORE_GAP: u32 = 5;

pub struct Intake {
    archive: Archive,
    timeline: u32,
    pace: Pace,
    building: Building,
    /// The last row taken, or what counts as such.
    last: Revision,
    /// Every event up to this revision has been taken.
    complete: i64,
    /// The last event of the present watch.
    cursor: Option<Revision>,
    /// The last row is the last of its revision.
    whole: bool,
    /// A message of which only so many events were taken.
    held: Option<(Batch, usize)>,
    holes: u32,
    /// The sequence has begun: its first part was recorded, or is about to be.
    begun: bool,
    /// The sequence begins behind this revision, or before it.
    start: i64,
    /// The last revision that was lost.
    lost_to: Option<i64>,
    /// Ready to be written, in order.
    pub outbox: VecDeque<Job>,
    pub leases: Leases,
    pub samples: Samples,
    /// Whether history is still the same.
    pub recall: Recall,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It was taken, as far as there is room.
    Well,
    /// It does not continue what was taken before: the watch has to begin anew, behind what is complete.
    Torn,
    /// It tells a revision otherwise than before: this is another history.
    Another,
}

impl Intake {
    /// Begins behind revision `known`, of which and before which everything is recorded, or lost, or in a full copy.
    pub fn new(
        archive: &Archive,
        timeline: u32,
        known: i64,
        begun: bool,
        pace: Pace,
        clock: i64,
    ) -> Result<Intake, Error> {
        Ok(Intake {
            archive: archive.clone(),
            timeline,
            pace,
            building: Building::new(archive, timeline, known + 1, pace.size)?,
            last: end_of(known),
            complete: known,
            cursor: None,
            whole: true,
            held: None,
            holes: 0,
            begun,
            start: known,
            lost_to: None,
            outbox: VecDeque::new(),
            leases: Leases::default(),
            samples: Samples::new(clock),
            recall: Recall::default(),
        })
    }

    /// Every event up to this revision has been taken.
    pub fn complete(&self) -> i64 {
        self.complete
    }

    /// The newest revision of which an event has been taken.
    pub fn newest(&self) -> i64 {
        self.last.main
    }

    /// The sequence of changes has begun.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// The sequence begins with a full copy of what is complete: what is lost from here on is missing.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    /// What there is of the sequence does not follow a full copy of a revision before this.
    pub fn start(&self) -> i64 {
        self.start
    }

    /// The last revision that was lost, if any was: only a full copy of that or a later one leads past it.
    pub fn lost_to(&self) -> Option<i64> {
        self.lost_to
    }

    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// What is being built.
    pub fn building(&self) -> &Building {
        &self.building
    }

    /// What waits to be flushed.
    pub fn waiting(&self, busy: bool, stopping: bool) -> Waiting {
        Waiting {
            rows: self.building.rows(),
            stored: self.building.stored_bytes(),
            age: self
                .building
                .began()
                .map_or_else(Default::default, |(at, _)| at.elapsed()),
            whole: self.whole,
            leases: self.leases.unanswered(),
            untold: self.leases.untold(),
            busy: busy || !self.outbox.is_empty(),
            stopping,
        }
    }

    /// A watch begins, with the first event of a revision that is complete.
    pub fn opened(&mut self) {
        self.cursor = None;
        self.recall.opened();
    }

    /// Takes a message, or as much of it as there is room for. An error is one of the store, while something streams
    /// into it: then [`Intake::give_up`].
    pub async fn take(&mut self, batch: Batch, busy: bool) -> Result<Taken, Error> {
        self.held = Some((batch, 0));
        self.go_on(busy).await
    }

    /// Goes on with the message that waits, if there is room now.
    pub async fn go_on(&mut self, busy: bool) -> Result<Taken, Error> {
        let Some((batch, mut place)) = self.held.take() else {
            return Ok(Taken::Well);
        };
        while let Some(event) = batch.event(place) {
            let Ok(event) = event else {
                return Ok(Taken::Torn);
            };
            if !self.recall.comes(event.mod_revision) {
                return Ok(Taken::Another);
            }
            let revision = match self.cursor {
                Some(cursor) if cursor.main == event.mod_revision => Revision {
                    sub: cursor.sub + 1,
                    ..cursor
                },
                _ => Revision {
                    main: event.mod_revision,
                    sub: 0,
                },
            };
            if revision > self.last && revision.main > self.complete {
                if revision.main > self.last.main {
                    self.complete = self.complete.max(self.last.main);
                    self.whole = true;
                    if !self.make_room(busy).await? {
                        self.held = Some((batch, place));
                        return Ok(Taken::Well);
                    }
                    if revision.main != self.last.main + 1 && !self.hole(revision.main).await? {
                        return Ok(Taken::Torn);
                    }
                }
                self.push(revision, &event).await?;
            }
            self.recall.take(&event);
            self.cursor = Some(revision);
            place += 1;
        }
        if !batch.continues && !self.recall.whole() {
            return Ok(Taken::Another);
        }
        // What is only a repetition says nothing about the end of what was taken.
        if self.cursor == Some(self.last) {
            self.whole = !batch.continues;
        }
        if self.whole {
            self.complete = self.complete.max(self.last.main);
        }
        Ok(Taken::Well)
    }

    /// Between two revisions: flushes if it is time. False if there is no room for another row.
    async fn make_room(&mut self, busy: bool) -> Result<bool, Error> {
        let waiting = self.waiting(busy, false);
        if self.building.is_streaming() || decide::flush(&waiting, &self.pace) == Flush::Now {
            self.seal().await?;
            return Ok(true);
        }
        Ok(decide::may_read(&waiting, &self.pace))
    }

    /// The next revision is missing. True if it is lost and what comes can be taken.
    async fn hole(&mut self, next: i64) -> Result<bool, Error> {
        self.holes += 1;
        if self.holes < HOLES_BEFORE_GAP {
            return Ok(false);
        }
        self.seal().await?;
        let why = "the cluster told nothing of them, however often it was asked";
        self.gap(next - 1, why)?;
        Ok(true)
    }

    async fn push(&mut self, revision: Revision, event: &Event<'_>) -> Result<(), Error> {
        let mut deletion = Vec::new();
        let value = match event.kind {
            EventKind::Put => event.key_value,
            EventKind::Delete => {
                key_alone(event.key, &mut deletion);
                &deletion[..]
            }
        };
        let row = Row {
            revision,
            tombstone: event.kind == EventKind::Delete,
            value,
        };
        self.building.push(row).await?;
        self.leases.met(event.lease);
        self.last = revision;
        self.whole = false;
        self.holes = 0;
        Ok(())
    }

    /// Flushes, or begins to stream, if it is time. An error is one of the store, as with [`Intake::take`].
    pub async fn flush(&mut self, busy: bool, stopping: bool) -> Result<Flush, Error> {
        let what = decide::flush(&self.waiting(busy, stopping), &self.pace);
        match what {
            Flush::Now => self.seal().await?,
            Flush::Stream if !self.building.is_streaming() => self.building.stream().await?,
            _ => {}
        }
        Ok(what)
    }

    /// Ends the delta that is being built. Its last row must be the last of its revision.
    pub async fn seal(&mut self) -> Result<(), Error> {
        if self.building.rows() == 0 {
            return Ok(());
        }
        let from = self.building.from();
        let next = Building::new(&self.archive, self.timeline, self.last.main + 1, self.pace.size)?;
        let sealed = match std::mem::replace(&mut self.building, next).seal().await {
            Ok(sealed) => sealed,
            Err(error) => {
                // None of it is in the archive: giving up has to go back to its beginning.
                self.building = Building::new(&self.archive, self.timeline, from, self.pace.size)?;
                return Err(error);
            }
        };
        let content = sealed.content;
        let delta = Delta {
            from: content.from,
            to: content.to,
            rows: content.rows,
            row_bytes: content.bytes,
            crc: content.crc,
            samples: self.samples.until(content.to),
            leases: self.leases.tell(),
            last: self.recall.imprint(content.to),
            facts: sealed.facts,
        };
        let object = sealed.bytes.map(|bytes| (delta.facts.object.clone(), bytes));
        self.begun = true;
        self.outbox.push_back(Job {
            entry: Entry::Delta(delta),
            object,
        });
        Ok(())
    }

    /// History up to this revision can no longer be told.
    pub async fn compacted(&mut self, compact_revision: i64) -> Result<(), Error> {
        if compact_revision <= self.complete {
            return Ok(());
        }
        if self.whole {
            self.seal().await?;
        }
        let why = format!("the cluster was compacted at {compact_revision} before they were read");
        self.gap(compact_revision, &why)
    }

    /// What is not in a whole delta yet, up to this revision, is lost; where nothing was to be kept yet, it begins later.
    fn gap(&mut self, to: i64, why: &str) -> Result<(), Error> {
        if !self.begun {
            self.start = to;
        } else {
            self.lost_to = Some(to);
            let gap = Gap {
                from: self.building.from(),
                to,
                why: why.to_owned(),
            };
            tracing::warn!(from = gap.from, to, why, "changes are lost to the archive");
            self.outbox.push_back(Job {
                entry: Entry::Gap(gap),
                object: None,
            });
        }
        self.begin_behind(to)
    }

    /// Drops what is being built. The watch has to begin anew behind the revision that comes back.
    pub fn give_up(&mut self) -> Result<i64, Error> {
        let known = self.building.from() - 1;
        self.begin_behind(known)?;
        Ok(known)
    }

    fn begin_behind(&mut self, known: i64) -> Result<(), Error> {
        self.building = Building::new(&self.archive, self.timeline, known + 1, self.pace.size)?;
        (self.last, self.complete) = (end_of(known), known);
        (self.whole, self.held, self.holes) = (true, None, 0);
        Ok(())
    }
}

/// Behind every row of a revision.
fn end_of(main: i64) -> Revision {
    Revision { main, sub: i64::MAX }
}

/// What etcd keeps of a deletion: a KeyValue with a key and nothing else.
fn key_alone(key: &[u8], into: &mut Vec<u8>) {
    if key.is_empty() {
        return;
    }
    into.reserve(key.len() + 6);
    into.push(1 << 3 | 2);
    let mut length = key.len();
    while length >= 0x80 {
        into.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    into.push(length as u8);
    into.extend_from_slice(key);
}
