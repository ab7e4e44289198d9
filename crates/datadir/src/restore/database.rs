//! The database of a restored member.
//!
//! In: a snapshot, the new cluster. Out: a database with the snapshot's keys and the new cluster's members, its raft
//! position that of a log which has just begun. Copied and given a new right edge where that is enough, written anew where
//! revisions are cut off.
//! Never: a database of a snapshot whose hash is wrong.

use std::collections::{BTreeSet, HashSet};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::bolt::{Bolt, DIGEST, KeyAndValue};
use crate::copy::copy;
use crate::mvcc::{KeyValue, Lease, Revision, Source, bucket, each_row, meta};
use crate::progress::Progress;
use crate::rewrite::{Changes, Later, edit, rewrite};
use crate::{Error, Roster, Target, digest};

/// What the database is to become.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    pub(super) roster: &'a Roster,
    pub(super) target: Target,
    /// The target is older than what wrote the snapshot.
    pub(super) older: bool,
    pub(super) bump: Option<i64>,
    pub(super) to_revision: Option<i64>,
}

/// What it became.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) revision: i64,
    pub(super) size: u64,
    pub(super) without_lease: u64,
}

impl Shape<'_> {
    /// Can it become that?
    pub(super) fn check(&self, source: &Source) -> Result<(), Error> {
        if let Some(revision) = self.to_revision {
            source.revision(revision)?;
        }
        match self.bump {
            Some(bump) if bump < 1 => Err(Error::refused(
                format!("revisions cannot go on {bump} higher"),
                "say how much higher, e.g. --bump-revision 1000000000",
            )),
            Some(bump) if self.end(source).checked_add(bump).is_none() => Err(Error::refused(
                "revisions that high cannot be counted",
                "bump them by less",
            )),
            _ => Ok(()),
        }
    }

    /// The last revision that is taken over.
    fn end(&self, source: &Source) -> i64 {
        match self.to_revision {
            None | Some(0) => source.last_revision(),
            Some(revision) => revision,
        }
    }

    fn changes(&self) -> Changes {
        let mut changes = Changes {
            cut: self.to_revision.filter(|revision| *revision > 0),
            ..Changes::default()
        };
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
        if self.older {
            // An older etcd takes its own version's data; the cluster agrees on its version anew.
            changes.remove(bucket::META, meta::STORAGE_VERSION);
            changes.remove(bucket::CLUSTER, meta::CLUSTER_VERSION);
            changes.remove(bucket::CLUSTER, meta::DOWNGRADE);
        }
        if self.target == Target::V3_4 {
            changes.remove(bucket::META, meta::TERM);
        }
        changes
    }
}

/// Makes the database `path`, synced.
pub(super) fn make(
    source: &Source,
    shape: &Shape<'_>,
    path: &Path,
    progress: &Progress,
) -> Result<Made, Error> {
    let bolt = source.bolt();
    let mut changes = shape.changes();
    let mut end = shape.end(source);
    let mut bump = Bump(None);
    if let Some(by) = shape.bump {
        end += by;
        let revision = Revision { main: end, sub: 0 }.bytes();
        bump = Bump(Some((revision, false)));
        // etcd finishes it when it starts: whoever watches from an older revision is told so.
        changes.set(bucket::META, meta::SCHEDULED_COMPACTION, revision);
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(path).map_err(Error::write(path))?;
    progress.expect(bolt.size().saturating_mul(2));
    let file = if changes.cut.is_some() {
        check_hash(source, progress)?;
        rewrite(source, &changes, &mut bump, file, path, progress)?.file
    } else {
        let (hashed, copied) = std::thread::scope(|scope| {
            let hashing = scope.spawn(|| check_hash(source, progress));
            let copied = copy((bolt.file(), bolt.path()), (&file, path), bolt.size(), progress);
            (hashing.join().unwrap_or(Err(Error::Cancelled)), copied)
        });
        hashed?;
        copied?;
        let reader = file.try_clone().map_err(Error::write(path))?;
        edit(&Bolt::from_file(reader, path)?, &changes, &mut bump, file)?
    };
    file.sync_all().map_err(Error::write(path))?;
    let size = file.metadata().map_err(Error::read(path))?.len();
    let without_lease = match changes.cut {
        Some(revision) => without_lease(source, revision, progress)?,
        None => 0,
    };
    Ok(Made {
        revision: end.max(source.compact_revision().unwrap_or(1)),
        size,
        without_lease,
    })
}

fn check_hash(source: &Source, progress: &Progress) -> Result<(), Error> {
    let bolt = source.bolt();
    let Some(recorded) = digest::recorded(bolt)? else {
        return Ok(());
    };
    let found = digest::sha256(bolt.file(), bolt.path(), bolt.length() - DIGEST, progress)?;
    if found == recorded {
        Ok(())
    } else {
        Err(digest::mismatch(bolt.path()))
    }
}

/// The row that revisions go on from, if they are to go on from a higher one; it holds nothing. And: it was given out.
struct Bump(Option<([u8; 17], bool)>);

impl Later for Bump {
    fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, Error> {
        Ok(match &mut self.0 {
            Some((key, given)) if !*given => {
                *given = true;
                Some((&key[..], &[]))
            }
            _ => None,
        })
    }
}

/// Keys that are there at `revision` and go with a lease that has ended since.
fn without_lease(source: &Source, revision: i64, progress: &Progress) -> Result<u64, Error> {
    let mut leases = BTreeSet::new();
    if let Some(mut rows) = source.bolt().bucket(bucket::LEASE)? {
        while let Some((key, value)) = rows.next()? {
            leases.extend(Lease::read(key, value).ok().map(|lease| lease.id));
        }
    }
    let mut lost = HashSet::new();
    each_row(source, revision, progress, |row, _, value| {
        let kv = KeyValue::read(value)?;
        if !row.tombstone && kv.lease != 0 && !leases.contains(&kv.lease) {
            lost.insert(kv.key.to_vec());
        } else {
            lost.remove(kv.key);
        }
        Ok(())
    })?;
    Ok(lost.len() as u64)
}
