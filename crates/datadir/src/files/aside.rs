//! Puts a data directory out of the way, whole, without copying or deleting a byte.
//!
//! In: the directory and a path on the same file system where nothing is. Out: the directory is there, and
//! stays there after a power cut. Never: a directory moved from under a running etcd; anything overwritten.

use std::io;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::durable::{parent, sync_directory};
use super::lock::{Attempt, DbLock};
use crate::Error;

/// Moves the data directory `volume_dir` to `aside_dir`, which must not exist; its parent must.
///
/// The database's lock is held meanwhile, so a running etcd makes this [`Error::InUse`].
pub fn move_aside(volume_dir: &Path, aside_dir: &Path) -> Result<(), Error> {
    let _lock = match DbLock::try_hold(volume_dir)? {
        Attempt::Held(lock) => Some(lock),
        // Without a database no etcd can have it open.
        Attempt::NoDb => None,
        Attempt::Busy { holder } => {
            return Err(Error::InUse {
                path: volume_dir.to_owned(),
                holder,
            });
        }
    };
    rename(volume_dir, aside_dir).map_err(|source| {
        if source.kind() == io::ErrorKind::AlreadyExists {
            return Error::TargetExists {
                target: aside_dir.to_owned(),
            };
        }
        Error::Move {
            from: volume_dir.to_owned(),
            target: aside_dir.to_owned(),
            source,
        }
    })?;
    // The new name first: if only one of the two reaches the disk, the directory has a name.
    [aside_dir, volume_dir]
        .into_iter()
        .try_for_each(|path| sync_directory(parent(path)))
        .map_err(|source| Error::SyncParent {
            target: aside_dir.to_owned(),
            source,
        })
}

/// Renames without ever replacing the target.
fn rename(from: &Path, target: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, target, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // Some file systems cannot do that in one step. A plain rename of a directory replaces nothing but an
        // empty directory, so the check before it can at worst lose one of those.
        Err(Errno::INVAL | Errno::NOSYS) => {
            if std::fs::symlink_metadata(target).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            std::fs::rename(from, target)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Files counted of a directory, at most.
const FILES_MAX: usize = 10_000;

/// The room that a directory takes on its disk, as far as it can be read and within [`FILES_MAX`].
pub fn room_of(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let (mut open, mut bytes, mut files) = (vec![directory.to_owned()], 0_u64, 0);
    while let Some(path) = open.pop() {
        for entry in path.read_dir().into_iter().flatten().flatten() {
            files += 1;
            if files > FILES_MAX {
                return bytes;
            }
            // Of links, not of what they lead to.
            let Ok(found) = entry.path().symlink_metadata() else {
                continue;
            };
            bytes = bytes.saturating_add(found.blocks().saturating_mul(512));
            if found.is_dir() {
                open.push(entry.path());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn volume(root: &Path) -> std::path::PathBuf {
        let volume = root.join("m0");
        fs::create_dir_all(volume.join("member/snap")).unwrap();
        fs::write(volume.join("member/snap/db"), b"data").unwrap();
        volume
    }

    #[test]
    fn moved_whole() {
        let root = tempfile::tempdir().unwrap();
        let volume = volume(root.path());
        let aside = root.path().join("m0.aside-1");
        move_aside(&volume, &aside).unwrap();
        assert!(!volume.exists());
        assert_eq!(fs::read(aside.join("member/snap/db")).unwrap(), b"data");
    }

    #[test]
    fn nothing_is_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let volume = volume(root.path());
        let aside = root.path().join("m0.aside-1");
        fs::create_dir(&aside).unwrap();
        assert!(matches!(
            move_aside(&volume, &aside),
            Err(Error::TargetExists { .. })
        ));
        assert!(volume.join("member/snap/db").exists());
    }

    #[test]
    fn a_directory_in_use_stays() {
        let root = tempfile::tempdir().unwrap();
        let volume = volume(root.path());
        let Attempt::Held(_lock) = DbLock::try_hold(&volume).unwrap() else {
            panic!("held")
        };
        let error = move_aside(&volume, &root.path().join("aside")).unwrap_err();
        assert!(matches!(error, Error::InUse { holder: Some(_), .. }), "{error}");
        assert!(volume.exists());
    }

    #[test]
    fn a_directory_without_a_database_is_moved_and_a_missing_one_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let volume = root.path().join("m0");
        fs::create_dir(&volume).unwrap();
        move_aside(&volume, &root.path().join("aside")).unwrap();
        assert!(matches!(
            move_aside(&volume, &root.path().join("again")),
            Err(Error::Move { .. })
        ));
    }
}
