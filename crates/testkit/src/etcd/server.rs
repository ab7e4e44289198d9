//! One running etcd.
//!
//! In: a version, a data directory, addresses. Out: a member that serves; stopped in order, killed, or killed when
//! dropped. Its log lies beside its data directory and is part of every failure.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use quorate_wire::etcdserverpb::{RangeRequest, RangeResponse};
use rustix::process::{Pid, Signal, kill_process};

use super::client::{Client, User};
use crate::log_tail::{WithLog, log_tail};
use crate::ports::Addresses;
use crate::versions::binary;
use crate::{await_that, pause, plain_http};

/// How long a member may take to serve, or to stop.
const PATIENCE: Duration = Duration::from_secs(90);

/// How a member is started.
#[derive(Debug, Clone)]
pub struct Start {
    pub version: String,
    /// Its data directory; the log goes beside it, as `NAME.log`.
    pub data_dir: PathBuf,
    pub name: String,
    /// Where it listens; on leased ports if nothing is given.
    pub addresses: Option<Addresses>,
    /// All members at the first start, as `--initial-cluster` takes it; itself alone if none are given.
    pub initial_cluster: Option<String>,
    pub flags: Vec<String>,
    /// What runs it, such as `ip netns exec NAME`; nothing if it runs as it is.
    pub inside: Vec<String>,
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
            inside: Vec::new(),
        }
    }

    /// The members of one new cluster, `m0` and so on, each with a directory of its own below `dir`.
    pub fn cluster(version: &str, dir: &Path, size: usize) -> Vec<Start> {
        let addresses: Vec<Addresses> = (0..size).map(|_| Addresses::free()).collect();
        let all = (0..)
            .zip(&addresses)
            .map(|(number, at)| format!("m{number}={}", at.peer));
        let all = all.collect::<Vec<_>>().join(",");
        let member = |(number, addresses): (usize, Addresses)| {
            let dir = dir.join(format!("m{number}"));
            Start {
                name: format!("m{number}"),
                addresses: Some(addresses),
                initial_cluster: Some(all.clone()),
                ..Start::new(version, &dir.join("data"))
            }
        };
        addresses.into_iter().enumerate().map(member).collect()
    }

    /// With one more flag. Of two that are the same etcd takes the last.
    pub fn flag(mut self, flag: &str) -> Start {
        self.flags.push(flag.to_owned());
        self
    }

    /// The same member on another data directory.
    pub fn on(&self, data_dir: &Path) -> Start {
        Start {
            data_dir: data_dir.to_owned(),
            ..self.clone()
        }
    }

    fn log(&self) -> PathBuf {
        self.data_dir.with_file_name(format!("{}.log", self.name))
    }

    fn command(&self) -> Command {
        let addresses = self
            .addresses
            .as_ref()
            .expect("addresses are chosen before the start");
        let Addresses { client, peer } = addresses;
        let alone = format!("{}={peer}", self.name);
        let cluster = self.initial_cluster.as_ref().unwrap_or(&alone);
        let program = binary(&self.version, "etcd").into_os_string();
        let mut words = self.inside.iter().map(Into::into).chain([program]);
        let mut command = Command::new(words.next().expect("a program"));
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .args(words)
            .arg(format!("--name={}", self.name))
            .arg(format!("--data-dir={}", self.data_dir.display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={cluster}"))
            .args(["--initial-cluster-state=new", "--logger=zap", "--bcrypt-cost=4"])
            .args(raft_timers(cluster))
            .args(&self.flags);
        command
    }

    /// Starts it, and does not wait.
    pub fn spawn(&self) -> Server {
        let mut start = self.clone();
        start.addresses.get_or_insert_with(Addresses::free);
        let directory = start.data_dir.parent().expect("a data directory has a parent");
        std::fs::create_dir_all(directory).expect("a directory for a member");
        let log = File::create(start.log()).expect("a log");
        let child = start
            .command()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd can be started");
        Server {
            start,
            child: Some(child),
        }
    }

    /// Starts it and waits until it serves.
    pub fn serve(&self) -> Server {
        let mut server = self.spawn();
        server.await_serving();
        server
    }
}

/// A member alone elects itself as soon as its time has come, and nobody takes that from it. Where others vote, a leader
/// stands only as long as a busy machine delivers its heartbeats in time.
fn raft_timers(initial_cluster: &str) -> [&'static str; 2] {
    match initial_cluster.contains(',') {
        true => ["--heartbeat-interval=100", "--election-timeout=1000"],
        false => ["--heartbeat-interval=50", "--election-timeout=500"],
    }
}

#[derive(Debug)]
pub struct Server {
    start: Start,
    child: Option<Child>,
}

impl Server {
    /// How it was started, with the addresses it got: for another start of the same member.
    pub fn settings(&self) -> &Start {
        &self.start
    }

    pub fn addresses(&self) -> &Addresses {
        self.start.addresses.as_ref().expect("it was started with them")
    }

    /// The etcd version it runs.
    pub fn version(&self) -> &str {
        &self.start.version
    }

    /// The directory that holds `member`.
    pub fn data_dir(&self) -> &Path {
        &self.start.data_dir
    }

    /// A new connection to it.
    pub fn client(&self) -> Client {
        Client::new(&self.addresses().client)
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// The last lines of its log.
    pub fn log(&self) -> String {
        log_tail(&self.start.log())
    }

    /// All that it logged since this start.
    pub fn whole_log(&self) -> String {
        std::fs::read_to_string(self.start.log()).unwrap_or_default()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut().expect("it was not stopped");
        child.try_wait().expect("a child can be waited for")
    }

    /// Waits until it has ended.
    pub fn await_end(&mut self) -> ExitStatus {
        let (what, log) = (format!("etcd {} has ended", self.start.version), self.start.log());
        await_that(&what, PATIENCE, || {
            self.ended().ok_or_else(|| WithLog {
                seen: "it runs",
                log: log.clone(),
            })
        })
    }

    /// Waits until it answers a read that needs a quorum. With authentication on, a refusal is an answer too: etcd
    /// checks the user after it has the read's index.
    pub fn await_serving(&mut self) {
        let (client, log) = (self.client(), self.start.log());
        let what = format!("etcd {} serves", self.start.version);
        await_that(&what, PATIENCE, || {
            let request = RangeRequest {
                key: b"served?".to_vec(),
                limit: 1,
                ..RangeRequest::default()
            };
            let seen = match client.try_call::<_, RangeResponse>("KV/Range", request) {
                Ok(_) => return Ok(()),
                Err(status) if status.message().contains("user name is empty") => return Ok(()),
                Err(status) => status,
            };
            if let Some(status) = self.ended() {
                panic!("etcd ended before it served: {status}\n{}", self.log());
            }
            Err(WithLog {
                seen,
                log: log.clone(),
            })
        });
    }

    /// The answer, head and body, to a plain GET on the client address, such as `/health`; an error while nothing
    /// listens there.
    pub fn get(&self, path: &str) -> std::io::Result<String> {
        let address = self.addresses().client.trim_start_matches("http://").to_owned();
        let address: SocketAddr = address.parse().expect("an address");
        plain_http::request(address, "GET", path, "")
    }

    /// Stops its process where it is: it neither answers nor ends.
    pub fn pause(&self) {
        pause(Pid::from_child(self.child.as_ref().expect("it was not stopped")));
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().expect("it was not stopped"));
        kill_process(pid, signal).expect("a child can be signalled");
    }

    /// Stops it in order and waits for the end. Newer versions wait for connected clients first: drop those before.
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        self.await_end();
    }

    /// Ends it at once, as a crash does.
    pub fn kill(mut self) {
        self.end();
    }

    /// `etcdctl` of the same version on it, as a command.
    pub fn etcdctl_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary(self.version(), "etcdctl"));
        command
            .env_clear()
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", self.addresses().client))
            .args(["--command-timeout=60s", "--dial-timeout=10s"])
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// What `etcdctl` printed, which must succeed.
    pub fn etcdctl(&self, user: Option<&User>, args: &[&str]) -> String {
        let mut command = self.etcdctl_command(args);
        if let Some(User { name, password }) = user {
            command.arg(format!("--user={name}:{password}"));
        }
        let output = command.output().expect("etcdctl can be run");
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
