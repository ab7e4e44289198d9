//! Growing and shrinking with kubectl, under clients that write down every answer, while a pod is deleted.

use quorate_tests::etcd;
use quorate_tests::kube::changes::{await_resize_events, resize};
use quorate_tests::kube::cluster::{manifest, peer_selector};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;

#[test]
fn no_acknowledged_write_is_lost_from_one_to_three_and_back_with_a_pod_deleted() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("resize");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    cluster.await_ready(1, &version);
    let traffic = Traffic::start(&cluster);
    resize(&cluster, &traffic, &[3, 1], &version, |replicas| {
        if replicas == 3 {
            traffic.during("a pod deleted", || {
                let before = cluster.pod_uid("c-1");
                namespace.must(&["delete", "pods", "-l", &peer_selector("c-1"), "--wait=false"]);
                namespace.wait_for("another pod", || {
                    cluster.pod_uid("c-1").filter(|uid| Some(uid) != before.as_ref())
                });
                cluster.await_ready(replicas, &version);
            });
        }
    });
    traffic.verdict();
    await_resize_events(&cluster, &["c-1", "c-2"]);
}
