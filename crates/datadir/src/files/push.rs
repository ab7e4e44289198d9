//! Written bytes pushed to the disk while more are being written, so that the sync at the end finds little left to do.
//!
//! In: a file, and how far it has been written. Out: what went wrong, at the end: the kernel tells of a write that failed
//! only once, so what is told here must not be lost.
//! Never: a wait for the disk by the one that writes.

use std::fs::File;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Pushed whenever this much more was written.
const EVERY: u64 = 32 << 20;

/// Pushes a file to the disk, from a thread of its own.
#[derive(Debug)]
pub(crate) struct Push {
    at: u64,
    thread: Option<(SyncSender<()>, JoinHandle<io::Result<()>>)>,
}

impl Push {
    /// What is before `at` was there already.
    pub(crate) fn from(at: u64) -> Push {
        Push { at, thread: None }
    }

    /// Pushes nothing: the file is only passed on.
    pub(crate) fn never() -> Push {
        Push::from(u64::MAX)
    }

    /// `file` has been written up to there.
    pub(crate) fn written(&mut self, file: &File, to: u64) {
        if to.saturating_sub(self.at) < EVERY {
            return;
        }
        self.at = to;
        if self.thread.is_none() {
            let Ok(file) = file.try_clone() else { return };
            let (tell, told) = sync_channel::<()>(1);
            let thread = std::thread::spawn(move || {
                while told.recv().is_ok() {
                    file.sync_data()?;
                }
                Ok(())
            });
            self.thread = Some((tell, thread));
        }
        if let Some((tell, _)) = &self.thread {
            // One that is still busy has been told already.
            let _ = tell.try_send(());
        }
    }

    /// No more comes. Out: whether all pushes went well.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        let Some((tell, thread)) = self.thread.take() else {
            return Ok(());
        };
        drop(tell);
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that syncs the file ended")))
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        // Only where something else has failed already: whoever is content has called `end`.
        let _ = self.end();
    }
}
