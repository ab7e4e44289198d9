//! A disk mounted in a directory of its own, and what can be done to it meanwhile.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{BackgroundSession, Config, MountOption};
use rustix::mount::{UnmountFlags, unmount};

use super::serve::Serve;
use super::volume::Disk;

const KIND: &str = "forgetful";

/// A disk that programs can use until this is dropped.
#[derive(Debug)]
pub struct Mount {
    state: Arc<Mutex<State>>,
    // Unmounted before its directory goes.
    session: Option<BackgroundSession>,
    directory: tempfile::TempDir,
}

/// What the serving thread shares.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) disk: Disk,
    /// Operations begun that change the disk or sync it.
    pub(crate) operations: usize,
    pub(crate) fails_from: Option<usize>,
    pub(crate) has_failed: bool,
    pub(crate) short_writes: Option<fastrand::Rng>,
    /// The disk before the first operation and after each.
    pub(crate) history: Option<Vec<Disk>>,
}

impl Mount {
    /// Mounts a copy of `disk`. Needs root or `fusermount3`, and a kernel with FUSE.
    pub fn of(disk: &Disk) -> io::Result<Mount> {
        unmount_what_the_dead_left();
        let directory = tempfile::Builder::new().prefix("forgetful-").tempdir()?;
        let state = Arc::new(Mutex::new(State {
            disk: disk.clone(),
            operations: 0,
            fails_from: None,
            has_failed: false,
            short_writes: None,
            history: None,
        }));
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(format!("{KIND}-{}", std::process::id())),
            MountOption::Subtype(KIND.to_owned()),
        ];
        let session = fuser::spawn_mount(Serve::new(state.clone()), directory.path(), &config);
        let session = session.map_err(|error| {
            let advice = "a FUSE file system could not be mounted: run as root, or install fuse3";
            io::Error::new(error.kind(), format!("{advice}: {error}"))
        })?;
        Ok(Mount {
            state,
            session: Some(session),
            directory,
        })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The disk as it is now.
    pub fn disk(&self) -> Disk {
        self.state().disk.clone()
    }

    /// How many operations have changed or synced something, or tried to, so far.
    pub fn operations(&self) -> usize {
        self.state().operations
    }

    /// From that many operations on every one fails with an I/O error, reads too.
    pub fn fail_from(&self, operation: usize) {
        self.state().fails_from = Some(operation);
    }

    /// Whether anything was answered with an error because of [`Mount::fail_from`].
    pub fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Files may take so many bytes, and what does not fit fails as on a full disk.
    pub fn limit(&self, bytes: u64) {
        self.state().disk.capacity = Some(bytes);
    }

    /// From now on a write may write less than was asked, as this seed has it.
    pub fn short_writes(&self, seed: u64) {
        self.state().short_writes = Some(fastrand::Rng::with_seed(seed));
    }

    /// Keeps the state after each operation from now on; see [`Mount::history`].
    pub fn record(&self) {
        let mut state = self.state();
        state.history = Some(vec![state.disk.clone()]);
    }

    /// The states since [`Mount::record`], the one it began with first.
    pub fn history(&self) -> Vec<Disk> {
        self.state().history.clone().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

/// A state that a panic interrupted is as good as any: every operation replaces it whole.
pub(crate) fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Even if a file on it is still open. Without the right to, dropping the session asks `fusermount3` to.
        let _ = unmount(self.directory.path(), UnmountFlags::DETACH);
        // Its thread ends when the last file on it is closed.
        self.session = None;
    }
}

/// A killed process cannot unmount: its mount stays, and every access fails.
fn unmount_what_the_dead_left() {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for line in mounts.lines() {
        let Some((place, kind)) = line.split_once(" - ") else {
            continue;
        };
        let mut kind = kind.split(' ');
        if kind.next() != Some("fuse.forgetful") {
            continue;
        }
        let process = kind.next().and_then(|source| source.strip_prefix("forgetful-"));
        let is_dead = process.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        // A temporary directory's name holds nothing that is escaped there.
        if let Some(path) = place.split(' ').nth(4).filter(|_| is_dead) {
            let _ = unmount(path, UnmountFlags::DETACH);
            let _ = std::fs::remove_dir(path);
        }
    }
}
