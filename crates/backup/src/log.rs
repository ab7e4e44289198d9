//! The log of a timeline: what counts, in the order in which it came to count.
//!
//! In: entries, from an agent or a command. Out: numbered records in the store, each created exactly once and each
//! naming the one before by its hash; and the whole of them again.
//!
//! Two writers may try at once: a number is taken by whoever creates it first, and the other reads what is there and
//! goes on behind it. An agent that finds a claim of a later epoch has been relieved and writes no more.
//! Never: a record overwritten; an agent's record behind the claim of another.

mod read;
mod tail;
#[cfg(test)]
mod tests;

pub use read::{Fault, History, visit};
pub use tail::Tail;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::record::{Claim, Entry, RECORD_BYTES_MAX, Record, Signed};
use crate::store::Created;
use crate::{Error, Sha256Hex, Store, lines, names};

/// Records in a segment.
pub const SEGMENT: u64 = 128;
/// A segment that would be longer is not written; its records stay as they are.
const SEGMENT_BYTES_MAX: usize = 16 << 20;
/// How often a number may turn out to be taken before giving up: far more than there are writers.
const TRIES: usize = 64;

/// How far a log is, and who writes it. Overwritten again and again; only a hint, but one that a log which lost its last
/// records contradicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// The last record's number.
    pub number: u64,
    /// Its hash.
    pub hash: Sha256Hex,
    /// The epoch of the agent that writes.
    pub epoch: u64,
    /// The agent, or the command.
    pub writer: String,
    /// When this was written.
    pub at: Timestamp,
    /// An agent is at work, and writes this at least so often, in seconds; 0 if it has stopped.
    pub every: u64,
}

/// Who appends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The agent of this epoch.
    Agent(u64),
    /// A command; it claims nothing.
    Command,
}

/// A log that can be appended to.
pub struct Log {
    store: Store,
    timeline: u32,
    writer: String,
    role: Role,
    tail: Tail,
    /// The records since the last segment, as they are stored.
    block: Vec<u8>,
}

impl Log {
    /// Opens the log of a timeline. Refused if its end cannot be read: nothing can follow it.
    pub async fn open(store: &Store, timeline: u32, writer: &str) -> Result<Log, Error> {
        let mut log = Log {
            store: store.clone(),
            timeline,
            writer: writer.to_owned(),
            role: Role::Command,
            tail: Tail::default(),
            block: Vec::new(),
        };
        let mut last_fault: Option<Fault> = None;
        visit(store, timeline, |found| match found {
            Ok(signed) => log.take(&signed),
            Err(fault) => last_fault = Some(fault),
        })
        .await?;
        match last_fault {
            Some(fault) if fault.number.is_none_or(|number| number >= log.tail.next) => Err(fault.error()),
            _ => Ok(log),
        }
    }

    /// What it comes to.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Which timeline it is of.
    pub fn timeline(&self) -> u32 {
        self.timeline
    }

    fn take(&mut self, signed: &Signed) {
        let number = signed.record.number;
        if number % SEGMENT == 1 {
            self.block.clear();
        }
        if self.block.len() < SEGMENT_BYTES_MAX {
            self.block.extend_from_slice(&signed.record.bytes().0);
        }
        self.tail.take(signed);
    }

    /// Begins a new epoch: from here on this is the agent. An error if another agent claims at the same moment.
    pub async fn claim(&mut self, why: &str, at: Timestamp) -> Result<u64, Error> {
        let epoch = self.tail.epoch + 1;
        self.role = Role::Agent(epoch);
        let claim = Claim {
            epoch,
            why: why.to_owned(),
        };
        match self.append(Entry::Claim(claim), at).await {
            Ok(_) => Ok(epoch),
            Err(error) => {
                self.role = Role::Command;
                Err(error)
            }
        }
    }

    /// Appends an entry, behind whatever others have appended meanwhile.
    pub async fn append(&mut self, entry: Entry, at: Timestamp) -> Result<Signed, Error> {
        for _ in 0..TRIES {
            let epoch = self.allowed(&entry)?;
            let record = Record {
                number: self.tail.next,
                previous: self.tail.hash,
                epoch,
                // Recorded time never runs backwards.
                at: at.max(self.tail.at),
                writer: self.writer.clone(),
                entry: entry.clone(),
            };
            let (bytes, hash) = record.bytes();
            if bytes.len() > RECORD_BYTES_MAX {
                let what = format!("a record of {} bytes is longer than a record may be", bytes.len());
                return Err(Error::refused(
                    what,
                    "this is a fault of quorate; please report it",
                ));
            }
            let name = names::record(self.timeline, record.number);
            let bytes = Bytes::from(bytes);
            match self.store.create(&name, bytes.clone()).await? {
                Created::New => {
                    let signed = Signed { record, hash };
                    self.take(&signed);
                    self.close_segment().await;
                    return Ok(signed);
                }
                Created::Exists => {
                    // An attempt before, of which it did not become known how it ended, may have left just this.
                    let ours = self.store.get(&name, bytes.len() as u64).await;
                    if ours.is_ok_and(|found| found == bytes) {
                        let signed = Signed { record, hash };
                        self.take(&signed);
                        self.close_segment().await;
                        return Ok(signed);
                    }
                    self.catch_up().await?;
                }
            }
        }
        Err(Error::refused(
            format!(
                "{TRIES} times in a row another writer was faster at the log of {}",
                self.store.describe()
            ),
            "too much writes this archive at once; stop some of it",
        ))
    }

    /// The epoch to write under; an error if another agent has taken over.
    fn allowed(&self, entry: &Entry) -> Result<u64, Error> {
        let Role::Agent(mine) = self.role else {
            return Ok(self.tail.epoch);
        };
        let expected = match entry {
            Entry::Claim(_) => mine - 1,
            _ => mine,
        };
        match &self.tail.claim {
            Some((claim, writer, since)) if claim.epoch > expected => Err(Error::Fenced {
                writer: writer.clone(),
                since: since.to_string(),
            }),
            _ => Ok(mine),
        }
    }

    /// Takes in what others have appended.
    pub async fn catch_up(&mut self) -> Result<(), Error> {
        for _ in 0..=SEGMENT * 1024 {
            let name = names::record(self.timeline, self.tail.next);
            let bytes = match self.store.get(&name, RECORD_BYTES_MAX as u64).await {
                Ok(bytes) => bytes,
                Err(error) if error.is_missing() => return Ok(()),
                Err(error) => return Err(error),
            };
            let damaged = |why: &str| Error::damaged(name.clone(), why);
            let mut records = Signed::read_all(&bytes, 1).map_err(damaged)?;
            let signed = records.pop().ok_or_else(|| damaged("it is empty"))?;
            self.tail.follows(&signed).map_err(damaged)?;
            self.take(&signed);
        }
        Err(Error::damaged(names::log(self.timeline), "it does not end"))
    }

    /// Writes the segment that has just become whole. One that is not written is none lost: its records are there.
    async fn close_segment(&mut self) {
        let last = self.tail.next - 1;
        if last % SEGMENT != 0 || self.block.len() >= SEGMENT_BYTES_MAX {
            return;
        }
        let name = names::segment(self.timeline, last - SEGMENT + 1, last);
        if let Err(error) = self
            .store
            .create(&name, Bytes::from(std::mem::take(&mut self.block)))
            .await
        {
            tracing::debug!(%error, name, "a segment of the log was not written");
        }
    }

    /// Says how far the log is. `every`: how often an agent says so; 0: there is none, or it stops.
    pub async fn say_head(&self, every: u64, now: Timestamp) -> Result<(), Error> {
        let head = Head {
            number: self.tail.next - 1,
            hash: self.tail.hash,
            epoch: self.tail.epoch,
            writer: self.writer.clone(),
            at: now,
            every,
        };
        let bytes = Bytes::from(lines::write(&head).0);
        self.store.put(&names::head(self.timeline), bytes).await
    }

    /// What was last said of how far the log is.
    pub async fn head(&self) -> Result<Option<Head>, Error> {
        read::head(&self.store, self.timeline).await
    }
}
