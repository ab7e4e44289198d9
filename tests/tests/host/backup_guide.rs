//! The guide to backups, run in order beside a real cluster: every command, and every line that it shows.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use quorate_tests::cluster::Cluster;
use quorate_tests::etcd;
use quorate_tests::guide::compare::difference;
use quorate_tests::guide::document::{Item, items, marks};
use quorate_tests::guide::shell::{Came, Shell};
use serde_json::Value;

const GUIDE: &str = include_str!("../../../docs/guide/backup.md");
const LIMIT: Duration = Duration::from_secs(60);

/// The agent that the guide starts, found by what it writes; ended with the test.
struct Agent {
    report: PathBuf,
    pid: Option<u32>,
}

impl Agent {
    fn report(&self) -> Value {
        let text = std::fs::read_to_string(&self.report).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    /// Until everything that was written is in the archive: a reader has waited a second by then.
    fn catch_up(&self, shell: &Shell) {
        let answer: Value =
            serde_json::from_str(&shell.must("etcdctl get nothing -w json")).expect("etcdctl writes JSON");
        let revision = answer["header"]["revision"].as_i64();
        let until = Instant::now() + LIMIT;
        loop {
            let report = self.report();
            if report["archived"].as_i64() >= revision && !report["full"].is_null() {
                return;
            }
            assert!(Instant::now() < until, "the agent does not catch up: {report}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            let _ = Command::new("kill").arg(pid.to_string()).status();
        }
    }
}

#[test]
fn the_guide_is_true() {
    let unknown: Vec<&str> = marks(GUIDE)
        .into_iter()
        .filter(|mark| *mark != "console")
        .collect();
    assert!(unknown.is_empty(), "blocks that nobody runs: {unknown:?}");
    let version = etcd::newest("3.6");
    let mut cluster = Cluster::new(3, &version);
    cluster.up();
    let status = cluster.await_ready(3, &version);
    let shell = Shell::beside(&cluster, &version, status);
    let mut agent = Agent {
        report: shell.work().join("agent.json"),
        pid: None,
    };
    let mut commands = 0;
    for item in items(GUIDE, "console") {
        let Item::Run { mut command, shown } = item else {
            panic!("{item:?} is no command");
        };
        commands += 1;
        let begins = command.contains("backup run");
        if begins {
            command.push_str(" echo $! > agent.pid");
        } else if command.starts_with("quorate backup") {
            agent.catch_up(&shell);
        }
        let Came { well, printed } = shell.run(&command);
        println!("$ {command}\n{printed}");
        if begins {
            let pid = std::fs::read_to_string(shell.work().join("agent.pid"));
            agent.pid = pid.ok().and_then(|pid| pid.trim().parse().ok());
            assert!(agent.pid.is_some(), "the agent was not started");
        }
        let fails = shown
            .iter()
            .any(|line| line.starts_with("error: ") || line.starts_with("refused: "));
        assert_eq!(well, !fails, "$ {command}\n{printed}");
        let wrong = difference(shown.iter().map(String::as_str), &printed);
        assert_eq!(wrong, None, "$ {command}\n{printed}");
    }
    assert!(commands >= 20, "only {commands} commands");
}
