//! `volume.json` in a data directory: whose volume it is, and which start was the last on it. It goes where the data goes,
//! so that data that was copied, swapped or put back to an earlier state is known by it.
//!
//! In and out: one small file, written by the launcher just before it becomes etcd. Never: a file that cannot be read taken
//! for one that condemns the data beside it.

use std::io;
use std::path::{Path, PathBuf};

use quorate_core::model::{Epoch, VolumeMarks};
use quorate_datadir::durable;
use serde::{Deserialize, Serialize};

use crate::Error;

const FORMAT: u32 = 1;
/// Larger than any record.
const SIZE_MAX: u64 = 64 * 1024;

/// What is written on a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeRecord {
    format: u32,
    pub cluster: String,
    pub member: String,
    #[serde(default)]
    pub epoch: Epoch,
    /// The number of the last start.
    pub run: u64,
}

impl VolumeRecord {
    pub fn new(cluster: &str, member: &str, epoch: Epoch, run: u64) -> VolumeRecord {
        VolumeRecord {
            format: FORMAT,
            cluster: cluster.to_owned(),
            member: member.to_owned(),
            epoch,
            run,
        }
    }

    fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("volume.json")
    }

    /// Reads the record of a data directory. A file that cannot be understood says nothing; one of a newer quorate is an
    /// error, for it may say that nothing may start here.
    pub(crate) fn read(data_dir: &Path) -> Result<Option<VolumeRecord>, Error> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let path = Self::path(data_dir);
        let Some(content) = durable::read(&path, SIZE_MAX)? else {
            return Ok(None);
        };
        let newer = serde_json::from_slice::<Head>(&content).is_ok_and(|head| head.format > FORMAT);
        if newer {
            let why = "a newer quorate has written it; run that one";
            return Err(Error::file("understand", &path, io::Error::other(why)));
        }
        Ok(serde_json::from_slice(&content).ok())
    }

    /// Puts the record on the volume; the number of a start that comes late does not take the place of a higher one. A number that finds no room on a full disk is left out: the volume then knows of an
    /// earlier start, or of none, which is all that is remembered of it. Whose it is, and its epoch, are not left out.
    pub(crate) fn write(&self, data_dir: &Path) -> Result<(), Error> {
        let path = Self::path(data_dir);
        let present = Self::read(data_dir)?;
        let same =
            |r: &VolumeRecord| (&r.cluster, &r.member, r.epoch) == (&self.cluster, &self.member, self.epoch);
        let run = present
            .as_ref()
            .filter(|r| same(r))
            .map_or(0, |r| r.run)
            .max(self.run);
        let content = serde_json::to_vec(&VolumeRecord { run, ..self.clone() })
            .map_err(|error| Error::file("encode", &path, io::Error::other(error)))?;
        let Err(error) = durable::write(&path, &content) else {
            return Ok(());
        };
        let full = matches!(
            error.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        );
        let left_out = present.as_ref().map_or(self.epoch.is_first(), same);
        if full && left_out {
            Ok(())
        } else {
            Err(error.into())
        }
    }

    /// As the planner understands it, with what the log comes to.
    pub(crate) fn marks(record: Option<&VolumeRecord>, last_index: Option<u64>) -> VolumeMarks {
        VolumeMarks {
            epoch: record.map(|record| record.epoch).unwrap_or_default(),
            run: record.map(|record| record.run),
            last_index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_no_record_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(VolumeRecord::read(dir.path()).unwrap(), None);
        let record = VolumeRecord::new("c", "c-1", Epoch(2), 7);
        record.write(dir.path()).unwrap();
        assert_eq!(VolumeRecord::read(dir.path()).unwrap(), Some(record.clone()));
        VolumeRecord::new("c", "c-1", Epoch(2), 6)
            .write(dir.path())
            .unwrap();
        assert_eq!(
            VolumeRecord::read(dir.path()).unwrap(),
            Some(record.clone()),
            "one that comes late"
        );
        let marks = VolumeRecord::marks(Some(&record), Some(9));
        assert_eq!(
            (marks.epoch, marks.run, marks.last_index),
            (Epoch(2), Some(7), Some(9))
        );
        std::fs::write(VolumeRecord::path(dir.path()), "{").unwrap();
        assert_eq!(VolumeRecord::read(dir.path()).unwrap(), None);
        assert_eq!(VolumeRecord::marks(None, None).run, None);
        std::fs::write(VolumeRecord::path(dir.path()), r#"{"format":2}"#).unwrap();
        let error = VolumeRecord::read(dir.path()).unwrap_err();
        assert!(error.chain().contains("newer quorate"), "{}", error.chain());
    }
}
