//! What a cluster goes through besides what is asked of it: a node that restarts, data that rots, options that are wrong.

use std::os::unix::fs::FileExt;

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{KubeCluster, condition, is_ready, manifest, member_id, members};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;
use quorate_tests::kube::{process, volume};
use serde_json::Value;

/// Kills what runs in the `etcd` container of a member's pod; the pod stays, and kubelet starts the container again.
fn kill_etcd(cluster: &KubeCluster<'_>, member: &str) {
    let pod = cluster
        .pod(member)
        .unwrap_or_else(|| panic!("{member} has a pod"));
    process::kill(&process::of_container(&pod, "etcd"));
}

/// The node comes back with the same pods, which go through their init containers once more, all at the same time.
#[test]
fn a_node_that_restarts_brings_all_members_back_and_no_acknowledged_write_is_lost() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("node");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let (id, pods) = (cluster.cluster_id(), cluster.pod_uids(3));
    let traffic = Traffic::start(&cluster);
    traffic.during("the node restarted", || {
        bed.script(&["node", "kill", "1"]);
        bed.script(&["node", "start", "1"]);
        namespace.wait_for("every member's container restarted", || {
            let again = |pod: &Value| {
                let all = pod["status"]["containerStatuses"].as_array();
                let etcd = all.and_then(|all| all.iter().find(|c| c["name"] == "etcd"));
                etcd.is_some_and(|c| c["restartCount"].as_u64() > Some(0) && c["ready"] == true)
            };
            let pods = cluster.pods();
            (pods.len() == 3 && pods.iter().all(again)).then_some(())
        });
        bed.acting_operator();
        bed.await_operator();
        let after = cluster.await_ready(3, &version);
        assert_eq!(members(&after), members(&before));
    });
    traffic.verdict();
    assert_eq!(cluster.pod_uids(3), pods, "the same pods");
    assert_eq!(cluster.cluster_id(), id);
}

/// Its data is there and cannot be read: it ends at every start, until it is replaced.
#[test]
fn a_member_in_a_crash_loop_over_damaged_data_is_replaced() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("damaged");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let id = cluster.cluster_id();
    let traffic = Traffic::start(&cluster);
    traffic.during("the log of c-1 damaged", || {
        let log = first_log(&cluster, "c-1");
        let file = std::fs::File::options().write(true).open(&log);
        let file = file.unwrap_or_else(|e| panic!("{}: {e}", log.display()));
        // Within the first records, which every start reads.
        file.write_all_at(&[0xff; 256], 24).expect("root may");
        kill_etcd(&cluster, "c-1");
        cluster.wait_for("c-1 under a new id", |c| {
            is_ready(c, 3, &version) && member_id(c, "c-1") != member_id(&before, "c-1")
        });
    });
    traffic.verdict();
    let after = members(&cluster.get());
    for n in [0, 2] {
        assert_eq!(after[n], members(&before)[n], "the others are who they were");
    }
    assert_eq!(cluster.cluster_id(), id);
}

/// The oldest file of a member's write-ahead log.
fn first_log(cluster: &KubeCluster<'_>, member: &str) -> std::path::PathBuf {
    let directory = volume::directory(cluster, member).join("g0/member/wal");
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut logs: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
    logs.retain(|path| path.extension().is_some_and(|e| e == "wal"));
    logs.sort();
    logs.into_iter().next().expect("a log")
}

/// A new cluster that cannot start as it was asked for: reported, and a patch is all it takes. No option that is let through
/// is one that etcd refuses; what becomes of a first start that etcd ends at once is in `crates/cli/tests/in_pod/`.
#[test]
fn a_first_start_that_cannot_be_is_reported_and_mended_by_a_patch() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("first");
    let image = namespace.create("image", &manifest("image", 1, "3.6.999"));
    let reported = namespace.wait_for("why the pod does not start", || {
        let reported = image.await_condition("Ready", "False", "Preparing");
        (reported.contains("Image") || reported.contains("Pull")).then_some(reported)
    });
    println!("reported: {reported}");
    image.set_version(&version);
    image.await_ready(1, &version);
    image.put("key", "value");
    assert_eq!(image.value("key"), "value");
}

/// Every pod is held at once: what is not there is reported, and nothing that is known is forgotten.
#[test]
fn members_that_do_not_answer_are_reported_and_not_forgotten() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("held");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let pods = cluster.pod_uids(3);
    let pids: Vec<_> = cluster
        .pods()
        .iter()
        .flat_map(|p| process::of_container(p, "etcd"))
        .collect();
    let held = process::Held::all(&pids);
    let now = cluster.wait_for("a report that there is no quorum", |c| {
        let no_quorum = |c: &Value| c["status"] == "False" && c["reason"] == "NoQuorum";
        condition(c, "Quorate").is_some_and(no_quorum)
    });
    assert!(condition(&now, "Ready").is_some_and(|c| c["status"] == "False"));
    assert_eq!(members(&now), members(&before), "as last seen");
    for (reason, part) in [("NoQuorum", "no quorum answers"), ("MemberUnresponsive", "c-1")] {
        let event = namespace.await_event(reason, part);
        assert_eq!(event["type"], "Warning", "{event}");
    }
    drop(held);
    let after = cluster.await_ready(3, &version);
    assert_eq!(members(&after), members(&before));
    assert_eq!(cluster.pod_uids(3), pods, "no pod was recreated");
}
