//! Members on three nodes, one of which is drained, dies for good, or is cut off: `make nightly PARTS=nodes`.
#![cfg(feature = "e2e")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{KubeCluster, condition, is_ready, manifest, members, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::said;
use quorate_tests::kube::traffic::Traffic;
use serde_json::{Value, json};

const NODES: [&str; 3] = ["node1", "node2", "node3"];
/// How long a node is cut off: past the time after which its pods are evicted, and past any timeout of etcd's.
const CUT_OFF: Duration = Duration::from_secs(300);

fn node_of(pod: &Value) -> String {
    text(&pod["spec"]["nodeName"])
}

/// Three members, each on a node of its own, although the manifest says nothing of places.
fn on_three_nodes<'a>(namespace: &'a Namespace, version: &str) -> KubeCluster<'a> {
    let cluster = namespace.create("c", &manifest("c", 3, version));
    cluster.await_ready(3, version);
    let nodes: BTreeSet<String> = cluster.pods().iter().map(node_of).collect();
    assert!(
        nodes.iter().eq(&NODES),
        "members are on {nodes:?}: is it a Kubernetes of three nodes (QUORATE_KUBE_NODES=3)?"
    );
    cluster
}

/// A node that can be lost with nothing but its member: the operator is on another one, and the way from this machine to
/// Services leads through the first.
fn a_node_to_lose(bed: &Bed) -> &'static str {
    let operators: Vec<String> = bed.operators().iter().map(node_of).collect();
    let free = |node: &&&str| !operators.iter().any(|o| o == **node);
    NODES[1..].iter().find(free).expect("one operator, two nodes")
}

/// What was done to a node, taken back whatever becomes of the test.
struct Lost<'a> {
    bed: &'a Bed,
    node: &'a str,
    back: &'a str,
}

impl<'a> Lost<'a> {
    fn by(bed: &'a Bed, node: &'a str, act: &str, back: &'a str) -> Lost<'a> {
        bed.script(&["node", act, number(node)]);
        Lost { bed, node, back }
    }
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        self.bed.script(&["node", self.back, number(self.node)]);
    }
}

fn number(node: &str) -> &str {
    node.strip_prefix("node").expect("a node's name")
}

/// Watches until `done`; all the while the members on other nodes keep their pods, serve, and the cluster says that it has
/// a quorum. While the pod on the lost node is not evicted yet, it says which pod on which node does not answer.
fn meanwhile_quorate(
    cluster: &KubeCluster<'_>,
    lost: &str,
    what: &str,
    limit: Duration,
    done: impl Fn() -> bool,
) {
    let began = Instant::now();
    let others: Vec<(String, String)> = cluster
        .pods()
        .iter()
        .filter(|pod| node_of(pod) != lost)
        .map(|pod| (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"])))
        .collect();
    assert_eq!(others.len(), 2);
    let silent = { cluster.pods() }.into_iter().find(|pod| node_of(pod) == lost);
    let silent = silent.expect("a pod on each node");
    let silent = format!(
        "(pod {} on node {lost}) runs and does not answer",
        text(&silent["metadata"]["name"])
    );
    let mut reported = false;
    while !done() {
        let pods = cluster.pods();
        for (name, uid) in &others {
            let found = pods.iter().find(|pod| text(&pod["metadata"]["uid"]) == *uid);
            let kept = found.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            assert!(kept, "{name} was disturbed\n{}", cluster.namespace.picture());
        }
        let said = cluster.get();
        let quorate = condition(&said, "Quorate").is_some_and(|c| c["status"] == "True");
        assert!(quorate, "it says that it has no quorum: {said:#}");
        let ready = condition(&said, "Ready").map(|c| text(&c["message"]));
        reported |= ready.is_some_and(|message| message.contains(&silent));
        assert!(
            began.elapsed() < limit,
            "not {what} after {limit:?}\n{}",
            cluster.namespace.picture()
        );
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(reported, "Ready never said that {silent:?}");
}

#[test]
fn drains_of_each_node_in_turn_lose_no_write() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("drains");
    let cluster = on_three_nodes(&namespace, &version);
    let before = members(&cluster.get());
    let traffic = Traffic::start(&cluster);
    for node in NODES {
        traffic.planned(&format!("{node} drained"), || {
            let drain = ["drain", node, "--ignore-daemonsets", "--delete-emptydir-data"];
            let drained = bed.kubectl(&[&drain[..], &["--timeout=200s"]].concat());
            let settled = drained.status.success().then(|| {
                bed.await_operator();
                namespace.wait_for("all members serve elsewhere", || {
                    let moved = cluster.pods().iter().all(|pod| node_of(pod) != node);
                    (moved && is_ready(&cluster.get(), 3, &version)).then_some(())
                });
            });
            bed.must(&["uncordon", node]);
            assert!(settled.is_some(), "{}", said(&drained));
        });
    }
    traffic.verdict();
    assert_eq!(members(&cluster.get()), before, "members keep identity and data");
}

#[test]
fn a_node_that_dies_for_good_holds_up_no_redeployment() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("dead-node");
    let cluster = on_three_nodes(&namespace, &version);
    let traffic = Traffic::start(&cluster);
    let node = a_node_to_lose(bed);
    let dead: Vec<String> = cluster
        .pods()
        .iter()
        .filter(|pod| node_of(pod) == node)
        .map(|pod| text(&pod["metadata"]["uid"]))
        .collect();
    let lost = traffic.during("a node died", || {
        let lost = Lost::by(bed, node, "kill", "start");
        let elsewhere = || {
            let all: BTreeSet<String> = cluster
                .pods()
                .iter()
                .filter(|pod| condition(pod, "Ready").is_some_and(|c| c["status"] == "True"))
                .map(node_of)
                .collect();
            !all.contains(node) && is_ready(&cluster.get(), 3, &version)
        };
        meanwhile_quorate(
            &cluster,
            node,
            "all members on other nodes",
            Duration::from_secs(240),
            elsewhere,
        );
        lost
    });
    traffic.planned("a redeployment while the dead node's pod is still there", || {
        let before: Vec<String> = cluster
            .pods()
            .iter()
            .map(|pod| text(&pod["metadata"]["uid"]))
            .collect();
        assert!(
            dead.iter().all(|uid| before.contains(uid)),
            "nobody has ended the dead node's pod"
        );
        let patched = cluster.patch(&json!({"forceRedeploymentReason": "with a dead node"}));
        assert!(patched.status.success(), "{}", said(&patched));
        namespace.wait_for("three new pods that serve", || {
            let new = cluster
                .pods()
                .iter()
                .filter(|pod| !before.contains(&text(&pod["metadata"]["uid"])))
                .count();
            (new == 3 && is_ready(&cluster.get(), 3, &version)).then_some(())
        });
    });
    drop(lost);
    traffic.during("the node came back", || {
        namespace.wait_for("the dead node's pod is gone", || {
            let gone = cluster
                .pods()
                .iter()
                .all(|pod| !dead.contains(&text(&pod["metadata"]["uid"])));
            (gone && is_ready(&cluster.get(), 3, &version)).then_some(())
        });
    });
    traffic.verdict();
}

#[test]
fn a_node_that_is_cut_off_for_five_minutes_costs_neither_quorum_nor_a_write() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("cut-off");
    let cluster = on_three_nodes(&namespace, &version);
    let traffic = Traffic::start(&cluster);
    let node = a_node_to_lose(bed);
    traffic.during("a node was cut off", || {
        let lost = Lost::by(bed, node, "cut", "heal");
        let began = Instant::now();
        let over = || began.elapsed() >= CUT_OFF;
        meanwhile_quorate(&cluster, node, "over", CUT_OFF * 2, over);
        drop(lost);
        cluster.await_ready(3, &version);
    });
    traffic.verdict();
    let ids: Vec<_> = members(&cluster.get())
        .into_iter()
        .map(|member| member.id)
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 3, "{ids:?}");
}
