//! A delta as rows of etcd's bucket `key`.
//!
//! ```text
//! [event,event,…]     JSON, in the order of the watch: all of one revision together
//! SHA-256             32 bytes, of the JSON with its brackets
//! ```
//!
//! In: the decompressed bytes. Out: batches of rows exactly as etcd has them, with the time each event was seen. Memory:
//! a window of the text, at least one event wide, and one batch; not the delta.
//! Never: the end told before the hash was right. What comes before the end does not count until then.

mod json;

use std::io::{self, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use quorate_datadir::Revision;
use sha2::{Digest as _, Sha256};

use json::{Halt, Item, Raw, item};

const DIGEST: usize = 32;
/// How much is read at once.
const PIECE: usize = 256 << 10;
/// No event is longer: etcd takes requests of 1.5 MiB, and warns of settings above 10 MiB.
const LONGEST_EVENT: usize = 96 << 20;
/// A batch is handed on when it holds this much.
const BATCH: usize = 1 << 20;

/// Why a delta cannot be read.
#[derive(Debug)]
pub enum Trouble {
    /// Its bytes cannot be had, or not decompressed.
    Read(io::Error),
    /// It is not what etcdbrctl writes.
    Damaged(String),
}

/// A row without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Its transaction, and its place in it.
    pub revision: Revision,
    pub tombstone: bool,
    /// When etcdbrctl saw it, by its clock.
    pub time: Timestamp,
    /// The lease it goes with; 0 for none.
    pub lease: i64,
    /// Where its row ends in the batch.
    end: usize,
}

#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    events: Vec<Event>,
}

impl Batch {
    /// The rows: what each is, and the value that stands in the bucket.
    pub fn rows(&self) -> impl Iterator<Item = (Event, &[u8])> {
        (0..self.events.len()).filter_map(|index| self.row(index))
    }

    pub fn row(&self, index: usize) -> Option<(Event, &[u8])> {
        let event = *self.events.get(index)?;
        let start = match index.checked_sub(1) {
            None => 0,
            Some(before) => self.events.get(before)?.end,
        };
        Some((event, self.bytes.get(start..event.end)?))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.events.clear();
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH || self.events.len() >= BATCH / 64
    }
}

/// A delta being read.
pub struct DeltaEvents<R> {
    window: Window<R>,
    began: bool,
    ended: bool,
    number: u64,
    last: Revision,
    /// The last time that was read, as text and as what it means: many events in a row have the same.
    time: (Vec<u8>, Timestamp),
}

impl<R: Read> DeltaEvents<R> {
    pub fn new(from: R) -> DeltaEvents<R> {
        DeltaEvents {
            window: Window::new(from),
            began: false,
            ended: false,
            number: 0,
            last: Revision { main: 0, sub: 0 },
            time: (Vec::new(), Timestamp::UNIX_EPOCH),
        }
    }

    /// Puts the next rows into `batch`, in place of what it holds. False: there are none, and the hash was right.
    pub fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, Trouble> {
        batch.clear();
        if !self.began {
            self.window.begin()?;
            self.began = true;
        }
        while !self.ended && !batch.is_full() {
            self.next_event(batch)?;
        }
        Ok(!batch.events.is_empty())
    }

    fn next_event(&mut self, batch: &mut Batch) -> Result<(), Trouble> {
        loop {
            let number = self.number + 1;
            match item(self.window.text(), self.number == 0) {
                Ok((Item::Event(raw), length)) => {
                    let taken = Taken {
                        raw: &raw,
                        last: self.last,
                        time: &mut self.time,
                    };
                    let revision = taken.put(batch);
                    self.last = revision.map_err(|why| damaged(format!("event {number}: {why}")))?;
                    self.number = number;
                    self.window.take(length);
                    return Ok(());
                }
                Ok((Item::End, length)) => {
                    self.window.take(length);
                    self.window.end()?;
                    self.ended = true;
                    return Ok(());
                }
                Err(Halt::Bad(why)) => return Err(damaged(format!("event {number}: {why}"))),
                Err(Halt::More) => self.window.more()?,
            }
        }
    }
}

fn damaged(why: impl Into<String>) -> Trouble {
    Trouble::Damaged(why.into())
}

/// An event on its way into a batch.
struct Taken<'a, 'b> {
    raw: &'a Raw<'b>,
    last: Revision,
    time: &'a mut (Vec<u8>, Timestamp),
}

impl Taken<'_, '_> {
    fn put(self, batch: &mut Batch) -> Result<Revision, String> {
        let raw = self.raw;
        let revision = match raw.mod_revision {
            main if main <= 0 => return Err("it has no revision".to_owned()),
            main if main == self.last.main => Revision {
                main,
                sub: self.last.sub + 1,
            },
            main if main < self.last.main => {
                return Err(format!(
                    "revision {main} stands behind revision {}",
                    self.last.main
                ));
            }
            main => Revision { main, sub: 0 },
        };
        if raw.key.is_empty() {
            return Err("it has no key".to_owned());
        }
        let tombstone = match raw.kind {
            0 => false,
            1 => true,
            other => return Err(format!("it is of kind {other}, which etcd does not have")),
        };
        if self.time.0 != raw.time {
            let text = std::str::from_utf8(raw.time).unwrap_or_default();
            let time = text.parse().map_err(|_| "its time is not one".to_owned())?;
            self.time.0.clear();
            self.time.0.extend_from_slice(raw.time);
            self.time.1 = time;
        }
        let bytes = &mut batch.bytes;
        let whole = if tombstone {
            append_text(bytes, 0x0a, raw.key)
        } else {
            if raw.create_revision <= 0 || raw.create_revision > raw.mod_revision || raw.version <= 0 {
                return Err("its key was written before it came to be".to_owned());
            }
            append_text(bytes, 0x0a, raw.key).and_then(|()| {
                append_number(bytes, 0x10, raw.create_revision);
                append_number(bytes, 0x18, raw.mod_revision);
                append_number(bytes, 0x20, raw.version);
                append_text(bytes, 0x2a, raw.value)?;
                append_number(bytes, 0x30, raw.lease);
                Some(())
            })
        };
        whole.ok_or_else(|| "its key or value is not base64".to_owned())?;
        batch.events.push(Event {
            revision,
            tombstone,
            time: self.time.1,
            lease: raw.lease,
            end: bytes.len(),
        });
        Ok(revision)
    }
}

fn append_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn append_number(bytes: &mut Vec<u8>, tag: u8, number: i64) {
    if number != 0 {
        bytes.push(tag);
        append_varint(bytes, u64::from_ne_bytes(number.to_ne_bytes()));
    }
}

/// Decodes base64 to where it belongs. `None` if it is none.
fn append_text(bytes: &mut Vec<u8>, tag: u8, text: &[u8]) -> Option<()> {
    if text.is_empty() {
        return Some(());
    }
    let padding = text
        .iter()
        .rev()
        .take(2)
        .take_while(|byte| **byte == b'=')
        .count();
    let length = (text.len() / 4 * 3).checked_sub(padding)?;
    bytes.push(tag);
    append_varint(bytes, length as u64);
    let start = bytes.len();
    bytes.resize(start + length, 0);
    let decoded = STANDARD.decode_slice(text, bytes.get_mut(start..)?).ok()?;
    (decoded == length).then_some(())
}

/// The part of the text that is looked at.
struct Window<R> {
    from: R,
    buffer: Vec<u8>,
    /// Hashed up to there.
    hashed: usize,
    start: usize,
    end: usize,
    hash: Sha256,
    at_end: bool,
}

impl<R: Read> Window<R> {
    fn new(from: R) -> Window<R> {
        Window {
            from,
            buffer: vec![0; PIECE],
            hashed: 0,
            start: 0,
            end: 0,
            hash: Sha256::new(),
            at_end: false,
        }
    }

    fn text(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn take(&mut self, length: usize) {
        self.start += length;
    }

    fn hash_taken(&mut self) {
        let taken = self.buffer.get(self.hashed..self.start).unwrap_or_default();
        self.hash.update(taken);
        self.hashed = self.start;
    }

    /// Reads on: enough that looking again at what is there already costs little.
    fn more(&mut self) -> Result<(), Trouble> {
        self.hash_taken();
        let held = self.end - self.start;
        if held > LONGEST_EVENT {
            return Err(damaged(format!("an event is longer than {LONGEST_EVENT} bytes")));
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.hashed, self.start, self.end) = (0, 0, held);
        if self.buffer.len() < held * 2 {
            self.buffer.resize(held * 2, 0);
        }
        let enough = held + (held / 2).max(1);
        while self.end < enough && !self.at_end {
            self.fill()?;
        }
        if self.end == held {
            return Err(damaged("it ends in the middle"));
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<usize, Trouble> {
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        loop {
            match self.from.read(room) {
                Ok(length) => {
                    self.end += length;
                    self.at_end = length == 0;
                    return Ok(length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Trouble::Read(error)),
            }
        }
    }

    /// The bracket that opens the array.
    fn begin(&mut self) -> Result<(), Trouble> {
        loop {
            let text = self.text();
            let space = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            match text.get(space) {
                Some(b'[') => {
                    self.take(space + 1);
                    return Ok(());
                }
                Some(_) => return Err(damaged("it is not an array of events")),
                None => self.more()?,
            }
        }
    }

    /// What follows the array must be its hash and nothing else.
    fn end(&mut self) -> Result<(), Trouble> {
        self.hash_taken();
        self.buffer.copy_within(self.start..self.end, 0);
        (self.hashed, self.start, self.end) = (0, 0, self.end - self.start);
        // There is room for one byte more than there should be.
        self.buffer.resize(self.buffer.len().max(DIGEST + 1), 0);
        while self.end <= DIGEST && self.fill()? > 0 {}
        if self.end != DIGEST {
            return Err(damaged(
                "there is no SHA-256 behind its events, or more than that",
            ));
        }
        if self.hash.finalize_reset().as_slice() != self.text() {
            return Err(damaged("its events are not those that its SHA-256 was made of"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
