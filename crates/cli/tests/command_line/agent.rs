//! `quorate backup run` as a process beside the test, told to end when it is done with.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quorate_testkit::await_end;
use serde_json::Value;

use crate::etcd::Etcd;
use crate::sandbox::Sandbox;

const LIMIT: Duration = Duration::from_secs(60);

/// An agent; killed when dropped.
pub struct Agent {
    child: Child,
    status: PathBuf,
    log: PathBuf,
}

impl Agent {
    /// Starts one for `etcd`.
    pub fn start(sandbox: &Sandbox, url: &str, etcd: &Etcd, more: &[&str]) -> Agent {
        let (status, log) = (sandbox.path("agent.json"), sandbox.path("agent.log"));
        let _ = std::fs::remove_file(&status);
        let child = sandbox
            .command(&["backup", "run", url, "--endpoints", &etcd.url, "--period", "1s"])
            .arg("--status-file")
            .arg(&status)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Agent { child, status, log }
    }

    /// What it says of itself.
    pub fn status(&self) -> Value {
        let text = std::fs::read_to_string(&self.status).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Until what it says of itself is so.
    pub fn until(&mut self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let status = self.status();
            if is(&status) {
                return status;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the agent ended, {ended:?}:\n{}", self.log());
            assert!(Instant::now() < until, "{what}: {status}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Until everything of the cluster is in the archive.
    pub fn catch_up(&mut self, etcd: &Etcd) -> i64 {
        let revision = revision(etcd);
        self.until("it catches up", |status| {
            status["archived"].as_i64() >= Some(revision) && !status["full"].is_null()
        });
        revision
    }

    /// Ends it as an operator would.
    pub fn stop(mut self) {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
        let status = await_end("the end of the agent", LIMIT, &mut self.child);
        assert!(status.success(), "{status}:\n{}", self.log());
        assert_eq!(self.status()["state"], "stopped");
    }

    /// Ends it as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn revision(etcd: &Etcd) -> i64 {
    let answer: Value = serde_json::from_str(&etcd.ctl(&["get", "nothing", "-w", "json"])).unwrap();
    answer["header"]["revision"].as_i64().unwrap()
}
