//! A cluster from a manifest: sizes, pods as the template says, resources of the namespace.

use quorate_tests::etcd;
use quorate_tests::kube::assertions::{
    assert_at_rest, assert_budget, assert_claims, assert_pods, assert_services, assert_srv_records,
};
use quorate_tests::kube::cluster::{manifest, text};
use quorate_tests::kube::namespace::Namespace;

#[test]
fn a_cluster_of_one_three_and_five_is_as_its_manifest_says() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("sizes");
    for (replicas, stays) in [(1u32, None), (3, Some(2)), (5, Some(3))] {
        let name = format!("of-{replicas}");
        let cluster = namespace.create(&name, &manifest(&name, replicas, &version));
        let count = replicas as usize;
        assert_at_rest(&cluster, count, &version);
        assert_services(&cluster);
        assert_srv_records(&cluster);
        assert_budget(&cluster, stays);
        assert_claims(&cluster, count);
        assert_pods(&cluster, count);
        cluster.put("key", &name);
        assert_eq!(cluster.value("key"), name);
        namespace.must(&["delete", "etcdcluster", &name]);
    }
}

/// What the manifest says of pods is found in them: annotations, resources, and threads by the CPU limit.
#[test]
fn pods_are_as_the_template_says() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("template");
    for (limit, threads) in [("200m", "1"), ("1", "1"), ("2500m", "2")] {
        let name = format!("cpu-{limit}");
        let yaml = manifest(&name, 1, &version)
            .replace("cpu: '1'", &format!("cpu: '{limit}'"))
            .replace(
                "  podTemplate:\n",
                "  podTemplate:\n    metadata:\n      annotations:\n        prometheus.io/port: '2379'\n",
            );
        let cluster = namespace.create(&name, &yaml);
        cluster.await_ready(1, &version);
        let pod = cluster.pod(&format!("{name}-0")).expect("a pod");
        let etcd = &pod["spec"]["containers"][0];
        let threads_set = etcd["env"]
            .as_array()
            .and_then(|e| e.iter().find(|e| e["name"] == "GOMAXPROCS"));
        assert_eq!(
            threads_set.map(|e| text(&e["value"])).as_deref(),
            Some(threads),
            "{limit}"
        );
        assert_eq!(etcd["resources"]["limits"]["cpu"], limit);
        assert_eq!(pod["metadata"]["annotations"]["prometheus.io/port"], "2379");
        namespace.must(&["delete", "etcdcluster", &name]);
    }
}

/// A namespace whose quota counts limits, and whose LimitRange gives them to containers that name none, and refuses less.
#[test]
fn a_manifest_without_resources_gets_those_of_the_limit_range() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("limits");
    namespace.apply(
        "apiVersion: v1
kind: LimitRange
metadata: {name: defaults}
spec:
  limits:
  - {type: Container, default: {cpu: 700m, memory: 300Mi}, defaultRequest: {cpu: 30m, memory: 70Mi}, min: {cpu: 30m, memory: 70Mi}}
",
    );
    let yaml = manifest("c", 3, &version);
    let yaml = yaml
        .split("  podTemplate:")
        .next()
        .expect("the part before the template");
    let cluster = namespace.create("c", yaml);
    cluster.await_ready(3, &version);
    for pod in cluster.pods() {
        let etcd = &pod["spec"]["containers"][0];
        assert_eq!(etcd["resources"]["limits"]["cpu"], "700m");
        assert_eq!(etcd["resources"]["requests"]["memory"], "70Mi");
        for init in pod["spec"]["initContainers"].as_array().expect("init containers") {
            assert_eq!(init["resources"], etcd["resources"]);
        }
    }
}
