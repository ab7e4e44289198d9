//! Growing and shrinking with kubectl, under clients that write down every answer, while pods and the operator die.
#![cfg(feature = "kube")]

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{manifest, members};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;

#[test]
fn no_acknowledged_write_is_lost_from_one_to_three_to_five_and_back() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("resize");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    let first = cluster.await_ready(1, &version);
    let id = cluster.cluster_id();
    let traffic = Traffic::start(&cluster);
    for replicas in [3usize, 5, 3, 1] {
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
                namespace.must(&[
                    "delete",
                    "pods",
                    "-l",
                    "etcd.improbable.io/peer-name=c-1",
                    "--wait=false",
                ]);
                namespace.wait_for("another pod", || {
                    cluster.pod_uid("c-1").filter(|uid| Some(uid) != before.as_ref())
                });
                cluster.await_ready(replicas, &version);
            });
        }
    }
    traffic.verdict();
    assert_eq!(cluster.cluster_id(), id, "the same cluster all the while");
    for name in ["c-1", "c-2", "c-3", "c-4"] {
        for (reason, count) in [
            ("PeerCreated", 1),
            ("MemberAdded", 1),
            ("MemberPromoted", 1),
            ("MemberRemoved", 1),
            ("PeerRemoved", 1),
        ] {
            namespace.await_event(reason, name);
            let told = namespace.events(reason);
            assert!(told.len() >= count, "{reason}: {told:?}");
        }
    }
}

/// The operator ends at any moment of a change and another goes on where it left off.
#[test]
fn a_resize_whose_operator_is_killed_again_and_again_is_done_all_the_same() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("kills");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    cluster.await_ready(1, &version);
    let id = cluster.cluster_id();
    let traffic = Traffic::start(&cluster);
    let mut rng = fastrand::Rng::with_seed(11);
    for (replicas, kills) in [(3usize, 4), (1, 3), (2, 2)] {
        traffic.during(&format!("scale to {replicas}, {kills} operators killed"), || {
            cluster.scale(replicas as u32);
            for _ in 0..kills {
                // Not a wait for something: the moment of the kill is what varies.
                std::thread::sleep(std::time::Duration::from_millis(rng.u64(500..6000)));
                bed.kill_operator();
            }
            cluster.await_ready(replicas, &version);
        });
    }
    traffic.verdict();
    assert_eq!(cluster.cluster_id(), id);
    let claims = namespace.names(&["persistentvolumeclaims", "-l", &cluster.selector()]);
    assert_eq!(claims, ["c-0", "c-1"], "nothing is left behind");
}
