//! An etcd that is written to while etcdbrctl watches.

use std::path::PathBuf;

use quorate_testkit::{Client, EtcdbrArchive, HashKv, Server, Start, newest};
use quorate_wire::etcdserverpb::request_op::Request as Op;
use quorate_wire::etcdserverpb::{HashKvRequest, HashKvResponse, PutRequest, RequestOp, TxnRequest};

/// An etcd, and room for archives of it.
pub struct Source {
    pub client: Client,
    pub server: Server,
    root: tempfile::TempDir,
}

impl Source {
    /// A fresh etcd of this minor.
    pub fn start(minor: &str) -> Source {
        let root = tempfile::Builder::new().prefix("etcdbr-").tempdir();
        let root = root.expect("a temporary directory");
        let server = Start::new(&newest(minor), &root.path().join("data"))
            .flag("--unsafe-no-fsync")
            .flag("--max-request-bytes=33554432")
            .serve();
        Source {
            client: server.client(),
            server,
            root,
        }
    }

    /// A path that is not there yet.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn archive(&self, name: &str) -> EtcdbrArchive {
        std::fs::create_dir(self.path(name)).expect("a directory");
        EtcdbrArchive::below(&self.path(name))
    }

    /// A copy of an archive, as it is.
    pub fn copy_of(&self, archive: &EtcdbrArchive, name: &str) -> EtcdbrArchive {
        let copy = self.archive(name);
        std::fs::create_dir_all(copy.root().join("v2")).expect("a directory");
        for object in archive.names() {
            std::fs::copy(archive.root().join(&object), copy.root().join(&object)).expect("a copy");
        }
        copy
    }

    /// Single puts, over each other; the last revision.
    pub fn puts(&self, count: u32) -> i64 {
        let mut revision = 0;
        for number in 0..count {
            let value = vec![number as u8; (number as usize * 37) % 900];
            revision = self
                .client
                .put(format!("key/{:04}", number * 7919 % 1000).as_bytes(), &value);
        }
        revision
    }

    /// Transactions of this many puts of so many bytes; the last revision.
    pub fn txns(&self, count: u32, puts: u32, bytes: usize) -> i64 {
        let mut revision = 0;
        let mut rng = fastrand::Rng::with_seed(u64::from(count));
        for number in 0..count {
            let success = (0..puts)
                .map(|place| put(number, place, &mut rng, bytes))
                .collect();
            revision = self.client.txn(TxnRequest {
                success,
                ..TxnRequest::default()
            });
        }
        revision
    }

    /// What etcd itself says of the keys at a revision.
    pub fn hash(&self, revision: i64) -> HashKv {
        let response: HashKvResponse = self.client.call("Maintenance/HashKV", HashKvRequest { revision });
        HashKv {
            revision,
            hash: response.hash,
            compact_revision: response.compact_revision,
        }
    }
}

fn put(number: u32, place: u32, rng: &mut fastrand::Rng, bytes: usize) -> RequestOp {
    let value = std::iter::repeat_with(|| rng.u8(..)).take(bytes).collect();
    RequestOp {
        request: Some(Op::RequestPut(PutRequest {
            key: format!("txn/{place:04}/{}", number % 5).into_bytes(),
            value,
            ..PutRequest::default()
        })),
    }
}
