//! The entries of a log that count.
//!
//! An entry overwrites a former one of its index and all that follow that one. So what counts is a few stretches of the
//! log, each of entries that follow one another both in the files and by index; only those are kept, whatever the
//! number of entries. The entries themselves are read again when they are wanted.
//!
//! In: `member/wal` of a member that nothing runs on. Out: whose log it is, its last hard state, its snapshots, its
//! first and last entry, how it ended, and the entries from any index on. Never: an entry that was overwritten; an
//! entry after a gap taken for one that follows.

use std::path::{Path, PathBuf};

use super::read::{End, Held, Position, Reader};
use super::record::{Entry, HardState, Metadata, Record, SnapshotMark};
use super::segments::SegmentName;
use crate::Error;

/// Places where entries are missing, at most; a sound log has one for every snapshot it got from a leader.
const GAPS_MAX: usize = 1000;

/// What is wrong with a log that was cut before its first snapshot record.
const NO_SNAPSHOT: &str = "it tells of no snapshot that is committed, so there is nothing to start from";

/// A log, read once to its end.
#[derive(Debug)]
pub struct Log {
    dir: PathBuf,
    segments: Vec<SegmentName>,
    metadata: Option<Metadata>,
    state: HardState,
    marks: Vec<SnapshotMark>,
    stretches: Vec<Stretch>,
    last_term: u64,
    end: End,
}

/// Entries that follow one another in one segment.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    first: u64,
    last: u64,
    start: Position,
    /// What the checksums had come to before the first of them.
    chain: u32,
}

/// The last index that the log of a member's data directory comes to, in an entry or in its newest snapshot; `None` if the
/// log is damaged, so that nobody can say. It reads the whole log once.
pub fn last_index(data_dir: &Path) -> Result<Option<u64>, Error> {
    let log = Log::read(&data_dir.join("member").join("wal"))?;
    let readable = !matches!(log.end(), End::Damaged { .. });
    Ok(readable.then(|| log.last_index()))
}

impl Log {
    /// Reads the log in `dir`, the `wal` directory of a member. Damage is no error here: [`Log::end`] tells of it, and
    /// everything before it was read.
    pub fn read(dir: &Path) -> Result<Log, Error> {
        let mut reader = Reader::open(dir)?;
        let mut log = Log {
            dir: dir.to_owned(),
            segments: reader.segments().to_owned(),
            metadata: None,
            state: HardState::default(),
            marks: Vec::new(),
            stretches: Vec::new(),
            last_term: 0,
            end: End::Clean,
        };
        let (mut gaps, mut last_record) = (Vec::new(), Position::default());
        loop {
            let chain = reader.chain();
            let Some(found) = reader.read_next()? else { break };
            last_record = found.position;
            match found.record {
                Record::Metadata(metadata) => log.metadata = Some(metadata),
                Record::State(state) => log.state = state,
                Record::Snapshot(mark) => log.marks.push(mark),
                Record::Entry(Entry { term, index, .. }) => {
                    let position = found.position;
                    if let Some(gap) = log.gap_before(index, position) {
                        gaps.push(gap);
                        if gaps.len() > GAPS_MAX {
                            reader.damaged_at(position, "entries are missing in too many places");
                        }
                    }
                    log.last_term = term;
                    log.put(index, position, chain);
                }
            }
        }
        log.end = reader.end().cloned().unwrap_or(End::Clean);
        if !matches!(log.end, End::Damaged { .. }) {
            log.judge(gaps, last_record);
        }
        Ok(log)
    }

    /// What is missing if an entry of `index` comes next. What there was before it no longer counts.
    fn gap_before(&mut self, index: u64, position: Position) -> Option<Gap> {
        let before = self.last_written().unwrap_or(0);
        (index - 1 > before).then(|| Gap {
            before,
            after: index,
            position,
            stretches: std::mem::take(&mut self.stretches),
            last_term: self.last_term,
        })
    }

    fn put(&mut self, index: u64, position: Position, chain: u32) {
        let before = self.stretches.len();
        while self.stretches.last().is_some_and(|last| last.first >= index) {
            self.stretches.pop();
        }
        let overwrites = self.stretches.len() < before;
        if let Some(last) = self.stretches.last_mut() {
            if !overwrites && last.last == index - 1 && last.start.segment == position.segment {
                last.last = index;
                return;
            }
            last.last = index - 1;
        }
        self.stretches.push(Stretch {
            first: index,
            last: index,
            start: position,
            chain,
        });
    }

    /// Finds what etcd would not start with although every record can be read.
    fn judge(&mut self, gaps: Vec<Gap>, last_record: Position) {
        // Every log is made with one in it. Without, etcd 3.7 does not start, and older ones know of no members.
        let Some(SnapshotMark { index: start, .. }) = self.snapshot() else {
            return self.damaged(last_record, NO_SNAPSHOT.to_owned());
        };
        // Entries that a snapshot stands for may be missing: a leader sends it to a member that has fallen behind.
        if let Some(gap) = gaps.into_iter().find(|gap| gap.after - 1 > start) {
            let (first, last) = (gap.before.max(start) + 1, gap.after - 1);
            let why = format!("entries {first} to {last} are missing before entry {}", gap.after);
            (self.stretches, self.last_term) = (gap.stretches, gap.last_term);
            return self.damaged(gap.position, why);
        }
        let (commit, last) = (self.state.commit, self.last_index());
        if commit > last {
            let why = format!("entry {commit} is committed, and the last one in it is {last}");
            self.damaged(last_record, why);
        }
    }

    fn damaged(&mut self, position: Position, why: String) {
        let (path, offset) = (self.segment_path(position), position.offset);
        self.end = End::Damaged { path, offset, why };
    }

    fn segment_path(&self, position: Position) -> PathBuf {
        let name = self.segments.get(position.segment).map(SegmentName::to_string);
        self.dir.join(name.unwrap_or_default())
    }

    fn last_written(&self) -> Option<u64> {
        self.stretches.last().map(|stretch| stretch.last)
    }

    /// Its segments, in order.
    pub fn segments(&self) -> &[SegmentName] {
        &self.segments
    }

    /// Whose log it is; none if it is damaged before it says so.
    pub fn metadata(&self) -> Option<Metadata> {
        self.metadata
    }

    /// The last hard state; zeros if there is none.
    pub fn state(&self) -> HardState {
        self.state
    }

    /// The snapshots that etcd may start from, in the order of the log: those known to be committed.
    pub fn snapshots(&self) -> impl Iterator<Item = SnapshotMark> {
        let commit = self.state.commit;
        self.marks
            .iter()
            .copied()
            .filter(move |mark| mark.index <= commit)
    }

    /// The newest of them. Entries up to its index are in the database already, or in a snapshot beside it.
    pub fn snapshot(&self) -> Option<SnapshotMark> {
        self.snapshots().max()
    }

    /// The first entry that is there, of those up to the last without a gap.
    pub fn first_index(&self) -> Option<u64> {
        self.stretches.first().map(|stretch| stretch.first)
    }

    /// The last entry, there or in the newest snapshot; 0 if there was none ever.
    pub fn last_index(&self) -> u64 {
        let in_snapshot = self.snapshot().map_or(0, |mark| mark.index);
        self.last_written().unwrap_or(0).max(in_snapshot)
    }

    /// The term of that entry.
    pub fn last_term(&self) -> u64 {
        match (self.last_written(), self.snapshot()) {
            (Some(last), Some(mark)) if last < mark.index => mark.term,
            (None, Some(mark)) => mark.term,
            _ => self.last_term,
        }
    }

    pub fn end(&self) -> &End {
        &self.end
    }

    /// The entries that count, from `from` on, in order.
    pub fn entries(&self, from: u64) -> Result<Entries<'_>, Error> {
        let left = match self.first_index() {
            Some(first) if from < first => {
                return Err(Error::refused(
                    format!("the log in {} has no entries before {first}", self.dir.display()),
                    format!(
                        "entries from {from} on were asked for; start from a snapshot of {first} or later"
                    ),
                ));
            }
            _ => self.stretches.partition_point(|stretch| stretch.last < from),
        };
        Ok(Entries {
            log: self,
            stretches: self.stretches.get(left..).unwrap_or_default(),
            reader: None,
            wanted: from,
        })
    }
}

/// A place where an entry does not follow the one before it.
struct Gap {
    before: u64,
    after: u64,
    position: Position,
    /// What there was before it.
    stretches: Vec<Stretch>,
    last_term: u64,
}

/// Entries of a log, read again from its files.
#[derive(Debug)]
pub struct Entries<'a> {
    log: &'a Log,
    /// Those still to be read; the first of them is being read if there is a reader.
    stretches: &'a [Stretch],
    reader: Option<Reader>,
    /// The index of the next entry.
    wanted: u64,
}

impl Entries<'_> {
    /// The next entry; none at the end. That the files changed since the log was read is damage.
    pub fn read_next(&mut self) -> Result<Option<Entry<'_>>, Error> {
        while let Some((first, rest)) = self.stretches.split_first()
            && first.last < self.wanted
        {
            (self.stretches, self.reader) = (rest, None);
        }
        let Some(stretch) = self.stretches.first() else {
            return Ok(None);
        };
        let wanted = self.wanted.max(stretch.first);
        let log = self.log;
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let names = log.segments.clone();
                none.insert(Reader::resume(&log.dir, names, stretch.start, stretch.chain)?)
            }
        };
        let changed = || Error::Damaged {
            path: log.segment_path(stretch.start),
            place: format!("entry {wanted}"),
            why: "it is not where it was a moment ago: something changes this log".to_owned(),
        };
        let held = loop {
            let Some((_, held)) = reader.hold()? else {
                return Err(changed());
            };
            match &held {
                Held::Entry(Entry { index, .. }, _) if *index == wanted => break held,
                Held::Entry(Entry { index, .. }, _) if *index > wanted => return Err(changed()),
                _ => {}
            }
        };
        match wanted.checked_add(1) {
            Some(next) => self.wanted = next,
            None => self.stretches = &[],
        }
        match reader.show(held) {
            Record::Entry(entry) => Ok(Some(entry)),
            _ => Err(changed()),
        }
    }
}

#[cfg(test)]
mod tests;
