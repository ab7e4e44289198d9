//! Data of the older operator, which lay in the volume itself, becomes generation 0: once, by a rename.
//!
//! In: a volume that is held, and its record. Out: `member` has become `g0/member`, and generation 0 is marked as one
//! that ran. Never: a mark that comes after the move, or something that is already there replaced.

use std::io;
use std::os::unix::fs::DirBuilderExt;

use quorate_core::model::Generation;
use quorate_datadir::{Attempt, DbLock, durable};
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::layout::Layout;
use super::record::Record;
use crate::Error;
use crate::error::{data, file};

const FIRST: Generation = Generation(0);

/// Is there data of the older operator to adopt? Only where generation 0 has none of its own.
pub(crate) fn is_due(layout: &Layout) -> Result<bool, Error> {
    let (older, own) = (layout.older(), layout.data(FIRST).join("member"));
    let there = |path: &std::path::Path| match path.symlink_metadata() {
        Ok(metadata) => Ok(Some(metadata.is_dir())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file("look at", path)(error)),
    };
    Ok(there(&older)? == Some(true) && there(&own)?.is_none())
}

pub(crate) fn adopt(layout: &Layout, record: &mut Record) -> Result<(), Error> {
    let older = layout.older();
    let _lock = match DbLock::try_hold(layout.root()).map_err(data("lock", layout.root()))? {
        Attempt::Held(lock) => Some(lock),
        Attempt::NoDb => None,
        Attempt::Busy { holder } => {
            let in_use = quorate_datadir::Error::InUse {
                path: older.clone(),
                holder,
            };
            return Err(data("adopt", layout.root())(in_use));
        }
    };
    if !record.entry(FIRST).fired {
        record.entry_mut(FIRST).fired = true;
        record.write(layout)?;
    }
    let home = layout.data(FIRST);
    match std::fs::DirBuilder::new().mode(0o700).create(&home) {
        // What a crash between this and the rename left.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other.map_err(file("create", &home))?,
    }
    let target = home.join("member");
    let renamed = match rustix::fs::renameat_with(CWD, &older, CWD, &target, RenameFlags::NOREPLACE) {
        // Some file systems cannot do that in one step; a rename of a directory replaces at most an empty one.
        Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(&older, &target),
        other => other.map_err(io::Error::from),
    };
    renamed.map_err(file("adopt", &older))?;
    for directory in [home.as_path(), layout.root()] {
        durable::sync_directory(directory).map_err(file("sync", directory))?;
    }
    Ok(())
}
