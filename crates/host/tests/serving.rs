//! A real etcd of every minor, started privately on a restored directory: it says of its keys what the first one said,
//! also where only users may ask.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use quorate_datadir::{Progress, Restore, restore};
use quorate_host::etcd::find::Places;
use quorate_host::etcd::hash_kv::{HashKvRequest, PEER_URL, hash_kv_of};
use quorate_testkit::{Workload, binary, newest};

#[test]
fn a_restored_directory_is_served() {
    for version in ["3.4", "3.5", "3.6", "3.7"].map(newest) {
        let workload = if version.starts_with("3.5") {
            Workload::Auth
        } else {
            Workload::Compacted
        };
        let made = workload.make(&version);
        let (data_dir, work) = (made.root().join("restored"), made.root().join("work"));
        let wanted = Restore {
            snapshot: made.snapshot.clone(),
            data_dir: data_dir.clone(),
            wal_dir: None,
            name: "served".to_owned(),
            initial_cluster: format!("served={PEER_URL}"),
            token: "served".to_owned(),
            peer_urls: PEER_URL.to_owned(),
            skip_hash_check: false,
            bump: None,
            to_revision: None,
            for_version: None,
        };
        restore(&wanted, &Progress::new()).unwrap();
        fs::create_dir(&work).unwrap();
        fs::set_permissions(&work, fs::Permissions::from_mode(0o700)).unwrap();
        let places = Places {
            explicit: Some(binary(&version, "etcd")),
            ..Places::default()
        };
        let minor = version.split('.').nth(1).unwrap().parse().unwrap();
        let serving = |revision| {
            let wanted = HashKvRequest {
                data_dir: &data_dir,
                work: &work,
                name: "served",
                minor,
                revision,
            };
            hash_kv_of(&wanted, &places, &Progress::new())
        };
        for reported in made.said.hashes.iter().rev().take(2) {
            let said = serving(reported.revision).unwrap();
            assert_eq!(
                said.hash, reported.hash,
                "etcd {version} at {}",
                reported.revision
            );
            assert_eq!(said.compact_revision.max(0), reported.compact_revision.max(0));
        }
        let error = serving(made.said.revision + 1000).unwrap_err().to_string();
        assert!(error.contains("HashKV failed"), "{error}");
    }
}
