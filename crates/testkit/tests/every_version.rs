//! Every workload on every version: all say the same of the same history.

use std::collections::BTreeMap;

use quorate_testkit::{Workload, in_full, oldest_and_newest, patches};

#[test]
fn the_same_history_has_the_same_hashes_whichever_version_wrote_it() {
    let mut said: BTreeMap<Workload, (String, Vec<(i64, u32)>)> = BTreeMap::new();
    // Those between write the same databases in the matrix of crates/datadir, whose hashes are compared with etcd's.
    let versions = if in_full() { patches() } else { oldest_and_newest() };
    for version in versions {
        for workload in Workload::ALL {
            let began = std::time::Instant::now();
            // The full size is for those who look at the files.
            let workload = match workload {
                Workload::Small(_) => Workload::Small(10_000),
                other => other,
            };
            let made = workload.make(&version);
            eprintln!("{version} {workload}: {:.1} s", began.elapsed().as_secs_f64());
            let hashes: Vec<_> = made.said.hashes.iter().map(|it| (it.revision, it.hash)).collect();
            let (first, before) = said
                .entry(workload)
                .or_insert_with(|| (version.clone(), hashes.clone()));
            assert_eq!(*before, hashes, "{workload}: {first} and {version}");
            assert_eq!(made.said.members.len(), 1);
            assert!(made.data_dir.join("member/snap/db").exists());
            // A snapshot is pages and a hash.
            let length = std::fs::metadata(&made.snapshot).unwrap().len();
            assert_eq!(length % 4096, 32, "{workload} on {version}");
            let compacted = made.said.hashes[0].compact_revision > 0;
            assert_eq!(compacted, workload == Workload::Compacted, "{version}");
            assert_eq!(made.user.is_some(), workload == Workload::Auth);
        }
    }
}
