//! `volume.json`: who a volume is, and what was let through on it.
//!
//! In and out: one small file on the volume, written whole. The volume's id is made once and recorded by the operator
//! elsewhere, so that a wiped volume is known by having another id, or none.
//!
//! Never: a file that cannot be read taken for one that says "never ran"; a mark taken back. It is written only under
//! the lock of the volume ([`super::hold`]).

use std::collections::BTreeMap;
use std::io::{self, Read};

use quorate_core::model::{ClusterId, Epoch, Generation, MemberId, VolumeMarks};
use quorate_datadir::durable;
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use crate::contract::{MemberRef, Started, hex};
use crate::error::file;
use crate::{Error, contract};

/// Larger than any record: a slot would need ten thousand generations.
const SIZE_MAX: u64 = 4 * 1024 * 1024;

/// What is known of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    format: u32,
    pub id: String,
    /// The member that it belongs to, from the first time that etcd was let through on it for one. Once set, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub belongs_to: Option<MemberRef>,
    /// What happened on each generation.
    #[serde(default)]
    pub generations: BTreeMap<Generation, Entry>,
}

/// What happened on one generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// etcd was, or may have been, executed on it. Once true, for ever.
    pub fired: bool,
    /// Its first start was watched, and ended before it had a log: nothing was promised. Until it is made once more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub came_to_nothing: bool,
    /// A member has served from it, as the operator saw.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub served: bool,
    /// What was last let through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Started>,
    /// The uid of the pod that was last let through for a first start: only that one may execute it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The number of the last start that was let through with a go-ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// The epoch in which it was.
    #[serde(default, skip_serializing_if = "Epoch::is_first")]
    pub epoch: Epoch,
    /// Whose data was last seen there.
    #[serde(default, with = "hex::option", skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberId>,
    #[serde(default, with = "hex::option", skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
}

impl Entry {
    /// What is written on the volume about this generation. The log is for others to read.
    pub(crate) fn marks(&self, last_index: Option<u64>) -> VolumeMarks {
        VolumeMarks {
            epoch: self.epoch,
            run: self.run,
            last_index,
        }
    }

    /// May etcd have promised anything there, if there is no log?
    pub(crate) fn may_have_acknowledged(&self) -> bool {
        self.fired && !self.came_to_nothing
    }

    /// May a blank log there be what a first start left? Not where a member's data was seen since.
    pub(crate) fn may_be_blank(&self) -> bool {
        self.member.is_none() && self.cluster.is_none()
    }
}

/// What reading came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// There is none: the volume is new, or it was wiped.
    Absent,
    /// There is one that says nothing: as good as none.
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
    Record(Record),
}

impl Record {
    /// A record with an id that no other volume has.
    pub fn fresh() -> Result<Record, Error> {
        let source = std::path::Path::new("/dev/urandom");
        let mut bytes = [0; 16];
        let read = std::fs::File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
        read.map_err(file("read", source))?;
        Ok(Record::of(format!("{:032x}", u128::from_be_bytes(bytes))))
    }

    /// A record of nothing, of the volume `id`.
    pub fn of(id: String) -> Record {
        Record {
            format: contract::FORMAT,
            id,
            belongs_to: None,
            generations: BTreeMap::new(),
        }
    }

    /// Reads the record of a volume.
    pub fn read(layout: &Layout) -> Result<Known, Error> {
        let path = layout.record();
        let content = match durable::read(&path, SIZE_MAX) {
            Ok(Some(content)) => content,
            Ok(None) => return Ok(Known::Absent),
            // Too long, or a directory: no record of ours. An error of the disk is one.
            Err(error)
                if matches!(
                    error.source.kind(),
                    io::ErrorKind::Other | io::ErrorKind::IsADirectory
                ) && error.source.raw_os_error().is_none() =>
            {
                return Ok(Known::Unreadable {
                    why: error.source.to_string(),
                });
            }
            Err(error) => return Err(error.into()),
        };
        match Record::parse(&content) {
            Ok(record) => Ok(Known::Record(record)),
            Err(Misread::Newer(format)) => Err(Error::Newer { path, format }),
            Err(Misread::Nonsense(why)) => Ok(Known::Unreadable { why }),
        }
    }

    fn parse(content: &[u8]) -> Result<Record, Misread> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let nonsense = |error: serde_json::Error| Misread::Nonsense(error.to_string());
        let head: Head = serde_json::from_slice(content).map_err(nonsense)?;
        if head.format > contract::FORMAT {
            return Err(Misread::Newer(head.format));
        }
        let record: Record = serde_json::from_slice(content).map_err(nonsense)?;
        if record.format == 0 || record.id.len() != 32 || !record.id.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(Misread::Nonsense("it has no id".to_owned()));
        }
        Ok(record)
    }

    /// Puts the record on the volume.
    pub fn write(&self, layout: &Layout) -> Result<(), Error> {
        let path = layout.record();
        let content =
            serde_json::to_vec(self).map_err(|error| file("encode", &path)(io::Error::other(error)))?;
        // Nothing in it is secret, and a pod with another owner must be able to read it.
        Ok(durable::write_with_mode(&path, &content, 0o644)?)
    }

    /// What happened on `generation`.
    pub fn entry(&self, generation: Generation) -> Entry {
        self.generations.get(&generation).cloned().unwrap_or_default()
    }

    /// The same, to note something.
    pub fn entry_mut(&mut self, generation: Generation) -> &mut Entry {
        self.generations.entry(generation).or_default()
    }

    /// The latest epoch in which anything was let through.
    pub fn epoch(&self) -> Option<Epoch> {
        self.generations.values().map(|entry| entry.epoch).max()
    }

    /// The newest generation on which anything was let through or ran.
    pub fn newest(&self) -> Option<Generation> {
        let used = |entry: &Entry| entry.fired || entry.started.is_some();
        let mut newest = self.generations.iter().rev();
        newest
            .find(|(_, entry)| used(entry))
            .map(|(generation, _)| *generation)
    }
}

enum Misread {
    Newer(u32),
    Nonsense(String),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quorate_core::model::Version;

    use super::*;

    fn volume() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        std::fs::create_dir(layout.own()).unwrap();
        (dir, layout)
    }

    fn sample() -> Record {
        let mut record = Record::fresh().unwrap();
        *record.entry_mut(Generation(11)) = Entry {
            fired: true,
            came_to_nothing: false,
            served: true,
            started: Some(Started {
                version: Version::new(3, 6, 1),
                config: "c".to_owned(),
            }),
            pod: Some("u".to_owned()),
            run: Some(3),
            epoch: Epoch(1),
            member: Some(MemberId(1)),
            cluster: Some(ClusterId(2)),
        };
        record.entry_mut(Generation(12));
        record
    }

    #[test]
    fn what_is_written_is_read() {
        let (_dir, layout) = volume();
        assert_eq!(Record::read(&layout).unwrap(), Known::Absent);
        let record = sample();
        record.write(&layout).unwrap();
        assert_eq!(Record::read(&layout).unwrap(), Known::Record(record.clone()));
        assert_eq!(record.newest(), Some(Generation(11)));
        assert_ne!(Record::fresh().unwrap().id, record.id);
        assert!(!record.entry(Generation(0)).fired);
    }

    #[test]
    fn what_is_no_record_says_nothing_and_a_newer_one_is_left_alone() {
        let (_dir, layout) = volume();
        let long = vec![b' '; SIZE_MAX as usize + 1];
        for content in [
            b"".as_slice(),
            b"{}",
            b"{\"format\":1}",
            b"{\"format\":1,\"id\":\"\"}",
            &long,
        ] {
            std::fs::write(layout.record(), content).unwrap();
            assert!(
                matches!(Record::read(&layout).unwrap(), Known::Unreadable { .. }),
                "{content:?}"
            );
        }
        std::fs::write(layout.record(), "{\"format\":2,\"other\":1}").unwrap();
        assert!(matches!(
            Record::read(&layout),
            Err(Error::Newer { format: 2, .. })
        ));
        std::fs::remove_file(layout.record()).unwrap();
        std::fs::create_dir(layout.record()).unwrap();
        assert!(!matches!(Record::read(&layout), Ok(Known::Record(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Record::parse(&bytes).is_err());
        }

        #[test]
        fn a_cut_record_never_says_not_fired(at in 0usize..400) {
            let content = serde_json::to_vec(&sample()).unwrap();
            let at = at % content.len();
            prop_assert!(Record::parse(&content[..at]).is_err());
        }
    }
}
