//! `run/<name>.json`: the process of a member, written by its launcher just before it becomes etcd.
//!
//! In and out: one small file. A record is a claim, to be proved by [`Record::lives`] before it is believed.

use std::io;
use std::path::{Path, PathBuf};

use quorate_core::model::{Generation, Time, Version};
use quorate_datadir::durable;
use serde::{Deserialize, Serialize};

use super::identity::{self, Identity};
use crate::Error;

/// Larger than any record.
const SIZE_MAX: u64 = 64 * 1024;

/// What is remembered of a member's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    /// Since when, by the wall clock.
    pub(crate) since: Time,
    pub(crate) data_dir: PathBuf,
    /// Which volume that is.
    pub(crate) generation: Generation,
    /// The version of the binary.
    pub(crate) version: Version,
    /// The digest it was started with.
    pub(crate) config: String,
    /// The CAs that it trusts; empty without TLS. `None` where an earlier quorate recorded it.
    #[serde(default)]
    pub(crate) trusted: Option<String>,
}

impl Record {
    /// Reads a record. A file that cannot be understood is no record: it claims nothing.
    pub(crate) fn read(path: &Path) -> Result<Option<Record>, Error> {
        let Some(content) = durable::read(path, SIZE_MAX)? else {
            return Ok(None);
        };
        Ok(serde_json::from_slice(&content).ok())
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let content =
            serde_json::to_vec(self).map_err(|e| Error::file("encode", path, io::Error::other(e)))?;
        Ok(durable::write(path, &content)?)
    }

    /// Is the recorded process alive, and does it run on the recorded data?
    pub(crate) fn lives(&self) -> io::Result<bool> {
        let data_dir = self.data_dir.to_string_lossy();
        let named = |argument: &String| argument.contains(data_dir.as_ref());
        Ok(self.identity.lives()? && identity::arguments(self.identity.pid).iter().any(named))
    }
}
