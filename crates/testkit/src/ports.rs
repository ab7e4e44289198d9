//! Loopback ports that belong to this process until it ends.
//!
//! Ports come in blocks, each with a lock file that all tests on the machine know. A block is leased while its lock is
//! held, so no other test gets its ports even while nothing listens on them: between two starts of a member, or before
//! the first. The blocks lie below the range from which the kernel picks ports for connections.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::{await_that, leases};

/// How long a test waits for etcd's own ports.
const PATIENCE: Duration = Duration::from_secs(600);
/// How many ports a block has.
const BLOCK: u16 = 20;
/// The first port of the first block.
const FIRST: u16 = 15_000;
/// No block reaches beyond this, nor into the kernel's own range.
const END: u16 = 32_000;

/// The right to run a cluster on etcd's own ports, 2379 and on, which a command takes that is not told of others. Given
/// back when dropped.
#[derive(Debug)]
pub struct DefaultPorts {
    _lock: File,
}

impl DefaultPorts {
    /// Waits until no other test has them.
    pub fn acquire() -> DefaultPorts {
        let path = leases::directory("ports").join("default");
        let lock = await_that("no other test has etcd's own ports", PATIENCE, || {
            leases::try_lock(&path)
        });
        DefaultPorts { _lock: lock }
    }
}

/// A leased block of consecutive ports. Given back when dropped.
#[derive(Debug)]
pub struct Ports {
    first: u16,
    _lock: File,
}

impl Ports {
    /// How many ports a lease has.
    pub const COUNT: u16 = BLOCK;

    /// Leases a block in which every port can be bound now.
    pub fn lease() -> Ports {
        Ports::lease_in(&leases::directory("ports"), can_be_bound)
    }

    /// Leases the next block whose lock in `directory` is free and whose ports are all usable.
    fn lease_in(directory: &Path, is_usable: impl Fn(u16) -> bool) -> Ports {
        // Processes and leases begin at different blocks: a block that was just given back is taken last.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let blocks = (end() - FIRST) / BLOCK;
        let start = (std::process::id() % u32::from(blocks)) as u16 * 7;
        for _ in 0..blocks {
            let number = (start + NEXT.fetch_add(1, Ordering::Relaxed) % blocks) % blocks;
            let first = FIRST + number * BLOCK;
            let Some(lock) = leases::try_lock(&directory.join(first.to_string())) else {
                continue;
            };
            if (first..first + BLOCK).all(&is_usable) {
                return Ports { first, _lock: lock };
            }
        }
        panic!("all {blocks} blocks of ports from {FIRST} on are in use");
    }

    /// The port of this number, from 0 on.
    pub fn port(&self, number: u16) -> u16 {
        assert!(number < BLOCK, "a lease has {BLOCK} ports, not {number}");
        self.first + number
    }
}

/// A port that is given once per process and leased until the process ends.
pub fn free_port() -> u16 {
    struct Pool {
        leases: Vec<Ports>,
        given: u16,
    }
    static POOL: Mutex<Pool> = Mutex::new(Pool {
        leases: Vec::new(),
        given: BLOCK,
    });
    let mut pool = POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if pool.given == BLOCK {
        pool.leases.push(Ports::lease());
        pool.given = 0;
    }
    let number = pool.given;
    pool.given += 1;
    pool.leases
        .last()
        .map_or_else(|| unreachable!("one was leased"), |lease| lease.port(number))
}

/// Where one member listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// The URL for clients.
    pub client: String,
    /// The URL for peers.
    pub peer: String,
}

impl Addresses {
    pub fn free() -> Addresses {
        let [client, peer] = [(); 2].map(|()| format!("http://127.0.0.1:{}", free_port()));
        Addresses { client, peer }
    }

    /// The same with TLS for clients.
    pub fn with_client_tls(mut self) -> Addresses {
        self.client = self.client.replace("http://", "https://");
        self
    }
}

fn can_be_bound(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Where the blocks end: below the kernel's own range, unless that leaves too few.
fn end() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let lowest = range.split_whitespace().next().and_then(|low| low.parse().ok());
    match lowest {
        Some(low) if low >= FIRST + 100 * BLOCK => END.min(low),
        _ => END,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_leases_share_no_port() {
        let (one, other) = (Ports::lease(), Ports::lease());
        assert!(one.first.abs_diff(other.first) >= BLOCK);
        assert_eq!(one.port(BLOCK - 1), one.first + BLOCK - 1);
    }

    #[test]
    fn a_leased_block_is_free_again_once_dropped() {
        // Among the locks of all tests another process could take the block at once.
        let directory = tempfile::tempdir().unwrap();
        let lease = Ports::lease_in(directory.path(), |_| true);
        let path = directory.path().join(lease.first.to_string());
        assert!(leases::try_lock(&path).is_none(), "it is leased");
        drop(lease);
        assert!(leases::try_lock(&path).is_some(), "it was given back");
    }

    #[test]
    fn ports_are_given_once_and_below_the_kernels_own() {
        let ports: std::collections::BTreeSet<u16> = (0..3 * BLOCK).map(|_| free_port()).collect();
        assert_eq!(ports.len(), usize::from(3 * BLOCK));
        assert!(ports.iter().all(|port| (FIRST..end()).contains(port)));
    }
}
