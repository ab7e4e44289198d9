//! A process that stands still.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::await_that;

/// Standing still takes as long as the kernel needs to reach every thread.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stops a process where it is, and returns when all of its threads stand still: one that still runs on another core could
/// answer after the signal was sent.
pub fn pause(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap_or_else(|e| panic!("process {pid:?} cannot be stopped: {e}"));
    let number = pid.as_raw_nonzero();
    await_that("all threads of a stopped process stand still", PATIENCE, || {
        let tasks = std::fs::read_dir(format!("/proc/{number}/task")).map_err(|e| e.to_string())?;
        for task in tasks.flatten() {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            // A thread that has ended meanwhile does nothing any more either.
            if !matches!(state, Some('T' | 't' | 'Z' | 'X') | None) {
                return Err(stat);
            }
        }
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_stands_still_when_it_is_paused() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let used = || std::fs::read_to_string(format!("/proc/{}/schedstat", child.id())).unwrap();
        pause(pid);
        let before = used();
        std::thread::sleep(Duration::from_millis(50));
        let after = used();
        kill_process(pid, Signal::CONT).unwrap();
        await_that("it goes on", PATIENCE, || used() != after);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(before, after, "it took time while it was paused");
    }
}
