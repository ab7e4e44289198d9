//! What quorate makes of an archive: a snapshot at a point of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_backup::etcdbr::{
    EventRows, FullArrival, LeasesSeen, Listing, Open, Plan, StoreObjects, Unreachable, Wanted, plan,
    revision_at,
};
use quorate_backup::{Error, Store, StoreOptions, StoreUrl};
use quorate_datadir::{
    Assembly, Base, LaterRows, Progress, Restore, Source as Database, hash_kv, restore, write_snapshot,
};
use quorate_workloads::{EtcdbrArchive, HashKv, Start};
use tokio::runtime::Runtime;

/// An archive, opened.
pub struct Ours {
    runtime: Runtime,
    store: Store,
    pub listing: Listing,
    /// What is not to be used.
    pub without: BTreeSet<String>,
    /// Take a full that has no hash.
    pub unhashed: bool,
}

/// A snapshot that was made.
#[derive(Debug)]
pub struct Made {
    pub snapshot: PathBuf,
    pub revision: i64,
    pub leases: LeasesSeen,
}

impl Ours {
    pub fn open(archive: &EtcdbrArchive) -> Ours {
        Ours::at(&archive.root())
    }

    pub fn at(root: &Path) -> Ours {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
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
            without: BTreeSet::new(),
            unhashed: false,
        }
    }

    pub fn plan(&self, wanted: Wanted) -> Result<Plan, Unreachable> {
        plan(&self.listing, wanted, &self.without)
    }

    fn objects(&self) -> Arc<dyn Open> {
        let _inside = self.runtime.enter();
        Arc::new(StoreObjects::new(&self.store))
    }

    /// The revision that had been seen by a time.
    pub fn revision_at(&self, time: jiff::Timestamp) -> Option<i64> {
        let plan = self.plan(Wanted::Time(time.as_second())).expect("a plan");
        let found = revision_at(&self.objects(), &plan.deltas, time).expect("deltas that can be read");
        found.map(|(revision, seen)| {
            assert!(seen <= time);
            revision
        })
    }

    /// Makes a snapshot of what was wanted at `path`.
    pub fn make(&self, wanted: Wanted, path: PathBuf) -> Result<Made, Error> {
        let plan = self.plan(wanted).expect("a plan");
        let objects = self.objects();
        let mut base = FullArrival::new(Arc::clone(&objects), plan.base.clone());
        if self.unhashed {
            base = base.or_unhashed();
        }
        let mut rows = EventRows::of_plan(objects, &self.listing, &plan, wanted, &self.without);
        let to = match wanted {
            Wanted::Revision(revision) => Some(revision),
            _ => None,
        };
        let assembly = Assembly {
            to_revision: to,
            later: Some(LaterRows { rows: &mut rows, to }),
            ..Assembly::of(Base::Arriving(&mut base))
        };
        match write_snapshot(assembly, &path, &Progress::new()) {
            Ok(fresh) => Ok(Made {
                snapshot: path,
                revision: fresh.revision,
                leases: rows.leases().clone(),
            }),
            Err(error) => Err(base
                .take_error()
                .or(rows.take_error())
                .unwrap_or(Error::Data(error))),
        }
    }
}

impl Made {
    /// It holds what etcd had.
    pub fn check(&self, said: HashKv) {
        assert_eq!(self.revision, said.revision);
        let database = Database::open(&self.snapshot).expect("a snapshot");
        let compacted = Some(said.compact_revision).filter(|revision| *revision > 0);
        let hash = hash_kv(&database, said.revision, compacted, &Progress::new()).expect("a hash");
        assert_eq!(hash.hash, said.hash, "HashKV at {}", said.revision);
    }

    /// A real etcd that starts with it says the same.
    pub fn serve_and_check(&self, version: &str, said: HashKv) {
        let data_dir = self.snapshot.with_extension("etcd");
        let wanted = Restore {
            snapshot: self.snapshot.clone(),
            data_dir: data_dir.clone(),
            wal_dir: None,
            name: "m0".to_owned(),
            initial_cluster: "m0=http://127.0.0.1:1".to_owned(),
            token: "restored".to_owned(),
            peer_urls: "http://127.0.0.1:1".to_owned(),
            skip_hash_check: false,
            bump: None,
            to_revision: None,
            for_version: None,
        };
        restore(&wanted, &Progress::new()).expect("a data directory");
        check_served(version, &data_dir, said);
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

fn check_served(version: &str, data_dir: &Path, said: HashKv) {
    assert_eq!(served(version, data_dir, said.revision), said);
}
