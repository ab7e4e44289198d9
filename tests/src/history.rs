//! What clients asked and what they were answered, in order.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One question and its answer.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When it was asked, since the history began.
    pub asked: Duration,
    /// When the answer (or the lack of one) was in.
    pub answered: Duration,
    pub key: String,
    pub ask: Ask,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Write this value, whatever is there.
    Put(u64),
    /// Write this value if the key was last modified at this revision.
    Swap { expected: i64, value: u64 },
    /// Read through a quorum.
    Read,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The write is acknowledged at this revision.
    Written(i64),
    /// The swap was declined: the key was not as expected.
    Declined,
    /// The key as it is: value, revision of its last write, number of writes since it was made.
    Found(Option<Found>),
    /// Refused; it certainly had no effect.
    Refused,
    Unknown,
}

/// A key as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub value: u64,
    /// The revision of its last write.
    pub revision: i64,
    /// How often it was written.
    pub version: i64,
}

/// A growing record, shared by all clients.
pub struct History {
    began: Instant,
    entries: Mutex<Vec<Entry>>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            entries: Mutex::new(Vec::new()),
        }
    }
}

impl History {
    /// How long it has been going on.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn record(&self, entry: Entry) {
        self.entries
            .lock()
            .expect("no client panics while it records")
            .push(entry);
    }

    /// Everything so far, by the time of the answer.
    pub fn entries(&self) -> Vec<Entry> {
        let mut all = self
            .entries
            .lock()
            .expect("no client panics while it records")
            .clone();
        all.sort_by_key(|e| e.answered);
        all
    }

    /// How many writes were acknowledged so far.
    pub fn written(&self) -> usize {
        let entries = self.entries.lock().expect("no client panics while it records");
        entries
            .iter()
            .filter(|e| matches!(e.answer, Answer::Written(_)))
            .count()
    }

    /// The longest time without any acknowledged write between two moments.
    pub fn longest_gap(&self, from: Duration, to: Duration) -> Duration {
        let acks = self
            .entries()
            .into_iter()
            .filter(|e| matches!(e.answer, Answer::Written(_)))
            .map(|e| e.answered);
        let inside = acks.filter(|t| (from..=to).contains(t));
        let moments: Vec<Duration> = std::iter::once(from).chain(inside).chain([to]).collect();
        moments.windows(2).map(|w| w[1] - w[0]).max().unwrap_or_default()
    }
}
