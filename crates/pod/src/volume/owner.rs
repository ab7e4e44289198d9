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

use super::layout::Layout;
use crate::Error;
use crate::error::file;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_given_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(&dir.path().join("volume"));
        let data = layout.data(Generation(0));
        for path in [layout.own(), data.join("member/wal")] {
            std::fs::create_dir_all(path).unwrap();
        }
        let outside = dir.path().join("outside");
        for path in [layout.alive(), data.join("member/wal/0.wal"), outside.clone()] {
            std::fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(&outside, data.join("link")).unwrap();
        let of = |path: &Path| {
            let metadata = path.symlink_metadata().unwrap();
            (metadata.uid(), metadata.gid())
        };
        let (before, to) = (of(&outside), (65532, 65533));
        give(&layout, Generation(0), to).unwrap();
        let superuser = rustix::process::geteuid().is_root();
        let after = if superuser { to } else { before };
        let all = [
            layout.own(),
            layout.alive(),
            data.clone(),
            data.join("member/wal/0.wal"),
            data.join("link"),
        ];
        for path in &all {
            assert_eq!(of(path), after, "{}", path.display());
        }
        assert_eq!(of(&outside), before);
        assert_eq!(of(layout.root()), before);
        // What shows at the top to be done is not walked again.
        std::fs::write(data.join("member/wal/1.wal"), "").unwrap();
        give(&layout, Generation(0), to).unwrap();
        assert_eq!(of(&data.join("member/wal/1.wal")), before);
    }
}
