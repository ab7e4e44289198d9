//! What a database becomes when it is a restored member's.
//!
//! In: the new cluster, the etcd that will run. Out: the rows to change: the new cluster's members, and the raft position
//! of a log which has just begun. Never: a row of `key` touched.

use semver::Version;

use crate::assemble::Shape;
use crate::assemble::rewrite::Changes;
use crate::mvcc::{Source, bucket, meta};
use crate::{Error, Roster, Target};

/// What the database is to become.
#[derive(Debug)]
pub(super) struct MemberShape<'a> {
    pub(super) roster: &'a Roster,
    /// The etcd that will run; `None`: the one that wrote the base, or a newer one.
    pub(super) for_version: Option<&'a Version>,
    pub(super) bump: Option<i64>,
    /// The minor it was made for, once it is known.
    pub(super) target: Option<Target>,
}

impl Shape for MemberShape<'_> {
    fn changes(&mut self, source: &Source) -> Result<Changes, Error> {
        let written_by = source.numbers().written_by()?;
        let target = match self.for_version {
            Some(version) => Target::of(version)?,
            None => written_by,
        };
        self.target = Some(target);
        self.check()?;
        let mut changes = Changes::default();
        let members = self.roster.rows().into_iter().collect();
        changes.replaced.insert(bucket::MEMBERS.to_vec(), members);
        changes
            .replaced
            .insert(bucket::MEMBERS_REMOVED.to_vec(), Default::default());
        let entries = self.roster.members.len() as u64;
        changes.set(bucket::META, meta::CONSISTENT_INDEX, entries.to_be_bytes());
        changes.set(bucket::META, meta::TERM, 1u64.to_be_bytes());
        // Who votes is in the log; what stands here are the old cluster's voters.
        changes.remove(bucket::META, meta::CONF_STATE);
        if target < written_by {
            // An older etcd takes its own version's data; the cluster agrees on its version anew.
            changes.remove(bucket::META, meta::STORAGE_VERSION);
            changes.remove(bucket::CLUSTER, meta::CLUSTER_VERSION);
            changes.remove(bucket::CLUSTER, meta::DOWNGRADE);
        }
        if target == Target::V3_4 {
            changes.remove(bucket::META, meta::TERM);
        }
        Ok(changes)
    }

    fn bump(&self) -> Option<i64> {
        self.bump
    }
}

impl MemberShape<'_> {
    fn check(&self) -> Result<(), Error> {
        match self.bump {
            Some(bump) if bump < 1 => Err(Error::refused(
                format!("revisions cannot go on {bump} higher"),
                "say how much higher, e.g. --bump-revision 1000000000",
            )),
            _ => Ok(()),
        }
    }
}
