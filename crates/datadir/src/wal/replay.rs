//! What etcd would replay from a log at its next start, and which is the newest minor that could.
//!
//! Up to 3.5 etcd wrote some requests in the form of its version 2 API: a member's name, the cluster's version, and in
//! 3.4 a read for every look at `/health`. A member keeps them in its log until a raft snapshot lies behind them.
//! Started before that, 3.6 ends with a panic at any but the first two, and 3.7 at all of them. (Seen: 3.4.23 to
//! 3.5.35 to 3.6.16, and 3.5.35 to 3.6.16 to 3.7.3, each within a few thousand writes.)
//!
//! In: a data directory, in use or not. Out: [`Replay`]. It reads the whole log once, a record at a time, and stops
//! where the log ends or is torn.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::frame::{self, Broken, Field};
use super::segments;
use crate::Error;

const TYPE_ENTRY: i64 = 2;
const TYPE_STATE: i64 = 3;
const TYPE_SNAPSHOT: i64 = 5;
/// The longest record believed; etcd's own limit for a request is far below.
const RECORD_BYTES_MAX: u64 = 256 << 20;

/// What stands in the way of starting a log with a newer etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Replay {
    /// Requests that only etcd up to 3.5 can replay.
    UpTo35,
    /// Requests that only etcd up to 3.6 can replay.
    UpTo36,
    /// Nothing.
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
    let dir = data_dir.join("member").join("wal");
    let names = segments::names(&dir).map_err(|source| Error::List {
        path: dir.clone(),
        source,
    })?;
    let mut found = Found::default();
    for name in names {
        let path = dir.join(name.to_string());
        scan(&path, &mut found).map_err(|source| Error::Read { path, source })?;
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

    fn take(&mut self, kind: i64, data: &[u8]) -> Result<(), Broken> {
        match kind {
            TYPE_ENTRY => {
                let (mut normal, mut index, mut request) = (true, 0, &[][..]);
                for_each(data, |field| match field {
                    Field::Varint(1, kind) => normal = kind == 0,
                    Field::Varint(3, value) => index = value,
                    Field::Bytes(4, bytes) => request = bytes,
                    _ => {}
                })?;
                match form(request) {
                    Replay::UpTo35 if normal => self.up_to_35 = self.up_to_35.max(index),
                    Replay::UpTo36 if normal => self.up_to_36 = self.up_to_36.max(index),
                    _ => {}
                }
            }
            TYPE_STATE => for_each(data, |field| {
                if let Field::Varint(3, commit) = field {
                    self.committed = self.committed.max(commit);
                }
            })?,
            TYPE_SNAPSHOT => {
                let mut index = 0;
                for_each(data, |field| {
                    if let Field::Varint(1, value) = field {
                        index = value;
                    }
                })?;
                self.snapshots.push(index);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A request has its method as field 2 only in the old form; in the new one nothing is left under that number. 3.6
/// still understands the two that tell a member's attributes and the cluster's version.
fn form(request: &[u8]) -> Replay {
    let (mut method, mut path) = (None, &[][..]);
    let read = for_each(request, |field| match field {
        Field::Bytes(2, bytes) => method = Some(bytes),
        Field::Bytes(3, bytes) => path = bytes,
        _ => {}
    });
    let told = path.starts_with(b"/0/members/") || path == b"/0/version";
    match (read, method) {
        (Ok(()), None) => Replay::Free,
        (Ok(()), Some(b"PUT")) if told => Replay::UpTo36,
        _ => Replay::UpTo35,
    }
}

fn for_each<'a>(mut bytes: &'a [u8], mut take: impl FnMut(Field<'a>)) -> Result<(), Broken> {
    while !bytes.is_empty() {
        let (field, rest) = Field::read(bytes)?;
        take(field);
        bytes = rest;
    }
    Ok(())
}

/// Reads one segment, record by record, up to its end or the first record that cannot be read.
fn scan(path: &Path, found: &mut Found) -> io::Result<()> {
    let file = File::open(path)?;
    let mut left = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut buffer = Vec::new();
    while left >= 8 {
        buffer.clear();
        buffer.resize(8, 0);
        reader.read_exact(&mut buffer)?;
        left -= 8;
        let length = frame_bytes(&buffer);
        if length == 0 || length > left || length > RECORD_BYTES_MAX {
            break;
        }
        let body = buffer.len();
        buffer.resize(body + usize::try_from(length).unwrap_or(0), 0);
        reader.read_exact(&mut buffer[body..])?;
        left -= length;
        let taken = frame::next(&buffer).and_then(|(record, _)| found.take(record.kind, record.data));
        if taken.is_err() {
            break;
        }
    }
    Ok(())
}

/// How many bytes follow a frame's length field, padding included.
fn frame_bytes(field: &[u8]) -> u64 {
    let field = field
        .first_chunk::<8>()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let padding = if field >> 63 == 1 { (field >> 56) & 7 } else { 0 };
    (field & 0x00ff_ffff_ffff_ffff) + padding
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
