//! Which process is meant: its number, its start time and the boot it belongs to. A number alone is reused.
//!
//! In: /proc. Out: an [`Identity`], whether it still lives, and a handle that can only ever mean that process.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};

/// One process, for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// When it started, in clock ticks since boot: /proc/PID/stat, field 22.
    pub(crate) start_time: u64,
    pub(crate) boot_id: String,
}

impl Identity {
    pub(crate) fn own() -> io::Result<Identity> {
        Self::of(std::process::id())?.ok_or_else(|| io::Error::other("this process is not in /proc"))
    }

    /// The process that has number `pid` now; `None` if none has, or it has ended and only waits to be reaped.
    pub(crate) fn of(pid: u32) -> io::Result<Option<Identity>> {
        let stat = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat,
            // ESRCH: it ended between open and read.
            Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(3) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let Some((state, start_time)) = state_and_start(&stat) else {
            return Err(io::Error::other(format!("/proc/{pid}/stat has an unknown form")));
        };
        if matches!(state, 'Z' | 'X' | 'x') {
            return Ok(None);
        }
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
            .trim()
            .to_owned();
        Ok(Some(Identity {
            pid,
            start_time,
            boot_id,
        }))
    }

    /// Does this very process still run?
    pub(crate) fn lives(&self) -> io::Result<bool> {
        Ok(Self::of(self.pid)?.as_ref() == Some(self))
    }

    /// A handle on this very process; `None` if it has ended. The handle is opened first and the identity proved
    /// after, so the number cannot change hands in between.
    pub(crate) fn open(&self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let handle = match rustix::process::pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Ok(self.lives()?.then_some(handle))
    }
}

/// The arguments of a process; empty if they cannot be read.
pub(crate) fn arguments(pid: u32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0)
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

/// State and start time from the text of /proc/PID/stat. The second field is a name in parentheses that may itself
/// hold spaces and parentheses.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Field 3 was the state; 22 is the start time.
    let start = fields.nth(22 - 4)?.parse().ok()?;
    Some((state, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_whatever_the_name() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 2 3";
        assert_eq!(state_and_start(stat), Some(('S', 777)));
        assert_eq!(state_and_start("nonsense"), None);
    }

    #[test]
    fn own_process_lives_and_another_start_time_does_not() {
        let own = Identity::own().unwrap();
        assert!(own.lives().unwrap());
        assert!(own.open().unwrap().is_some());
        let other = Identity {
            start_time: own.start_time + 1,
            ..own.clone()
        };
        assert!(!other.lives().unwrap());
        assert!(other.open().unwrap().is_none());
        let other = Identity {
            boot_id: "another".to_owned(),
            ..own
        };
        assert!(other.open().unwrap().is_none());
    }

    #[test]
    fn an_ended_process_does_not_live_though_it_is_not_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let patience = std::time::Duration::from_secs(60);
        quorate_testkit::await_that("it has ended", patience, || Identity::of(pid).unwrap().is_none());
        child.wait().unwrap();
    }
}
