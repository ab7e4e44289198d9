//! What the tests on real data directories share: a member's log as etcd reads it, and small changes to files.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use quorate_testkit::{Client, Server, Start, await_that};
use quorate_wire::etcdserverpb::{StatusRequest, StatusResponse};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The member of a test: `root/data`.
pub fn member(version: &str, root: &Path) -> Start {
    Start::new(version, &root.join("data"))
}

pub fn status(client: &Client) -> StatusResponse {
    client.call("Maintenance/Status", StatusRequest {})
}

/// What an etcd logs of its raft log when it starts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Raft {
    pub term: u64,
    pub commit: u64,
    pub last_index: u64,
    pub last_term: u64,
}

impl Raft {
    /// Of an etcd that was just started; none if it ends before it logs that.
    pub fn of(server: &mut Server) -> Option<Raft> {
        await_that("etcd has logged its raft state, or ended", PATIENCE, || {
            // Looked at before its log is: the last words are there once it has ended.
            let has_ended = server.ended().is_some();
            let log = server.whole_log();
            let words = log
                .split_once("newRaft ")
                .and_then(|(_, after)| after.split_once("]\""));
            match words {
                Some((words, _)) => Ok(Some(Raft::parse(words))),
                None if has_ended => Ok(None),
                None => Err(log),
            }
        })
    }

    fn parse(words: &str) -> Raft {
        let number = |name: &str| {
            let (_, after) = words
                .split_once(name)
                .unwrap_or_else(|| panic!("{name} in {words}"));
            after
                .split([',', ']', '"'])
                .next()
                .unwrap()
                .trim()
                .parse()
                .unwrap()
        };
        Raft {
            term: number(" term: "),
            commit: number("commit: "),
            last_index: number("lastindex: "),
            last_term: number("lastterm: "),
        }
    }
}

/// Runs a tool of etcd; panics unless it succeeds.
pub fn tool(binary: &Path, arguments: &[&str]) {
    let output = Command::new(binary)
        .args(arguments)
        .env("ETCDCTL_API", "3")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{} {arguments:?}: {said}",
        binary.display()
    );
}

/// Runs `check` while one byte of a file is another.
pub fn with_byte(path: &Path, offset: usize, change: impl Fn(u8) -> u8, check: impl FnOnce()) {
    let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    let offset = SeekFrom::Start(offset as u64);
    file.seek(offset).unwrap();
    file.read_exact(&mut byte).unwrap();
    let mut put = |byte: u8| {
        file.seek(offset).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    put(change(byte[0]));
    check();
    put(byte[0]);
}

/// Copies a directory with all that is in it.
pub fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
