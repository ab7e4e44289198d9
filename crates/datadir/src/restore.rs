//! A data directory made from a snapshot: a member of a new cluster, ready to be started.
//!
//! ```text
//! snapshot ─▶ copy, its hash checked ─▶ members, raft position, versions set ─▶ member/snap/db
//! roster ─▶ member/wal/…wal, member/snap/….snap
//! ```
//!
//! In: a snapshot file and who the member is. Out: a directory that etcd starts from. It is made under another name and
//! gets its own when all of it is on the disk. Memory: a few pages.
//! Never: a snapshot taken whose hash is wrong, or, where it has none, whose pages do not hold together; anything
//! overwritten; a directory that is half made under its name.

mod database;
mod place;

use std::path::PathBuf;

use semver::Version;

use crate::mvcc::Source;
use crate::progress::Progress;
use crate::verify::verify;
use crate::{Error, Roster, Target, snap_file, wal};
use database::Shape;
use place::Place;

/// What to restore, and as whom.
#[derive(Debug, Clone)]
pub struct Restore {
    /// The snapshot; or the database of a member, with `skip_hash_check`.
    pub snapshot: PathBuf,
    /// The directory to make. It must not be there, or be empty.
    pub data_dir: PathBuf,
    /// Where the log goes, if not into the directory.
    pub wal_dir: Option<PathBuf>,
    /// The member's name.
    pub name: String,
    /// All members, `name=url,…`.
    pub initial_cluster: String,
    /// The new cluster's token. A fresh one keeps members of the old cluster from talking to the new one.
    pub token: String,
    /// The member's peer URLs, comma-separated.
    pub peer_urls: String,
    /// Take a file that has no hash behind it.
    pub skip_hash_check: bool,
    /// How much higher revisions go on than the snapshot's, with all before marked as compacted.
    pub bump: Option<i64>,
    /// Go back to this revision of the snapshot's history.
    pub to_revision: Option<i64>,
    /// The etcd that will run; `None`: the one that wrote the snapshot, or a newer one.
    pub for_version: Option<Version>,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The member.
    pub member_id: u64,
    /// The cluster.
    pub cluster_id: u64,
    /// The revision its etcd will be at.
    pub revision: i64,
    /// The minor it is written for.
    pub target: Target,
    /// The bytes of its database.
    pub size: u64,
    /// Keys that go with a lease which the snapshot no longer has: they will not expire.
    pub without_lease: u64,
}

/// Makes the directory.
pub fn restore(wanted: &Restore, progress: &Progress) -> Result<Restored, Error> {
    let roster = Roster::parse(&wanted.initial_cluster, &wanted.token)?;
    let member_id = roster.member(&wanted.name, &wanted.peer_urls)?.id;
    let source = Source::open(&wanted.snapshot)?;
    if !source.bolt().has_digest() && !wanted.skip_hash_check {
        return Err(Error::refused(
            format!("{} has no hash behind its pages", wanted.snapshot.display()),
            "if it is the database of a member and no snapshot, say --skip-hash-check; `snapshot verify` looks at the \
             rest",
        ));
    }
    let written_by = source.numbers().written_by()?;
    let target = match &wanted.for_version {
        Some(version) => Target::of(version)?,
        None => written_by,
    };
    let shape = Shape {
        roster: &roster,
        target,
        older: target < written_by,
        bump: wanted.bump,
        to_revision: wanted.to_revision,
    };
    shape.check(&source)?;
    if !source.bolt().has_digest() {
        // No hash speaks for it: only what holds together is taken.
        verify(&source, progress)?;
    }
    let place = Place::prepare(&wanted.data_dir, wanted.wal_dir.as_deref())?;
    let made = database::make(&source, &shape, &place.db(), progress)?;
    wal::write_restored(&place.wal(), member_id, &roster, target)?;
    snap_file::write_restored(&place.snap(), &roster, target)?;
    place.publish()?;
    Ok(Restored {
        member_id,
        cluster_id: roster.cluster_id,
        revision: made.revision,
        target,
        size: made.size,
        without_lease: made.without_lease,
    })
}
