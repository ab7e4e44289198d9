//! A log that was restored, given more entries: a second segment behind its first.
//!
//! ```text
//! crc | metadata | hard state | entries … | hard state: all of them are committed
//! ```
//!
//! In: a restored log and the data of further entries. Out: a segment that etcd goes on from, and applies at its next
//! start. Never: a log of etcd's own written to.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use prost::Message as _;
use quorate_wire::etcdserverpb;
use quorate_wire::raftpb::{Entry, EntryType, HardState};

use super::encode::Encoder;
use super::frame::{TYPE_ENTRY, TYPE_METADATA, TYPE_STATE};
use super::read::Reader;
use super::record::Record;
use super::segments::SegmentName;
use crate::Error;

const CHUNK: usize = 1 << 20;

/// A segment being written behind a restored log.
#[derive(Debug)]
pub(crate) struct Extension {
    path: PathBuf,
    file: File,
    encoder: Encoder,
    state: super::record::HardState,
    index: u64,
}

impl Extension {
    /// Behind the log in `wal_dir`.
    pub(crate) fn begin(wal_dir: &Path) -> Result<Extension, Error> {
        let mut reader = Reader::open(wal_dir)?;
        let (mut state, mut metadata, mut index) = (super::record::HardState::default(), None, 0);
        while let Some(found) = reader.read_next()? {
            match found.record {
                Record::State(found) => state = found,
                Record::Metadata(found) => metadata = Some(found),
                Record::Entry(entry) => index = entry.index,
                Record::Snapshot(_) => {}
            }
        }
        let damage = reader.end().and_then(super::read::End::to_error);
        let (Some(metadata), None) = (metadata, &damage) else {
            return Err(
                damage.unwrap_or_else(|| Error::refused("the log does not say whose it is", "make it anew"))
            );
        };
        let last = reader.segments().last();
        let name = SegmentName {
            sequence: last.map_or(0, |last| last.sequence + 1),
            first_index: index + 1,
        };
        let path = wal_dir.join(name.to_string());
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(Error::write(&path))?;
        let mut encoder = Encoder::after(reader.chain());
        let metadata = etcdserverpb::Metadata {
            node_id: Some(metadata.member_id),
            cluster_id: Some(metadata.cluster_id),
        };
        encoder.add(TYPE_METADATA, &metadata.encode_to_vec());
        let mut extension = Extension {
            path,
            file,
            encoder,
            state,
            index,
        };
        extension.state();
        Ok(extension)
    }

    fn state(&mut self) {
        let state = HardState {
            term: Some(self.state.term),
            vote: Some(self.state.vote),
            commit: Some(self.state.commit),
        };
        self.encoder.add(TYPE_STATE, &state.encode_to_vec());
    }

    pub(crate) fn add(&mut self, request: &[u8]) -> Result<(), Error> {
        self.index += 1;
        let entry = Entry {
            r#type: Some(EntryType::EntryNormal.into()),
            term: Some(self.state.term),
            index: Some(self.index),
            data: Some(request.to_owned()),
        };
        self.encoder.add(TYPE_ENTRY, &entry.encode_to_vec());
        if self.encoder.len() >= CHUNK {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.file
            .write_all(&self.encoder.take_bytes())
            .map_err(Error::write(&self.path))
    }

    /// Says that all of them are committed. Out: the index of the last one.
    pub(crate) fn end(mut self) -> Result<u64, Error> {
        self.state.commit = self.index;
        self.state();
        self.flush()?;
        self.file.sync_all().map_err(Error::write(&self.path))?;
        Ok(self.index)
    }
}

#[cfg(test)]
mod tests {
    use crate::wal::{End, Log, write_restored};
    use crate::{Roster, Target};

    use super::*;

    #[test]
    fn entries_follow_the_restored_ones() {
        let dir = tempfile::tempdir().unwrap();
        let roster = Roster::parse("m=http://127.0.0.1:1", "token").unwrap();
        write_restored(dir.path(), roster.members[0].id, &roster, Target::V3_6).unwrap();
        let mut extension = Extension::begin(dir.path()).unwrap();
        for number in 0..3000u32 {
            extension.add(&number.to_be_bytes().repeat(200)).unwrap();
        }
        assert_eq!(extension.end().unwrap(), 3001);
        let log = Log::read(dir.path()).unwrap();
        assert_eq!(log.end(), &End::Clean);
        assert_eq!(
            (log.first_index(), log.last_index(), log.state().commit),
            (Some(1), 3001, 3001)
        );
        let mut entries = log.entries(2).unwrap();
        for number in 0..3000u32 {
            let entry = entries.read_next().unwrap().unwrap();
            assert_eq!(entry.data[..4], number.to_be_bytes());
        }
        assert_eq!(entries.read_next().unwrap(), None);
        assert!(Extension::begin(&dir.path().join("none")).is_err());
    }
}
