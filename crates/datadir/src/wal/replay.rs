//! What etcd would replay from a log at its next start, and which is the newest minor that could.
//!
//! Up to 3.5 etcd wrote some requests in the form of its version 2 API: a member's name, the cluster's version, and in
//! 3.4 a read for every look at `/health`. A member keeps them in its log until a raft snapshot lies behind them.
//! Started before that, 3.6 ends with a panic at any but the first two, and 3.7 at all of them. (Seen: 3.4.23 to
//! 3.5.35 to 3.6.16, and 3.5.35 to 3.6.16 to 3.7.3, each within a few thousand writes.)
//!
//! In: a data directory, in use or not. Out: [`Replay`]. It reads the whole log once, a record at a time, and stops
//! where the log ends, is torn or damaged.

use std::path::Path;

use super::field::{Field, for_each};
use super::read::Reader;
use super::record::{Entry, EntryKind, Record};
use crate::Error;

/// What stands in the way of starting a log with a newer etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Replay {
    /// Requests that only etcd up to 3.5 can replay.
    UpTo35,
    /// Requests that only etcd up to 3.6 can replay.
    UpTo36,
    Free,
}

impl Replay {
    /// The newest minor of etcd 3 that can replay it; `None` if any can.
    pub fn newest_minor(self) -> Option<u32> {
        match self {
            Replay::UpTo35 => Some(5),
            Replay::UpTo36 => Some(6),
            Replay::Free => None,
        }
    }
}

/// What etcd would replay from the log in `data_dir`.
pub fn replay(data_dir: &Path) -> Result<Replay, Error> {
    let mut reader = Reader::open(&data_dir.join("member").join("wal"))?;
    let mut found = Found::default();
    while let Some(next) = reader.read_next()? {
        found.take(next.record);
    }
    Ok(found.replay())
}

#[derive(Debug, Default)]
struct Found {
    /// The index of the last entry that 3.6 cannot replay.
    up_to_35: u64,
    /// The index of the last entry that 3.7 cannot replay.
    up_to_36: u64,
    /// The indexes of snapshots, in the order of the log.
    snapshots: Vec<u64>,
    committed: u64,
}

impl Found {
    /// Where a replay begins: the last snapshot that is known to be committed.
    fn snapshot(&self) -> u64 {
        let usable = self.snapshots.iter().filter(|index| **index <= self.committed);
        usable.max().copied().unwrap_or(0)
    }

    fn replay(&self) -> Replay {
        let snapshot = self.snapshot();
        if self.up_to_35 > snapshot {
            Replay::UpTo35
        } else if self.up_to_36 > snapshot {
            Replay::UpTo36
        } else {
            Replay::Free
        }
    }

    fn take(&mut self, record: Record<'_>) {
        match record {
            Record::Entry(Entry {
                kind: EntryKind::Normal,
                index,
                data,
                ..
            }) => match form(data) {
                Replay::UpTo35 => self.up_to_35 = self.up_to_35.max(index),
                Replay::UpTo36 => self.up_to_36 = self.up_to_36.max(index),
                Replay::Free => {}
            },
            Record::State(state) => self.committed = self.committed.max(state.commit),
            Record::Snapshot(mark) => self.snapshots.push(mark.index),
            Record::Entry(_) | Record::Metadata(_) => {}
        }
    }
}

/// A request has its method as field 2 only in the old form; in the new one nothing is left under that number. 3.6
/// still understands the two that tell a member's attributes and the cluster's version.
fn form(request: &[u8]) -> Replay {
    let (mut method, mut path) = (None, &[][..]);
    let read = for_each(request, |field| {
        match field {
            Field::Bytes(2, bytes) => method = Some(bytes),
            Field::Bytes(3, bytes) => path = bytes,
            _ => {}
        }
        Ok(())
    });
    let told = path.starts_with(b"/0/members/") || path == b"/0/version";
    match (read, method) {
        (Ok(()), None) => Replay::Free,
        (Ok(()), Some(b"PUT")) if told => Replay::UpTo36,
        _ => Replay::UpTo35,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old(method: &str, path: &str) -> Vec<u8> {
        let text = |tag: u8, text: &str| [&[tag, text.len() as u8], text.as_bytes()].concat();
        [vec![8, 7], text(18, method), text(26, path)].concat()
    }

    #[test]
    fn old_requests_are_told_from_new_ones() {
        assert_eq!(form(&old("PUT", "/0/version")), Replay::UpTo36);
        assert_eq!(form(&old("PUT", "/0/members/1a/attributes")), Replay::UpTo36);
        assert_eq!(form(&old("PUT", "/1/a")), Replay::UpTo35);
        assert_eq!(form(&old("QGET", "")), Replay::UpTo35);
        assert_eq!(form(&[8, 7, 34, 3, 10, 1, b'k']), Replay::Free);
        assert_eq!(form(&[]), Replay::Free);
        assert_eq!(
            form(&[0xff]),
            Replay::UpTo35,
            "what cannot be read is not replayed either"
        );
    }

    #[test]
    fn only_a_committed_snapshot_counts() {
        let mut found = Found {
            up_to_36: 5,
            snapshots: vec![0, 9],
            committed: 4,
            ..Found::default()
        };
        assert_eq!(found.replay(), Replay::UpTo36);
        found.committed = 9;
        assert_eq!(found.replay(), Replay::Free);
    }
}
