//! Changes that restart members, under clients that write down every answer.

use std::time::{Duration, Instant};

use quorate_tests::etcd;
use quorate_tests::kube::cluster::{KubeCluster, condition, is_ready, manifest, members, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;
use quorate_tests::kube::{PATIENCE, said};
use serde_json::{Value, json};

const MEMBERS: [&str; 3] = ["c-0", "c-1", "c-2"];

/// Changes that restart members do so one after the other, and clients notice nothing.
#[test]
fn new_options_a_new_quota_and_a_forced_redeployment_reach_one_member_after_the_other() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("rolling");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let traffic = Traffic::start(&cluster);
    let changes = [
        json!({"options": {"snapshotCount": 5000}, "quota": "32Mi"}),
        json!({"forceRedeploymentReason": "once more"}),
    ];
    for change in changes {
        let pods = cluster.pod_uids(3);
        traffic.planned(&change.to_string(), || {
            let patched = cluster.patch(&change);
            assert!(patched.status.success(), "{}", said(&patched));
            let order = roll(&cluster, &pods, &version);
            assert_eq!(order, ["c-2", "c-1", "c-0"], "the highest number first");
        });
    }
    traffic.verdict();
    let after = cluster.get();
    assert_eq!(
        members(&after),
        members(&before),
        "members keep their identity and data"
    );
    for pod in cluster.pods() {
        let command = pod["spec"]["containers"][0].to_string();
        for part in ["snapshot-count", "5000", "33554432"] {
            assert!(command.contains(part), "{part} is not in {command}");
        }
    }
}

/// Watches until each member has another pod and all is well; in which order the pods were made, by their own time: one
/// look may find two of them. No two are ever away at once.
fn roll(cluster: &KubeCluster<'_>, before: &[Option<String>], version: &str) -> Vec<String> {
    let began = Instant::now();
    let mut made: Vec<(String, &str)> = Vec::new();
    loop {
        let pods = cluster.pods();
        let serving = pods.iter().filter(|p| serves(p)).count();
        assert!(
            serving >= 2,
            "only {serving} of three serve\n{}",
            cluster.namespace.picture()
        );
        for (member, old) in MEMBERS.iter().zip(before) {
            let label = "etcd.improbable.io/peer-name";
            let new = |p: &&Value| {
                p["metadata"]["labels"][label] == *member && Some(text(&p["metadata"]["uid"])) != *old
            };
            let new = pods
                .iter()
                .find(new)
                .filter(|_| made.iter().all(|(_, m)| m != member));
            made.extend(new.map(|p| (text(&p["metadata"]["creationTimestamp"]), *member)));
        }
        made.sort();
        let order: Vec<String> = made.iter().map(|(_, member)| (*member).to_owned()).collect();
        if order.len() == 3 && is_ready(&cluster.get(), 3, version) {
            return order;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "only {order:?} after {PATIENCE:?}\n{}",
            cluster.namespace.picture()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn serves(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
        && condition(pod, "Ready").is_some_and(|c| c["status"] == "True")
}
