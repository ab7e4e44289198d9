//! All rows that follow a base, each once, out of deltas that may overlap.
//!
//! ```text
//! delta 1 ─ decompress, parse ─▶ batches ─┐
//! delta 2 ─ decompress, parse ─▶ batches ─┼─▶ EventRows: one revision after the other, none twice, none missing
//! delta 3 ─ …                             ┘
//! ```
//!
//! In: deltas in the order of a plan, the base's true revision, where to end. Out: rows for
//! [`quorate_datadir::rewrite`], and afterwards the revision and time reached and the leases spoken of. A few deltas are
//! decompressed ahead, each by a thread of its own, and each waits when it has a few batches that nobody took.
//! Never: a row of a delta whose hash is wrong taken for good: the end of the rows is told when all hashes were right.

use std::collections::{BTreeSet, VecDeque};
use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use jiff::Timestamp;
use quorate_datadir::bolt::KeyAndValue;
use quorate_datadir::rewrite::Later;
use quorate_datadir::{Lease, Revision};

use super::chain::{Plan, Wanted};
use super::decompress::Decompressed;
use super::delta::{Batch, DeltaEvents, Event, Trouble};
use super::list::{Listing, Object};
use crate::Error;
use crate::restore::plan::LEASE_TTL_DEFAULT;

/// How many deltas are worked on at once.
const AHEAD: usize = 3;
/// How many batches of one delta wait to be taken.
const WAITING: usize = 2;
/// How many leases are remembered by id.
const LEASES: usize = 100_000;

/// Where objects are read.
pub trait Open: Send + Sync {
    /// The bytes of an object as they lie there.
    fn open(&self, object: &Object) -> Result<Box<dyn Read + Send>, Error>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// With the last delta.
    End,
    Revision(i64),
    /// With the last revision that had been seen by then.
    Time(Timestamp),
}

/// What deltas are chosen from when the base is there.
#[derive(Debug, Clone)]
struct Choice {
    listing: Listing,
    plan: Plan,
    wanted: Wanted,
    without: BTreeSet<String>,
}

/// The leases that rows go with. How long they were to live is written nowhere: those that the base does not have get
/// [`LEASE_TTL_DEFAULT`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeasesSeen {
    pub ids: BTreeSet<i64>,
    /// There were more than are kept here.
    pub more: bool,
}

/// Rows after a base.
pub struct EventRows {
    open: Arc<dyn Open>,
    waiting: VecDeque<Object>,
    working: VecDeque<Working>,
    until: Until,
    batch: Batch,
    index: usize,
    /// Revisions up to there were complete before the delta at hand.
    floor: i64,
    /// The last revision of which a row was given.
    main: i64,
    /// The latest time of any event so far: recorded time does not run backwards.
    clock: Option<Timestamp>,
    time: Option<Timestamp>,
    leases: LeasesSeen,
    rows: u64,
    stopped: bool,
    key: Vec<u8>,
    choice: Option<Choice>,
    begun: bool,
}

/// Some rows of a delta; `None` after the last, when its hash was right.
type Said = Result<Option<Batch>, Error>;

/// A delta that is being read.
struct Working {
    object: Object,
    batches: Receiver<Said>,
}

impl EventRows {
    /// Rows of `deltas` after the revision `after`.
    pub fn new(open: Arc<dyn Open>, deltas: Vec<Object>, after: i64, until: Until) -> EventRows {
        EventRows {
            open,
            waiting: deltas.into(),
            working: VecDeque::new(),
            until,
            batch: Batch::default(),
            index: 0,
            floor: after,
            main: after,
            clock: None,
            time: None,
            leases: LeasesSeen::default(),
            rows: 0,
            stopped: matches!(until, Until::Revision(revision) if revision <= after),
            key: Vec::new(),
            choice: None,
            begun: false,
        }
    }

    /// Rows that follow the base of `plan`, to where it was to lead. Which deltas those are out of shows when the base is
    /// there and tells its revision. `wanted` is not a time: [`revision_at`] says which revision that is.
    pub fn of_plan(
        open: Arc<dyn Open>,
        listing: &Listing,
        plan: &Plan,
        wanted: Wanted,
        without: &BTreeSet<String>,
    ) -> EventRows {
        let until = match wanted {
            Wanted::Revision(revision) => Until::Revision(revision),
            Wanted::Newest | Wanted::Time(_) => Until::End,
        };
        EventRows {
            choice: Some(Choice {
                listing: listing.clone(),
                plan: plan.clone(),
                wanted,
                without: without.clone(),
            }),
            ..EventRows::new(open, Vec::new(), 0, until)
        }
    }

    /// Chooses deltas for a base of this revision.
    fn settle(&mut self, base: i64) -> Result<(), Error> {
        let Some(choice) = &self.choice else {
            return Ok(());
        };
        let settled = choice
            .plan
            .settle(&choice.listing, base, choice.wanted, &choice.without);
        let settled = settled.map_err(|unreachable| {
            let why = format!("it turned out to be at revision {base}, and from there {unreachable}");
            Error::damaged(&choice.plan.base.key, why)
        })?;
        self.waiting = settled.deltas.into();
        (self.floor, self.main) = (base, base);
        self.stopped = settled.reaches <= base;
        self.begun = true;
        Ok(())
    }

    /// The last revision given; the base's before any.
    pub fn revision(&self) -> i64 {
        self.main
    }

    /// When that one was seen, as far as rows were given.
    pub fn time(&self) -> Option<Timestamp> {
        self.time
    }

    /// The base was told, and it fits.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// How many rows were given.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The leases that rows given so far go with.
    pub fn leases_seen(&self) -> &LeasesSeen {
        &self.leases
    }

    /// Keeps some deltas at work.
    fn employ(&mut self) {
        while self.working.len() < AHEAD && !self.stopped {
            let Some(object) = self.waiting.pop_front() else {
                break;
            };
            let (send, batches) = sync_channel(WAITING);
            let (open, delta) = (Arc::clone(&self.open), object.clone());
            std::thread::spawn(move || work(&*open, &delta, &send));
            self.working.push_back(Working { object, batches });
        }
    }

    /// Moves to the next row that is to be given.
    fn advance(&mut self) -> Result<Option<usize>, Error> {
        loop {
            while let Some((event, _)) = self.batch.row(self.index) {
                self.index += 1;
                if self.take(event)? {
                    return Ok(Some(self.index - 1));
                }
            }
            if !self.next_batch()? {
                return Ok(None);
            }
        }
    }

    /// Gets more rows; the deltas after one whose end was reached too. False: that was all.
    fn next_batch(&mut self) -> Result<bool, Error> {
        loop {
            self.employ();
            let Some(working) = self.working.front() else {
                return Ok(false);
            };
            let object = &working.object;
            let said = working.batches.recv();
            match said.map_err(|_| Error::damaged(&object.key, "reading it broke off"))?? {
                Some(batch) => {
                    (self.batch, self.index) = (batch, 0);
                    return Ok(true);
                }
                None => {
                    if !self.stopped && self.main < object.name.last {
                        return Err(Error::damaged(
                            &object.key,
                            format!(
                                "it ends with revision {}, its name says {}",
                                self.main, object.name.last
                            ),
                        ));
                    }
                    self.working.pop_front();
                    self.floor = self.main;
                    if self.stopped {
                        self.working.clear();
                    }
                }
            }
        }
    }

    /// Whether this row is to be given.
    fn take(&mut self, event: Event) -> Result<bool, Error> {
        let main = event.revision.main;
        if main <= self.floor || self.stopped {
            return Ok(false);
        }
        if main != self.main {
            if main != self.main + 1 {
                let object = self.working.front().map(|working| working.object.key.clone());
                return Err(Error::damaged(
                    object.unwrap_or_default(),
                    format!("revisions {} to {} are missing", self.main + 1, main - 1),
                ));
            }
            let clock = self.clock.map_or(event.time, |clock| clock.max(event.time));
            let beyond = match self.until {
                Until::End => false,
                Until::Revision(revision) => main > revision,
                Until::Time(time) => clock > time,
            };
            if beyond {
                // What is left of this delta is read for its hash.
                self.stopped = true;
                return Ok(false);
            }
            (self.main, self.clock, self.time) = (main, Some(clock), Some(clock));
        }
        if event.lease != 0 {
            if self.leases.ids.len() < LEASES {
                self.leases.ids.insert(event.lease);
            } else if !self.leases.ids.contains(&event.lease) {
                self.leases.more = true;
            }
        }
        self.rows += 1;
        Ok(true)
    }
}

impl EventRows {
    /// The next row, with what is known of it besides.
    pub fn next_event(&mut self) -> Result<Option<(Event, &[u8])>, Error> {
        Ok(match self.advance()? {
            None => None,
            Some(index) => self.batch.row(index),
        })
    }
}

impl Later for EventRows {
    fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, quorate_datadir::Error> {
        let Some(index) = self.advance().map_err(told_of_files)? else {
            return Ok(None);
        };
        Ok(self.batch.row(index).map(|(event, value)| {
            row_key(&mut self.key, event.revision, event.tombstone);
            (&self.key[..], value)
        }))
    }

    fn begin(&mut self, base: i64) -> Result<(), quorate_datadir::Error> {
        self.settle(base).map_err(told_of_files)
    }

    fn leases(&mut self) -> Vec<Lease> {
        let lease = |id: &i64| Lease {
            id: *id,
            ttl: LEASE_TTL_DEFAULT,
        };
        self.leases.ids.iter().map(lease).collect()
    }
}

/// An error on its way through what works on files; [`crate::restore::fetch::told`] gives it back.
pub(super) fn told_of_files(error: Error) -> quorate_datadir::Error {
    match error {
        Error::Cancelled => quorate_datadir::Error::Cancelled,
        Error::Data(error) => error,
        other => quorate_datadir::Error::supply(other),
    }
}

fn row_key(key: &mut Vec<u8>, revision: Revision, tombstone: bool) {
    key.clear();
    key.extend_from_slice(&revision.bytes());
    if tombstone {
        key.push(b't');
    }
}

/// The last revision that had been seen by `time`, out of deltas that follow one another, and when it was; `None` if even
/// the first came later. Only what may hold it is read.
pub fn revision_at(
    open: &Arc<dyn Open>,
    deltas: &[Object],
    time: Timestamp,
) -> Result<Option<(i64, Timestamp)>, Error> {
    // A name has the second of its upload: what was uploaded before this second had all been seen by then.
    let early = |delta: &&Object| delta.name.created < time.as_second();
    let before = deltas.iter().take_while(early).count().saturating_sub(1);
    let rest = deltas.get(before..).unwrap_or_default();
    let Some(first) = rest.first() else {
        return Ok(None);
    };
    let mut rows = EventRows::new(
        Arc::clone(open),
        rest.to_vec(),
        first.name.start - 1,
        Until::Time(time),
    );
    while rows.advance()?.is_some() {}
    Ok(rows.time().map(|time| (rows.revision(), time)))
}

/// Reads a delta to its end, or to where it is damaged, or until nobody wants it.
fn work(open: &dyn Open, object: &Object, send: &SyncSender<Said>) {
    let read = || -> Result<(), Error> {
        let bytes = open.open(object)?;
        let mut events = DeltaEvents::new(Decompressed::new(bytes, object.name.compression));
        loop {
            let mut batch = Batch::default();
            let any = events
                .next_batch(&mut batch)
                .map_err(|trouble| fault(object, trouble))?;
            if send.send(Ok(any.then_some(batch))).is_err() || !any {
                return Ok(());
            }
        }
    };
    if let Err(error) = read() {
        // Nobody may be there to hear it: then it does not matter.
        let _ = send.send(Err(error));
    }
}

pub(super) fn fault(object: &Object, trouble: Trouble) -> Error {
    match trouble {
        Trouble::Damaged(why) => Error::damaged(&object.key, why),
        Trouble::Read(error) => unreadable(object, error),
    }
}

/// Why an object's bytes could not be had: the store's word, or what is wrong with them.
pub(super) fn unreadable(object: &Object, error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::damaged(&object.key, "its end is missing")
        }
        Err(error) => Error::damaged(&object.key, error.to_string()),
    }
}

#[cfg(test)]
mod tests;
