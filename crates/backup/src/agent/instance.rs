//! One run of an agent, told apart from any other, so that one that is started anew takes over at once only where the one
//! before it provably has ended.
//!
//! In: /proc. Out: an [`Instance`] for the heartbeat, and whether another on this machine has ended. Never: an end that is
//! only guessed: a process of another machine, boot or PID namespace cannot be seen from here.

use std::hash::{BuildHasher as _, Hasher as _};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Instance {
    pub pid: u32,
    /// When the process started, in clock ticks since boot.
    pub start_time: u64,
    pub boot_id: String,
    pub pid_namespace: String,
    /// Random: one process may run several agents, one after another.
    pub run: u64,
}

impl Instance {
    /// A new one, of this process.
    pub fn begin() -> Instance {
        let pid = std::process::id();
        let run = std::hash::RandomState::new().build_hasher().finish();
        let link = |path: &str| std::fs::read_link(path).unwrap_or_default();
        Instance {
            pid,
            start_time: start_time(pid).unwrap_or_default(),
            boot_id: boot_id(),
            pid_namespace: link("/proc/self/ns/pid").display().to_string(),
            run,
        }
    }

    /// Has the process of `other` provably ended, as seen from this one?
    pub fn sees_end_of(&self, other: &Instance) -> bool {
        let of_here = |one: &Instance| (one.boot_id.clone(), one.pid_namespace.clone());
        let known = !other.boot_id.is_empty() && !other.pid_namespace.is_empty() && other.start_time > 0;
        let visible = self.start_time > 0 && start_time(self.pid) == Some(self.start_time);
        known && visible && of_here(self) == of_here(other) && start_time(other.pid) != Some(other.start_time)
    }
}

fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// When a process that runs started; `None` if there is none, or it has ended and waits to be reaped.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(22 - 4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_seen_only_of_a_process_of_this_machine() {
        let me = Instance::begin();
        assert_ne!(me, Instance::begin(), "another run");
        assert!(!me.sees_end_of(&me));
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let other = Instance {
            pid: child.id(),
            start_time: start_time(child.id()).unwrap(),
            ..me.clone()
        };
        assert!(!me.sees_end_of(&other));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(me.sees_end_of(&other));
        let elsewhere = Instance {
            boot_id: "of another boot or machine".to_owned(),
            ..other.clone()
        };
        assert!(!me.sees_end_of(&elsewhere));
        let in_container = Instance {
            pid_namespace: "pid:[1]".to_owned(),
            ..other
        };
        assert!(!me.sees_end_of(&in_container));
        assert!(!me.sees_end_of(&Instance::default()));
    }
}
