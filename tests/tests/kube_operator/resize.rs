//! Growing and shrinking with kubectl, under clients that write down every answer, while a pod is deleted.

use quorate_tests::etcd;
use quorate_tests::kube::cluster::{manifest, members, peer_selector};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;

#[test]
fn no_acknowledged_write_is_lost_from_one_to_three_and_back_with_a_pod_deleted() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("resize");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    let first = cluster.await_ready(1, &version);
    let id = cluster.cluster_id();
    let traffic = Traffic::start(&cluster);
    for replicas in [3usize, 1] {
        traffic.during(&format!("scale to {replicas}"), || {
            cluster.scale(replicas as u32);
            let now = cluster.await_ready(replicas, &version);
            let names: Vec<String> = members(&now).into_iter().map(|m| m.name).collect();
            let expected: Vec<String> = (0..replicas).map(|n| format!("c-{n}")).collect();
            assert_eq!(names, expected, "the highest numbers go first");
            assert_eq!(
                members(&now)[0],
                members(&first)[0],
                "the first member stays who it is"
            );
            // A member that was scaled away takes its claim along.
            namespace.wait_for(&format!("{replicas} claims"), || {
                let claims = namespace.names(&["persistentvolumeclaims", "-l", &cluster.selector()]);
                (claims == expected).then_some(())
            });
        });
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
    }
    traffic.verdict();
    assert_eq!(cluster.cluster_id(), id, "the same cluster all the while");
    let told = [
        "PeerCreated",
        "MemberAdded",
        "MemberPromoted",
        "MemberRemoved",
        "PeerRemoved",
    ];
    for name in ["c-1", "c-2"] {
        for reason in told {
            namespace.await_event(reason, name);
        }
    }
}
