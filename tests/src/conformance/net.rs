//! A network of its own for each cluster: one namespace a place, two bridges in a hub.
//!
//! In: how many places. Out: where etcd can be run so that "cut off" is real: the peers' bridge, whose ports can be
//! taken down, and a second one for clients, whose ports stay up, so that a member which is cut off can still be
//! asked. Everything has this process's id in its name and is deleted on drop, also after a panic. Never: a change to
//! any namespace, link or route that this value did not make.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, bail};

use super::script::Place;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The namespaces of one cluster.
pub struct Net {
    name: String,
    subnet: String,
    made: Vec<String>,
}

fn ip(args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("ip")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| {
            anyhow::anyhow!("cannot run `ip` ({e}): conformance needs the package iproute2 and root")
        })?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!(
            "ip {}: {} (conformance needs root and network namespaces)",
            args.join(" "),
            why.trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Splits at blanks; none of our names has any.
fn ip_words(line: &str) -> anyhow::Result<String> {
    ip(&line.split_whitespace().collect::<Vec<_>>())
}

/// Where members at a place meet their peers; the same in every cluster, for nobody else can see it.
pub fn peer_address(place: Place) -> String {
    format!("198.18.0.{place}")
}

impl Net {
    /// Makes the hub and the namespaces of `places` places.
    pub fn new(places: Place) -> anyhow::Result<Net> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("qc{:x}n{number}", std::process::id());
        let mut net = Net {
            name,
            subnet: free_subnet(number)?,
            made: Vec::new(),
        };
        net.build(places).context("make the network of a cluster")?;
        Ok(net)
    }

    fn namespace(&mut self, suffix: &str) -> anyhow::Result<String> {
        let name = format!("{}-{suffix}", self.name);
        ip_words(&format!("netns add {name}"))?;
        self.made.push(name.clone());
        ip_words(&format!("-n {name} link set lo up"))?;
        Ok(name)
    }

    fn build(&mut self, places: Place) -> anyhow::Result<()> {
        let hub = self.namespace("hub")?;
        for bridge in ["peers", "clients"] {
            ip_words(&format!(
                "-n {hub} link add {bridge} type bridge stp_state 0 forward_delay 0"
            ))?;
            ip_words(&format!("-n {hub} link set {bridge} up"))?;
        }
        let (site, subnet) = (self.name.clone(), self.subnet.clone());
        ip_words(&format!("link add {site} type veth peer name site netns {hub}"))?;
        ip_words(&format!("-n {hub} link set site master clients up"))?;
        ip_words(&format!("addr add {subnet}.254/24 dev {site}"))?;
        ip_words(&format!("link set {site} up"))?;
        for place in 1..=places {
            let member = self.namespace(&place.to_string())?;
            for (bridge, address) in [
                ("peers", peer_address(place)),
                ("clients", format!("{subnet}.{place}")),
            ] {
                let port = format!("{bridge}{place}");
                ip_words(&format!(
                    "-n {hub} link add {port} type veth peer name {bridge} netns {member}"
                ))?;
                ip_words(&format!("-n {hub} link set {port} master {bridge} up"))?;
                ip_words(&format!("-n {member} addr add {address}/24 dev {bridge}"))?;
                ip_words(&format!("-n {member} link set {bridge} up"))?;
            }
        }
        Ok(())
    }

    /// The name all parts of this network begin with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where clients reach a place.
    pub fn client_address(&self, place: Place) -> String {
        format!("{}.{place}", self.subnet)
    }

    /// A command that will run at a place. The process is the program itself, not a parent of it.
    pub fn inside(&self, place: Place) -> Vec<String> {
        let name = format!("{}-{place}", self.name);
        ["ip", "netns", "exec", &name].map(str::to_owned).into()
    }

    /// Connects a place to its peers, or not.
    pub fn link(&self, place: Place, up: bool) -> anyhow::Result<()> {
        let state = if up { "up" } else { "down" };
        ip_words(&format!("-n {}-hub link set peers{place} {state}", self.name)).map(|_| ())
    }
}

/// The first three numbers of a private /24 that no route of this host mentions.
fn free_subnet(number: u32) -> anyhow::Result<String> {
    let routes = ip_words("-4 route show table all")?;
    let first = std::process::id().wrapping_mul(37).wrapping_add(number);
    let subnets = (0..2000).map(|n| first.wrapping_add(n * 256) % (100 * 256));
    let mut named = subnets.map(|n| format!("10.{}.{}", 100 + n / 256, n % 256));
    named
        .find(|s| !routes.contains(&format!("{s}.")))
        .context("every subnet 10.100.0.0 to 10.199.255.0 is in use")
}

impl Drop for Net {
    fn drop(&mut self) {
        // With the hub go the bridges and every cable, also the one into our own namespace.
        for name in self.made.drain(..) {
            if let Err(error) = ip(&["netns", "del", &name]) {
                eprintln!("cannot delete the network namespace {name}: {error}");
            }
        }
    }
}
