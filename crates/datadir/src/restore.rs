//! A data directory made from a snapshot: a member of a new cluster, ready to be started.
//!
//! ```text
//! base, later rows ─▶ assembled, members, raft position, versions set ─▶ member/snap/db ─▶ copies for other members
//! roster ─▶ member/wal/…wal, member/snap/….snap
//! ```
//!
//! In: a snapshot file, or whatever a database can be put together from ([`Assembly`]), and who the members are. Out: a
//! directory for each that etcd starts from. It is made under another name and gets its own when all of it, and of all
//! others, is on the disk. Memory: a few pages.
//! Never: a snapshot taken whose hash is wrong, or, where it has none, whose pages do not hold together; anything
//! overwritten; a directory that is half made under its name.

mod database;
mod place;
pub(crate) mod roster;
pub(crate) mod target;

use std::fs::File;
use std::path::PathBuf;

use semver::Version;

use crate::assemble::{Assembly, Base, Into, Ready, Shape, assemble, bump_row};
use crate::examine::verify::verify;
use crate::files::copy::copy;
use crate::progress::Progress;
use crate::{Error, Roster, Target, snap_file, wal};
use database::MemberShape;
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
    pub name: String,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub member_id: u64,
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

/// The members of a cluster that is restored.
#[derive(Debug, Clone)]
pub struct Members {
    pub initial_cluster: String,
    /// The new cluster's token.
    pub token: String,
    /// Those whose directories are made here.
    pub seats: Vec<Seat>,
    /// How much higher revisions go on, with all before marked as compacted.
    pub bump: Option<i64>,
    /// The etcd that will run; `None`: the one that wrote the base, or a newer one.
    pub for_version: Option<Version>,
}

/// A member whose directory is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    pub name: String,
    /// Its peer URLs, comma-separated.
    pub peer_urls: String,
    /// The directory to make. It must not be there, or be empty.
    pub data_dir: PathBuf,
    /// Where the log goes, if not into the directory.
    pub wal_dir: Option<PathBuf>,
}

pub fn restore(wanted: &Restore, progress: &Progress) -> Result<Restored, Error> {
    let members = Members {
        initial_cluster: wanted.initial_cluster.clone(),
        token: wanted.token.clone(),
        seats: vec![Seat {
            name: wanted.name.clone(),
            peer_urls: wanted.peer_urls.clone(),
            data_dir: wanted.data_dir.clone(),
            wal_dir: wanted.wal_dir.clone(),
        }],
        bump: wanted.bump,
        for_version: wanted.for_version.clone(),
    };
    let assembly = Assembly {
        to_revision: wanted.to_revision,
        ..Assembly::of(Base::File {
            path: wanted.snapshot.clone(),
            skip_hash_check: wanted.skip_hash_check,
        })
    };
    let mut restored = restore_members(&members, assembly, progress)?;
    restored
        .pop()
        .ok_or_else(|| Error::refused("no member was named", "name one"))
}

impl Members {
    /// Could their directories be made: are they who they say, and is nothing in the way? Out: the new cluster's id.
    pub fn judge(&self) -> Result<u64, Error> {
        let roster = Roster::parse(&self.initial_cluster, &self.token)?;
        for seat in &self.seats {
            roster.member(&seat.name, &seat.peer_urls)?;
            Place::judge(&seat.data_dir, seat.wal_dir.as_deref())?;
        }
        check_seats(&self.seats)?;
        Ok(roster.cluster_id)
    }
}

/// Makes the directories of all members that have a seat here, in the order of the seats.
pub fn restore_members(
    members: &Members,
    assembly: Assembly<'_>,
    progress: &Progress,
) -> Result<Vec<Restored>, Error> {
    let roster = Roster::parse(&members.initial_cluster, &members.token)?;
    let ids = members
        .seats
        .iter()
        .map(|seat| Ok(roster.member(&seat.name, &seat.peer_urls)?.id))
        .collect::<Result<Vec<u64>, Error>>()?;
    check_seats(&members.seats)?;
    let mut shape = MemberShape {
        roster: &roster,
        for_version: members.for_version.as_ref(),
        bump: members.bump,
        target: None,
    };
    let (ready, rest) = assembly.split()?;
    if let Ready::Opened(source) = &ready {
        // What can be judged is, before anything is written.
        let end = rest.check(source)?;
        shape.changes(source)?;
        if let Some((end, by)) = end.zip(members.bump) {
            bump_row(end, by)?;
        }
        if !source.bolt().has_digest() {
            // No hash speaks for it: only what holds together is taken.
            verify(source, progress)?;
        }
    }
    let places = members
        .seats
        .iter()
        .map(|seat| Place::prepare(&seat.data_dir, seat.wal_dir.as_deref()))
        .collect::<Result<Vec<Place>, Error>>()?;
    let Some((first, others)) = places.split_first() else {
        return Err(Error::refused("no member was named", "name one"));
    };
    let path = first.db();
    let into = Into::new(&path)?;
    let made = assemble(ready, rest, &mut shape, &into, progress)?;
    let Some(target) = shape.target else {
        return Err(Error::refused(
            "what etcd it is for is not known",
            "name its version",
        ));
    };
    for place in others {
        copy_database(&into.file, &path, place, made.size, progress)?;
    }
    let mut restored = Vec::new();
    for (place, member_id) in places.iter().zip(ids) {
        wal::write_restored(&place.wal(), member_id, &roster, target)?;
        snap_file::write_restored(&place.snap(), &roster, target)?;
        restored.push(Restored {
            member_id,
            cluster_id: roster.cluster_id,
            revision: made.revision,
            target,
            size: made.size,
            without_lease: made.without_lease,
        });
    }
    for place in places {
        place.publish()?;
    }
    Ok(restored)
}

/// Each has its own places.
fn check_seats(seats: &[Seat]) -> Result<(), Error> {
    let mut taken = std::collections::BTreeSet::new();
    for seat in seats {
        for dir in std::iter::once(&seat.data_dir).chain(&seat.wal_dir) {
            let whole = std::path::absolute(dir).map_err(Error::read(dir))?;
            if !taken.insert(whole) {
                return Err(Error::refused(
                    format!("{} is to be the directory of two", dir.display()),
                    "name a directory of its own for each member",
                ));
            }
        }
    }
    Ok(())
}

/// The database of another member is the same, byte for byte.
fn copy_database(
    from: &File,
    path: &std::path::Path,
    place: &Place,
    size: u64,
    progress: &Progress,
) -> Result<(), Error> {
    let to = place.db();
    let into = Into::new(&to)?;
    progress.expect(size);
    copy((from, path), (&into.file, &to), size, progress)?;
    into.file.sync_all().map_err(Error::write(&to))
}
