//! Members under test: starting, stopping, and awaiting what they should come to.

use std::time::Duration;

use quorate_client::{Endpoint, Error, Target, Timeouts, Tls};
use quorate_testkit::{Addresses, Server, Start};
use tempfile::TempDir;
use tokio::time::Instant;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// For calls that must succeed: no deadline that a busy machine could miss.
pub const PATIENT: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    request: Duration::from_secs(30),
    stream_idle: Duration::from_secs(30),
};
const PAUSE: Duration = Duration::from_millis(20);

/// One etcd process, killed when dropped.
pub struct Member {
    pub name: String,
    pub url: String,
    pub peer_url: String,
    start: Start,
    server: Option<Server>,
    _dir: TempDir,
}

/// How a member starts.
pub struct Plan {
    version: String,
    tls: bool,
    flags: Vec<String>,
}

impl Plan {
    pub fn new(version: &str) -> Plan {
        Plan {
            version: version.to_owned(),
            tls: false,
            flags: Vec::new(),
        }
    }

    pub fn secure(mut self) -> Plan {
        self.tls = true;
        self
    }

    pub fn flags(mut self, flags: impl IntoIterator<Item = String>) -> Plan {
        self.flags.extend(flags);
        self
    }

    /// A member with addresses but not yet started.
    pub fn member(&self, name: &str) -> Member {
        let dir = tempfile::tempdir().unwrap();
        let addresses = match self.tls {
            true => Addresses::free().with_client_tls(),
            false => Addresses::free(),
        };
        Member {
            name: name.into(),
            url: addresses.client.clone(),
            peer_url: addresses.peer.clone(),
            start: Start {
                name: name.into(),
                addresses: Some(addresses),
                flags: self.flags.clone(),
                ..Start::new(&self.version, &dir.path().join("data"))
            },
            server: None,
            _dir: dir,
        }
    }

    /// The started members of a cluster.
    pub async fn cluster(&self, size: usize) -> Vec<Member> {
        let mut members = (0..size)
            .map(|index| self.member(&format!("m{index}")))
            .collect::<Vec<_>>();
        let initial = initial_cluster(&members);
        for member in &mut members {
            member.start.initial_cluster = Some(initial.clone());
            member.start();
        }
        members
    }

    /// A started single member that serves quorum reads.
    pub async fn single(&self) -> Member {
        let member = self.cluster(1).await.remove(0);
        if !self.tls {
            member.await_quorum().await;
        }
        member
    }
}

impl Member {
    pub fn start(&mut self) {
        assert!(self.server.is_none(), "{} runs already", self.name);
        self.server = Some(self.start.spawn());
    }

    /// Starts a member that others have added.
    pub fn join(&mut self, others: &[Member]) {
        let initial = format!("{},{}={}", initial_cluster(others), self.name, self.peer_url);
        self.start.initial_cluster = Some(initial);
        self.start.flags.push("--initial-cluster-state=existing".into());
        self.start();
    }

    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// The process, which runs.
    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::connect_lazy(&self.url, None, PATIENT).unwrap()
    }

    pub fn secure_endpoint(&self, tls: &Tls) -> Endpoint {
        Endpoint::connect_lazy(&self.url, Some(tls), PATIENT).unwrap()
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
        self.server().log()
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
