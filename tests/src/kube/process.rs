//! What runs in a container of the bed, as the machine sees it: found, and killed without a word.
//!
//! In: a pod as the API server has it. Out: its processes. Never: a process of anything but that container, and a kill
//! that is only asked for: it is over when the processes are gone.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::until;

/// Nothing outlives SIGKILL for longer, even on a busy machine.
const GONE: Duration = Duration::from_secs(30);

/// The processes of a pod's container; none while it does not run.
pub fn of_container(pod: &Value, container: &str) -> Vec<Pid> {
    let all = pod["status"]["containerStatuses"].as_array();
    let status = all.and_then(|all| all.iter().find(|c| c["name"] == container));
    let id = status.and_then(|c| c["containerID"].as_str()?.split_once("://"));
    let Some((_, id)) = id.filter(|(_, id)| !id.is_empty()) else {
        return Vec::new();
    };
    let processes = std::fs::read_dir("/proc").expect("there is a /proc").flatten();
    let pids = processes.filter_map(|e| {
        let pid: i32 = e.file_name().to_str()?.parse().ok()?;
        let groups = std::fs::read_to_string(e.path().join("cgroup")).ok()?;
        let inside = groups.lines().any(|line| line.ends_with(id));
        inside.then(|| Pid::from_raw(pid)).flatten()
    });
    pids.filter(|pid| runs(*pid)).collect()
}

/// The processes whose environment says that their pod is called so: known sooner than the API server knows
/// of their container.
pub fn of_pod_called(pod: &str) -> Vec<Pid> {
    let reported = format!("POD_NAME={pod}");
    let processes = std::fs::read_dir("/proc").expect("there is a /proc").flatten();
    let pids = processes.filter_map(|e| {
        let pid: i32 = e.file_name().to_str()?.parse().ok()?;
        let environment = std::fs::read(e.path().join("environ")).ok()?;
        let inside = environment.split(|b| *b == 0).any(|v| v == reported.as_bytes());
        inside.then(|| Pid::from_raw(pid)).flatten()
    });
    pids.filter(|pid| runs(*pid)).collect()
}

/// Ends all of them at once by SIGKILL, of which they learn nothing, and waits until they are gone.
pub fn kill(pids: &[Pid]) {
    assert!(!pids.is_empty(), "there is nothing to kill");
    for pid in pids {
        match kill_process(*pid, Signal::KILL) {
            // Its parent was killed before it, and took it along.
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => panic!("{pid:?} cannot be killed: {error}"),
        }
    }
    let gone = until(GONE, || pids.iter().all(|pid| !runs(*pid)).then_some(()));
    assert!(gone.is_some(), "{pids:?} still run");
}

/// Whether it runs: one that ended and is not buried yet does not.
fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let state = stat
        .ok()
        .and_then(|s| s.rsplit_once(") ").map(|(_, rest)| rest.to_owned()));
    state.is_some_and(|s| !s.starts_with('Z') && !s.starts_with('X'))
}

/// Processes that stand still; they go on when this is dropped.
pub struct Held(Vec<Pid>);

impl Held {
    /// Holds all of them.
    pub fn all(pids: &[Pid]) -> Held {
        assert!(!pids.is_empty(), "there is nothing to hold");
        for pid in pids {
            quorate_testkit::pause(*pid);
        }
        Held(pids.to_vec())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for pid in &self.0 {
            let resumed = kill_process(*pid, Signal::CONT);
            if let Err(error) = resumed {
                eprintln!("{pid:?} does not go on: {error}");
                assert!(std::thread::panicking(), "{pid:?} does not go on: {error}");
            }
        }
    }
}
