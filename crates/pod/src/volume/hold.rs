//! The volume, held: nothing else runs on it, and nothing else is decided about it.
//!
//! In: a volume. Out: its lock `alive`, or who has it. The launcher hands the lock on to etcd, so that it is held
//! exactly as long as etcd lives, from whichever pod. The database's own lock is tried too: an etcd that nobody gave
//! our lock (the older operator's) holds that one.
//!
//! Never: a lock on a file that is no longer the one at the path.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use quorate_core::model::Generation;
use quorate_datadir::{Attempt, DbLock, durable};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::layout::Layout;
use crate::Error;
use crate::error::{data, file};

/// How often a held volume is tried again.
pub(crate) const EVERY: Duration = Duration::from_millis(200);
/// How often a lock file that was replaced meanwhile is opened again.
const MAX_TRIES: usize = 8;

/// The lock of a volume, until it is dropped.
#[derive(Debug)]
pub struct Hold {
    alive: File,
}

/// What came of an attempt.
#[derive(Debug)]
pub enum Held {
    /// Nothing else runs on it.
    Ours(Hold),
    Busy {
        why: String,
    },
}

impl Hold {
    /// Tries to hold the volume, without waiting. Makes the directory and the file of the lock if need be.
    pub fn attempt(layout: &Layout, generation: Generation) -> Result<Held, Error> {
        let busy = |what: String| {
            Ok(Held::Busy {
                why: format!("{what}; another pod of this member has not ended yet"),
            })
        };
        make_own(layout)?;
        let Some(alive) = lock(&layout.alive())? else {
            return busy(format!("{} is still in use", layout.root().display()));
        };
        for directory in [layout.root().to_owned(), layout.data(generation)] {
            if is_open(&directory)? {
                return busy(format!("the database in {} is still in use", directory.display()));
            }
        }
        Ok(Held::Ours(Hold { alive }))
    }

    /// Holds the volume, waiting up to `patience`; `waiting` is called once, with what for.
    #[allow(clippy::disallowed_methods, reason = "waits, and decides nothing by it")]
    pub fn wait(
        layout: &Layout,
        generation: Generation,
        patience: Duration,
        mut waiting: impl FnMut(&str),
    ) -> Result<Held, Error> {
        let began = Instant::now();
        let mut reported = false;
        loop {
            match Hold::attempt(layout, generation)? {
                Held::Busy { why } if began.elapsed() < patience => {
                    if !reported {
                        waiting(&why);
                    }
                    reported = true;
                }
                other => return Ok(other),
            }
            std::thread::sleep(EVERY);
        }
    }

    /// Lets the process that this one becomes inherit the lock.
    pub(crate) fn hand_on(&self) -> io::Result<()> {
        Ok(rustix::io::fcntl_setfd(
            &self.alive,
            rustix::io::FdFlags::empty(),
        )?)
    }
}

/// Does a process have the database in `directory` open?
fn is_open(directory: &Path) -> Result<bool, Error> {
    let attempt = DbLock::try_hold(directory).map_err(data("lock", directory))?;
    Ok(matches!(attempt, Attempt::Busy { .. }))
}

fn make_own(layout: &Layout) -> Result<(), Error> {
    let own = layout.own();
    let made = std::fs::DirBuilder::new().mode(0o755).create(&own);
    match made {
        Ok(()) => durable::sync_directory(layout.root()).map_err(file("sync", layout.root())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(file("create", &own)(error)),
    }
}

/// Locks the file at `path`, which is made if need be; `None` if a process has it.
fn lock(path: &Path) -> Result<Option<File>, Error> {
    for _ in 0..MAX_TRIES {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o600).open(path).map_err(file("open", path))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(crate::error::file("lock", path)(errno)),
        }
        // Wiped between open and lock: a lock on the old file guards nothing.
        let held = file.metadata().map_err(crate::error::file("look at", path))?;
        if path
            .metadata()
            .is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino()))
        {
            return Ok(Some(file));
        }
    }
    Err(file("lock", path)(io::Error::other("it keeps being replaced")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let Held::Ours(first) = Hold::attempt(&layout, Generation(0)).unwrap() else {
            panic!("held")
        };
        let mut reported = Vec::new();
        let second = Hold::wait(&layout, Generation(0), Duration::from_millis(500), |why| {
            reported.push(why.to_owned());
        });
        assert!(matches!(second.unwrap(), Held::Busy { .. }));
        assert_eq!(reported.len(), 1, "{reported:?}");
        drop(first);
        assert!(matches!(
            Hold::attempt(&layout, Generation(0)).unwrap(),
            Held::Ours(_)
        ));
    }

    #[test]
    fn an_open_database_counts_wherever_it_lies() {
        for below in ["", "g3"] {
            let dir = tempfile::tempdir().unwrap();
            let data = dir.path().join(below);
            std::fs::create_dir_all(data.join("member/snap")).unwrap();
            std::fs::write(data.join("member/snap/db"), "").unwrap();
            let Attempt::Held(_db) = DbLock::try_hold(&data).unwrap() else {
                panic!("held")
            };
            let layout = Layout::new(dir.path());
            let Held::Busy { why } = Hold::attempt(&layout, Generation(3)).unwrap() else {
                panic!("busy")
            };
            assert!(why.contains("still in use"), "{why}");
        }
    }
}
