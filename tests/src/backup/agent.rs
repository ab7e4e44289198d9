//! `quorate backup …` as processes: the agent, killed at any moment, and the commands.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cluster::binary;

/// How long an agent may take to flush and end.
const STOP: Duration = Duration::from_secs(60);

pub struct Agent {
    child: Option<Child>,
    log: PathBuf,
    /// Where its own lines begin.
    begins: usize,
}

impl Agent {
    /// Starts one; its log goes to `log`, behind what is there.
    pub fn start(url: &str, endpoints: &str, more: &[&str], log: &Path) -> Agent {
        let file = File::options()
            .append(true)
            .create(true)
            .open(log)
            .expect("a log");
        let begins = std::fs::read(log).map_or(0, |before| before.len());
        let child = Command::new(binary())
            .args(["backup", "run", url, "--endpoints", endpoints])
            .args(more)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a log"))
            .stderr(file)
            .spawn()
            .expect("quorate can be started");
        Agent {
            child: Some(child),
            log: log.to_owned(),
            begins,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether it has opened the archive. Before that, what a store refuses for good ends it.
    pub fn has_begun(&self) -> bool {
        let said = self.said();
        said.get(self.begins..)
            .is_some_and(|own| own.contains("writing the archive"))
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        let ended = self
            .child
            .as_mut()
            .map(|child| child.try_wait().expect("a child can be waited for"));
        !matches!(ended, Some(None))
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) {
        self.end();
    }

    /// Asks it to end, and waits.
    pub fn stop(mut self) {
        let mut child = self.child.take().expect("it runs");
        kill_process(Pid::from_child(&child), Signal::TERM).expect("a child can be told to stop");
        let deadline = Instant::now() + STOP;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                assert!(
                    status.success(),
                    "the agent ended with {status}:\n{}",
                    self.said()
                );
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        panic!("the agent did not stop in {STOP:?}:\n{}", self.said());
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end();
    }
}

/// `quorate backup …`, to its end.
pub fn backup(args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("backup").args(args).stdin(Stdio::null());
    command.output().expect("quorate can be run")
}

/// `quorate backup …`, which must succeed; what it printed.
pub fn must(args: &[&str]) -> String {
    let output = backup(args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "quorate backup {args:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// `quorate backup … -o json`, which must succeed.
pub fn json(args: &[&str]) -> Value {
    let args = [args, &["-o", "json"]].concat();
    let printed = must(&args);
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{args:?}: {error}: {printed}"))
}
