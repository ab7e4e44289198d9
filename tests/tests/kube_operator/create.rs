//! A cluster from a manifest: what is made for it, what it says of itself, what is left when it is deleted.

use quorate_tests::etcd;
use quorate_tests::kube::assertions::{
    assert_at_rest, assert_budget, assert_claims, assert_pods, assert_services, assert_srv_records, names,
};
use quorate_tests::kube::cluster::{KubeCluster, manifest, members};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::volume;

/// Every minor that is supported: what differs between them is in command lines, probes and answers.
#[test]
fn a_cluster_of_one_serves_with_every_minor() {
    let namespace = Namespace::new("minors");
    let minors = ["3.4", "3.5", "3.6", "3.7"].map(|minor| (minor.replace('.', "-"), etcd::newest(minor)));
    for (minor, version) in &minors {
        let name = format!("of-{minor}");
        namespace.apply(&manifest(&name, 1, version));
    }
    for (minor, version) in &minors {
        let name = format!("of-{minor}");
        let cluster = KubeCluster::of(&namespace, &name);
        assert_at_rest(&cluster, 1, version);
        assert_srv_records(&cluster);
        assert_pods(&cluster, 1);
        cluster.put("key", &name);
        assert_eq!(cluster.value("key"), name);
    }
}

/// Deleting an EtcdCluster leaves its data; the same manifest finds it again; the guide's selector deletes it.
#[test]
fn a_cluster_of_three_is_as_its_manifest_says_and_outlives_the_deletion_of_its_etcdcluster() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("resume");
    let yaml = manifest("cluster1", 3, &version);
    let cluster = namespace.create("cluster1", &yaml);
    assert_at_rest(&cluster, 3, &version);
    assert_services(&cluster);
    assert_srv_records(&cluster);
    assert_budget(&cluster, Some(2));
    assert_claims(&cluster, 3);
    assert_pods(&cluster, 3);
    let before = cluster.get();
    let id = cluster.cluster_id();
    cluster.put("key", "kept");

    namespace.must(&["delete", "etcdcluster", "cluster1"]);
    let selector = cluster.selector();
    namespace.wait_for("all but the claims gone", || {
        let left = namespace.names(&[
            "etcdpeers,replicasets,pods,services,poddisruptionbudgets",
            "-l",
            &selector,
        ]);
        left.is_empty().then_some(())
    });
    assert_eq!(
        namespace.names(&["persistentvolumeclaims", "-l", &selector]),
        names("cluster1", 3)
    );

    namespace.apply(&yaml);
    let after = cluster.await_ready(3, &version);
    assert_eq!(
        members(&after),
        members(&before),
        "the same members, with their data"
    );
    assert_eq!(cluster.cluster_id(), id, "the same cluster");
    assert_eq!(cluster.value("key"), "kept");

    namespace.must(&["delete", "etcdcluster", "cluster1"]);
    let directories: Vec<_> = names("cluster1", 3)
        .iter()
        .map(|n| volume::directory(&cluster, n))
        .collect();
    namespace.must(&["delete", "persistentvolumeclaims", "--selector", &selector]);
    namespace.wait_for("the volumes deleted", || {
        directories.iter().all(|d| !d.exists()).then_some(())
    });
    namespace.apply(&yaml);
    cluster.await_ready(3, &version);
    assert_ne!(cluster.cluster_id(), id, "without its data it is another cluster");
    assert_eq!(cluster.value("key"), "");
}
