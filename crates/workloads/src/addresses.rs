//! Loopback addresses that nothing listens on.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Where one member listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// For clients.
    pub client: String,
    /// For peers.
    pub peer: String,
}

impl Addresses {
    /// Free ones.
    pub fn free() -> Addresses {
        let [client, peer] = [(); 2].map(|()| format!("http://127.0.0.1:{}", free_port()));
        Addresses { client, peer }
    }
}

/// A loopback port that nothing listens on, given once per process, below those that the kernel hands out by itself.
pub fn free_port() -> u16 {
    const FIRST: u16 = 10_500;
    const COUNT: u16 = 4_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 400) as u16 * 10;
    for _ in 0..COUNT {
        let port = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port from {FIRST} on");
}
