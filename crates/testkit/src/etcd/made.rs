//! A database on disk, and what the etcd that made it said of it.

use std::path::PathBuf;
use std::time::Duration;

use quorate_wire::etcdserverpb::{
    HashKvRequest, HashKvResponse, Member, MemberListRequest, MemberListResponse, StatusRequest,
    StatusResponse,
};

use super::client::{Client, User};
use super::server::{Server, Start};
use super::workload::Workload;
use crate::await_that;
use crate::versions::minor;

/// How many revisions are hashed.
const HASHES: i64 = 6;
/// How long a member may take to write the version of its storage.
const SETTLED: Duration = Duration::from_secs(30);

/// A snapshot and a stopped member's data directory, of the same moment. Gone when dropped.
#[derive(Debug)]
pub struct Made {
    /// What was asked of etcd.
    pub workload: Workload,
    pub version: String,
    /// What `etcdctl snapshot save` wrote.
    pub snapshot: PathBuf,
    /// The member's data directory; it was stopped in order.
    pub data_dir: PathBuf,
    /// What it said last.
    pub said: Said,
    /// Who may do everything, where authentication is on.
    pub user: Option<User>,
    root: tempfile::TempDir,
}

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    pub revision: i64,
    /// Hashes at some revisions that are not compacted, the current one last.
    pub hashes: Vec<HashKv>,
    pub members: Vec<Member>,
    pub status: StatusResponse,
}

/// The hash over all keys up to a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashKv {
    /// Up to which it was asked for.
    pub revision: i64,
    pub hash: u32,
    /// To where the member was compacted; -1 or 0 is nowhere.
    pub compact_revision: i64,
}

impl Said {
    pub fn by(client: &Client) -> Said {
        let status: StatusResponse = client.call("Maintenance/Status", StatusRequest {});
        let list = MemberListRequest { linearizable: true };
        let members: MemberListResponse = client.call("Cluster/MemberList", list);
        let revision = status.header.as_ref().expect("a header").revision;
        let hash = |revision| {
            let response: HashKvResponse = client.call("Maintenance/HashKV", HashKvRequest { revision });
            HashKv {
                revision,
                hash: response.hash,
                compact_revision: response.compact_revision,
            }
        };
        // At the compaction's own revision etcd may answer with a hash from before it; all are asked for above.
        let first = hash(revision).compact_revision.max(0) + 1;
        let step = ((revision - first) / (HASHES - 1)).max(1);
        let mut revisions: Vec<i64> = (0..HASHES - 1).map(|index| first + index * step).collect();
        revisions.retain(|asked| *asked < revision);
        revisions.push(revision);
        Said {
            revision,
            hashes: revisions.into_iter().map(hash).collect(),
            members: members.members,
            status,
        }
    }
}

impl Workload {
    /// Makes the database with this version of etcd.
    pub fn make(self, version: &str) -> Made {
        let root = tempfile::Builder::new().prefix("workload-").tempdir();
        let root = root.expect("a temporary directory");
        let (data_dir, snapshot) = (root.path().join("data"), root.path().join("snapshot.db"));
        let server = Start::new(version, &data_dir).flag("--unsafe-no-fsync").serve();
        let mut client = server.client();
        let user = self.run(&mut client);
        server.await_settled(&client);
        let said = Said::by(&client);
        let path = snapshot.to_str().expect("a temporary path is plain text");
        server.etcdctl(user.as_ref(), &["snapshot", "save", path]);
        // Newer versions wait for clients before they stop.
        drop(client);
        server.stop();
        Made {
            workload: self,
            version: version.to_owned(),
            snapshot,
            data_dir,
            said,
            user,
            root,
        }
    }
}

impl Made {
    /// A directory for what is made of it; gone with it.
    pub fn root(&self) -> &std::path::Path {
        self.root.path()
    }
}

impl Server {
    /// Since 3.6 a member writes the version of its storage a little after it began to serve, and says 3.5 until then. A
    /// database from before that is another one.
    pub fn await_settled(&self, client: &Client) {
        let minor = minor(self.version());
        if minor < 6 {
            return;
        }
        let wanted = format!("3.{minor}.");
        await_that("the storage has the version of etcd", SETTLED, || {
            let status: StatusResponse = client.call("Maintenance/Status", StatusRequest {});
            let found = status.storage_version;
            found.starts_with(&wanted).then_some(()).ok_or(found)
        });
    }
}
