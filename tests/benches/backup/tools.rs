//! The two tools, as they are asked.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quorate_testkit::{EtcdbrArchive, EtcdbrWriter, Server};
use quorate_tests::cluster::binary as quorate;
use rustix::process::{Pid, Signal, kill_process};

/// How long an agent may take to write down what it saw, or to end.
const PATIENCE: Duration = Duration::from_secs(300);

pub fn fresh(path: &Path) -> PathBuf {
    let _ = std::fs::remove_dir_all(path);
    std::fs::create_dir_all(path).expect("a directory");
    path.to_owned()
}

/// A copy of a directory, in place of what is there.
pub fn copied(from: &Path, to: &Path) -> PathBuf {
    let _ = std::fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-r").arg(from).arg(to).status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "a directory can be copied"
    );
    to.to_owned()
}

/// etcdbrctl and an archive of its own.
pub struct Theirs {
    home: PathBuf,
    archive: EtcdbrArchive,
}

impl Theirs {
    pub fn below(home: &Path) -> Theirs {
        Theirs {
            home: home.to_owned(),
            archive: EtcdbrArchive::below(home),
        }
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn root(&self) -> PathBuf {
        self.archive.root()
    }

    pub fn write(&self, server: &Server) -> EtcdbrWriter {
        self.archive.write(server, &["--delta-snapshot-period=20s"])
    }

    pub fn restore(&self, to: &Path) -> Command {
        let mut command = self.archive.command("restore");
        command.arg(format!("--data-dir={}", to.display())).arg(format!(
            "--restoration-temp-snapshots-dir={}",
            self.home.join("restoring").display()
        ));
        command
    }

    pub fn compact(&self) -> Command {
        let mut command = self.archive.command("compact");
        command
            .arg(format!(
                "--data-dir={}",
                self.home.join("compacted.etcd").display()
            ))
            .arg(format!(
                "--restoration-temp-snapshots-dir={}",
                self.home.join("compacting").display()
            ));
        command
    }
}

/// quorate and an archive: its own, or one that it only reads.
pub struct Ours {
    root: PathBuf,
}

impl Ours {
    pub fn at(root: &Path) -> Ours {
        Ours {
            root: root.to_owned(),
        }
    }

    pub fn root(&self) -> PathBuf {
        self.root.clone()
    }

    fn command(&self, command: &str) -> Command {
        let mut asked = Command::new(quorate());
        asked
            .args(["backup", command])
            .arg(format!("file://{}", self.root.display()));
        asked
    }

    pub fn now(&self, server: &Server) -> Command {
        let mut command = self.command("now");
        command.arg(format!("--endpoints={}", server.addresses().client));
        command
    }

    pub fn restore(&self, to: &Path) -> Command {
        let mut command = self.command("restore");
        command.arg("--data-dir").arg(to);
        command
    }

    pub fn compact(&self, scratch: &Path) -> Command {
        let mut command = self.command("compact");
        command.arg("--scratch").arg(scratch);
        command
    }

    pub fn verify(&self, scratch: &Path) -> Command {
        let mut command = self.command("verify");
        command.arg("--no-record").arg("--scratch").arg(scratch);
        command
    }

    /// The highest revision that can be reached.
    fn reaches(&self) -> i64 {
        let output = self
            .command("list")
            .args(["-o", "json"])
            .output()
            .expect("quorate can be run");
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let timelines = shown["timelines"].as_array().cloned().unwrap_or_default();
        let spans = timelines
            .iter()
            .filter_map(|timeline| timeline["reachable"].as_array());
        spans
            .flatten()
            .filter_map(|span| span["to"].as_i64())
            .max()
            .unwrap_or(0)
    }
}

/// `quorate backup run`; killed when dropped.
pub struct Agent {
    ours: Ours,
    child: Child,
}

impl Agent {
    pub fn start(ours: &Ours, server: &Server) -> Agent {
        Agent::start_with(ours, server, &[])
    }

    pub fn start_with(ours: &Ours, server: &Server, flags: &[String]) -> Agent {
        let child = ours
            .command("run")
            .arg(format!("--endpoints={}", server.addresses().client))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Agent {
            ours: Ours::at(&ours.root),
            child: child.expect("an agent"),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has written this revision down, and ends it.
    pub fn stop_at(mut self, revision: i64) {
        let deadline = Instant::now() + PATIENCE;
        while self.ours.reaches() < revision {
            let ended = self.child.try_wait().expect("a child can be waited for");
            assert!(ended.is_none(), "the agent ended: {ended:?}");
            assert!(
                Instant::now() < deadline,
                "the agent has not written revision {revision}"
            );
            std::thread::sleep(Duration::from_millis(500));
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("a child can be told to stop");
        while self
            .child
            .try_wait()
            .expect("a child can be waited for")
            .is_none()
        {
            assert!(Instant::now() < deadline, "the agent does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
