//! How far long work has got, and whether it is still wanted.
//!
//! In: bytes done, from whoever works; a wish to stop, from whoever waits. Out: both to the other one. Never: a lock, or
//! work that goes on long after nobody wants it: it is asked for at every step.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::Error;

/// Shared by reference between the one that works and the one that waits.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Nothing done, nothing known.
    pub fn new() -> Progress {
        Progress::default()
    }

    /// How many bytes there are to do; more may come.
    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many more are done. An error if it was cancelled.
    pub fn add(&self, bytes: u64) -> Result<(), Error> {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        Ok(())
    }

    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Bytes to do, as far as known; 0 if not at all.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Have it end soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_goes_on_until_it_is_cancelled() {
        let progress = Progress::new();
        progress.expect(10);
        progress.add(4).unwrap();
        progress.cancel();
        assert!(matches!(progress.add(1), Err(Error::Cancelled)));
        assert_eq!((progress.done(), progress.total()), (5, 10));
    }
}
