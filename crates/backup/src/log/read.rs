//! A whole log, read.
//!
//! In: a store, the number of a timeline. Out: its records in order, and what is wrong with it. Segments are read where
//! there are any; where one is damaged, the records it was made of. A record that cannot be read is a fault, and the
//! ones behind it still count: each has its own hash.
//! Never: a hole passed over in silence.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;

use super::{Head, SEGMENT_BYTES_MAX, Tail};
use crate::format::names::LogObject;
use crate::format::record::{Delta, Entry, Full, Gap, Proof, RECORD_BYTES_MAX, Record, Signed};
use crate::format::{lines, names};
use crate::{Error, Store};

/// Objects asked for at once.
const AT_ONCE: usize = 8;
/// Records that a log may have at most: ten years of one each ten seconds.
const RECORDS_MAX: u64 = 32 << 20;

/// So many objects that were listed and are not there are waited with.
const ABSENT_MAX: usize = 65_536;
/// How often a log is read at most while other objects of it go each time.
const READINGS: usize = 32;
/// How often in a row the same is missing before it is taken for lost.
const MISSING: usize = 3;

/// Something wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub object: String,
    /// The record it is about, if it is about one.
    pub number: Option<u64>,
    pub why: String,
    /// It is that something is not there.
    pub gone: bool,
}

impl Fault {
    fn new(object: String, number: Option<u64>, why: &str) -> Fault {
        Fault {
            object,
            number,
            why: why.to_owned(),
            gone: false,
        }
    }

    pub(super) fn gone(object: String, number: Option<u64>) -> Fault {
        Fault {
            gone: true,
            ..Fault::new(object, number, "it is gone")
        }
    }

    /// The last record that its object has.
    fn last(&self) -> Option<u64> {
        match LogObject::parse(&self.object)? {
            LogObject::Record(number) => Some(number),
            LogObject::Segment(_, last) => Some(last),
        }
    }

    pub fn error(&self) -> Error {
        Error::damaged(self.object.clone(), self.why.clone())
    }
}

/// What stands in a listing of a log.
#[derive(Debug, Default)]
struct Listing {
    segments: BTreeMap<u64, u64>,
    records: BTreeSet<u64>,
}

/// Reads all records in order; `take` gets each, and each fault. The log may end anywhere: what is written meanwhile may
/// be in it or not.
pub async fn visit(
    store: &Store,
    timeline: u32,
    mut take: impl FnMut(Result<Signed, Fault>),
) -> Result<(), Error> {
    let mut listing = Listing::default();
    for found in store.list(&names::log(timeline), None).await? {
        match LogObject::parse(&found.name) {
            Some(LogObject::Record(number)) => drop(listing.records.insert(number)),
            Some(LogObject::Segment(first, last)) => drop(listing.segments.insert(first, last)),
            None => {}
        }
    }
    let (pieces, end) = listing.pieces();
    if end > RECORDS_MAX {
        return Err(Error::damaged(
            names::log(timeline),
            "it has more records than a log can have",
        ));
    }
    let mut order = Order::new(timeline);
    let fetched = futures::stream::iter(pieces).map(|piece| fetch(store, timeline, piece, &listing));
    let mut fetched = fetched.buffered(AT_ONCE);
    while let Some(found) = fetched.next().await {
        for found in found? {
            order.judge(found, &mut take);
        }
    }
    order.end(&mut take);
    Ok(())
}

/// One object to read, and which records it is to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Record(u64),
    Segment(u64, u64),
}

impl Listing {
    /// What to read: segments, and records that are in none; holes are asked for too. And the last number.
    fn pieces(&self) -> (Vec<Piece>, u64) {
        let mut pieces = Vec::new();
        let last = self.records.last().copied().unwrap_or(0);
        let end = self.segments.values().copied().max().unwrap_or(0).max(last);
        let begin = self.segments.keys().next().copied().into_iter();
        let mut next = begin.chain(self.records.first().copied()).min().unwrap_or(1);
        while next <= end && end <= RECORDS_MAX {
            match self.segments.get(&next) {
                Some(last) => {
                    pieces.push(Piece::Segment(next, *last));
                    next = last + 1;
                }
                None => {
                    pieces.push(Piece::Record(next));
                    next += 1;
                }
            }
        }
        (pieces, end)
    }
}

type Found = Result<Signed, Fault>;

async fn fetch(store: &Store, timeline: u32, piece: Piece, listing: &Listing) -> Result<Vec<Found>, Error> {
    let (first, last) = match piece {
        Piece::Record(number) => return Ok(vec![fetch_record(store, timeline, number).await?]),
        Piece::Segment(first, last) => (first, last),
    };
    let name = names::segment(timeline, first, last);
    let read = match store.get(&name, 2 * SEGMENT_BYTES_MAX as u64).await {
        Ok(bytes) => Signed::read_all(&bytes, last - first + 1).map_err(|why| Fault::new(name, None, why)),
        Err(error) if error.is_missing() => Err(Fault::gone(name, None)),
        Err(error) => return Err(error),
    };
    match read {
        Ok(records) => Ok(records.into_iter().map(Ok).collect()),
        Err(fault) => {
            let mut found = vec![Err(fault)];
            for number in first..=last {
                if listing.records.contains(&number) {
                    found.push(fetch_record(store, timeline, number).await?);
                } else {
                    found.push(Err(gone(timeline, number)));
                }
            }
            Ok(found)
        }
    }
}

fn gone(timeline: u32, number: u64) -> Fault {
    Fault::gone(names::record(timeline, number), Some(number))
}

async fn fetch_record(store: &Store, timeline: u32, number: u64) -> Result<Found, Error> {
    let name = names::record(timeline, number);
    match store.get(&name, RECORD_BYTES_MAX as u64).await {
        Ok(bytes) => Ok(Signed::read_all(&bytes, 1)
            .and_then(|mut records| records.pop().ok_or("it is empty"))
            .map_err(|why| Fault::new(name, Some(number), why))),
        Err(error) if error.is_missing() => Ok(Err(gone(timeline, number))),
        Err(error) => Err(error),
    }
}

/// Records in their order.
pub(super) struct Order {
    timeline: u32,
    tail: Tail,
    /// The record before the next one was read, so that its hash is known.
    known: bool,
    /// Records before the first that is there.
    dropped: u64,
    /// Records that a prune says were dropped.
    vouched: u64,
    /// A record was read.
    begun: bool,
    /// What was listed and is gone, before the first that was read.
    absent: Vec<Fault>,
}

impl Order {
    pub(super) fn new(timeline: u32) -> Order {
        Order {
            timeline,
            tail: Tail::default(),
            known: false,
            dropped: 0,
            vouched: 0,
            begun: false,
            absent: Vec::new(),
        }
    }

    pub(super) fn judge(&mut self, found: Found, take: &mut impl FnMut(Found)) {
        let signed = match found {
            Ok(signed) => signed,
            Err(fault) => {
                if let Some(number) = fault.number {
                    self.known = false;
                    self.tail.next = number + 1;
                }
                // Before the first record: put away since the listing, if a later record says so.
                if !self.begun && fault.gone && self.absent.len() < ABSENT_MAX {
                    return self.absent.push(fault);
                }
                return take(Err(fault));
            }
        };
        self.begun = true;
        let number = signed.record.number;
        if self.tail.next == 1 && number > 1 && !self.known {
            // The oldest segments may have been pruned; a later record must say so.
            (self.dropped, self.tail.next) = (number - 1, number);
        } else if number == 1 {
            self.known = true;
        }
        let judged = match self.known {
            true => self.tail.follows(&signed),
            false if number == self.tail.next => Ok(()),
            false => Err("its number is not the one that its name says"),
        };
        if let Err(why) = judged {
            let name = names::record(self.timeline, number);
            take(Err(Fault::new(name, Some(number), why)));
        }
        if let Entry::Prune(prune) = &signed.record.entry {
            for object in &prune.objects {
                if let Some(LogObject::Segment(_, last)) = LogObject::parse(object) {
                    self.vouched = self.vouched.max(last);
                }
            }
        }
        self.known = true;
        self.tail.take(&signed);
        take(Ok(signed));
    }

    pub(super) fn end(self, take: &mut impl FnMut(Found)) {
        self.absent
            .into_iter()
            .filter(|fault| fault.last().is_none_or(|last| last > self.vouched))
            .for_each(|fault| take(Err(fault)));
        if self.dropped > self.vouched {
            let mut fault = gone(self.timeline, self.vouched + 1);
            fault.why = format!(
                "records up to {} are gone, and no record says that they may be",
                self.dropped
            );
            take(Err(fault));
        }
    }
}

/// What was listed, and is not there. Objects may have been put away since they were listed: records that a segment holds by
/// now, or the oldest, by a prune that was not listed yet. Those are not listed again.
fn gone_objects(faults: &[Fault]) -> BTreeSet<String> {
    let gone = faults.iter().filter(|fault| fault.gone);
    gone.map(|fault| fault.object.clone()).collect()
}

pub(super) async fn head(store: &Store, timeline: u32) -> Result<Option<Head>, Error> {
    let name = names::head(timeline);
    match store.get(&name, RECORD_BYTES_MAX as u64).await {
        Ok(bytes) => lines::read(&bytes)
            .map(Some)
            .map_err(|why| Error::damaged(name, why)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// All of a log, in memory.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub records: Vec<Signed>,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
    /// How far it was said to be.
    pub head: Option<Head>,
}

impl History {
    /// Reads it. That its head is behind the records, or cannot be read, is a fault too.
    pub async fn read(store: &Store, timeline: u32) -> Result<History, Error> {
        History::settled(async || History::read_once(store, timeline).await).await
    }

    /// Reads until nothing is missing, or what is missing has been for so often that it is lost.
    pub(super) async fn settled(
        mut read: impl AsyncFnMut() -> Result<History, Error>,
    ) -> Result<History, Error> {
        let mut history = read().await?;
        let (mut before, mut times) = (BTreeSet::new(), 1);
        for _ in 1..READINGS {
            let gone = gone_objects(&history.faults);
            times = if gone.is_subset(&before) { times + 1 } else { 1 };
            if gone.is_empty() || times >= MISSING || gone.len() > ABSENT_MAX {
                return Ok(history);
            }
            before = gone;
            history = read().await?;
        }
        // What goes just now is not lost.
        history
            .faults
            .retain(|fault| !fault.gone || before.contains(&fault.object));
        Ok(history)
    }

    async fn read_once(store: &Store, timeline: u32) -> Result<History, Error> {
        let mut history = History::default();
        // The head first: what is written meanwhile only makes the log longer than it says.
        match head(store, timeline).await {
            Ok(head) => history.head = head,
            Err(Error::Damaged { object, why }) => history.faults.push(Fault::new(object, None, &why)),
            Err(error) => return Err(error),
        }
        visit(store, timeline, |found| match found {
            Ok(signed) => history.records.push(signed),
            Err(fault) => history.faults.push(fault),
        })
        .await?;
        let last = history.records.last().map_or(0, |last| last.record.number);
        match &history.head {
            Some(head) if head.number > last => history.faults.push(Fault::new(
                names::record(timeline, head.number),
                Some(head.number),
                &format!(
                    "the log ends at record {last}, and was at {} already",
                    head.number
                ),
            )),
            None if last > 0 && history.faults.is_empty() => {
                history.faults.push(Fault::gone(names::head(timeline), None));
            }
            _ => {}
        }
        Ok(history)
    }

    /// Names of objects that were pruned.
    pub fn pruned(&self) -> BTreeSet<&str> {
        let prunes = self
            .records
            .iter()
            .filter_map(|signed| match &signed.record.entry {
                Entry::Prune(prune) => Some(&prune.objects),
                _ => None,
            });
        prunes.flatten().map(String::as_str).collect()
    }

    /// Full copies that count, oldest revision first.
    pub fn fulls(&self) -> Vec<(&Record, &Full)> {
        let pruned = self.pruned();
        let mut fulls: BTreeMap<&str, (&Record, &Full)> = BTreeMap::new();
        for signed in &self.records {
            if let Entry::Full(full) = &signed.record.entry
                && !pruned.contains(full.facts.object.as_str())
            {
                fulls.entry(&full.facts.object).or_insert((&signed.record, full));
            }
        }
        let mut fulls: Vec<_> = fulls.into_values().collect();
        fulls.sort_by_key(|(record, full)| (full.revision, record.number));
        fulls
    }

    /// Deltas that count, in order.
    pub fn deltas(&self) -> Vec<(&Record, &Delta)> {
        let pruned = self.pruned();
        let deltas = self
            .records
            .iter()
            .filter_map(|signed| match &signed.record.entry {
                Entry::Delta(delta) => Some((&signed.record, delta)),
                _ => None,
            });
        deltas
            .filter(|(_, delta)| !pruned.contains(delta.facts.object.as_str()))
            .collect()
    }

    pub fn gaps(&self) -> impl Iterator<Item = (&Record, &Gap)> {
        self.records
            .iter()
            .filter_map(|signed| match &signed.record.entry {
                Entry::Gap(gap) => Some((&signed.record, gap)),
                _ => None,
            })
    }

    /// What was proven, in order.
    pub fn proofs(&self) -> impl Iterator<Item = (&Record, &Proof)> {
        self.records
            .iter()
            .filter_map(|signed| match &signed.record.entry {
                Entry::Proof(proof) => Some((&signed.record, proof)),
                _ => None,
            })
    }
}
