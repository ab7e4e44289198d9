//! A member that dies: a real etcd, the user its clients are, and how to start it again.

use std::path::{Path, PathBuf};

use quorate_testkit::{Client, Server, Start, User, binary};
use quorate_wire::etcdserverpb::{HashKvRequest, HashKvResponse, StatusRequest, StatusResponse};

/// The etcd that a test uses, or has used.
pub struct Member {
    start: Start,
    server: Option<Server>,
    user: Option<User>,
}

impl AsRef<Member> for Member {
    fn as_ref(&self) -> &Member {
        self
    }
}

/// The database is written when it must, not ten times a second.
pub fn long_batches(start: Start) -> Start {
    start
        .flag("--backend-batch-interval=10m")
        .flag("--backend-batch-limit=1000000")
}

impl Member {
    /// Starts it, and waits until it serves.
    pub fn serve(start: &Start) -> Member {
        let mut member = Member::spawn(start);
        member.await_serving();
        member
    }

    pub fn spawn(start: &Start) -> Member {
        let server = start.spawn();
        Member {
            start: server.settings().clone(),
            server: Some(server),
            user: None,
        }
    }

    /// Starts another on this data directory with the same URLs and users; this one has ended.
    pub fn again(&self, data_dir: &Path) -> Member {
        assert!(self.server.is_none(), "two members with the same URLs");
        Member {
            user: self.user.clone(),
            ..Member::serve(&self.start.on(data_dir))
        }
    }

    pub fn await_serving(&mut self) {
        self.server.as_mut().expect("it runs").await_serving();
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    pub fn data_dir(&self) -> &Path {
        &self.start.data_dir
    }

    pub fn binary(&self) -> PathBuf {
        binary(&self.start.version, "etcd")
    }

    /// From now on clients are this user.
    pub fn set_user(&mut self, user: User) {
        self.user = Some(user);
    }

    pub fn client(&self) -> Client {
        let mut client = self.server().client();
        if let Some(user) = &self.user {
            client.log_in(user);
        }
        client
    }

    /// The current and the compacted revision; the latter -1 or 0 if there is none.
    pub fn revisions(&self) -> (i64, i64) {
        let answer = self.ask_hash_kv(0);
        (answer.header.expect("a header").revision, answer.compact_revision)
    }

    /// HashKV at a revision, and the compacted revision it goes with.
    pub fn hash_kv(&self, revision: i64) -> (u32, i64) {
        let answer = self.ask_hash_kv(revision);
        (answer.hash, answer.compact_revision.max(0))
    }

    fn ask_hash_kv(&self, revision: i64) -> HashKvResponse {
        self.client()
            .call("Maintenance/HashKV", HashKvRequest { revision })
    }

    /// Its member id, and that of the leader it knows.
    pub fn id_and_leader(&self) -> (u64, u64) {
        let status: StatusResponse = self.client().call("Maintenance/Status", StatusRequest {});
        (status.header.expect("a header").member_id, status.leader)
    }

    pub fn save(&self, file: &Path) {
        let file = file.to_str().expect("a temporary path is plain text");
        self.server()
            .etcdctl(self.user.as_ref(), &["snapshot", "save", file]);
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
    }

    /// Has it end in order.
    pub fn stop(&mut self) {
        self.server.take().expect("it runs").stop();
    }
}
