//! One history in two archives: a database, copied whole by both tools, and changes that both write down.

use std::path::{Path, PathBuf};

use quorate_testkit::{Client, Server, Start};
use quorate_tests::measure::noise;
use quorate_wire::etcdserverpb::{
    PutRequest, RequestOp, StatusRequest, StatusResponse, TxnRequest, TxnResponse, request_op::Request,
};

/// How many puts the base's transactions have.
const BASE_PUTS: u64 = 100;

#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// The size of the database that both begin with.
    pub base_mb: u64,
    /// How many bytes of values are written after that.
    pub changed_mb: u64,
    /// How many puts a revision has then.
    pub puts: u64,
}

/// A running etcd, and where archives of it go.
pub struct History {
    pub shape: Shape,
    pub server: Server,
    pub client: Client,
    root: tempfile::TempDir,
    keys: u64,
    written: u64,
}

impl History {
    pub fn begin(shape: Shape, version: &str) -> History {
        let root = tempfile::Builder::new().prefix("bench-backup-").tempdir();
        let root = root.expect("a directory");
        let server = Start::new(version, &root.path().join("data"))
            .flag("--unsafe-no-fsync")
            .flag("--quota-backend-bytes=8589934592")
            .flag("--snapshot-count=10000")
            .serve();
        let client = server.client();
        let mut history = History {
            shape,
            server,
            client,
            root,
            keys: (shape.base_mb * 1_000_000 / 1_100 / 2).max(BASE_PUTS),
            written: 0,
        };
        let size = |history: &History| {
            let status: StatusResponse = history.client.call("Maintenance/Status", StatusRequest {});
            status.db_size.unsigned_abs()
        };
        while size(&history) < shape.base_mb * 1_000_000 {
            for _ in 0..100 {
                history.transaction(BASE_PUTS);
            }
        }
        history
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes the changes. Out: the last revision, and the bytes of keys and values written.
    pub fn change(&mut self) -> (i64, u64) {
        let (mut revision, mut bytes) = (0, 0);
        while bytes < self.shape.changed_mb * 1_000_000 {
            let (at, more) = self.transaction(self.shape.puts);
            revision = at;
            bytes += more;
        }
        (revision, bytes)
    }

    /// Ends etcd, and removes its data.
    pub fn stop(self) -> Stopped {
        drop(self.client);
        self.server.stop();
        let _ = std::fs::remove_dir_all(self.root.path().join("data"));
        Stopped(self.root)
    }

    fn transaction(&mut self, puts: u64) -> (i64, u64) {
        let mut bytes = 0;
        let success = (self.written..self.written + puts).map(|n| {
            // No key twice in one transaction: 7919 is prime, and there are more keys than puts.
            let number = n.wrapping_mul(7919) % self.keys;
            let put = PutRequest {
                key: format!("/registry/pods/namespace-{}/pod-{number:08}", number % 50).into_bytes(),
                value: noise(n, 700 + (n % 600) as usize),
                ..PutRequest::default()
            };
            bytes += (put.key.len() + put.value.len()) as u64;
            RequestOp {
                request: Some(Request::RequestPut(put)),
            }
        });
        let request = TxnRequest {
            success: success.collect(),
            ..TxnRequest::default()
        };
        let done: TxnResponse = self.client.call("KV/Txn", request);
        self.written += puts;
        (done.header.expect("a header").revision, bytes)
    }
}

/// What is left when etcd has ended: the archives.
pub struct Stopped(tempfile::TempDir);

impl Stopped {
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The bytes of the files below a directory that `count`, by their names.
pub fn bytes_below(path: &Path, count: &dyn Fn(&str) -> bool) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        return if count(&name) { size } else { 0 };
    };
    entries
        .flatten()
        .map(|entry| bytes_below(&entry.path(), count))
        .sum()
}
