//! Is there room?
//!
//! In: a plan and where its directories go. Out: for each filesystem what is needed and what is free.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use quorate_datadir::Members;

use super::plan::Plan;
use crate::Error;

/// The log and the snapshot file of a member, and directories.
const BESIDE: u64 = 1 << 20;

/// A filesystem that something is made on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// A directory on it.
    pub path: PathBuf,
    /// Bytes that are needed.
    pub needed: u64,
    /// Bytes that are free.
    pub free: u64,
}

impl Room {
    pub fn suffices(&self) -> Result<(), Error> {
        if self.needed <= self.free {
            return Ok(());
        }
        Err(Error::refused(
            format!(
                "there is too little room at {}: {} bytes are needed, {} are free",
                self.path.display(),
                self.needed,
                self.free
            ),
            "name a directory on a larger disk, or make room",
        ))
    }
}

/// What is needed and what is free, for each filesystem.
pub fn room(plan: &Plan, members: &Members) -> Result<Vec<Room>, Error> {
    let wanted = members.seats.iter().map(|seat| {
        (
            seat.data_dir.as_path(),
            plan.database_bytes().saturating_add(BESIDE),
        )
    });
    rooms(wanted)
}

/// Refused if there is not so much room in each of these directories.
pub(crate) fn suffice<'a>(wanted: impl IntoIterator<Item = (&'a Path, u64)>) -> Result<(), Error> {
    rooms(wanted)?.iter().try_for_each(Room::suffices)
}

/// The same, for bytes that are written at paths.
fn rooms<'a>(wanted: impl IntoIterator<Item = (&'a Path, u64)>) -> Result<Vec<Room>, Error> {
    let mut rooms: BTreeMap<u64, Room> = BTreeMap::new();
    for (path, bytes) in wanted {
        let (device, there) = nearest(path)?;
        let free = free(&there)?;
        let room = rooms.entry(device).or_insert(Room {
            path: there,
            needed: 0,
            free,
        });
        room.needed = room.needed.saturating_add(bytes);
    }
    Ok(rooms.into_values().collect())
}

/// The nearest directory above `path` that is there, and its device.
fn nearest(path: &Path) -> Result<(u64, PathBuf), Error> {
    let failed = |source| Error::File {
        doing: "find",
        path: path.to_owned(),
        source,
    };
    let whole = std::path::absolute(path).map_err(failed)?;
    for above in whole.ancestors() {
        if let Ok(metadata) = fs::metadata(above) {
            return Ok((metadata.dev(), above.to_owned()));
        }
    }
    Err(failed(std::io::ErrorKind::NotFound.into()))
}

fn free(path: &Path) -> Result<u64, Error> {
    let stat = rustix::fs::statvfs(path).map_err(|errno| Error::File {
        doing: "look at the room of",
        path: path.to_owned(),
        source: errno.into(),
    })?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_on_one_disk_share_its_room() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("a/b"), dir.path().join("c"));
        let found = rooms([(one.as_path(), 10), (two.as_path(), 20)]).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].needed, found[0].path.as_path()), (30, dir.path()));
        assert!(found[0].free > 0);
        found[0].suffices().unwrap();
        let told = rooms([(one.as_path(), u64::MAX)]).unwrap()[0]
            .suffices()
            .unwrap_err();
        assert!(told.to_string().contains("too little room"), "{told}");
    }
}
