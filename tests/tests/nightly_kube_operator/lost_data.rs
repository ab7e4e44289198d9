//! Pods and data lost: all pods at once, and again; one volume wiped.

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{manifest, member_id, members, peer_selector};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;
use quorate_tests::kube::volume;

#[test]
fn all_pods_gone_at_once_come_back_as_who_they_were() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("reboot");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let id = cluster.cluster_id();
    let traffic = Traffic::start(&cluster);
    for round in 1..=2 {
        let pods = cluster.pod_uids(3);
        traffic.during(&format!("round {round}: all pods gone"), || {
            cluster.kill_pods(&cluster.selector());
            cluster.await_other_pods(&pods);
            let after = cluster.await_ready(3, &version);
            assert_eq!(members(&after), members(&before));
        });
    }
    traffic.verdict();
    assert_eq!(cluster.cluster_ids(), [id]);
}

#[test]
fn a_member_whose_volume_is_wiped_comes_back_under_a_new_id_and_nothing_is_lost() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("wiped");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    cluster.await_ready(3, &version);
    let id = cluster.cluster_id();
    let traffic = Traffic::start(&cluster);
    for victim in ["c-2", "c-0"] {
        let before = member_id(&cluster.get(), victim);
        traffic.during(&format!("the volume of {victim} wiped"), || {
            volume::wipe(&cluster, victim);
            cluster.kill_pods(&peer_selector(victim));
            cluster.wait_for("a new id", |c| {
                let now = member_id(c, victim);
                now.is_some() && now != before
            });
            cluster.await_ready(3, &version);
        });
    }
    traffic.verdict();
    assert_eq!(cluster.cluster_ids(), [id], "one cluster, always");
}

/// With nobody to watch: a plain restart needs no operator.
#[test]
fn pods_that_restart_while_the_operator_is_away_serve_again() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("away");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    cluster.put("key", "value");
    bed.scale_operator(0);
    cluster.kill_pods(&cluster.selector());
    assert_eq!(cluster.value("key"), "value", "served without an operator");
    bed.scale_operator(1);
    let after = cluster.await_ready(3, &version);
    assert_eq!(members(&after), members(&before));
}
