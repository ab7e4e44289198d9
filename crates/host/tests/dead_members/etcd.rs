//! A real etcd of one member, asked over its JSON gateway.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quorate_workloads::free_port;
use serde_json::{Value, json};

/// The newest etcd of every minor in the cache, oldest first.
pub fn binaries() -> Vec<(String, PathBuf)> {
    let mut newest: Vec<(semver::Version, PathBuf)> = Vec::new();
    for (version, binary) in cached() {
        newest.retain(|(other, _)| other.minor != version.minor);
        newest.push((version, binary));
    }
    newest
        .into_iter()
        .map(|(version, binary)| (version.to_string(), binary))
        .collect()
}

fn cached() -> Vec<(semver::Version, PathBuf)> {
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
}

/// How it is run.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The database is written when it must, not ten times a second.
    pub long_batches: bool,
    /// The same ports again, since a member's URLs are in its rows.
    pub ports: Option<(u16, u16)>,
    /// It takes a raft snapshot after so many entries.
    pub snapshot_count: Option<u32>,
    /// Its name and all members, if it is not alone.
    pub cluster: Option<(String, String)>,
}

/// A one-member etcd; killed when dropped.
pub struct Etcd {
    child: Child,
    binary: PathBuf,
    flags: Flags,
    asking: Asking,
    log: PathBuf,
}

/// How to ask an etcd.
#[derive(Debug, Clone)]
pub struct Asking {
    port: u16,
    user: Option<(String, String)>,
    token: Arc<Mutex<Option<String>>>,
}

impl AsRef<Etcd> for Etcd {
    fn as_ref(&self) -> &Etcd {
        self
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Etcd {
    /// Starts it on `root/data`, and waits until it serves.
    pub fn start(binary: &Path, root: &Path, flags: Flags) -> Etcd {
        let mut etcd = Etcd::spawn(binary, root, flags);
        etcd.await_serving();
        etcd
    }

    /// Starts it on `root/data`.
    pub fn spawn(binary: &Path, root: &Path, mut flags: Flags) -> Etcd {
        fs::create_dir_all(root).unwrap();
        let (port, peer) = *flags.ports.get_or_insert_with(free_ports);
        let (client, peer) = (
            format!("http://127.0.0.1:{port}"),
            format!("http://127.0.0.1:{peer}"),
        );
        let (name, cluster) = flags
            .cluster
            .clone()
            .unwrap_or_else(|| ("m0".into(), format!("m0={peer}")));
        let log = root.join("log");
        let mut command = Command::new(binary);
        command
            .args(["--logger=zap", "--initial-cluster-state=new"])
            .arg(format!("--name={name}"))
            .arg(format!("--data-dir={}", root.join("data").display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={cluster}"));
        if flags.long_batches {
            command.args(["--backend-batch-interval=10m", "--backend-batch-limit=1000000"]);
        }
        command.args(
            flags
                .snapshot_count
                .map(|count| format!("--snapshot-count={count}")),
        );
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Etcd {
            child,
            binary: binary.to_owned(),
            flags,
            asking: Asking {
                port,
                user: None,
                token: Arc::default(),
            },
            log,
        }
    }

    /// Starts another on `root/data` with the same URLs; this one has ended.
    pub fn again(&self, root: &Path) -> Etcd {
        let mut etcd = Etcd::spawn(&self.binary, root, self.flags.clone());
        etcd.asking.user.clone_from(&self.asking.user);
        etcd.await_serving();
        etcd
    }

    pub fn await_serving(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some((user, password)) = self.asking.user.clone() {
                self.asking.try_log_in(&user, &password);
            }
            // A linearizable read: everything in its log is applied.
            let read = json!({"key": "AA==", "count_only": true});
            if self
                .try_ask("/v3/kv/range", &read)
                .is_some_and(|answer| answer.get("header").is_some())
            {
                return;
            }
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
    }

    /// Asks; `None` if nothing came back.
    pub fn try_ask(&self, path: &str, body: &Value) -> Option<Value> {
        self.asking.try_ask(path, body)
    }

    /// Asks for something that must succeed.
    pub fn ask(&self, path: &str, body: &Value) -> Value {
        let answer = self
            .try_ask(path, body)
            .unwrap_or_else(|| panic!("{path}: no answer"));
        assert!(answer.get("code").is_none(), "{path}: {answer}");
        answer
    }

    /// Asks as this user from now on.
    pub fn log_in(&mut self, user: &str, password: &str) {
        self.asking.user = Some((user.into(), password.into()));
        assert!(self.asking.try_log_in(user, password), "{user} is not let in");
    }

    pub fn asking(&self) -> Asking {
        self.asking.clone()
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

    /// Its member id, as text.
    pub fn member(&self) -> Value {
        self.ask("/v3/maintenance/status", &json!({}))["header"]["member_id"].clone()
    }

    /// The member it takes for the leader.
    pub fn leader(&self) -> Value {
        self.ask("/v3/maintenance/status", &json!({}))["leader"].clone()
    }

    /// Saves a snapshot.
    pub fn save(&self, file: &Path) {
        self.etcdctl(&["snapshot", "save", file.to_str().unwrap()]);
    }

    fn etcdctl(&self, arguments: &[&str]) -> Vec<u8> {
        let output = Command::new(self.binary.with_file_name("etcdctl"))
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints=http://127.0.0.1:{}", self.asking.port))
            .args(
                self.asking
                    .user
                    .iter()
                    .map(|(user, password)| format!("--user={user}:{password}")),
            )
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

/// A client and a peer port that are free.
pub fn free_ports() -> (u16, u16) {
    (free_port(), free_port())
}

impl Asking {
    fn try_log_in(&self, user: &str, password: &str) -> bool {
        let answer = self.try_ask(
            "/v3/auth/authenticate",
            &json!({"name": user, "password": password}),
        );
        let token = answer.and_then(|answer| answer["token"].as_str().map(str::to_owned));
        let ok = token.is_some();
        *self.token.lock().unwrap() = token;
        ok
    }

    /// One question on a connection of its own.
    pub fn try_ask(&self, path: &str, body: &Value) -> Option<Value> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let token = self.token.lock().unwrap().clone();
        let token = token.map_or(String::new(), |token| format!("Authorization: {token}\r\n"));
        let length = body.len();
        let head = format!("POST {path} HTTP/1.0\r\nHost: x\r\n{token}Content-Length: {length}\r\n\r\n");
        stream
            .write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }
}
