//! A handle on one process that can only ever mean that process: a pidfd.
//!
//! In: an [`Identity`]. Out: its end, awaited, and signals to it. Never: a signal to a process that merely has the
//! same number.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::identity::Identity;

/// A process that was alive when it was looked up.
#[derive(Debug)]
pub(crate) struct Handle {
    pidfd: AsyncFd<OwnedFd>,
}

impl Handle {
    /// A handle on this very process; `None` if it has ended.
    pub(crate) fn open(identity: &Identity) -> io::Result<Option<Handle>> {
        let Some(pidfd) = identity.open()? else {
            return Ok(None);
        };
        // Deprecated for types whose descriptor may change under it; an OwnedFd's does not, and the replacement is
        // an unsafe function, which this crate does without.
        #[expect(deprecated, reason = "sound for OwnedFd; the replacement needs unsafe")]
        let pidfd = AsyncFd::with_interest(pidfd, Interest::READABLE)?;
        Ok(Some(Handle { pidfd }))
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        self.pidfd.readable().await.map(drop)
    }

    /// Sends a signal; to an ended process that is nothing.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::pidfd_send_signal(self.pidfd.get_ref(), signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_ended_and_its_end_noticed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap().unwrap();
        let handle = Handle::open(&identity).unwrap().unwrap();
        handle.signal(Signal::TERM).unwrap();
        handle.ended().await.unwrap();
        assert!(!identity.lives().unwrap(), "ended, though not reaped");
        child.wait().unwrap();
        handle.signal(Signal::KILL).unwrap();
        assert!(Handle::open(&identity).unwrap().is_none());
    }
}
