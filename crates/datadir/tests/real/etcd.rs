//! Real etcd, every version in the cache.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quorate_workloads::free_port;

/// The etcd binaries in the cache, oldest version first.
pub fn binaries() -> Vec<(String, PathBuf)> {
    let from = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = from("QUORATE_CACHE").unwrap_or_else(|| {
        let base = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|home| home.join(".cache")));
        base.unwrap_or_default().join("quorate")
    });
    let mut found: Vec<(semver::Version, PathBuf)> = Vec::new();
    for entry in fs::read_dir(cache.join("etcd")).into_iter().flatten().flatten() {
        let version = entry
            .file_name()
            .to_str()
            .and_then(|name| semver::Version::parse(name).ok());
        let binary = entry.path().join("etcd");
        if let Some(version) = version.filter(|_| binary.is_file()) {
            found.push((version, binary));
        }
    }
    found.sort();
    assert!(
        !found.is_empty(),
        "no etcd in {}: run `make tools`",
        cache.display()
    );
    found
        .into_iter()
        .map(|(version, binary)| (version.to_string(), binary))
        .collect()
}

/// A one-member etcd; killed when dropped.
pub struct Etcd {
    pub child: Child,
    client_port: u16,
    log: PathBuf,
}

impl Etcd {
    pub fn start(binary: &Path, root: &Path, extra: &[&str]) -> Etcd {
        let mut etcd = Etcd::spawn(binary, root, extra);
        etcd.await_healthy();
        etcd
    }

    pub fn spawn(binary: &Path, root: &Path, extra: &[&str]) -> Etcd {
        let [client_port, peer_port] = [(); 2].map(|()| free_port());
        let (client, peer) = (
            format!("http://127.0.0.1:{client_port}"),
            format!("http://127.0.0.1:{peer_port}"),
        );
        let log = root.join("log");
        let child = Command::new(binary)
            .args(["--name=m0", "--logger=zap", "--initial-cluster-state=new"])
            .arg(format!("--data-dir={}", root.join("data").display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=m0={peer}"))
            .args(extra)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Etcd {
            child,
            client_port,
            log,
        }
    }

    fn await_healthy(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if self
                .ask("GET", "/health", "")
                .is_some_and(|answer| answer.contains("\"true\""))
            {
                return;
            }
            let exited = self.child.try_wait().unwrap();
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(exited.is_none(), "etcd exited with {exited:?}:\n{}", log());
            assert!(
                Instant::now() < deadline,
                "etcd is not healthy after a minute:\n{}",
                log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn ask(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.client_port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// The index of the last entry of its log.
    pub fn raft_index(&self) -> u64 {
        let status = self
            .ask("POST", "/v3/maintenance/status", "{}")
            .unwrap()
            .replace(' ', "");
        let (_, after) = status
            .split_once("\"raftIndex\":\"")
            .unwrap_or_else(|| panic!("{status}"));
        after.split('"').next().unwrap().parse().unwrap()
    }

    /// The ids etcd itself answers with, (member, cluster), and the version of its cluster.
    pub fn says(&self) -> (u64, u64, String) {
        // Some versions put spaces into their JSON, some do not.
        let status = self
            .ask("POST", "/v3/maintenance/status", "{}")
            .unwrap()
            .replace(' ', "");
        let text = |name: &str| {
            let (_, after) = status
                .split_once(&format!("\"{name}\":\""))
                .unwrap_or_else(|| panic!("{name} in {status}"));
            after.split('"').next().unwrap().to_owned()
        };
        let versions = self.ask("GET", "/version", "").unwrap();
        let (_, after) = versions.split_once("\"etcdcluster\":\"").unwrap();
        (
            text("member_id").parse().unwrap(),
            text("cluster_id").parse().unwrap(),
            after.split('"').next().unwrap().to_owned(),
        )
    }

    /// How far its log goes, as it says when it starts; none if it ends before it says so.
    pub fn raft(&mut self) -> Option<Raft> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            // Looked at before its words are: the last of them are there once it has ended.
            let exited = self.child.try_wait().unwrap().is_some();
            let log = fs::read_to_string(&self.log).unwrap();
            if let Some((_, after)) = log.split_once("newRaft ")
                && let Some((words, _)) = after.split_once("]\"")
            {
                return Some(Raft::parse(words));
            }
            if exited {
                return None;
            }
            assert!(Instant::now() < deadline, "etcd says nothing of its log:\n{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Puts a key.
    pub fn put(&self, key: &str, value: &[u8]) {
        let body = format!(
            "{{\"key\":\"{}\",\"value\":\"{}\"}}",
            base64(key.as_bytes()),
            base64(value)
        );
        let answer = self.ask("POST", "/v3/kv/put", &body).unwrap_or_default();
        assert!(answer.contains("\"revision\""), "{key}: {answer}");
    }

    /// Runs etcdctl, or another tool beside this etcd, on it; panics unless it succeeds.
    pub fn ctl(&self, binary: &Path, arguments: &[&str]) {
        let endpoint = format!("--endpoints=http://127.0.0.1:{}", self.client_port);
        let mut all = vec![endpoint.as_str()];
        all.extend(arguments);
        tool(&binary.with_file_name("etcdctl"), &all);
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Only after a failed assertion is it still running; there is no one left to tell about an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What an etcd says of its log when it starts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Raft {
    pub term: u64,
    pub commit: u64,
    pub last_index: u64,
    pub last_term: u64,
}

impl Raft {
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

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = [0, 1, 2].map(|at| u32::from(chunk.get(at).copied().unwrap_or(0)));
        let group = group[0] << 16 | group[1] << 8 | group[2];
        for at in 0..4 {
            let digit = usize::try_from(group >> (18 - 6 * at) & 63).unwrap();
            text.push(if at <= chunk.len() {
                char::from(DIGITS[digit])
            } else {
                '='
            });
        }
    }
    text
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
