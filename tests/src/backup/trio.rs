//! Three real etcd that form one cluster, and can be killed and started again one by one.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use quorate_testkit::{Addresses, Client, ClusterSlot, Server, Start, await_that};
use quorate_wire::etcdserverpb::{StatusRequest, StatusResponse};

/// How long a cluster may take to have a leader again.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Trio {
    starts: Vec<Start>,
    servers: Vec<Mutex<Option<Server>>>,
    _slot: ClusterSlot,
}

impl Trio {
    /// Starts them, below `directory`.
    pub fn start(version: &str, directory: &Path) -> Trio {
        let slot = ClusterSlot::acquire();
        let addresses: Vec<Addresses> = (0..3).map(|_| Addresses::free()).collect();
        let name = |number: usize| format!("m{number}");
        let all: Vec<String> = (0..3)
            .map(|n| format!("{}={}", name(n), addresses[n].peer))
            .collect();
        let starts: Vec<Start> = (0..3)
            .map(|number| Start {
                name: name(number),
                addresses: Some(addresses[number].clone()),
                initial_cluster: Some(all.join(",")),
                ..Start::new(version, &directory.join(name(number)))
            })
            .collect();
        let mut servers: Vec<Server> = starts.iter().map(Start::spawn).collect();
        for server in &mut servers {
            server.await_serving();
        }
        Trio {
            starts,
            servers: servers
                .into_iter()
                .map(|server| Mutex::new(Some(server)))
                .collect(),
            _slot: slot,
        }
    }

    /// Where clients find them.
    pub fn endpoints(&self) -> String {
        let urls: Vec<&str> = self.urls().collect();
        urls.join(",")
    }

    fn urls(&self) -> impl Iterator<Item = &str> {
        self.starts
            .iter()
            .filter_map(|start| start.addresses.as_ref())
            .map(|a| a.client.as_str())
    }

    /// A client for one of them.
    pub fn client(&self, number: usize) -> Client {
        Client::new(self.urls().nth(number % 3).expect("three members"))
    }

    pub fn leader(&self) -> usize {
        let leads = |number: &usize| {
            let status: Result<StatusResponse, _> = self
                .client(*number)
                .try_call("Maintenance/Status", StatusRequest {});
            status.is_ok_and(|s| s.leader != 0 && s.header.is_some_and(|header| header.member_id == s.leader))
        };
        await_that("one of three members leads", PATIENCE, || (0..3).find(leads))
    }

    /// Ends one of them as a crash does, and starts it again.
    pub fn crash(&self, number: usize) {
        let mut server = self.servers[number].lock().expect("nobody panicked");
        if let Some(running) = server.take() {
            running.kill();
        }
        let mut again = self.starts[number].spawn();
        again.await_serving();
        *server = Some(again);
    }
}
