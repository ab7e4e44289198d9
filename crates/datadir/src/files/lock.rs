//! The lock that bbolt takes on a database: flock(2), exclusive, on the file itself.
//!
//! In: a data directory. Out: the lock, held until it is dropped, or who has it. Whoever judges or moves a
//! directory holds this first: then no etcd is running on it, and none gets past opening it.
//! Never: a lock on a file that is no longer the one at the path.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::Error;
use crate::examine::look::db_path;

/// How often a file that was replaced while it was being locked is opened again.
const MAX_TRIES: usize = 8;

/// The lock on a member's database.
#[derive(Debug)]
pub struct DbLock {
    path: PathBuf,
    /// Held for its lock, which goes when it is closed.
    file: File,
}

/// What came of an attempt to lock.
#[derive(Debug)]
pub enum Attempt {
    /// The lock is held until this is dropped.
    Held(DbLock),
    /// Another process has it.
    Busy {
        /// Which, where the kernel says so and it is visible from here.
        holder: Option<u32>,
    },
    /// There is no database to lock.
    NoDb,
}

impl DbLock {
    /// Tries to lock the database in `data_dir`, without waiting.
    pub fn try_hold(data_dir: &Path) -> Result<Attempt, Error> {
        let path = db_path(data_dir);
        let failed = |source| Error::Lock {
            path: path.clone(),
            source,
        };
        for _ in 0..MAX_TRIES {
            let file = match OpenOptions::new().read(true).write(true).open(&path) {
                Ok(file) => file,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    return Ok(Attempt::NoDb);
                }
                Err(error) => return Err(failed(error)),
            };
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Ok(Attempt::Busy {
                        holder: holder_of(&file).map_err(failed)?,
                    });
                }
                Err(errno) => return Err(failed(errno.into())),
            }
            // A defragmentation renames a new file over the old one; a lock on the old one guards nothing.
            if is_still_at(&file, &path).map_err(failed)? {
                return Ok(Attempt::Held(DbLock { path, file }));
            }
        }
        Err(failed(io::Error::other("it keeps being replaced")))
    }

    /// The locked file was replaced under its name. An etcd that was started meanwhile waits for the lock of the old one,
    /// and would go on with it, unseen: without metas it is no database any more, and etcd ends instead.
    pub(crate) fn retire(self, page_size: u32) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        if is_still_at(&self.file, &self.path)? {
            return Err(io::Error::other("the database was not replaced"));
        }
        for id in 0..2 {
            self.file.write_all_at(&[0; 80], id * u64::from(page_size))?;
        }
        Ok(())
    }

    /// The database that is locked.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn is_still_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((held.dev(), held.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The process that holds a flock on `file`, by the kernel's list.
pub(crate) fn holder_of(file: &File) -> io::Result<Option<u32>> {
    let metadata = file.metadata()?;
    let device = (
        rustix::fs::major(metadata.dev()),
        rustix::fs::minor(metadata.dev()),
    );
    // Best effort: without /proc, or inside another process namespace, nobody is named.
    let Ok(locks) = fs::read_to_string("/proc/locks") else {
        return Ok(None);
    };
    Ok(holder_in(&locks, device, metadata.ino()))
}

/// Finds the holder in the text of `/proc/locks`:
/// `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`, device in hex, inode in decimal; `->` marks a waiter.
fn holder_in(locks: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    let mut same_inode = Vec::new();
    for line in locks.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE" | "READ", pid, place, ..] = words[..] else {
            continue;
        };
        let mut parts = place.split(':');
        let (Some(major), Some(minor), Some(number)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let Some(pid) = pid.parse::<u32>().ok().filter(|pid| *pid > 0) else {
            continue;
        };
        if number.parse() != Ok(inode) {
            continue;
        }
        if (u32::from_str_radix(major, 16), u32::from_str_radix(minor, 16)) == (Ok(device.0), Ok(device.1)) {
            return Some(pid);
        }
        same_inode.push(pid);
    }
    // On btrfs and overlays stat and the lock list name different devices; one lock on that inode is enough.
    match same_inode[..] {
        [pid] => Some(pid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("member/snap")).unwrap();
        fs::write(db_path(dir.path()), b"").unwrap();
        dir
    }

    #[test]
    fn held_busy_released() {
        let dir = data_dir();
        let Attempt::Held(lock) = DbLock::try_hold(dir.path()).unwrap() else {
            panic!("held")
        };
        assert_eq!(lock.path(), db_path(dir.path()));
        let Attempt::Busy { holder } = DbLock::try_hold(dir.path()).unwrap() else {
            panic!("busy")
        };
        assert_eq!(holder, Some(std::process::id()));
        drop(lock);
        assert!(matches!(DbLock::try_hold(dir.path()).unwrap(), Attempt::Held(_)));
    }

    #[test]
    fn no_db() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(DbLock::try_hold(dir.path()).unwrap(), Attempt::NoDb));
        assert!(matches!(
            DbLock::try_hold(&dir.path().join("nowhere")).unwrap(),
            Attempt::NoDb
        ));
    }

    #[test]
    fn holders_are_read() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:99 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 41 00:2c:99 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 42 08:01:99 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 43 08:01:99 0 EOF\n\
                     4: FLOCK  ADVISORY  READ  44 08:01:98 0 EOF\n\
                     5: OFDLCK ADVISORY  WRITE -1 08:01:99 0 EOF\n\
                     6: FLOCK  ADVISORY  WRITE 0 08:01:97 0 EOF\n\
                     garbage\n7: FLOCK\n";
        assert_eq!(holder_in(locks, (8, 1), 99), Some(43));
        assert_eq!(holder_in(locks, (8, 1), 98), Some(44));
        assert_eq!(holder_in(locks, (9, 9), 98), Some(44));
        assert_eq!(holder_in(locks, (9, 9), 99), None);
        assert_eq!(holder_in(locks, (8, 1), 97), None);
        assert_eq!(holder_in("", (8, 1), 97), None);
    }
}
