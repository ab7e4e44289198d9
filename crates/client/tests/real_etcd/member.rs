//! Members under test: starting, stopping, and awaiting what they should come to.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use quorate_client::{Endpoint, Error, Target, Timeouts, Tls};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::versions::Etcd;

const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// One etcd process, killed when dropped.
pub struct Member {
    pub name: String,
    pub url: String,
    pub peer_url: String,
    command: Command,
    child: Option<Child>,
    dir: TempDir,
}

/// How a member starts.
pub struct Plan {
    etcd: Etcd,
    scheme: &'static str,
    flags: Vec<String>,
}

impl Plan {
    pub fn new(etcd: &Etcd) -> Plan {
        Plan {
            etcd: etcd.clone(),
            scheme: "http",
            flags: vec!["--bcrypt-cost=4".into()],
        }
    }

    pub fn secure(mut self) -> Plan {
        self.scheme = "https";
        self
    }

    pub fn flags(mut self, flags: impl IntoIterator<Item = String>) -> Plan {
        self.flags.extend(flags);
        self
    }

    /// A member with addresses but not yet started.
    pub fn member(&self, name: &str) -> Member {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("{}://127.0.0.1:{}", self.scheme, free_port());
        let peer_url = format!("http://127.0.0.1:{}", free_port());
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let mut command = Command::new(&self.etcd.binary);
        command
            .arg(format!("--name={name}"))
            .arg(format!("--data-dir={}", dir.path().join("data").display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls={peer_url}"))
            .arg(format!("--initial-advertise-peer-urls={peer_url}"))
            .args(["--heartbeat-interval=50", "--election-timeout=500"])
            .args(&self.flags)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Member {
            name: name.into(),
            url,
            peer_url,
            command,
            child: None,
            dir,
        }
    }

    /// A started cluster in which every member knows a leader.
    pub async fn cluster(&self, size: usize) -> Vec<Member> {
        let mut members = (0..size)
            .map(|index| self.member(&format!("m{index}")))
            .collect::<Vec<_>>();
        let initial = initial_cluster(&members);
        for member in &mut members {
            member
                .command
                .arg(format!("--initial-cluster={initial}"))
                .arg("--initial-cluster-state=new");
            member.start();
        }
        members
    }

    /// A started single member that serves quorum reads.
    pub async fn single(&self) -> Member {
        let member = self.cluster(1).await.remove(0);
        if self.scheme == "http" {
            member.await_quorum().await;
        }
        member
    }
}

impl Member {
    pub fn start(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        self.child = Some(self.command.spawn().unwrap());
    }

    /// Starts a member that others have added.
    pub fn join(&mut self, others: &[Member]) {
        let initial = format!("{},{}={}", initial_cluster(others), self.name, self.peer_url);
        self.command
            .arg(format!("--initial-cluster={initial}"))
            .arg("--initial-cluster-state=existing");
        self.start();
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id();
        assert!(
            Command::new("kill")
                .args([signal, &pid.to_string()])
                .status()
                .unwrap()
                .success()
        );
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::connect_lazy(&self.url, None, Timeouts::default()).unwrap()
    }

    pub fn secure_endpoint(&self, tls: &Tls) -> Endpoint {
        Endpoint::connect_lazy(&self.url, Some(tls), Timeouts::default()).unwrap()
    }

    pub fn target(&self) -> Target {
        Target {
            label: self.name.clone(),
            endpoint: self.endpoint(),
        }
    }

    pub async fn await_quorum(&self) {
        let endpoint = self.endpoint();
        let read = eventually(|| endpoint.linearizable_read()).await;
        read.unwrap_or_else(|error| {
            panic!("{} serves no reads: {}\n{}", self.name, error.chain(), self.log())
        });
    }

    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines = text.lines().collect::<Vec<_>>();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Repeats until it succeeds, or gives up with the last error.
pub async fn eventually<T, Fut>(attempt: impl FnMut() -> Fut) -> Result<T, Error>
where
    Fut: Future<Output = Result<T, Error>>,
{
    eventually_or(|_| false, attempt).await
}

/// Repeats until it succeeds or fails finally, or gives up with the last error.
pub async fn eventually_or<T, Fut>(
    is_final: impl Fn(&Error) -> bool,
    mut attempt: impl FnMut() -> Fut,
) -> Result<T, Error>
where
    Fut: Future<Output = Result<T, Error>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Err(error) if !is_final(&error) && Instant::now() < deadline => tokio::time::sleep(PAUSE).await,
            result => return result,
        }
    }
}

fn initial_cluster(members: &[Member]) -> String {
    members
        .iter()
        .map(|member| format!("{}={}", member.name, member.peer_url))
        .collect::<Vec<_>>()
        .join(",")
}

/// A loopback port that nothing listens on, given once per process, outside the range that the kernel hands
/// out by itself.
pub fn free_port() -> u16 {
    const FIRST: u16 = 21_000;
    const COUNT: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 500) as u16 * 20;
    for _ in 0..COUNT {
        let port = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port from {FIRST} on");
}
