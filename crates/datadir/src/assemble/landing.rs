//! Where a database arrives: a file that is written in any order, by any number of threads.
//!
//! In: pieces with their offsets. Out: the file; what was written is pushed to the disk while more comes.
//! Never: a piece written outside of what a file can hold.

use std::fmt::Debug;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::Error;
use crate::files::push::Push;
use crate::progress::Progress;

/// Brings a database from elsewhere.
pub trait Arrival: Debug {
    /// Has all of it written to `landing`: the pages, and the hash behind them if there is one. It adds to `progress` what
    /// it brought.
    fn arrive(&mut self, landing: &Landing, progress: &Progress) -> Result<(), Error>;

    /// What was written was held against hashes that cover all of it. If not, the hash behind the pages is.
    fn is_vouched_for(&self) -> bool;
}

/// A file that a database arrives in.
#[derive(Debug)]
pub struct Landing {
    file: File,
    path: PathBuf,
    push: Mutex<(Push, u64)>,
}

impl Landing {
    /// `file` is empty, and called `path`; `push` gets it to the disk.
    pub(super) fn new(file: File, path: &Path, push: Push) -> Landing {
        Landing {
            file,
            path: path.to_owned(),
            push: Mutex::new((push, 0)),
        }
    }

    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(Error::write(&self.path))?;
        let mut push = self.push.lock().unwrap_or_else(PoisonError::into_inner);
        push.1 = push.1.saturating_add(bytes.len() as u64);
        let written = push.1;
        push.0.written(&self.file, written);
        Ok(())
    }

    pub(super) fn end(self) -> Result<(), Error> {
        let push = self.push.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (mut push, _) = push;
        push.end().map_err(Error::write(&self.path))
    }
}
