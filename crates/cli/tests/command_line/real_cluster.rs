//! One life of a cluster with real etcd, as a newcomer would try it: up, look, change, kill, stop.
//!
//! Needs etcd in the cache (`make tools-quick` puts one there) and fails with that advice where there is none.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use quorate_testkit::{ClusterSlot, Ports, await_that};
use serde_json::Value;

use crate::sandbox::{Run, Sandbox, told};

const LIMIT: Duration = Duration::from_secs(180);

struct Up {
    sandbox: Sandbox,
    cache: PathBuf,
    child: Child,
    lines: Receiver<String>,
    _ports: Ports,
    _slot: ClusterSlot,
}

impl Up {
    /// `quorate up` on a new root, one member.
    fn start(replicas: u32) -> Up {
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

    fn run(&self, arguments: &[&str]) -> Run {
        told(
            self.sandbox
                .command(arguments)
                .env("QUORATE_CACHE", &self.cache)
                .output()
                .unwrap(),
        )
    }

    fn status(&self) -> Value {
        serde_json::from_str(self.run(&["status", "-o", "json"]).succeeds()).unwrap()
    }

    /// Reads on until a line has `part`; returns it.
    fn reads(&self, part: &str) -> String {
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

    fn signal(&self, name: &str) {
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

fn spawn(sandbox: &Sandbox, cache: &PathBuf) -> (Child, Receiver<String>) {
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

/// Nobody has to say which member, or with which certificates.
fn a_follower_is_saved(up: &Up) {
    let leaders = |status: &Value| -> Vec<Value> {
        let members = status["members"].as_array().unwrap().iter();
        let leaders = members.filter(|member| member["leader"] == true);
        leaders.map(|member| member["name"].clone()).collect()
    };
    // One that leads only since is not the one that was chosen among.
    let (saved, status) = await_that("a member is saved and the leader stays the same", LIMIT, || {
        let before = leaders(&up.status());
        let saved = up.run(&["snapshot", "save", "etcd.db", "-o", "json"]);
        let saved: Value = serde_json::from_str(saved.succeeds()).unwrap();
        let status = up.status();
        match before.len() == 1 && before == leaders(&status) {
            true => Ok((saved, status)),
            false => Err(format!("{before:?} led before {status}")),
        }
    });
    let members = status["members"].as_array().unwrap();
    let asked = members.iter().find(|member| member["name"] == saved["member"]);
    assert!(
        asked.is_some_and(|member| member["leader"] == false),
        "{saved} of {status}"
    );
    let length = std::fs::metadata(up.sandbox.path("etcd.db")).unwrap().len();
    assert_eq!(saved["size"], length);
}

/// One that hangs runs all the same: that backups are current is not to be read from its process.
fn a_silent_agent_is_shown(up: &Up) {
    let agent = up.status()["backup"]["pid"].as_u64().expect("an agent runs");
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &agent.to_string()]).status();
        assert!(sent.unwrap().success());
    };
    let silent = |status: &Value| {
        let problems = status["problems"].as_array().expect("a list");
        problems.iter().any(|problem| {
            problem
                .as_str()
                .is_some_and(|text| text.starts_with("BackupSilent: "))
        })
    };
    let until = |what: &str, wanted: bool| {
        await_that(what, LIMIT, || {
            let status = up.status();
            match silent(&status) == wanted {
                true => Ok(()),
                false => Err(status.to_string()),
            }
        });
    };
    assert!(!silent(&up.status()));
    signal("-STOP");
    until("a silent agent is shown", true);
    let told = up.run(&["status"]);
    assert!(
        told.succeeds().contains("quorate explain BackupSilent"),
        "{told:?}"
    );
    signal("-CONT");
    until("an agent that goes on is not silent", false);
}

/// Begins with a manifest that nobody can read: the members are started by the one before, and the fault is shown.
fn goes_on_without_its_manifest(up: &mut Up) {
    let file = up.sandbox.root().join("cluster.yaml");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, "replicas: [").unwrap();
    // Not by any file that is not there.
    up.run(&["up", "-f", "typo.yaml"])
        .fails(2, &["cannot read the manifest typo.yaml"]);
    let (child, lines) = spawn(&up.sandbox, &up.cache);
    (up.child, up.lines) = (child, lines);
    up.reads("the last good one stays in force");
    await_that("three members that serve", LIMIT, || {
        let status = up.status();
        let members = status["members"].as_array().into_iter().flatten();
        match members.filter(|member| member["healthy"] == true).count() {
            3 => Ok(()),
            _ => Err(status.to_string()),
        }
    });
    // Not each look reaches every member of a busy machine, and a quorum comes first.
    let blocked = await_that("the status says that it is blocked", LIMIT, || {
        let status = up.run(&["status", "--exit-code"]);
        match status.err.contains("is blocked") {
            true => Ok(status),
            false => Err(format!("{status:?}")),
        }
    });
    blocked.fails(1, &["is blocked"]);
    std::fs::write(&file, good).unwrap();
    up.reads("etcd is up: 3 members");
}

#[test]
fn up_look_change_kill_stop() {
    let mut up = Up::start(1);
    up.reads("etcd is up: 1 member");
    assert!(
        up.reads("etcdctl --endpoints https://127.0.0.1:")
            .contains("/etcdctl ")
    );
    up.reads("Ctrl-C stops all members.");

    let status = up.status();
    for field in ["plan", "waits", "blocks"] {
        assert!(
            status[field].as_array().is_some_and(Vec::is_empty),
            "{field} in {status}"
        );
    }
    let member = &status["members"][0];
    assert_eq!(
        (&member["name"], &member["healthy"]),
        (&Value::from("etcd-0"), &Value::from(true)),
        "{status}"
    );
    assert_eq!(
        (&member["leader"], &member["learner"]),
        (&Value::from(true), &Value::from(false)),
        "{status}"
    );
    for field in ["id", "version", "dbSize", "dbSizeInUse"] {
        assert!(!member[field].is_null(), "{field} in {status}");
    }
    assert!(
        up.run(&["status"])
            .succeeds()
            .contains("is healthy: its only member serves")
    );
    assert!(
        up.run(&["status", "-o", "yaml"])
            .succeeds()
            .contains("name: etcd-0")
    );
    assert!(
        up.run(&["logs", "etcd-0", "--lines", "1"])
            .succeeds()
            .starts_with('{')
    );
    up.run(&["status", "--exit-code"]).succeeds();
    assert!(up.run(&["healthcheck"]).succeeds().contains("is healthy"));
    assert_eq!(
        (&status["stale"], status["age"].is_u64()),
        (&Value::from(false), true)
    );
    up.run(&["scale", "11"]).fails(3, &["--yes"]);
    up.run(&["logs", "etcd-1"]).fails(2, &["Its members are etcd-0."]);
    up.run(&["up"])
        .fails(3, &["is run by another quorate", "quorate down"]);

    let scaled = up.run(&["scale", "3", "--wait", "--timeout", "3m"]);
    assert!(
        scaled
            .succeeds()
            .contains("etcd-1 and etcd-2 will join, one at a time"),
        "{scaled:?}"
    );
    assert!(scaled.out.contains("Done in "), "{scaled:?}");
    assert_eq!(up.status()["members"].as_array().unwrap().len(), 3);
    a_follower_is_saved(&up);
    let before = up.status()["members"][2]["pid"].clone();
    up.run(&["redeploy", "--reason", "test", "--wait", "--timeout", "3m"])
        .succeeds();
    assert_ne!(up.status()["members"][2]["pid"], before);

    a_silent_agent_is_shown(&up);

    // The supervisor dies, the members do not.
    up.signal("-KILL");
    up.child.wait().unwrap();
    let alone = up.run(&["status"]);
    assert!(
        alone.succeeds().contains("is not supervised") && alone.out.contains(" running "),
        "{alone:?}"
    );
    up.run(&["healthcheck"]).fails(1, &["is not supervised"]);
    assert_eq!(up.run(&["status", "--exit-code"]).code, 1);
    let agent_gone = await_that("the end of the backup agent shown", LIMIT, || {
        let status = up.status();
        match status["backup"]["pid"].is_null() {
            true => Ok(status),
            false => Err(status.to_string()),
        }
    });
    assert_eq!(
        (&agent_gone["stale"], &agent_gone["ready"]),
        (&true.into(), &false.into())
    );
    let told = up.run(&["status"]);
    assert!(told.succeeds().contains("no agent runs"), "{told:?}");
    let (child, lines) = spawn(&up.sandbox, &up.cache);
    (up.child, up.lines) = (child, lines);
    up.reads("runs already");
    up.reads("etcd is up: 3 members");

    // Who ends a group of processes tells each of them, and a parent passes it on: that is one request.
    up.signal("-TERM");
    up.signal("-TERM");
    up.reads("stopped; the data stays in");
    assert!(up.child.wait().unwrap().success());
    goes_on_without_its_manifest(&mut up);

    up.signal("-INT");
    up.reads("stopped; the data stays in");
    assert!(up.child.wait().unwrap().success());
    assert!(up.run(&["status"]).succeeds().contains("is stopped"));
    assert!(up.run(&["down"]).succeeds().starts_with("Nothing runs"));
}
