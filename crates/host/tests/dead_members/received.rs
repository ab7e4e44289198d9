//! A member that died before it put a database which a leader had sent in the place of its own: etcd does that at its
//! next start, and so does what is made of its directory.

use std::fs;
use std::path::Path;

use quorate_datadir::wal::Log;
use quorate_datadir::{Progress, Revive};
use quorate_testkit::{Start, newest_of_each_minor};

use super::member::{Member, long_batches};
use super::workload::{Mode, Workload};
use super::{compare, make};

#[test]
fn a_database_that_was_received_is_the_one_that_counts() {
    for version in newest_of_each_minor() {
        let root = tempfile::tempdir().unwrap();
        one(&version, root.path());
        println!("{version}: as etcd has it");
    }
}

fn one(version: &str, root: &Path) {
    let mut random = fastrand::Rng::with_seed(7);
    let dead = root.join("dead/data");
    let snap = dead.join("member/snap");
    let start = long_batches(Start::new(version, &dead)).flag("--snapshot-count=20");
    let mut workload = Workload::new(Mode::Plain, false);
    let mut etcd = Member::serve(&start);
    workload.run(&etcd, &mut random, 50..60);
    etcd.stop();
    let old = fs::read(snap.join("db")).unwrap();
    etcd = etcd.again(&dead);
    workload.run(&etcd, &mut random, 100..110);
    workload.run_and_kill(&mut etcd, &mut random, 50..60);

    // The old database in its place, and the new one as if a leader had sent it with the last snapshot.
    let log = Log::read(&dead.join("member/wal")).unwrap();
    let mark = log.snapshot().unwrap();
    let sent = snap.join(format!("{:016x}.snap.db", mark.index));
    fs::rename(snap.join("db"), &sent).unwrap();
    fs::write(snap.join("db"), old).unwrap();

    let made = make(&dead, &root.join("made.db"), &etcd.binary());
    let real = root.join("real/data");
    compare::copy(&dead, &real);
    let etcd = etcd.again(&real);
    assert!(
        !real.join("member/snap").join(sent.file_name().unwrap()).exists(),
        "etcd took it"
    );
    compare::compare(
        &etcd,
        &root.join("made.db"),
        &root.join("real.db"),
        &made,
        &mut random,
    );
    drop(etcd);

    // Without it neither goes on.
    fs::remove_file(&sent).unwrap();
    let wanted = Revive {
        data_dir: &dead,
        wal_dir: None,
        file: &root.join("none.db"),
    };
    let refused = quorate_datadir::revive(&wanted, &Progress::new())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("which is not there"), "{refused}");
    assert!(!root.join("none.db").exists());
}
