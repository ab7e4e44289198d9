//! Reads and writes the files of the certificate directory.
//!
//! In: bytes and a path. Out: the old file or the new one, never a mixture, whenever the power goes.
//! Never: a key file that is readable by others between its creation and its last byte; a CA file deleted.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::Error;

/// No file of ours comes near this size; a longer one is not read to its end.
pub(crate) const MAX_FILE: u64 = 64 * 1024;
/// How many former files of one name are kept.
const ASIDES_KEPT: usize = 3;

/// What a file holds, which decides its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Certificate,
    Key,
}

impl Kind {
    fn mode(self) -> u32 {
        match self {
            Kind::Certificate => 0o644,
            Kind::Key => 0o600,
        }
    }
}

/// The certificate directory, locked against other processes for as long as this lives.
#[derive(Debug)]
pub(crate) struct Dir {
    path: PathBuf,
    handle: File,
}

impl Dir {
    /// Makes `path` if need be, gives it mode 0700, locks it.
    pub(crate) fn open(path: &Path) -> Result<Dir, Error> {
        let prepare = |source| Error::PrepareDir {
            dir: path.to_owned(),
            source,
        };
        let handle = make_private(path).map_err(prepare)?;
        match rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Dir {
                path: path.to_owned(),
                handle,
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Busy { dir: path.to_owned() }),
            Err(errno) => Err(prepare(errno.into())),
        }
    }

    /// The same, for one file that nobody else writes.
    pub(crate) fn unlocked(path: &Path) -> Result<Dir, Error> {
        let handle = File::open(path).map_err(|source| Error::PrepareDir {
            dir: path.to_owned(),
            source,
        })?;
        Ok(Dir {
            path: path.to_owned(),
            handle,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives a file another name, on disk when this returns.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let renamed = fs::rename(from, to).and_then(|()| self.handle.sync_all());
        renamed.map_err(|source| Error::Write {
            path: to.to_owned(),
            source,
        })
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), Error> {
        let removed = match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other,
        };
        let removed = removed.and_then(|()| self.handle.sync_all());
        removed.map_err(|source| Error::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// Puts `bytes` at `path`, whole, on disk when this returns.
    pub(crate) fn write(&self, path: &Path, kind: Kind, bytes: &[u8]) -> Result<(), Error> {
        let temporary = suffixed(path, ".new");
        let written = write_new(&temporary, kind.mode(), bytes)
            .and_then(|()| fs::rename(&temporary, path))
            .and_then(|()| self.handle.sync_all());
        written.map_err(|source| {
            // What is left behind is replaced by the next attempt; failing to remove it changes nothing.
            let _ = fs::remove_file(&temporary);
            Error::Write {
                path: path.to_owned(),
                source,
            }
        })
    }

    /// Moves `path` to `path.aside-N` and drops all but the newest few of those. `None`: nothing was there.
    pub(crate) fn move_aside(&self, path: &Path) -> Result<Option<PathBuf>, Error> {
        let failed = |source| Error::MoveAside {
            path: path.to_owned(),
            source,
        };
        if !fs::exists(path).map_err(failed)? {
            return Ok(None);
        }
        let mut numbers = self.asides(path).map_err(failed)?;
        let next = numbers.last().map_or(1, |last| last + 1);
        let target = suffixed(path, &format!(".aside-{next}"));
        fs::rename(path, &target)
            .and_then(|()| self.handle.sync_all())
            .map_err(failed)?;
        numbers.push(next);
        let surplus = numbers.len().saturating_sub(ASIDES_KEPT);
        for number in &numbers[..surplus] {
            fs::remove_file(suffixed(path, &format!(".aside-{number}"))).map_err(failed)?;
        }
        Ok(Some(target))
    }

    /// The numbers of the files moved aside from `path`, ascending.
    fn asides(&self, path: &Path) -> io::Result<Vec<u64>> {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let prefix = format!("{name}.aside-");
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?.file_name();
            let number = entry
                .to_str()
                .and_then(|text| text.strip_prefix(&prefix))
                .map(str::parse);
            if let Some(Ok(number)) = number {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// The content of `path`; `None` if it is not there. An unreadable file is an error, not a reason to remake
/// it: run by the wrong user, quorate would otherwise replace a good CA.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// Gives a key that others could read the mode 0600. `true`: it needed that.
pub(crate) fn protect(path: &Path) -> Result<bool, Error> {
    let failed = |source| Error::Protect {
        path: path.to_owned(),
        source,
    };
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(false);
    }
    fs::set_permissions(path, fs::Permissions::from_mode(Kind::Key.mode())).map_err(failed)?;
    Ok(true)
}

fn make_private(path: &Path) -> io::Result<File> {
    if !fs::exists(path)? {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()?;
    }
    let handle = File::open(path)?;
    let metadata = handle.metadata()?;
    if !metadata.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    if metadata.permissions().mode() & 0o777 != 0o700 {
        handle.set_permissions(fs::Permissions::from_mode(0o700))?;
    }
    Ok(handle)
}

fn write_new(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    // What a crash left under this name may have any mode: it goes, and the file is created with its own.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    // The umask may have taken bits away; it never adds any.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    text.push(suffix);
    PathBuf::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leftover_with_a_loose_mode_is_not_reused() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = Dir::open(&tmp.path().join("pki")).unwrap();
        let path = tmp.path().join("pki/ca.key");
        fs::write(tmp.path().join("pki/ca.key.new"), b"half").unwrap();
        dir.write(&path, Kind::Key, b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!fs::exists(tmp.path().join("pki/ca.key.new")).unwrap());
    }

    #[test]
    fn asides_are_bounded_and_keep_the_newest() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = Dir::open(tmp.path()).unwrap();
        let path = tmp.path().join("ca.crt");
        assert_eq!(dir.move_aside(&path).unwrap(), None);
        for round in 1..=12u8 {
            fs::write(&path, [round]).unwrap();
            let target = dir.move_aside(&path).unwrap().unwrap();
            assert_eq!(fs::read(target).unwrap(), [round]);
        }
        assert_eq!(dir.asides(&path).unwrap(), [10, 11, 12]);
    }

    #[test]
    fn one_at_a_time() {
        let tmp = tempfile::tempdir().unwrap();
        let held = Dir::open(tmp.path()).unwrap();
        assert!(matches!(Dir::open(tmp.path()), Err(Error::Busy { .. })));
        drop(held);
        Dir::open(tmp.path()).unwrap();
    }
}
