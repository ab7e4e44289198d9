//! A real etcd of one member, asked over its JSON gateway.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

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
        found.extend(
            version
                .filter(|_| binary.is_file())
                .map(|version| (version, binary)),
        );
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

/// How it is run.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The database is written when it must, not ten times a second.
    pub long_batches: bool,
    /// The same ports again, since a member's URLs are in its rows.
    pub ports: Option<(u16, u16)>,
}

/// A one-member etcd; killed when dropped.
pub struct Etcd {
    child: Child,
    binary: PathBuf,
    flags: Flags,
    port: u16,
    log: PathBuf,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Etcd {
    /// Starts it on `root/data`, and waits until it serves.
    pub fn start(binary: &Path, root: &Path, mut flags: Flags) -> Etcd {
        fs::create_dir_all(root).unwrap();
        let (port, peer) = *flags.ports.get_or_insert_with(|| {
            let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
            let [port, peer] = free
                .each_ref()
                .map(|listener| listener.local_addr().unwrap().port());
            (port, peer)
        });
        let (client, peer) = (
            format!("http://127.0.0.1:{port}"),
            format!("http://127.0.0.1:{peer}"),
        );
        let log = root.join("log");
        let mut command = Command::new(binary);
        command
            .args(["--name=m0", "--logger=zap", "--initial-cluster-state=new"])
            .arg(format!("--data-dir={}", root.join("data").display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=m0={peer}"));
        if flags.long_batches {
            command.args(["--backend-batch-interval=10m", "--backend-batch-limit=1000000"]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut etcd = Etcd {
            child,
            binary: binary.to_owned(),
            flags,
            port,
            log,
        };
        etcd.await_serving();
        etcd
    }

    /// Starts another on `root/data` with the same URLs; this one has ended.
    pub fn again(&self, root: &Path) -> Etcd {
        Etcd::start(&self.binary, root, self.flags.clone())
    }

    fn await_serving(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        // A put of nothing: it is refused, by a member that would take one.
        while !self
            .try_ask("/v3/kv/put", &json!({}))
            .is_some_and(|answer| answer.to_string().contains("key is not provided"))
        {
            let exited = self.child.try_wait().unwrap();
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(exited.is_none(), "etcd exited with {exited:?}:\n{}", log());
            assert!(
                Instant::now() < deadline,
                "etcd does not serve after a minute:\n{}",
                log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        // A linearizable read: everything in its log is applied.
        let read = json!({"key": "AA==", "count_only": true});
        while self
            .try_ask("/v3/kv/range", &read)
            .is_none_or(|answer| answer.get("header").is_none())
        {
            assert!(Instant::now() < deadline, "etcd answers no reads after a minute");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks; `None` if nothing came back.
    pub fn try_ask(&self, path: &str, body: &Value) -> Option<Value> {
        ask(self.port, path, body)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The current and the compacted revision; the latter -1 if there is none.
    pub fn revisions(&self) -> (i64, i64) {
        let answer = self.ask_hash_kv(0);
        (int(&answer["header"]["revision"]), compacted(&answer))
    }

    /// HashKV at a revision, and the compacted revision it goes with.
    pub fn hash_kv(&self, revision: i64) -> (u32, i64) {
        let answer = self.ask_hash_kv(revision);
        let hash = answer["hash"].as_u64().unwrap_or_else(|| panic!("{answer}"));
        (hash as u32, compacted(&answer).max(0))
    }

    fn ask_hash_kv(&self, revision: i64) -> Value {
        let answer = self.etcdctl(&["endpoint", "hashkv", "-w=json", &format!("--rev={revision}")]);
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        answer[0]["HashKV"].clone()
    }

    /// Saves a snapshot.
    pub fn save(&self, file: &Path) {
        self.etcdctl(&["snapshot", "save", file.to_str().unwrap()]);
    }

    fn etcdctl(&self, arguments: &[&str]) -> Vec<u8> {
        let output = Command::new(self.binary.with_file_name("etcdctl"))
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints=http://127.0.0.1:{}", self.port))
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        output.stdout
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Has it end.
    pub fn stop(&mut self) {
        let pid = i32::try_from(self.child.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

fn compacted(answer: &Value) -> i64 {
    match &answer["compact_revision"] {
        Value::Null => 0,
        number => int(number),
    }
}

/// Numbers of 64 bits come as text.
fn int(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.parse().unwrap(),
        Value::Number(number) => number.as_i64().unwrap(),
        other => panic!("not a number: {other}"),
    }
}

/// One question on a connection of its own.
pub fn ask(port: u16, path: &str, body: &Value) -> Option<Value> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let length = body.len();
    let head = format!("POST {path} HTTP/1.0\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
    stream
        .write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}
