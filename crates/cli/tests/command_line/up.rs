//! `quorate up` with real etcd, as a process of its own.
//!
//! Needs etcd in the cache (`make tools-quick` puts one there) and fails with that advice where there is none.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use quorate_testkit::{ClusterSlot, Ports, await_end, await_that};
use serde_json::Value;

use crate::sandbox::{Run, Sandbox, told};

pub const LIMIT: Duration = Duration::from_secs(180);

/// A cluster and its supervisor; both end with it.
pub struct Up {
    pub sandbox: Sandbox,
    cache: PathBuf,
    pub child: Child,
    lines: Receiver<String>,
    _ports: Ports,
    _slot: ClusterSlot,
}

impl Up {
    /// `quorate up` on a new root.
    pub fn start(replicas: u32) -> Up {
        let cache = quorate_host::etcd::find::default_cache().expect("HOME is not set");
        let sandbox = Sandbox::new();
        let places = quorate_host::etcd::find::Places {
            cache: Some(cache.clone()),
            ..Default::default()
        };
        let etcd = quorate_host::etcd::find::find_etcd(None, &places);
        let version = etcd
            .unwrap_or_else(|error| panic!("run `make tools-quick` first: {error}"))
            .version;
        let version = semver::Version::parse(&version.to_string()).unwrap();
        let (slot, ports) = (ClusterSlot::acquire(), Ports::lease());
        let manifest = quorate_api::default_manifest("etcd", replicas, &version);
        let (client, peer) = (ports.port(0), ports.port(1));
        sandbox.file(
            "root/cluster.yaml",
            &format!("{manifest}\n  host:\n    clientPort: {client}\n    peerPort: {peer}\n"),
        );
        let (child, lines) = spawn(&sandbox, &cache);
        Up {
            sandbox,
            cache,
            child,
            lines,
            _ports: ports,
            _slot: slot,
        }
    }

    /// `quorate up` on the same root, once the one before has ended.
    pub fn again(&mut self) {
        (self.child, self.lines) = spawn(&self.sandbox, &self.cache);
    }

    pub fn run(&self, arguments: &[&str]) -> Run {
        told(
            self.sandbox
                .command(arguments)
                .env("QUORATE_CACHE", &self.cache)
                .output()
                .unwrap(),
        )
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(self.run(&["status", "-o", "json"]).succeeds()).unwrap()
    }

    /// Waits until a command succeeds and prints `part`: not each look reaches every member of a busy machine.
    pub fn until_prints(&self, arguments: &[&str], part: &str) {
        await_that(&format!("{arguments:?} prints {part:?}"), LIMIT, || {
            let run = self.run(arguments);
            match run.code == 0 && run.out.contains(part) {
                true => Ok(()),
                false => Err(format!("{run:?}")),
            }
        });
    }

    /// Waits until it has ended by itself, well.
    pub fn ends(&mut self) {
        let status = await_end("the end of `quorate up`", LIMIT, &mut self.child);
        assert!(status.success(), "{status}");
    }

    /// Reads on until a line has `part`; returns it.
    pub fn reads(&self, part: &str) -> String {
        let until = Instant::now() + LIMIT;
        let mut seen = Vec::new();
        loop {
            match self
                .lines
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen.push(line),
                Err(error) => panic!("no {part:?} ({error}) in {seen:#?}"),
            }
        }
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Whatever failed, no member outlives the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.sandbox.command(&["down"]).output();
    }
}

fn spawn(sandbox: &Sandbox, cache: &Path) -> (Child, Receiver<String>) {
    let mut command = sandbox.command(&["up"]);
    let mut child = command
        .env("QUORATE_CACHE", cache)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, lines) = channel();
    let reader = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        reader
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| sender.send(line))
    });
    (child, lines)
}
