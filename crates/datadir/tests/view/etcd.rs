//! A real one-member etcd, asked through its JSON gateway.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quorate_workloads::free_port;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);

/// The versions in the cache, oldest first, with the directories of their programs.
pub fn versions() -> Vec<(semver::Version, PathBuf)> {
    let from = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let cache = from("QUORATE_CACHE").unwrap_or_else(|| {
        let base = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|home| home.join(".cache")));
        base.unwrap_or_default().join("quorate")
    });
    let mut found: Vec<(semver::Version, PathBuf)> = fs::read_dir(cache.join("etcd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((
                semver::Version::parse(entry.file_name().to_str()?).ok()?,
                entry.path(),
            ))
        })
        .filter(|(_, path)| path.join("etcd").is_file())
        .collect();
    found.sort();
    assert!(
        !found.is_empty(),
        "no etcd in {}: run `make tools`",
        cache.display()
    );
    found
}

/// A member; killed when dropped.
pub struct Etcd {
    child: Child,
    programs: PathBuf,
    address: String,
    pub data_dir: PathBuf,
}

impl Etcd {
    /// A new member in `dir`, healthy.
    pub fn start(programs: &Path, dir: &Path) -> Etcd {
        let [client, peer] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let data_dir = dir.join("data");
        let log = dir.join("etcd.log");
        let child = Command::new(programs.join("etcd"))
            .args(["--logger=zap", "--name=m0"])
            .arg(format!("--data-dir={}", data_dir.display()))
            .arg(format!("--listen-client-urls=http://{client}"))
            .arg(format!("--advertise-client-urls=http://{client}"))
            .arg(format!("--listen-peer-urls=http://{peer}"))
            .arg(format!("--initial-advertise-peer-urls=http://{peer}"))
            .arg(format!("--initial-cluster=m0=http://{peer}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut etcd = Etcd {
            child,
            programs: programs.to_owned(),
            address: client,
            data_dir,
        };
        let until = Instant::now() + LIMIT;
        while etcd.try_ask("kv/range", &json!({"key": base64(b"x")})).is_none() {
            let text = || fs::read_to_string(&log).unwrap_or_default();
            assert!(
                etcd.child.try_wait().unwrap().is_none(),
                "etcd ended:\n{}",
                text()
            );
            assert!(Instant::now() < until, "etcd is not healthy:\n{}", text());
            std::thread::sleep(Duration::from_millis(20));
        }
        etcd
    }

    fn try_ask(&self, path: &str, body: &Value) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        let body = body.to_string();
        let head = format!(
            "POST /v3/{path} HTTP/1.0\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let value: Value = serde_json::from_str(body).ok()?;
        value.get("header").is_some().then_some(value)
    }

    /// The answer to a request; `None` if it was refused.
    pub fn may(&self, path: &str, body: &Value) -> Option<Value> {
        self.try_ask(path, body)
    }

    /// The answer to a request, which must not be refused.
    pub fn ask(&self, path: &str, body: &Value) -> Value {
        self.try_ask(path, body)
            .unwrap_or_else(|| panic!("{path} {body} was refused"))
    }

    /// The revision it is at.
    pub fn revision(&self) -> i64 {
        number(&self.ask("kv/range", &json!({"key": base64(b"x")}))["header"]["revision"])
    }

    /// A snapshot, as its own tool saves it.
    pub fn snapshot(&self, file: &Path) {
        let output = Command::new(self.programs.join("etcdctl"))
            .arg(format!("--endpoints=http://{}", self.address))
            .args(["snapshot", "save"])
            .arg(file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Stops it in good order, so that its database has everything.
    pub fn stop(mut self) {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
        self.child.wait().unwrap();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number, which JSON of the gateway has in quotes, or leaves out where it is 0.
pub fn number(value: &Value) -> i64 {
    value.as_str().map_or(0, |text| text.parse().unwrap())
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let all = part.iter().fold(0u32, |all, byte| all << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for digit in 0..4 {
            let letter = DIGITS[(all >> (18 - 6 * digit) & 63) as usize] as char;
            text.push(if digit > part.len() { '=' } else { letter });
        }
    }
    text
}

pub fn unbase64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in text.trim_end_matches('=').as_bytes().chunks(4) {
        let value = |byte: &u8| DIGITS.iter().position(|digit| digit == byte).unwrap() as u32;
        let all = part.iter().fold(0, |all, byte| all << 6 | value(byte)) << (6 * (4 - part.len()));
        bytes.extend_from_slice(&all.to_be_bytes()[1..part.len()]);
    }
    bytes
}
