//! All records of a log, one at a time, all segments in order.
//!
//! In: `member/wal` of a member. Out: typed records with their positions, and how the log ended: cleanly, with a last
//! write that was not finished, or where it is damaged. An unfinished write is told from damage by etcd's own rule:
//! in the last segment, a record that the file is too short for, or one that cannot be read while a whole sector of
//! it is zero. There etcd goes on after it has cut the log; everywhere else it refuses to start. Stricter than etcd
//! is only what follows a flipped bit: a length field with meaningless bits, a segment that does not begin with a
//! head, a record of one type that says what only another does.
//!
//! Never: a record whose checksum does not follow from those before it; more memory than the longest record takes; a
//! length believed before it is held against what is left of the file.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::field::Broken;
use super::frame::{self, LENGTH_BYTES, Length, TYPE_CRC, TYPE_METADATA};
use super::record::{self, Entry, HardState, Record};
use super::segments::{self, SegmentName};
use crate::Error;

/// The longest record believed; etcd's own limit for a request is far below.
const RECORD_BYTES_MAX: u64 = 256 << 20;
/// What a disk writes at once, as etcd thinks of it.
const SECTOR_BYTES: u64 = 512;

/// The place of a record in a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Which of the log's segments, counted from 0 in [`Reader::segments`].
    pub segment: usize,
    /// Where the record's frame begins in it.
    pub offset: u64,
}

/// A record and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    pub position: Position,
    pub record: Record<'a>,
}

/// How a log ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Everything in it was read.
    Clean,
    /// The last write was not finished. etcd cuts it off when it starts, and goes on.
    Torn {
        path: PathBuf,
        /// Where it is cut.
        offset: u64,
        /// How many bytes are lost by that, preallocated zeros not counted.
        bytes: u64,
        /// What is wrong with them.
        why: String,
    },
    /// What follows cannot be read, and etcd does not start.
    Damaged {
        /// The segment, or the directory of the log.
        path: PathBuf,
        offset: u64,
        /// What is wrong there.
        why: String,
    },
}

impl End {
    /// The damage as an error; none if etcd would go on.
    pub fn to_error(&self) -> Option<Error> {
        match self {
            End::Clean | End::Torn { .. } => None,
            End::Damaged { path, offset, why } => Some(Error::Damaged {
                path: path.clone(),
                place: format!("offset {offset}"),
                why: why.clone(),
            }),
        }
    }
}

/// Reads a log from its first record to its last.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    names: Vec<SegmentName>,
    /// The segment that is read, and its file once it is open.
    at: usize,
    open: Option<Segment>,
    /// Records read from that segment.
    records: u64,
    chain: u32,
    /// The data of the first metadata record; all others must equal it.
    metadata: Option<Vec<u8>>,
    term: u64,
    buffer: Vec<u8>,
    end: Option<End>,
}

/// A record in the buffer: an entry's data is only pointed to, so that reading on can borrow the reader again.
#[derive(Debug)]
pub(crate) enum Held {
    Entry(Entry<'static>, Range<usize>),
    Other(Record<'static>),
}

/// What stopped a segment's records.
enum Stop {
    /// Zeros, or the end of the file.
    End,
    /// The file is shorter than the record that begins here.
    Short(Broken),
    /// The record that begins here cannot be read; a write that a power cut stopped may look so.
    Unreadable(Broken),
    /// The record that begins here is not what etcd writes.
    Wrong(String),
}

impl From<Broken> for Stop {
    fn from(why: Broken) -> Stop {
        Stop::Wrong(why.to_owned())
    }
}

impl Reader {
    /// Opens the log in `dir`, the `wal` directory of a member.
    pub fn open(dir: &Path) -> Result<Reader, Error> {
        let names = segments::names(dir).map_err(|source| Error::List {
            path: dir.to_owned(),
            source,
        })?;
        let mut reader = Reader::over(dir, names);
        if reader.names.is_empty() {
            reader.damaged(dir.to_owned(), 0, "there is no log in it");
        } else if let Some((before, after)) = segments::gap(&reader.names) {
            let why = format!("it does not follow {before}: a segment between is missing");
            reader.damaged(dir.join(after.to_string()), 0, why);
        }
        Ok(reader)
    }

    /// Goes on at a record of a log that was read before: `chain` is what the checksums had come to.
    pub(crate) fn resume(
        dir: &Path,
        names: Vec<SegmentName>,
        position: Position,
        chain: u32,
    ) -> Result<Reader, Error> {
        let mut reader = Reader::over(dir, names);
        (reader.at, reader.chain) = (position.segment, chain);
        let path = reader.path();
        reader.open = Some(Segment::open(&path, position.offset).map_err(Error::read(&path))?);
        // Past the head, whose two records were seen.
        reader.records = 2;
        Ok(reader)
    }

    fn over(dir: &Path, names: Vec<SegmentName>) -> Reader {
        Reader {
            dir: dir.to_owned(),
            names,
            at: 0,
            open: None,
            records: 0,
            chain: 0,
            metadata: None,
            term: 0,
            buffer: Vec::new(),
            end: None,
        }
    }

    /// The segments, in order.
    pub fn segments(&self) -> &[SegmentName] {
        &self.names
    }

    /// The next record; none at the end, and [`Reader::end`] says which end.
    pub fn read_next(&mut self) -> Result<Option<Found<'_>>, Error> {
        let held = self.hold()?;
        Ok(held.map(|(position, held)| Found {
            position,
            record: self.show(held),
        }))
    }

    /// Reads the next record into the buffer, for [`Reader::show`].
    pub(crate) fn hold(&mut self) -> Result<Option<(Position, Held)>, Error> {
        while self.end.is_none() {
            let offset = self.open.as_ref().map_or(0, |segment| segment.offset);
            let position = Position {
                segment: self.at,
                offset,
            };
            match self.advance()? {
                Ok(Some(held)) => return Ok(Some((position, held))),
                Ok(None) => {}
                Err(stop) => self.stop(stop, offset)?,
            }
        }
        Ok(None)
    }

    /// What was read last.
    pub(crate) fn show(&self, held: Held) -> Record<'_> {
        match held {
            Held::Entry(entry, data) => Record::Entry(Entry {
                data: self.buffer.get(data).unwrap_or_default(),
                ..entry
            }),
            Held::Other(record) => record,
        }
    }

    /// How the log ended; none while there may be more.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// What the checksums have come to.
    pub(crate) fn chain(&self) -> u32 {
        self.chain
    }

    /// Notes damage that shows only in what the records say together.
    pub(crate) fn damaged_at(&mut self, position: Position, why: impl Into<String>) {
        self.at = position.segment;
        self.damaged(self.path(), position.offset, why);
    }

    fn path(&self) -> PathBuf {
        let name = self.names.get(self.at).map(SegmentName::to_string);
        self.dir.join(name.unwrap_or_default())
    }

    fn in_last(&self) -> bool {
        self.at + 1 == self.names.len()
    }

    fn damaged(&mut self, path: PathBuf, offset: u64, why: impl Into<String>) {
        let why = why.into();
        self.end = Some(End::Damaged { path, offset, why });
    }

    /// Reads the next record into the buffer; nothing if it was a checksum record.
    fn advance(&mut self) -> Result<Result<Option<Held>, Stop>, Error> {
        let path = self.path();
        let segment = match &mut self.open {
            Some(segment) => segment,
            closed => closed.insert(Segment::open(&path, 0).map_err(Error::read(&path))?),
        };
        let body_at = segment.offset + LENGTH_BYTES;
        let length = match segment.next(&mut self.buffer).map_err(Error::read(&path))? {
            Ok(length) => length,
            Err(stop) => return Ok(Err(stop)),
        };
        let taken = self.take(0..usize::try_from(length.record).unwrap_or(0));
        let may_be_torn = || self.in_last() && has_zero_sector(&self.buffer, body_at);
        Ok(match taken {
            Err(Stop::Unreadable(why)) if may_be_torn() => Err(Stop::Unreadable(why)),
            _ if !length.sound => Err("a record's length field is damaged".into()),
            Err(Stop::Unreadable(why)) => Err(why.into()),
            taken => taken,
        })
    }

    /// Judges the record in the buffer.
    fn take(&mut self, record: Range<usize>) -> Result<Option<Held>, Stop> {
        let bytes = self.buffer.get(record).unwrap_or_default();
        let raw = frame::decode(bytes).map_err(Stop::Unreadable)?;
        let chain = if raw.kind == TYPE_CRC {
            raw.crc
        } else {
            crc32c::crc32c_append(self.chain, raw.data)
        };
        if chain != raw.crc {
            return Err(Stop::Unreadable("a record's checksum does not hold"));
        }
        match (self.records, raw.kind) {
            (0, TYPE_CRC) if raw.data.is_empty() => {
                let first = self.at == 0;
                if first && self.names.first().is_some_and(|name| name.sequence == 0) && chain != 0 {
                    return Err("it continues from a checksum that none before it left".into());
                }
                if !first && chain != self.chain {
                    return Err("it does not go on from the checksum that the segment before it left".into());
                }
                (self.chain, self.records) = (chain, 1);
                return Ok(None);
            }
            (0, _) => return Err("it does not begin with a checksum record".into()),
            (1, kind) if kind != TYPE_METADATA => {
                return Err("its second record does not say whose log it is".into());
            }
            _ => {}
        }
        let data = raw.data;
        let held = match record::typed(raw)? {
            Record::Entry(entry) => {
                let place = place_in(&self.buffer, entry.data);
                Held::Entry(Entry { data: &[], ..entry }, place)
            }
            Record::Metadata(metadata) => {
                match &self.metadata {
                    Some(first) if first != data => {
                        return Err("it belongs to another member than the segments before it".into());
                    }
                    _ => self.metadata = Some(data.to_owned()),
                }
                Held::Other(Record::Metadata(metadata))
            }
            Record::State(HardState { term, .. }) if term < self.term => {
                return Err("a hard state is of an older term than the one before it".into());
            }
            Record::State(state) => {
                self.term = state.term;
                Held::Other(Record::State(state))
            }
            Record::Snapshot(mark) => Held::Other(Record::Snapshot(mark)),
        };
        self.chain = chain;
        self.records += 1;
        Ok(Some(held))
    }

    /// Goes on to the next segment, or says how the log ended.
    fn stop(&mut self, stop: Stop, offset: u64) -> Result<(), Error> {
        let (path, last) = (self.path(), self.in_last());
        let headless = self.at == 0 && self.records < 2;
        match stop {
            Stop::End if !last && self.records < 2 => self.damaged(path, offset, "it has no head"),
            Stop::End if !last => {
                (self.at, self.open, self.records) = (self.at + 1, None, 0);
            }
            Stop::Wrong(why) => self.damaged(path, offset, why),
            // What etcd would cut, or take for the end, would leave nothing that says whose log it is.
            _ if headless => self.damaged(path, offset, "it ends before it says whose log it is"),
            Stop::Short(why) | Stop::Unreadable(why) if !last => self.damaged(path, offset, why),
            Stop::End => {
                let why = "something follows where it should end; a write was not finished";
                self.cut(path, offset, why)?;
            }
            Stop::Short(why) | Stop::Unreadable(why) => self.cut(path, offset, why)?,
        }
        Ok(())
    }

    fn cut(&mut self, path: PathBuf, offset: u64, why: Broken) -> Result<(), Error> {
        let bytes = used_bytes(&path, offset).map_err(Error::read(&path))?;
        let why = why.to_owned();
        self.end = Some(match bytes {
            0 => End::Clean,
            _ => End::Torn {
                path,
                offset,
                bytes,
                why,
            },
        });
        Ok(())
    }
}

/// The file of a segment.
#[derive(Debug)]
struct Segment {
    file: BufReader<File>,
    size: u64,
    /// Where the next record begins.
    offset: u64,
}

impl Segment {
    fn open(path: &Path, offset: u64) -> io::Result<Segment> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(offset))?;
        Ok(Segment {
            file: BufReader::with_capacity(64 << 10, file),
            size,
            offset,
        })
    }

    /// Reads the body of the next frame into `buffer`, the record first.
    fn next(&mut self, buffer: &mut Vec<u8>) -> io::Result<Result<Length, Stop>> {
        let left = self.size.saturating_sub(self.offset);
        if left == 0 {
            return Ok(Err(Stop::End));
        }
        let Some(left) = left.checked_sub(LENGTH_BYTES) else {
            return Ok(Err(Stop::Short("it ends within a record's length field")));
        };
        let mut field = [0; 8];
        self.file.read_exact(&mut field)?;
        let Some(length) = Length::of(u64::from_le_bytes(field)) else {
            return Ok(Err(Stop::End));
        };
        if length.body() > left {
            return Ok(Err(Stop::Short(
                "a record is longer than what is left of the file",
            )));
        }
        let Some(body) = usize::try_from(length.body())
            .ok()
            .filter(|_| length.record <= RECORD_BYTES_MAX)
        else {
            return Ok(Err("a record is longer than any that etcd writes".into()));
        };
        buffer.resize(body, 0);
        self.file.read_exact(buffer)?;
        self.offset += LENGTH_BYTES + length.body();
        Ok(Ok(length))
    }
}

/// Where in `whole` its `part` is.
fn place_in(whole: &[u8], part: &[u8]) -> Range<usize> {
    match part.as_ptr().addr().checked_sub(whole.as_ptr().addr()) {
        Some(start) if !part.is_empty() => start..start + part.len(),
        // Of nothing it does not matter where it is.
        _ => 0..0,
    }
}

/// Is a sector of the file zero, as far as `body`, which begins at `offset`, is in it?
fn has_zero_sector(body: &[u8], offset: u64) -> bool {
    let head = usize::try_from(SECTOR_BYTES - offset % SECTOR_BYTES).unwrap_or(0);
    let (first, rest) = body.split_at(head.min(body.len()));
    let sectors = rest.chunks(usize::try_from(SECTOR_BYTES).unwrap_or(1));
    std::iter::once(first)
        .chain(sectors)
        .any(|sector| !sector.is_empty() && sector.iter().all(|byte| *byte == 0))
}

/// How many bytes there are from `offset` to the last of the file that is not zero.
fn used_bytes(path: &Path, offset: u64) -> io::Result<u64> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let (mut seen, mut used) = (0, 0);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(used);
        }
        let some = buffer.get(..read).unwrap_or_default();
        if let Some(last) = some.iter().rposition(|byte| *byte != 0) {
            used = seen + last as u64 + 1;
        }
        seen += read as u64;
    }
}

#[cfg(test)]
pub(crate) mod tests;
