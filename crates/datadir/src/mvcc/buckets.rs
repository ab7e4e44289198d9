//! The buckets beside `key`, and the numbers in `meta` that etcd goes by.
//!
//! In: a bbolt file. Out: revisions of compaction, the raft position, versions. Never: a value of the wrong length taken
//! for a number.

use semver::Version;

use super::row::Revision;
use crate::bolt::Bolt;
use crate::{Error, Target};

pub mod bucket {
    /// Alarms that are on.
    pub const ALARM: &[u8] = b"alarm";
    /// Whether authentication is on, and how often its data changed.
    pub const AUTH: &[u8] = b"auth";
    /// The cluster's version, and whether it is being downgraded.
    pub const CLUSTER: &[u8] = b"cluster";
    /// Every version of every key.
    pub const KEY: &[u8] = b"key";
    pub const LEASE: &[u8] = b"lease";
    pub const MEMBERS: &[u8] = b"members";
    /// Those that were removed.
    pub const MEMBERS_REMOVED: &[u8] = b"members_removed";
    pub const META: &[u8] = b"meta";
}

/// Keys of the bucket `meta`, and of `cluster`.
pub mod meta {
    /// The last raft entry whose effect is in the file, u64 BE.
    pub const CONSISTENT_INDEX: &[u8] = b"consistent_index";
    /// Its term, u64 BE; since 3.5.
    pub const TERM: &[u8] = b"term";
    /// Who votes, JSON; since 3.5.
    pub const CONF_STATE: &[u8] = b"confState";
    /// The minor whose form the file has; since 3.6.
    pub const STORAGE_VERSION: &[u8] = b"storageVersion";
    /// A compaction that was begun.
    pub const SCHEDULED_COMPACTION: &[u8] = b"scheduledCompactRev";
    /// The last one that was finished.
    pub const FINISHED_COMPACTION: &[u8] = b"finishedCompactRev";
    /// In `cluster`: the minor that all members can speak.
    pub const CLUSTER_VERSION: &[u8] = b"clusterVersion";
    /// In `cluster`: a downgrade that is under way.
    pub const DOWNGRADE: &[u8] = b"downgrade";
}

/// What `meta` and `cluster` say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers {
    /// The last raft entry whose effect is in the file.
    pub consistent_index: Option<u64>,
    pub term: Option<u64>,
    /// The last compaction: begun, if that is the newer one, or finished.
    pub compacted: Option<i64>,
    /// That one was finished: what it takes away is gone.
    pub compaction_is_done: bool,
    pub storage_version: Option<Version>,
    pub cluster_version: Option<Version>,
}

impl Numbers {
    pub(crate) fn read(bolt: &Bolt) -> Result<Numbers, Error> {
        let odd = |key: &[u8]| Error::Damaged {
            path: bolt.path().to_owned(),
            place: format!("row {:?} of bucket \"meta\"", String::from_utf8_lossy(key)),
            why: "it is not what etcd writes there".to_owned(),
        };
        let number = |key: &[u8]| -> Result<Option<u64>, Error> {
            let Some(value) = bolt.value(bucket::META, key)? else {
                return Ok(None);
            };
            let bytes = value.try_into().map_err(|_| odd(key))?;
            Ok(Some(u64::from_be_bytes(bytes)))
        };
        let revision = |key: &[u8]| -> Result<Option<i64>, Error> {
            let Some(value) = bolt.value(bucket::META, key)? else {
                return Ok(None);
            };
            let revision = Revision::read(&value).ok_or_else(|| odd(key))?;
            Ok(Some(revision.main))
        };
        let version = |name: &[u8], key: &[u8]| -> Result<Option<Version>, Error> {
            let Some(value) = bolt.value(name, key)? else {
                return Ok(None);
            };
            let read = std::str::from_utf8(&value).ok().map(Version::parse);
            Ok(Some(read.and_then(Result::ok).ok_or_else(|| odd(key))?))
        };
        let scheduled = revision(meta::SCHEDULED_COMPACTION)?;
        let finished = revision(meta::FINISHED_COMPACTION)?;
        Ok(Numbers {
            consistent_index: number(meta::CONSISTENT_INDEX)?,
            term: number(meta::TERM)?,
            compacted: scheduled.max(finished),
            compaction_is_done: finished >= scheduled,
            storage_version: version(bucket::META, meta::STORAGE_VERSION)?,
            cluster_version: version(bucket::CLUSTER, meta::CLUSTER_VERSION)?,
        })
    }

    /// Which etcd wrote the file, as far as it shows.
    pub fn written_by(&self) -> Result<Target, Error> {
        match (&self.storage_version, self.term) {
            (Some(version), _) => Target::of(version),
            // Written since 3.5. A 3.6 that has not agreed on its version yet looks the same.
            (None, Some(_)) => Ok(Target::V3_5),
            (None, None) => Ok(Target::V3_4),
        }
    }
}
