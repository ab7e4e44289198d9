//! Version changes by editing one value of the manifest, under clients that write down every answer.

use quorate_tests::cluster::Cluster;
use quorate_tests::torture::Torture;
use quorate_tests::{etcd, in_full};

/// One minor up, and all members restarted; in full from the oldest to the newest supported minor, one at a time.
#[test]
fn no_acknowledged_write_is_lost_from_one_minor_to_the_next() {
    let minors: &[&str] = if in_full() {
        &["3.4", "3.5", "3.6", "3.7"]
    } else {
        &["3.5", "3.6"]
    };
    let path: Vec<String> = minors.iter().map(|minor| etcd::newest(minor)).collect();
    let newest = &path[path.len() - 1];
    let mut cluster = Cluster::new(3, &path[0]);
    cluster.up();
    let before = cluster.await_ready(3, &path[0]);
    let torture = Torture::start(&cluster);
    for version in &path[1..] {
        torture.planned(&format!("change to {version}"), || {
            cluster.write_manifest(3, version);
            let after = cluster.await_ready(3, version);
            let ids = |s: &quorate_host::Status| s.members.iter().map(|m| m.id.clone()).collect::<Vec<_>>();
            assert_eq!(ids(&before), ids(&after), "members keep their identity and data");
        });
    }
    torture.planned("redeploy", || {
        let pids = |s: &quorate_host::Status| s.members.iter().map(|m| m.pid).collect::<Vec<_>>();
        let before = pids(&cluster.await_ready(3, newest));
        cluster.must(&["redeploy", "--reason", "because"]);
        cluster.await_status("all members restarted", |s| {
            pids(s).iter().zip(&before).all(|(a, b)| a != b && a.is_some())
        });
        cluster.await_ready(3, newest);
    });
    torture.verdict();
    cluster.stop();
}

/// A version that cannot be reached blocks, says why, and harms nothing.
#[test]
fn a_version_that_skips_a_minor_is_blocked_and_harms_nothing() {
    let (from, to) = (etcd::newest("3.5"), etcd::newest("3.7"));
    let mut cluster = Cluster::new(1, &from);
    cluster.up();
    let before = cluster.await_ready(1, &from);
    cluster.write_manifest(1, &to);
    let blocked = cluster.await_status("blocked", |s| s.blocks.iter().any(|b| b.reason == "VersionPath"));
    assert_eq!(
        blocked.members[0].pid, before.members[0].pid,
        "the member was left alone"
    );
    cluster.write_manifest(1, &from);
    cluster.await_ready(1, &from);
    cluster.stop();
}
