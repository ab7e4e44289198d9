//! One running etcd.
//!
//! In: a version, a data directory, addresses. Out: a member that serves; stopped in order, killed, or killed when
//! dropped. Its log lies beside its data directory and is told when something goes wrong.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use quorate_wire::etcdserverpb::{RangeRequest, RangeResponse};
use rustix::process::{Pid, Signal, kill_process};

use crate::addresses::Addresses;
use crate::cached::binary;
use crate::client::{Client, User};

/// How long a member may take to serve, or to stop.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often other ports are tried when some other process was quicker.
const TRIES: usize = 5;

/// How a member is started.
#[derive(Debug, Clone)]
pub struct Start {
    /// A cached version.
    pub version: String,
    /// Its data directory; the log goes beside it, as `NAME.log`.
    pub data_dir: PathBuf,
    /// Its name.
    pub name: String,
    /// Where it listens; free ones if none are given.
    pub addresses: Option<Addresses>,
    /// All members at the first start, as `--initial-cluster` takes it; itself alone if none are given.
    pub initial_cluster: Option<String>,
    /// Further flags.
    pub flags: Vec<String>,
}

impl Start {
    /// A member `m0` alone.
    pub fn new(version: &str, data_dir: &Path) -> Start {
        Start {
            version: version.to_owned(),
            data_dir: data_dir.to_owned(),
            name: "m0".to_owned(),
            addresses: None,
            initial_cluster: None,
            flags: Vec::new(),
        }
    }

    /// With one more flag.
    pub fn flag(mut self, flag: &str) -> Start {
        self.flags.push(flag.to_owned());
        self
    }

    fn log(&self) -> PathBuf {
        self.data_dir.with_file_name(format!("{}.log", self.name))
    }

    /// Starts it, and does not wait.
    pub fn spawn(&self) -> Server {
        let addresses = self.addresses.clone().unwrap_or_else(Addresses::free);
        let Addresses { client, peer } = &addresses;
        let log = File::create(self.log()).expect("a log");
        let alone = format!("{}={peer}", self.name);
        let child = Command::new(binary(&self.version, "etcd"))
            .env_clear()
            .arg(format!("--name={}", self.name))
            .arg(format!("--data-dir={}", self.data_dir.display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!(
                "--initial-cluster={}",
                self.initial_cluster.as_ref().unwrap_or(&alone)
            ))
            .args(["--initial-cluster-state=new", "--logger=zap", "--bcrypt-cost=4"])
            .args(["--heartbeat-interval=50", "--election-timeout=500"])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd can be started");
        Server {
            start: self.clone(),
            addresses,
            child: Some(child),
        }
    }

    /// Starts it and waits until it serves. Where the ports were its own choice it tries others if those are taken.
    pub fn serve(&self) -> Server {
        for _ in 0..TRIES {
            let mut server = self.spawn();
            match server.await_serving() {
                Ok(()) => return server,
                Err(log) if self.addresses.is_none() && log.contains("address already in use") => {}
                Err(log) => panic!("etcd {} does not serve:\n{log}", self.version),
            }
        }
        panic!("etcd {} found its ports taken {TRIES} times", self.version);
    }
}

/// A running etcd.
#[derive(Debug)]
pub struct Server {
    start: Start,
    addresses: Addresses,
    child: Option<Child>,
}

impl Server {
    /// Where it listens.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.start.version
    }

    /// Its data directory.
    pub fn data_dir(&self) -> &Path {
        &self.start.data_dir
    }

    /// A client for it.
    pub fn client(&self) -> Client {
        Client::new(&self.addresses.client)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.start.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Waits until it answers a read that needs a quorum. With authentication on, being refused is an answer too.
    /// Otherwise its log.
    pub fn await_serving(&mut self) -> Result<(), String> {
        let client = self.client();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = RangeRequest {
                key: b"served?".to_vec(),
                limit: 1,
                ..RangeRequest::default()
            };
            let problem = match client.try_call::<_, RangeResponse>("KV/Range", request) {
                Ok(_) => return Ok(()),
                Err(status) if status.message().contains("user name is empty") => return Ok(()),
                Err(status) => status,
            };
            let child = self.child.as_mut().expect("it runs");
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                return Err(format!("{status}\n{}", self.log()));
            }
            if Instant::now() > deadline {
                return Err(format!("not in {PATIENCE:?}: {problem}\n{}", self.log()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Stops it in order and waits for the end.
    pub fn stop(mut self) {
        let mut child = self.child.take().expect("it runs");
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::TERM).expect("a child can be told to stop");
        if wait(&mut child).is_none() {
            let _ = child.kill();
            let _ = child.wait();
            panic!("etcd did not stop in {PATIENCE:?}:\n{}", self.log());
        }
    }

    /// Ends it at once, as a crash does.
    pub fn kill(mut self) {
        self.end();
    }

    /// `etcdctl` of the same version on it; what it printed. Must succeed.
    pub fn etcdctl(&self, user: Option<&User>, args: &[&str]) -> String {
        let mut command = Command::new(binary(self.version(), "etcdctl"));
        command
            .env_clear()
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", self.addresses.client))
            .args(["--command-timeout=60s", "--dial-timeout=10s"]);
        if let Some(User { name, password }) = user {
            command.arg(format!("--user={name}:{password}"));
        }
        let output = command
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("etcdctl can be run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "etcdctl {args:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    None
}
