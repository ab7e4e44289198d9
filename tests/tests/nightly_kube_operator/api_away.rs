//! The API server stops answering: members go on as if nothing were, and what was begun is finished afterwards.

use std::time::Duration;

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{manifest, members};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::process::Held;
use quorate_tests::kube::traffic::Traffic;
use rustix::process::Pid;

/// Longer than the Lease of the operator lasts.
const AWAY: Duration = Duration::from_secs(30);

fn api_server(bed: &Bed) -> Pid {
    let own = format!("{}/pki/apiserver.crt", bed.dir().display());
    let processes = std::fs::read_dir("/proc").expect("there is a /proc").flatten();
    let mut pids = processes.filter_map(|e| {
        let pid: i32 = e.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(e.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        (line.starts_with("kube-apiserver\0") && line.contains(&own)).then_some(pid)
    });
    let pid = pids.next().and_then(Pid::from_raw);
    pid.expect("the bed has an API server")
}

#[test]
fn a_cluster_serves_and_a_change_is_finished_although_the_api_server_was_away() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("apiaway");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let pods = cluster.pod_uids(3);
    let traffic = Traffic::start(&cluster);
    traffic.during("the API server away", || {
        let held = Held::all(&[api_server(bed)]);
        std::thread::sleep(AWAY);
        drop(held);
        bed.await_operator();
        let after = cluster.await_ready(3, &version);
        assert_eq!(members(&after), members(&before));
        assert_eq!(cluster.pod_uids(3), pods, "no pod was recreated");
    });
    traffic.during("the API server away in the middle of a change", || {
        cluster.scale(1);
        cluster.wait_for("the change begun", |c| members(c).len() < 3);
        let held = Held::all(&[api_server(bed)]);
        std::thread::sleep(AWAY);
        drop(held);
        let after = cluster.await_ready(1, &version);
        assert_eq!(members(&after)[..], members(&before)[..1]);
    });
    traffic.verdict();
}
