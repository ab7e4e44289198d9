//! Something to read keys from: a snapshot, or the database of a member that does not run.
//!
//! In: the path of a file or of a data directory. Out: its rows and the numbers that go with them. A member's database
//! is held by a shared lock, so that no etcd starts on it meanwhile. Never: a database read that a running etcd has.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::FlockOperation;

use super::buckets::{Numbers, bucket};
use super::row::RowKey;
use super::small::Lease;
use crate::Error;
use crate::bolt::{Bolt, Rows};
use crate::examine::look::db_path;
use crate::files::lock::holder_of;

/// A snapshot, or the database of a member that does not run.
#[derive(Debug)]
pub struct Source {
    bolt: Bolt,
    numbers: Numbers,
    last: i64,
}

impl Source {
    /// Opens a snapshot file, a database file, or a data directory.
    pub fn open(path: &Path) -> Result<Source, Error> {
        let is_dir = fs::metadata(path).map_err(Error::read(path))?.is_dir();
        let file_path = if is_dir { db_path(path) } else { path.to_owned() };
        let file = File::open(&file_path).map_err(Error::read(&file_path))?;
        // A lock on a snapshot does no harm; and someone may name the database itself.
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Error::InUse {
                    path: path.to_owned(),
                    holder: holder_of(&file).ok().flatten(),
                });
            }
            // Some network filesystems know no locks; etcd would not run there either.
            Err(_) => {}
        }
        Source::of(Bolt::from_file(file, &file_path)?)
    }

    /// Reads from an open database.
    pub fn of(bolt: Bolt) -> Result<Source, Error> {
        let numbers = Numbers::read(&bolt)?;
        let mut last = 1;
        if let Some(mut rows) = bolt.bucket(bucket::KEY)? {
            rows.seek_last()?;
            if let Some(row) = rows.next_row()? {
                let key = RowKey::read(row.key).map_err(|why| bolt.damaged(row.place, why))?;
                last = key.revision.main.max(1);
            }
        }
        Ok(Source { bolt, numbers, last })
    }

    pub fn bolt(&self) -> &Bolt {
        &self.bolt
    }

    /// What `meta` and `cluster` say.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The rows of `key`, in order of revision; none if there is no such bucket.
    pub fn history(&self) -> Result<Rows<'_>, Error> {
        let none = crate::bolt::Bucket::Inline(vec![0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        Ok(self
            .bolt
            .bucket(bucket::KEY)?
            .unwrap_or_else(|| Rows::new(&self.bolt, none)))
    }

    /// The revision of the last row; 1 if there is none.
    pub fn last_revision(&self) -> i64 {
        self.last
    }

    /// The revision an etcd that starts with this is at.
    pub fn current_revision(&self) -> i64 {
        self.last.max(self.numbers.compacted.unwrap_or(1))
    }

    /// Up to where history was compacted; `None` if never.
    pub fn compact_revision(&self) -> Option<i64> {
        self.numbers.compacted
    }

    /// The revision of users, roles and permissions, which counts their changes; 0 if there never were any.
    pub fn auth_revision(&self) -> Result<u64, Error> {
        let value = self.bolt.value(bucket::AUTH, b"authRevision")?;
        let number = value.as_deref().and_then(<[u8]>::first_chunk);
        Ok(number.map_or(0, |bytes| u64::from_be_bytes(*bytes)))
    }

    /// The leases, by their ids.
    pub fn leases(&self) -> Result<Vec<Lease>, Error> {
        let mut leases = Vec::new();
        if let Some(mut rows) = self.bolt.bucket(bucket::LEASE)? {
            while let Some(row) = rows.next_row()? {
                let lease = Lease::read(row.key, row.value);
                leases.push(lease.map_err(|why| self.bolt.damaged(row.place, why))?);
            }
        }
        Ok(leases)
    }

    /// Holds a revision to read at against what is there; 0 is the current one.
    pub fn revision(&self, wanted: i64) -> Result<i64, Error> {
        let (oldest, newest) = (self.numbers.compacted.unwrap_or(1), self.current_revision());
        match wanted {
            0 => Ok(newest),
            r if r < oldest || r < 0 => Err(Error::refused(
                format!("revision {r} has been compacted"),
                format!("what is left are revisions {oldest} to {newest}"),
            )),
            r if r > newest => Err(Error::refused(
                format!("revision {r} is not there yet"),
                format!("what is there are revisions {oldest} to {newest}"),
            )),
            r => Ok(r),
        }
    }
}
