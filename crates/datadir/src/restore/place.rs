//! A data directory under construction, and how it gets its name.
//!
//! ```text
//! the directory is not there:   .NAME.restoring/member …      renamed to NAME
//! it is there, and empty:       NAME/.restoring/member …      member renamed into NAME (NAME may be a mount point)
//! the log elsewhere:            the same for its directory, before
//! ```
//!
//! In: where it is to be. Out: where to build it; later, all of it in its place. What an earlier try left under the other
//! name is cleared away first; dropped unpublished, this one clears itself away.
//! Never: a directory with anything in it taken.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::files::durable::{parent, sync_directory};

/// The name under which a directory is built in one that is there already.
const INSIDE: &str = ".restoring";

/// A data directory that is being made.
#[derive(Debug)]
pub(super) struct Place {
    data: Stage,
    log: Option<Stage>,
}

/// A directory that is being made under another name.
#[derive(Debug)]
struct Stage {
    /// Where it is made.
    staged: PathBuf,
    /// What it will be.
    wanted: PathBuf,
    /// It is there already, and empty.
    inside: bool,
}

impl Place {
    /// Could it be made there?
    pub(super) fn judge(data_dir: &Path, wal_dir: Option<&Path>) -> Result<(), Error> {
        for dir in std::iter::once(data_dir).chain(wal_dir) {
            Stage::judge(dir)?;
        }
        Ok(())
    }

    pub(super) fn prepare(data_dir: &Path, wal_dir: Option<&Path>) -> Result<Place, Error> {
        let place = Place {
            data: Stage::prepare(data_dir)?,
            log: wal_dir.map(Stage::prepare).transpose()?,
        };
        for dir in [place.data.staged.join("member"), place.snap()] {
            make_dir(&dir)?;
        }
        if place.log.is_none() {
            make_dir(&place.wal())?;
        }
        Ok(place)
    }

    pub(super) fn snap(&self) -> PathBuf {
        self.data.staged.join("member").join("snap")
    }

    pub(super) fn db(&self) -> PathBuf {
        self.snap().join("db")
    }

    pub(super) fn wal(&self) -> PathBuf {
        match &self.log {
            Some(log) => log.staged.clone(),
            None => self.data.staged.join("member").join("wal"),
        }
    }

    /// Gives it its name. All files in it are on the disk.
    pub(super) fn publish(self) -> Result<(), Error> {
        let member = self.data.staged.join("member");
        for dir in [self.snap(), self.wal(), member, self.data.staged.clone()] {
            sync_directory(&dir).map_err(Error::write(&dir))?;
        }
        // The log first: a member without one is taken for a new one by etcd, a log without a member for nothing.
        if let Some(log) = &self.log {
            log.publish()?;
        }
        self.data.publish()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Published, it has gone already; and what stays is cleared away by the next try.
        let _ = fs::remove_dir_all(&self.staged);
    }
}

impl Stage {
    /// Is there room for it under that name? Out: it is there already, and empty.
    fn judge(wanted: &Path) -> Result<bool, Error> {
        match fs::read_dir(wanted) {
            Ok(mut entries) => {
                let ours =
                    |entry: &io::Result<fs::DirEntry>| entry.as_ref().is_ok_and(|e| e.file_name() == INSIDE);
                if entries.any(|entry| !ours(&entry)) {
                    return Err(Error::refused(
                        format!("{} is there, and there is something in it", wanted.display()),
                        "name a directory that is not there; nothing is overwritten",
                    ));
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::read(wanted)(error)),
        }
    }

    fn prepare(wanted: &Path) -> Result<Stage, Error> {
        let inside = Stage::judge(wanted)?;
        let staged = match wanted.file_name() {
            _ if inside => wanted.join(INSIDE),
            Some(name) => {
                let mut hidden = OsString::from(".");
                hidden.push(name);
                hidden.push(".restoring");
                wanted.with_file_name(hidden)
            }
            None => {
                let what = format!("{} is not the name of a directory to make", wanted.display());
                return Err(Error::refused(what, "name one"));
            }
        };
        match fs::remove_dir_all(&staged) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::write(&staged)(error));
            }
            _ => {}
        }
        let above = parent(&staged);
        fs::create_dir_all(above).map_err(Error::write(above))?;
        make_dir(&staged)?;
        Ok(Stage {
            staged,
            wanted: wanted.to_owned(),
            inside,
        })
    }

    fn publish(&self) -> Result<(), Error> {
        let failed = Error::write(&self.wanted);
        if self.inside {
            for entry in fs::read_dir(&self.staged).map_err(&failed)? {
                let entry = entry.map_err(&failed)?;
                fs::rename(entry.path(), self.wanted.join(entry.file_name())).map_err(&failed)?;
            }
            fs::remove_dir(&self.staged).map_err(&failed)?;
            return sync_directory(&self.wanted).map_err(&failed);
        }
        // Never over a directory that somebody made meanwhile, though it be empty.
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let here = rustix::fs::CWD;
        match rustix::fs::renameat_with(here, &self.staged, here, &self.wanted, flags) {
            Ok(()) => {}
            // Not every filesystem knows that.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                fs::rename(&self.staged, &self.wanted).map_err(&failed)?;
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        sync_directory(parent(&self.wanted)).map_err(&failed)
    }
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .mode(0o700)
        .create(dir)
        .map_err(Error::write(dir))
}
