//! What users of the operator before this one rely on: its own acceptance list, with etcd versions that are supported.

use std::time::Duration;

use quorate_tests::etcd;
use quorate_tests::kube::cluster::{KubeCluster, manifest, members, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::{said, until};
use serde_json::Value;

const SAMPLE: &str = include_str!("../../../config/samples/etcd_v1alpha1_etcdcluster.yaml");

/// Runs etcdctl as a user's own Job does: in a pod of its own, finding members by SRV records.
fn etcdctl_job(cluster: &KubeCluster<'_>, name: &str, args: &[&str]) -> String {
    let domain = format!("{}.{}.svc.cluster.local", cluster.name, cluster.namespace.name);
    let mut command = vec!["etcdctl", "--insecure-discovery", "--discovery-srv", &domain];
    command.extend(args);
    let job = serde_json::json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"backoffLimit": 10, "template": {"spec": {"restartPolicy": "OnFailure", "containers": [{
            "name": "etcdctl", "image": format!("quay.io/coreos/etcd:v{}", etcd::newest("3.5")), "command": command,
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}},
        }]}}},
    });
    cluster.namespace.apply(&job.to_string());
    within(2, cluster, &format!("the Job {name} done"), || {
        let job = cluster.namespace.json(&["job", name])?;
        (job["status"]["succeeded"] == 1).then_some(())
    });
    cluster.namespace.must(&["logs", &format!("job/{name}")])
}

/// Waits as long as that list allows, and not longer.
fn within<T>(minutes: u64, cluster: &KubeCluster<'_>, what: &str, look: impl FnMut() -> Option<T>) -> T {
    let found = until(Duration::from_secs(60 * minutes), look);
    found.unwrap_or_else(|| panic!("not {what} within {minutes} min\n{}", cluster.namespace.picture()))
}

fn replicas(cluster: &KubeCluster<'_>, count: u32) -> impl FnMut() -> Option<()> {
    move || (cluster.get()["status"]["replicas"] == count).then_some(())
}

#[test]
fn the_sample_cluster_is_accepted_serves_says_who_is_in_it_and_scales_to_four() {
    let namespace = Namespace::new("sample");
    let dry = namespace.try_apply(SAMPLE, &["--dry-run=server"]);
    assert!(dry.status.success(), "{}", said(&dry));
    assert!(
        namespace.names(&["etcdclusters"]).is_empty(),
        "a dry run creates nothing"
    );

    let cluster = namespace.create("my-cluster", SAMPLE);
    within(2, &cluster, "three names in status.members", || {
        let names: Vec<String> = members(&cluster.get()).into_iter().map(|m| m.name).collect();
        (names == ["my-cluster-0", "my-cluster-1", "my-cluster-2"]).then_some(())
    });
    etcdctl_job(&cluster, "put", &["put", "--", "foo", "bar"]);

    cluster.scale(4);
    within(5, &cluster, "four replicas", replicas(&cluster, 4));
    let version = text(&cluster.get()["spec"]["version"]);
    cluster.await_ready(4, &version);
    let listed = etcdctl_job(&cluster, "list", &["member", "list", "-w", "json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap_or_else(|e| panic!("{e}: {listed}"));
    let listed = listed["members"].as_array().expect("members");
    assert_eq!(listed.len(), 4);
    for member in listed {
        assert_ne!(text(&member["ID"]), "0");
        for field in ["peerURLs", "clientURLs"] {
            let expected = if field == "peerURLs" { ":2380" } else { ":2379" };
            assert!(text(&member[field][0]).ends_with(expected), "{member}");
        }
        assert!(text(&member["name"]).starts_with("my-cluster-"), "{member}");
    }
}

#[test]
fn a_value_outlives_the_deletion_of_a_cluster_of_one() {
    let namespace = Namespace::new("persistence");
    let yaml = manifest("cluster1", 1, &etcd::newest("3.5"));
    let cluster = namespace.create("cluster1", &yaml);
    cluster.put("foo", "bar");
    namespace.must(&["delete", "etcdcluster", "cluster1"]);
    within(1, &cluster, "its pods gone", || {
        cluster.pods().is_empty().then_some(())
    });
    namespace.apply(&yaml);
    assert_eq!(cluster.value("foo"), "bar");
}

#[test]
fn a_value_outlives_scaling_down_to_one_and_up_again() {
    let namespace = Namespace::new("scaledown");
    let version = etcd::newest("3.5");
    let cluster = namespace.create("cluster1", &manifest("cluster1", 3, &version));
    cluster.await_ready(3, &version);
    cluster.put("foo", "bar");
    cluster.scale(1);
    within(5, &cluster, "one replica", replicas(&cluster, 1));
    assert_eq!(cluster.value("foo"), "bar");
    cluster.scale(3);
    within(2, &cluster, "three replicas", replicas(&cluster, 3));
    cluster.put("foo", "baz");
    assert_eq!(cluster.value("foo"), "baz");
}

#[test]
fn a_patch_upgrade_is_done_within_two_minutes() {
    let patches: Vec<String> = etcd::patches()
        .into_iter()
        .filter(|v| v.starts_with("3.5."))
        .collect();
    let (from, to) = (&patches[0], &patches[patches.len() - 1]);
    assert_ne!(from, to, "two patches of 3.5 are in the cache");
    let namespace = Namespace::new("version");
    let cluster = namespace.create("cluster1", &manifest("cluster1", 3, from));
    cluster.await_ready(3, from);
    cluster.put("foo", "bar");
    let version = |n: u32| {
        let peer = namespace.json(&["etcdpeer", &format!("cluster1-{n}")]);
        peer.map(|p| text(&p["status"]["serverVersion"]))
            .unwrap_or_default()
    };
    assert_eq!(cluster.get()["status"]["clusterVersion"], "3.5.0");
    assert_eq!(&version(0), from);
    cluster.set_version(to);
    within(2, &cluster, "all peers of the new version", || {
        (0..3).all(|n| &version(n) == to).then_some(())
    });
    assert_eq!(cluster.value("foo"), "bar");
}
