//! The etcd processes of one cluster: starting, ending and looking at them.
//!
//! In: a network, a version, flags. Out: processes, one a place at most, each in its place's namespace, and what they
//! say of themselves: status over the client port, connections over the metrics port (which answers even while etcd
//! waits for a quorum before it serves clients). Never: a process that outlives this value; all are ended by their
//! handle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use quorate_client::{Endpoint, Status, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::net::{Net, peer_address};
use super::script::{PLACES, Place};
use crate::etcd::{self, Addresses, Server, Start};

/// etcd's default is 1000 ms. On a busy machine a follower that is not scheduled for so long calls an election, which
/// no script asked for. The model has no such number: a step is compared once its elections are over. Much more is not
/// to be had: see [`REQUEST`].
const ELECTION_TIMEOUT_MS: u64 = 1_500;
/// etcd gives a request 5 s and two election timeouts; this is longer, so that its own word is heard first. It is shorter
/// than the client's pings take to give up a connection: a member that waits for a quorum does not answer them.
const REQUEST: Duration = Duration::from_millis(5_000 + 2 * ELECTION_TIMEOUT_MS + 1_000);
/// Where nothing listens a connection is refused at once; a member that is not scheduled takes longer.
const CONNECT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(1);

/// Whether a peer is connected, and how often it was lost before: one connection is one such pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    pub active: bool,
    /// How often it was lost.
    pub lost: u64,
}

/// What a running member says of itself.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// Its answer to a client, if it serves any.
    pub status: Option<Status>,
    /// Its connections, by the peer's id; `None` if it does not answer at all yet.
    pub connections: Option<BTreeMap<u64, Connection>>,
    /// How often it found a leader, be it the one it had before.
    pub leaders_found: u64,
}

struct Process {
    server: Server,
    endpoint: Endpoint,
}

/// The processes of a cluster.
pub struct Members {
    processes: BTreeMap<Place, Process>,
    net: Net,
    dir: tempfile::TempDir,
    version: String,
    generations: BTreeMap<Place, u32>,
    /// What the processes that have ended logged.
    logs: BTreeMap<Place, String>,
}

/// The URL under which peers reach a place.
pub fn peer_url(place: Place) -> String {
    format!("http://{}:2380", peer_address(place))
}

/// The place behind a member's peer URLs.
pub fn place_of(urls: &[String]) -> Option<Place> {
    (1..=PLACES).find(|p| urls.contains(&peer_url(*p)))
}

impl Members {
    /// A network and no process.
    pub fn new(version: &str) -> anyhow::Result<Members> {
        Ok(Members {
            processes: BTreeMap::new(),
            net: Net::new(PLACES)?,
            dir: tempfile::Builder::new()
                .prefix("quorate-conformance-")
                .tempdir()?,
            version: version.to_owned(),
            generations: BTreeMap::new(),
            logs: BTreeMap::new(),
        })
    }

    fn data(&self, place: Place) -> PathBuf {
        self.dir.path().join(format!(
            "{place}-{}",
            self.generations.get(&place).copied().unwrap_or(0)
        ))
    }

    /// The end of the log of what runs in a place.
    pub fn log_tail(&self, place: Place) -> String {
        self.processes
            .get(&place)
            .map(|p| p.server.log())
            .unwrap_or_default()
    }

    /// Keeps the logs, that of each process of a place, for whoever looks into a difference.
    pub fn keep_logs(mut self, to: &Path) -> anyhow::Result<()> {
        for (place, process) in std::mem::take(&mut self.processes) {
            self.end(place, process);
        }
        std::fs::create_dir_all(to)?;
        for (place, log) in &self.logs {
            std::fs::write(to.join(format!("{place}.log")), log)?;
        }
        Ok(())
    }

    /// Ends a process, and keeps what it logged.
    fn end(&mut self, place: Place, process: Process) {
        let log = process.server.whole_log();
        process.server.kill();
        self.logs.entry(place).or_default().push_str(&log);
    }

    /// Has this place data?
    pub fn has_data(&self, place: Place) -> bool {
        self.data(place).join("member").exists()
    }

    /// Deletes a place's data; what runs there must have ended.
    pub fn wipe(&mut self, place: Place) -> anyhow::Result<()> {
        anyhow::ensure!(!self.processes.contains_key(&place), "a process runs at {place}");
        if self.has_data(place) {
            std::fs::remove_dir_all(self.data(place)).context("delete a member's data")?;
        }
        *self.generations.entry(place).or_default() += 1;
        Ok(())
    }

    /// Starts etcd at a place. The flags about the cluster only matter where there is no data.
    pub fn start(&mut self, place: Place, state: &str, initial: &[Place]) -> anyhow::Result<()> {
        anyhow::ensure!(!self.processes.contains_key(&place), "a process runs at {place}");
        let url = |port| format!("http://{}:{port}", self.net.client_address(place));
        let all = initial.iter().map(|p| format!("m{p}={}", peer_url(*p)));
        let mut start = Start {
            name: format!("m{place}"),
            addresses: Some(Addresses {
                client: url(2379),
                peer: peer_url(place),
            }),
            initial_cluster: Some(all.collect::<Vec<_>>().join(",")),
            inside: self.net.inside(place),
            ..Start::new(&self.version, &self.data(place))
        }
        .flag(&format!("--listen-metrics-urls={}", url(2378)))
        .flag(&format!("--initial-cluster-state={state}"))
        .flag(&format!("--initial-cluster-token={}", self.net.name()))
        .flag("--heartbeat-interval=100")
        .flag(&format!("--election-timeout={ELECTION_TIMEOUT_MS}"));
        if etcd::minor(&self.version) >= 5 {
            // A kill loses nothing that was written, synced or not; only the machine's end would.
            start = start.flag("--unsafe-no-fsync");
        }
        let client = url(2379);
        let timeouts = Timeouts {
            connect: CONNECT,
            request: REQUEST,
            ..Timeouts::default()
        };
        let process = Process {
            server: start.spawn(),
            endpoint: Endpoint::connect_lazy(&client, None, timeouts)?,
        };
        self.processes.insert(place, process);
        Ok(())
    }

    /// Ends a process without a word; false if none runs.
    pub fn kill(&mut self, place: Place) -> bool {
        let Some(process) = self.processes.remove(&place) else {
            return false;
        };
        self.end(place, process);
        true
    }

    /// Where processes run; those that ended by themselves are taken off.
    pub fn running(&mut self) -> Vec<Place> {
        let ended = self
            .processes
            .extract_if(.., |_, process| process.server.ended().is_some());
        for (place, process) in ended.collect::<Vec<_>>() {
            self.end(place, process);
        }
        self.processes.keys().copied().collect()
    }

    /// A client to a place, whether a process runs there or not.
    pub fn endpoint(&self, place: Place) -> anyhow::Result<Endpoint> {
        if let Some(process) = self.processes.get(&place) {
            return Ok(process.endpoint.clone());
        }
        let url = format!("http://{}:2379", self.net.client_address(place));
        let timeouts = Timeouts {
            connect: CONNECT,
            request: REQUEST,
            ..Timeouts::default()
        };
        Ok(Endpoint::connect_lazy(&url, None, timeouts)?)
    }

    /// Connects a place to its peers, or not.
    pub fn link(&self, place: Place, up: bool) -> anyhow::Result<()> {
        self.net.link(place, up)
    }

    /// How every running process looks now.
    pub async fn look(&mut self) -> anyhow::Result<BTreeMap<Place, Looks>> {
        let mut all = BTreeMap::new();
        for place in self.running() {
            let endpoint = self.endpoint(place)?.within(LOOK);
            // The status first: a leader that it names is counted in the metrics by then.
            let status = endpoint.status().await.ok();
            let mut looks = self.metrics(place).await.unwrap_or_default();
            looks.status = status.filter(|_| looks.connections.is_some());
            all.insert(place, looks);
        }
        Ok(all)
    }

    /// What its metrics say, without its status.
    async fn metrics(&self, place: Place) -> Option<Looks> {
        let address = format!("{}:2378", self.net.client_address(place));
        let text = tokio::time::timeout(LOOK, get(&address, "/metrics"))
            .await
            .ok()?
            .ok()?;
        if !text.starts_with("HTTP/1.0 200") {
            return None;
        }
        let mut found: BTreeMap<u64, Connection> = BTreeMap::new();
        let mut leaders_found = 0;
        for line in text.lines() {
            if let Some((id, value)) = gauge(line, "etcd_network_active_peers{") {
                found.entry(id).or_default().active = value > 0.0;
            }
            if let Some((id, value)) = gauge(line, "etcd_network_disconnected_peers_total{") {
                found.entry(id).or_default().lost = value as u64;
            }
            if let Some(value) = line.strip_prefix("etcd_server_leader_changes_seen_total ") {
                leaders_found = value.trim().parse::<f64>().ok()? as u64;
            }
        }
        Some(Looks {
            status: None,
            connections: Some(found),
            leaders_found,
        })
    }
}

/// The peer's id and the value of a line of metrics about a peer.
fn gauge(line: &str, name: &str) -> Option<(u64, f64)> {
    let (labels, value) = line.strip_prefix(name)?.split_once("} ")?;
    let (_, remote) = labels.split_once("Remote=\"")?;
    let id = u64::from_str_radix(remote.split('"').next()?, 16).ok()?;
    Some((id, value.trim().parse().ok()?))
}

async fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())
        .await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Since when each connection has been the same one.
#[derive(Debug, Default)]
pub struct Ages {
    since: BTreeMap<(Place, u64), (Connection, Instant)>,
}

impl Ages {
    /// Takes in what was seen at this time.
    pub fn note(&mut self, place: Place, peer: u64, connection: Connection, now: Instant) {
        let known = self.since.entry((place, peer)).or_insert((connection, now));
        if known.0 != connection {
            *known = (connection, now);
        }
    }

    /// Forgets the connections of a process that has ended.
    pub fn forget(&mut self, place: Place) {
        self.since.retain(|(at, _), _| *at != place);
    }

    /// How long before this time a connection was first seen.
    pub fn age(&self, place: Place, peer: u64, now: Instant) -> Duration {
        self.since
            .get(&(place, peer))
            .map_or(Duration::ZERO, |(_, since)| now.saturating_duration_since(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read() {
        let line = r#"etcd_network_active_peers{Local="8e9e05c52164694d",Remote="91bc3c398fb3c146"} 1"#;
        assert_eq!(
            gauge(line, "etcd_network_active_peers{"),
            Some((0x91bc_3c39_8fb3_c146, 1.0))
        );
        assert_eq!(gauge(line, "etcd_network_disconnected_peers_total{"), None);
    }

    #[test]
    fn a_lost_connection_is_a_new_one() {
        let mut ages = Ages::default();
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let connected = |lost| Connection { active: true, lost };
        ages.note(1, 7, connected(0), at(0));
        ages.note(1, 7, connected(0), at(5));
        assert_eq!(ages.age(1, 7, at(6)), Duration::from_secs(6));
        ages.note(1, 7, connected(1), at(7));
        assert_eq!(ages.age(1, 7, at(9)), Duration::from_secs(2));
        ages.forget(1);
        assert_eq!(ages.age(1, 7, at(9)), Duration::ZERO);
    }
}
