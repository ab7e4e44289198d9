//! What quorate makes of an archive: a data directory at a point of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_backup::etcdbr::Listing;
use quorate_backup::etcdbr::restore::{Outcome, Way, restore};
use quorate_backup::plan::To;
use quorate_backup::{Error, Store, StoreOptions, StoreUrl};
use quorate_datadir::{Members, Progress, Seat, Source as Database, hash_kv};
use quorate_testkit::{EtcdbrArchive, HashKv, Start};
use tokio::runtime::Runtime;

pub struct Ours {
    runtime: Runtime,
    store: Store,
    pub listing: Listing,
    /// Take a full that has no hash.
    pub unhashed: bool,
}

/// A directory that was made.
pub struct Made {
    pub data_dir: PathBuf,
    pub outcome: Outcome,
}

impl Ours {
    pub fn open(archive: &EtcdbrArchive) -> Ours {
        Ours::at(&archive.root())
    }

    pub fn at(root: &Path) -> Ours {
        // As the command has it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let url = StoreUrl::parse(&format!("file://{}", root.display())).expect("an address");
        let (store, listing) = runtime.block_on(async {
            let store = Store::open(&url, &StoreOptions::default())
                .await
                .expect("a store");
            let listing = Listing::read(&store).await.expect("a listing");
            (store, listing)
        });
        Ours {
            runtime,
            store,
            listing,
            unhashed: false,
        }
    }

    pub fn way(&self, to: To) -> Result<Way, Error> {
        self.runtime.block_on(Way::find(&self.store, to))
    }

    /// Makes a directory of what was wanted.
    pub fn make(&self, to: To, data_dir: PathBuf) -> Result<Made, Error> {
        let mut way = self.way(to)?;
        if self.unhashed {
            way = way.or_unhashed();
        }
        let members = alone(data_dir.clone());
        let progress = Arc::new(Progress::new());
        let mut tell = |_: &Way| {};
        let work = restore(way, &members, &progress, &mut tell);
        let made = self.runtime.block_on(work);
        if made.is_err() {
            assert!(!data_dir.exists(), "what failed leaves nothing");
        }
        Ok(Made {
            data_dir,
            outcome: made?,
        })
    }
}

pub fn alone(data_dir: PathBuf) -> Members {
    Members {
        initial_cluster: "m0=http://127.0.0.1:1".to_owned(),
        token: "restored".to_owned(),
        seats: vec![Seat {
            name: "m0".to_owned(),
            peer_urls: "http://127.0.0.1:1".to_owned(),
            data_dir,
            wal_dir: None,
        }],
        bump: None,
        for_version: None,
    }
}

impl Made {
    /// It holds what etcd had.
    pub fn check(&self, said: HashKv) {
        assert_eq!(self.outcome.members[0].revision, said.revision);
        let database = Database::open(&self.data_dir).expect("a database");
        let compacted = Some(said.compact_revision).filter(|revision| *revision > 0);
        let hash = hash_kv(&database, said.revision, compacted, &Progress::new()).expect("a hash");
        assert_eq!(hash.hash, said.hash, "HashKV at {}", said.revision);
    }

    /// A real etcd that starts with it says the same.
    pub fn serve_and_check(&self, version: &str, said: HashKv) {
        assert_eq!(served(version, &self.data_dir, said.revision), said);
    }
}

/// What an etcd says that starts with this directory.
pub fn served(version: &str, data_dir: &Path, revision: i64) -> HashKv {
    let server = Start::new(version, data_dir).flag("--unsafe-no-fsync").serve();
    let client = server.client();
    let request = quorate_wire::etcdserverpb::HashKvRequest { revision };
    let response: quorate_wire::etcdserverpb::HashKvResponse = client.call("Maintenance/HashKV", request);
    HashKv {
        revision: response.header.expect("a header").revision,
        hash: response.hash,
        compact_revision: response.compact_revision,
    }
}
