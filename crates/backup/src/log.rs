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

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::Instance;
use crate::format::record::{Claim, Entry, RECORD_BYTES_MAX, Record, Sample, Signed};
use crate::format::{lines, names};
use crate::store::Created;
use crate::{Error, Sha256Hex, Store};

/// Records in a segment.
pub const SEGMENT: u64 = 128;
/// A segment that would be longer is not written; its records stay as they are.
pub(crate) const SEGMENT_BYTES_MAX: usize = 16 << 20;
/// What was known of a log for longer than this is looked at again before anything is appended: records that a segment
/// holds, too, are deleted when they are a day old, and their numbers must not look free.
const KNOWN_FOR: Duration = Duration::from_secs(3600);
/// How often a number may turn out to be taken before giving up: far more than there are writers.
const TRIES: usize = 64;

/// How far a log is, and who writes it. Overwritten again and again; only a hint, but one that a log which lost its last
/// records contradicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// The last record's number.
    pub number: u64,
    pub hash: Sha256Hex,
    /// The epoch of the agent that writes.
    pub epoch: u64,
    /// The agent, or the command.
    pub writer: String,
    /// When this was written.
    pub at: Timestamp,
    /// An agent is at work, and writes this at least so often, in seconds; 0 if it has stopped.
    pub every: u64,
    /// What time it was when the agent last asked: while nothing changes no record says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// The agent's run, so that another on its machine can see that it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Instance>,
}

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
    /// How many those are.
    block_records: u64,
    /// When it was last known that the log ends where it is thought to.
    known: SystemTime,
    sample: Option<Sample>,
    instance: Option<Instance>,
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
            block_records: 0,
            known: SystemTime::now(),
            sample: None,
            instance: None,
        };
        log.reopen(None).await?;
        Ok(log)
    }

    /// Reads all of it again. Whether the record that is looked for is in it.
    async fn reopen(&mut self, sought: Option<(u64, Sha256Hex)>) -> Result<bool, Error> {
        let began = SystemTime::now();
        let (store, timeline) = (self.store.clone(), self.timeline);
        (self.tail, self.block, self.block_records) = (Tail::default(), Vec::new(), 0);
        let mut last_fault: Option<Fault> = None;
        let mut there = false;
        visit(&store, timeline, |found| match found {
            Ok(signed) => {
                there |= sought == Some((signed.record.number, signed.hash));
                self.take(&signed);
            }
            Err(fault) if fault.number > last_fault.as_ref().and_then(|last| last.number) => {
                last_fault = Some(fault);
            }
            Err(_) => {}
        })
        .await?;
        match last_fault {
            Some(fault) if fault.number >= Some(self.tail.next) => Err(fault.error()),
            _ => {
                self.known = began;
                Ok(there)
            }
        }
    }

    /// Whether the log may be longer than is known, and its records put away. A clock that was set back counts, too.
    fn is_stale(&self) -> bool {
        !matches!(self.known.elapsed(), Ok(since) if since < KNOWN_FOR)
    }

    /// Finds out whether the log ends where it is thought to; if not, reads it again.
    async fn look_again(&mut self) -> Result<(), Error> {
        let began = SystemTime::now();
        let (log, next) = (names::log(self.timeline), self.tail.next);
        let block = (next - 1) / SEGMENT * SEGMENT + 1;
        let listed = self.store.list(&log, Some(&format!("{log}/{block:012}"))).await?;
        let longer = listed
            .iter()
            .any(|found| match names::LogObject::parse(&found.name) {
                Some(names::LogObject::Record(number)) => number >= next,
                Some(names::LogObject::Segment(_, last)) => last >= next,
                None => false,
            });
        match longer {
            true => self.reopen(None).await.map(drop),
            false => {
                self.known = began;
                Ok(())
            }
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
            self.block_records = 0;
        }
        let (bytes, hash) = signed.record.bytes();
        // A record of another version may say more than this one knows to write: a segment would not be the same.
        if hash == signed.hash && self.block.len() < SEGMENT_BYTES_MAX {
            self.block.extend_from_slice(&bytes);
            self.block_records += 1;
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
        if self.tail.next == 1 {
            self.announce(at).await?;
        }
        for _ in 0..TRIES {
            if self.is_stale() {
                self.look_again().await?;
            }
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
                // It took so long that the log may have gone on past this number and the records been put away.
                Created::New if self.is_stale() => {
                    if self.reopen(Some((record.number, hash))).await? {
                        return Ok(Signed { record, hash });
                    }
                }
                Created::New => {
                    self.known = SystemTime::now();
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

    /// Before the first record it is said that there are none: records of which nothing is said have lost something.
    async fn announce(&self, at: Timestamp) -> Result<(), Error> {
        match self.head().await {
            Ok(None) => self.say_head(0, at).await,
            // One that cannot be read is overwritten later.
            Ok(Some(_)) | Err(Error::Damaged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
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
        if self.is_stale() {
            self.look_again().await?;
        }
        let began = SystemTime::now();
        for _ in 0..=SEGMENT * 1024 {
            let name = names::record(self.timeline, self.tail.next);
            let bytes = match self.store.get(&name, RECORD_BYTES_MAX as u64).await {
                Ok(bytes) => bytes,
                Err(error) if error.is_missing() => {
                    self.known = began;
                    return Ok(());
                }
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
        if !last.is_multiple_of(SEGMENT)
            || self.block_records != SEGMENT
            || self.block.len() >= SEGMENT_BYTES_MAX
        {
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

    /// From now on what is said of how far the log is says also what time it was.
    pub fn set_sample(&mut self, sample: Sample) {
        self.sample = Some(sample);
    }

    /// From now on heartbeats say which run of an agent writes them.
    pub fn set_instance(&mut self, instance: Instance) {
        self.instance = Some(instance);
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
            sample: self.sample,
            instance: self.instance.clone(),
        };
        let bytes = Bytes::from(lines::write(&head).0);
        self.store.put(&names::head(self.timeline), bytes).await
    }

    /// Says how far the log is for whoever writes it, without taking the agent's place. It is only a hint: what is not
    /// said now is said by whoever writes next.
    pub async fn raise_head(&self, now: Timestamp) {
        let raised = async {
            let last = self.tail.next - 1;
            match self.head().await? {
                None => self.say_head(0, now).await,
                Some(head) if head.number >= last => Ok(()),
                Some(head) => {
                    let head = Head {
                        number: last,
                        hash: self.tail.hash,
                        ..head
                    };
                    let bytes = Bytes::from(lines::write(&head).0);
                    self.store.put(&names::head(self.timeline), bytes).await
                }
            }
        };
        if let Err(error) = raised.await {
            tracing::debug!(%error, "how far the log is was not said");
        }
    }

    /// What was last said of how far the log is.
    pub async fn head(&self) -> Result<Option<Head>, Error> {
        read::head(&self.store, self.timeline).await
    }
}
