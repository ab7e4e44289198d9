//! Gives what etcd needs on a volume to the user that etcd runs as.
//!
//! In: a volume that is held, and a user and group. Out: `.quorate` and the data directory belong to them, and they can
//! be reached. Only the
//! superuser can do that; for others it is theirs already, or etcd says what is wrong.
//!
//! Never: a link followed; a large directory walked whose top shows that it is done.

use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use quorate_core::model::Generation;

use crate::Error;
use crate::error::file;
use crate::layout::Layout;

/// Gives them to `to`.
pub(crate) fn give(layout: &Layout, generation: Generation, to: (u32, u32)) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    open_top(layout.root(), to).map_err(file("change the owner of", layout.root()))?;
    for top in [layout.own(), layout.data(generation)] {
        give_tree(&top, to, top == layout.own()).map_err(file("change the owner of", &top))?;
    }
    Ok(())
}

/// A volume that Kubernetes hands to no group belongs to root, and others may not even enter it.
fn open_top(volume: &Path, to: (u32, u32)) -> io::Result<()> {
    let metadata = volume.metadata()?;
    let (mode, enter) = (metadata.mode(), 0o1);
    let open =
        metadata.uid() == to.0 || mode & enter != 0 || (metadata.gid() == to.1 && mode & (enter << 3) != 0);
    if open {
        return Ok(());
    }
    lchown(volume, Some(to.0), Some(to.1))
}

/// Gives a directory and all in it, the top last: whatever stops the walk, its owner shows that it is not done.
fn give_tree(top: &Path, to: (u32, u32), always: bool) -> io::Result<()> {
    let metadata = top.symlink_metadata()?;
    let is_done = (metadata.uid(), metadata.gid()) == to;
    if is_done && !always {
        return Ok(());
    }
    if metadata.is_dir() {
        for entry in top.read_dir()? {
            // Here nothing is taken from a top: after a crash some of them are done, and what is in them is not.
            give_tree(&entry?.path(), to, true)?;
        }
    }
    if is_done {
        return Ok(());
    }
    lchown(top, Some(to.0), Some(to.1))
}
