//! Volumes in wrong places, where it takes minutes: in another cluster under clients of both, and below the only member.

use quorate_tests::etcd;
use quorate_tests::kube::cluster::{manifest, member_id, members, peer_selector, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::traffic::Traffic;
use quorate_tests::kube::{said, stays, volume};

/// Clients of both write meanwhile: what crossed would show in either history.
#[test]
fn a_copy_of_a_volume_in_another_cluster_that_serves_starts_nothing_and_costs_neither_a_write() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("crossed");
    let from = namespace.create("e", &manifest("e", 1, &version));
    let into = namespace.create("g", &manifest("g", 3, &version));
    let before = from.await_ready(1, &version);
    into.await_ready(3, &version);
    let (of_from, of_into) = (Traffic::start(&from), Traffic::start(&into));
    of_into.during("copied", || {
        let own = volume::snapshot(&into, "g-1");
        volume::wipe(&into, "g-1");
        volume::copy_in_use(&from, "e-0", "g-1");
        into.kill_pods(&peer_selector("g-1"));
        let message = into.await_condition("Blocked", "True", "ForeignData");
        let owner = format!("{}/e/e-0", namespace.name);
        assert!(
            message.contains(&owner) && message.contains("copied or moved here"),
            "{message}"
        );
        stays("without an etcd on the copy", || !into.etcd_runs("g-1"));
        volume::put_back(&into, "g-1", &own);
        into.kill_pods(&peer_selector("g-1"));
        into.await_ready(3, &version);
    });
    of_from.verdict();
    of_into.verdict();
    assert_eq!(members(&from.await_ready(1, &version)), members(&before));
}

/// There is nobody to copy from: the user who put it back says whether it goes on from there.
#[test]
fn the_only_member_goes_on_from_a_volume_that_was_put_back_when_its_user_agrees() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("accepted");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    let before = cluster.await_ready(1, &version);
    cluster.put("key", "older");
    let snapshot = volume::snapshot(&cluster, "c-0");
    let pod = cluster.pod_uids(1);
    let changed = cluster.patch(&serde_json::json!({"options": {"snapshotCount": 20000}}));
    assert!(changed.status.success(), "{}", said(&changed));
    cluster.await_other_pods(&pod);
    cluster.await_ready(1, &version);
    cluster.put("key", "newer");
    volume::put_back(&cluster, "c-0", &snapshot);
    cluster.kill_pods(&peer_selector("c-0"));
    let event = namespace.await_event("RolledBack", "c-0");
    let message = text(&event["message"]);
    let (_, consent) = message.split_once("spec.acceptRolledBack to ").expect(&message);
    let consent = consent.split('"').nth(1).expect("the text in quotes");
    let agreed = cluster.patch(&serde_json::json!({"acceptRolledBack": consent}));
    assert!(agreed.status.success(), "{}", said(&agreed));
    let after = cluster.await_ready(1, &version);
    assert_eq!(cluster.value("key"), "older");
    assert_eq!(member_id(&after, "c-0"), member_id(&before, "c-0"));
}
