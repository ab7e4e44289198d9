//! One of etcdbrctl's archives, taken over into one of ours.
//!
//! ```text
//! the oldest full that leads to the end ─▶ a full copy, read back and found right
//! every change after it, each once      ─▶ deltas, with the times at which etcdbrctl saw them
//! a hole, and the next full behind it   ─▶ a full copy, and a record of what is missing before it
//! the newest full, if it is another one ─▶ a full copy
//! ```
//!
//! In: a store of etcdbrctl's, an archive of ours, a directory to work in. Out: a timeline with the same history. The next
//! time it goes on behind what is there. Whose cluster it was is written nowhere: the timeline is that of cluster 0.
//! Never: the source touched; a record of something that was not read to its end and found right.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use quorate_datadir::{Assembly, Base, Progress, Revision, Source, write_snapshot};
use serde::Serialize;
use tokio::sync::mpsc;

use super::chain::{Plan, Unreachable, Wanted, plan};
use super::fetch::StoreObjects;
use super::full::FullArrival;
use super::list::{Listing, Object};
use super::restore::blocking;
use super::rows::{EventRows, Open};
use crate::agent::changes::building::Building;
use crate::format::delta::Row;
use crate::format::names;
use crate::format::object::open;
use crate::format::record::{Delta, Entry, Full, Gap, Hash, Lease, Made, Sample};
use crate::log::Log;
use crate::maintain::compact::Workshop;
use crate::maintain::deposit::deposit;
use crate::restore::fetch::told;
use crate::restore::suffice;
use crate::{Archive, Error, Store};

/// Why the timeline is there.
const WHY: &str = "converted from an archive of etcdbrctl's";
/// It is not known whose it was.
const NO_CLUSTER: u64 = 0;
/// A delta is closed once it holds so much.
const DELTA_BYTES: u64 = 4 << 20;
/// Rows that are handed on at once, and how often before it is waited for.
const HANDED_ON: usize = 1 << 20;
const WAITING: usize = 2;
/// Between two samples of time, in milliseconds.
const SAMPLE_EVERY_MS: i64 = 1000;

/// Where to work, and who does it.
#[derive(Debug, Clone, Copy)]
pub struct Conversion<'a> {
    /// It needs room for a database.
    pub scratch: &'a Path,
    pub writer: &'a str,
}

/// What was taken over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Converted {
    pub timeline: u32,
    pub fulls: u64,
    pub deltas: u64,
    pub rows: u64,
    pub revision: i64,
    /// Leases whose time to live nobody knows.
    pub leases: u64,
    /// Changes that only the full after them has: its history tells of them, as far as it goes back.
    pub missing: Vec<Gap>,
    /// What was passed over, and why.
    pub passed_over: Vec<(String, String)>,
}

/// Takes over what is in `store`.
pub async fn convert(
    store: &Store,
    archive: &mut Archive,
    wanted: Conversion<'_>,
    progress: &Arc<Progress>,
    now: Timestamp,
) -> Result<Converted, Error> {
    let listing = Listing::read(store).await?;
    let timeline = match archive.newest() {
        Some(origin) if origin.cluster() == Some(NO_CLUSTER) => origin.timeline,
        Some(_) => {
            return Err(Error::refused(
                format!(
                    "{} has the history of another cluster",
                    archive.store().describe()
                ),
                "convert into an archive of its own",
            ));
        }
        None => archive.begin_timeline(NO_CLUSTER, None, WHY, now).await?.timeline,
    };
    let log = archive.log(timeline, wanted.writer).await?;
    let mut work = Work {
        objects: Arc::new(StoreObjects::new(store)),
        listing,
        archive: archive.clone(),
        log,
        workshop: Workshop::in_dir(wanted.scratch, "convert")?,
        progress: Arc::clone(progress),
        now,
        converted: Converted {
            timeline,
            ..Converted::default()
        },
        without: BTreeSet::new(),
    };
    let done = work.run().await;
    // Of what was recorded before something failed, too.
    work.log.raise_head(now).await;
    done.map(|()| work.converted)
}

struct Work {
    objects: Arc<dyn Open>,
    listing: Listing,
    archive: Archive,
    log: Log,
    workshop: Workshop,
    progress: Arc<Progress>,
    now: Timestamp,
    converted: Converted,
    without: BTreeSet<String>,
}

impl Work {
    async fn run(&mut self) -> Result<(), Error> {
        let after = match self.log.tail().end {
            Some(end) => end,
            None => self.first_full().await?,
        };
        self.converted.revision = after;
        self.deltas().await?;
        let newest = self.listing.fulls.last().cloned();
        let have = self
            .log
            .tail()
            .last_full
            .as_ref()
            .map_or(0, |(full, _)| full.revision);
        if let Some(newest) = newest.filter(|newest| newest.name.last > have) {
            match self.full(&newest).await {
                Ok(revision) => self.converted.revision = self.converted.revision.max(revision),
                Err(Error::Damaged { object, why }) => self.converted.passed_over.push((object, why)),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The oldest full from which everything follows. Out: its revision.
    async fn first_full(&mut self) -> Result<i64, Error> {
        loop {
            let base = self.oldest()?;
            match self.full(&base).await {
                Ok(revision) => {
                    // A log without a head is one whose end may be lost: it has one from the first record on.
                    self.log.raise_head(self.now).await;
                    return Ok(revision);
                }
                Err(Error::Damaged { object, why }) => {
                    self.without.insert(base.key.clone());
                    self.converted.passed_over.push((object, why));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn oldest(&self) -> Result<Object, Error> {
        // By the newest full there is a way, if there is any; then as far back as one leads to the same end.
        // Where there is a hole behind it, what lies before that is taken; the deltas tell of the hole.
        let to = |wanted| plan(&self.listing, wanted, &self.without).map(|newest| (wanted, newest));
        let newest = to(Wanted::Newest).or_else(|unreachable| match unreachable.reaches {
            Some(reaches) => to(Wanted::Revision(reaches)),
            None => Err(unreachable),
        });
        let (wanted, newest) = newest.map_err(|unreachable| {
            Error::refused(unreachable.to_string(), "what is missing cannot be converted")
        })?;
        let usable = |full: &&Object| !self.without.contains(&full.key);
        let leads = |full: &&Object| {
            let from = Plan {
                base: (*full).clone(),
                ..newest.clone()
            };
            from.settle(&self.listing, full.name.last, wanted, &self.without)
                .is_ok()
        };
        let oldest = self.listing.fulls.iter().filter(usable).find(leads);
        Ok(oldest.cloned().unwrap_or(newest.base))
    }

    /// Takes a full over. Out: its true revision.
    async fn full(&mut self, object: &Object) -> Result<i64, Error> {
        let file = self.workshop.path().join("full.db");
        suffice([(self.workshop.path(), object.size)])?;
        let (objects, from, into, progress) = (
            Arc::clone(&self.objects),
            object.clone(),
            file.clone(),
            Arc::clone(&self.progress),
        );
        let (fresh, version, auth_revision) = blocking(move || {
            let mut arrival = FullArrival::new(objects, from);
            let assembly = Assembly::of(Base::Arriving(&mut arrival));
            let fresh = write_snapshot(assembly, &into, &progress).map_err(told)?;
            let source = Source::open(&into)?;
            let version = source.numbers().written_by()?.to_string();
            Ok((fresh, version, source.auth_revision()?))
        })
        .await?;
        let name = names::full(self.converted.timeline, fresh.revision, &names::unique());
        let facts = deposit(&self.archive, &name, &file, &self.progress).await?;
        // What a record names can be opened.
        open(self.archive.store(), &facts, self.archive.key()).await?;
        let hash = fresh.verdict.hash_kv;
        let full = Full {
            facts,
            revision: fresh.revision,
            compact_revision: fresh.compact_revision.unwrap_or(-1),
            made: Made::Conversion,
            taken: Timestamp::from_second(object.name.created).unwrap_or(self.now),
            etcd_version: version,
            auth_revision,
            auth_from: None,
            hash: Some(Hash {
                hash: hash.hash,
                revision: hash.revision,
                compact_revision: hash.compact_revision,
            }),
        };
        self.log.append(Entry::Full(full), self.now).await?;
        self.converted.fulls += 1;
        Ok(fresh.revision)
    }

    /// Takes the changes over that follow what is there. One of their deltas that is damaged is passed over: others may
    /// have the same, and the last one may still be being written.
    async fn deltas(&mut self) -> Result<(), Error> {
        let Some(base) = self.listing.fulls.last().cloned() else {
            return Ok(());
        };
        for _ in 0..self.listing.deltas.len() + self.listing.fulls.len() + 2 {
            let after = self.converted.revision;
            let usable = self
                .listing
                .deltas
                .iter()
                .filter(|delta| !self.without.contains(&delta.key));
            let last = usable.map(|delta| delta.name.last).max().unwrap_or(0);
            if last <= after {
                break;
            }
            let any = Plan {
                base: base.clone(),
                deltas: Vec::new(),
                reaches: last,
                inside: false,
            };
            let to = |last| any.settle(&self.listing, after, Wanted::Revision(last), &self.without);
            // Up to a hole first; what is behind it is looked at the next time round.
            let way = to(last).or_else(|unreachable| match unreachable.reaches {
                Some(reaches) if reaches > after => to(reaches),
                _ => Err(unreachable),
            });
            let way = match way {
                Ok(way) => way,
                Err(hole) => {
                    self.over(&hole).await?;
                    continue;
                }
            };
            for delta in way.deltas {
                // One at a time: what is recorded was read to its end, and is right.
                let (from, key) = (self.converted.revision, delta.key.clone());
                match self.delta(delta, from).await {
                    Ok(()) => {}
                    Err(Error::Damaged { object, why }) if object == key => {
                        self.without.insert(key);
                        self.converted.passed_over.push((object, why));
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Goes on behind a hole, with the next full that there is: whenever etcdbrctl takes one, what came between that and the
    /// last delta may be in no delta.
    async fn over(&mut self, hole: &Unreachable) -> Result<(), Error> {
        let after = self.converted.revision;
        // One that was the newest of all the last time, perhaps.
        let taken = self.log.tail().last_full.as_ref().map(|(full, _)| full.revision);
        if let Some(to) = taken.filter(|revision| *revision > after) {
            return self.gap(to).await;
        }
        let behind = |full: &&Object| full.name.last > after && !self.without.contains(&full.key);
        let Some(full) = self.listing.fulls.iter().find(behind).cloned() else {
            let over: Vec<&str> = self.without.iter().map(String::as_str).collect();
            let what = match over.is_empty() {
                true => hole.to_string(),
                false => format!("{hole}; damaged: {}", over.join(", ")),
            };
            let reached = format!("up to revision {after} all of it is converted");
            return Err(Error::refused(what, reached));
        };
        let passed_over = match self.full(&full).await {
            Ok(to) if to > after => return self.gap(to).await,
            Ok(to) => (full.key.clone(), format!("it only goes up to revision {to}")),
            Err(Error::Damaged { object, why }) => (object, why),
            Err(error) => return Err(error),
        };
        self.without.insert(full.key);
        self.converted.passed_over.push(passed_over);
        Ok(())
    }

    /// Records that changes are missing up to the revision of a full copy that is there.
    async fn gap(&mut self, to: i64) -> Result<(), Error> {
        let gap = Gap {
            from: self.converted.revision + 1,
            to,
            why: "they are in no delta of etcdbrctl's, only in the full after them".to_owned(),
        };
        self.log.append(Entry::Gap(gap.clone()), self.now).await?;
        self.converted.missing.push(gap);
        self.converted.revision = to;
        Ok(())
    }

    async fn delta(&mut self, delta: Object, after: i64) -> Result<(), Error> {
        let (send, mut receive) = mpsc::channel::<Handed>(WAITING);
        let objects = Arc::clone(&self.objects);
        let reading = tokio::task::spawn_blocking(move || read(objects, delta, after, &send));
        let mut ours = Taking::new(&self.archive, self.converted.timeline, after)?;
        while let Some(handed) = receive.recv().await {
            for row in &handed.rows {
                ours.take(row, handed.value(row)).await?;
            }
            self.progress.add(handed.bytes.len() as u64).map_err(told)?;
        }
        reading.await.map_err(|_| Error::Cancelled)??;
        ours.seal().await?;
        for delta in ours.sealed {
            self.converted.revision = delta.to;
            self.converted.rows += delta.rows;
            self.converted.leases += delta.leases.len() as u64;
            self.converted.deltas += 1;
            self.log.append(Entry::Delta(delta), self.now).await?;
        }
        Ok(())
    }
}

/// A row on its way from the thread that reads.
struct HandedRow {
    revision: Revision,
    tombstone: bool,
    lease: i64,
    at_ms: i64,
    start: usize,
    end: usize,
}

#[derive(Default)]
struct Handed {
    rows: Vec<HandedRow>,
    bytes: Vec<u8>,
}

impl Handed {
    fn value(&self, row: &HandedRow) -> &[u8] {
        self.bytes.get(row.start..row.end).unwrap_or_default()
    }
}

/// Reads a delta of theirs, in pieces.
fn read(objects: Arc<dyn Open>, delta: Object, after: i64, send: &mpsc::Sender<Handed>) -> Result<(), Error> {
    let mut rows = EventRows::new(objects, vec![delta], after, super::rows::Until::End);
    let mut handed = Handed::default();
    while let Some((event, value)) = rows.next_event()? {
        let start = handed.bytes.len();
        handed.bytes.extend_from_slice(value);
        handed.rows.push(HandedRow {
            revision: event.revision,
            tombstone: event.tombstone,
            lease: event.lease,
            at_ms: event.time.as_millisecond(),
            start,
            end: handed.bytes.len(),
        });
        if handed.bytes.len() >= HANDED_ON {
            let full = std::mem::take(&mut handed);
            send.blocking_send(full).map_err(|_| Error::Cancelled)?;
        }
    }
    send.blocking_send(handed).map_err(|_| Error::Cancelled)
}

/// Deltas of ours, being made.
struct Taking<'a> {
    archive: &'a Archive,
    timeline: u32,
    building: Building,
    last: i64,
    samples: Vec<Sample>,
    at_ms: i64,
    leases: BTreeSet<i64>,
    /// Those whose objects are in the store; they count once they are recorded.
    sealed: Vec<Delta>,
}

impl<'a> Taking<'a> {
    fn new(archive: &'a Archive, timeline: u32, after: i64) -> Result<Taking<'a>, Error> {
        Ok(Taking {
            archive,
            timeline,
            building: Building::new(archive, timeline, after + 1, DELTA_BYTES)?,
            last: after,
            samples: Vec::new(),
            at_ms: i64::MIN,
            leases: BTreeSet::new(),
            sealed: Vec::new(),
        })
    }

    async fn take(&mut self, row: &HandedRow, value: &[u8]) -> Result<(), Error> {
        if row.revision.main != self.last {
            self.sample(false);
            if self.building.stored_bytes() >= DELTA_BYTES {
                self.seal().await?;
            }
            self.last = row.revision.main;
        }
        self.at_ms = self.at_ms.max(row.at_ms);
        if row.lease != 0 {
            self.leases.insert(row.lease);
        }
        let row = Row {
            revision: row.revision,
            tombstone: row.tombstone,
            value,
        };
        self.building.push(row).await
    }

    /// The last revision existed when it was seen. When it came to be is not known.
    fn sample(&mut self, always: bool) {
        let due = self.samples.last().is_none_or(|last| {
            self.last > last.revision && (always || self.at_ms - last.after >= SAMPLE_EVERY_MS)
        });
        if due && self.at_ms != i64::MIN {
            self.samples.push(Sample {
                before: 0,
                revision: self.last,
                after: self.at_ms,
            });
        }
    }

    async fn seal(&mut self) -> Result<(), Error> {
        if self.building.rows() == 0 {
            return Ok(());
        }
        self.sample(true);
        let next = Building::new(self.archive, self.timeline, self.last + 1, DELTA_BYTES)?;
        let sealed = std::mem::replace(&mut self.building, next).seal().await?;
        let content = sealed.content;
        let lease = |id: i64| Lease { id, ttl: None };
        let delta = Delta {
            from: content.from,
            to: content.to,
            rows: content.rows,
            row_bytes: content.bytes,
            crc: content.crc,
            samples: std::mem::take(&mut self.samples),
            leases: std::mem::take(&mut self.leases).into_iter().map(lease).collect(),
            last: None,
            facts: sealed.facts,
        };
        if let Some(bytes) = sealed.bytes {
            self.archive.store().put(&delta.facts.object, bytes).await?;
        }
        self.sealed.push(delta);
        Ok(())
    }
}
