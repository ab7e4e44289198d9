//! Manifests that slipped past the rules, and places in which a right one cannot run: told, and nothing is harmed.

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{condition, manifest, members, text};
use quorate_tests::kube::lax::{NoRules, NoWebhook};
use quorate_tests::kube::must_be_back;
use quorate_tests::kube::namespace::Namespace;
use serde_json::{Value, json};

/// Rules come and go in an API server within moments, not at once.
fn patch_until_let_in(
    namespace: &Namespace,
    cluster: &quorate_tests::kube::cluster::KubeCluster<'_>,
    spec: &Value,
) {
    namespace.wait_for("the change let in", || {
        cluster.patch(spec).status.success().then_some(())
    });
}

#[test]
fn what_slipped_past_the_rules_is_told_and_nothing_is_done_about_it() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("slipped");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    let before = cluster.await_ready(1, &version);
    let pod = cluster.pod_uid("c-0");

    let no_webhook = NoWebhook::begin(bed);
    let no_rules = NoRules::begin(bed);
    let spec = json!({"version": "foo", "storage": {"volumeClaimTemplate": {"storageClassName": null}}});
    patch_until_let_in(&namespace, &cluster, &spec);
    let invalid = cluster.wait_for("told what is wrong", |c| {
        condition(c, "Ready").is_some_and(|r| r["reason"] == "Invalid" && r["status"] == "False")
    });
    let message = text(&condition(&invalid, "Ready").expect("a condition")["message"]);
    for fault in ["spec.version", "storageClassName"] {
        assert!(message.contains(fault), "{message}");
    }
    assert_eq!(
        members(&invalid),
        members(&before),
        "what was known is still there"
    );
    assert_eq!(cluster.pod_uid("c-0"), pod, "its pod was left alone");

    let storage = before["spec"]["storage"].clone();
    patch_until_let_in(
        &namespace,
        &cluster,
        &json!({"version": version, "storage": storage}),
    );
    drop(no_rules);
    drop(no_webhook);
    let after = cluster.await_ready(1, &version);
    assert_eq!(members(&after), members(&before));
    assert_eq!(cluster.pod_uid("c-0"), pod);
    namespace.wait_for("the rules in force again", || {
        (!cluster.patch(&json!({"version": "foo"})).status.success()).then_some(())
    });
    bed.await_webhook();
}

/// What is made outside of the namespace for a test; taken away when dropped.
struct Outside {
    bed: &'static Bed,
    node: String,
    label: String,
    class: String,
}

impl Drop for Outside {
    fn drop(&mut self) {
        let label = format!("{}-", self.label);
        let unlabel = self.bed.kubectl(&["label", &self.node, &label]);
        let delete = self
            .bed
            .kubectl(&["delete", "storageclass", &self.class, "--ignore-not-found"]);
        for output in [unlabel, delete] {
            must_be_back("the nodes and classes without those of this test", &output);
        }
    }
}

#[test]
fn a_pod_without_a_node_and_a_claim_without_a_class_are_told_and_mended_by_what_was_missing() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("nowhere");
    let label = format!("quorate.test/{}", namespace.name);
    let picky = format!("  podTemplate:\n    nodeSelector: {{{label}: 'yes'}}\n");
    let yaml = manifest("picky", 1, &version).replace("  podTemplate:\n", &picky);
    let unscheduled = namespace.create("picky", &yaml);
    let class = namespace.name.clone();
    let yaml = manifest("classless", 1, &version).replace(
        "storageClassName: standard",
        &format!("storageClassName: {class}"),
    );
    let unbound = namespace.create("classless", &yaml);
    for (cluster, word) in [(&unscheduled, "node"), (&unbound, "PersistentVolumeClaim")] {
        let told = namespace.wait_for("why its pod is not there", || {
            let message = cluster.await_condition("Ready", "False", "Preparing");
            message.contains(word).then_some(message)
        });
        println!("{}: {told}", cluster.name);
    }
    let bed = namespace.bed();
    let node = bed.must(&["get", "nodes", "-o", "name"]);
    let outside = Outside {
        bed,
        node: node.lines().next().expect("a node").to_owned(),
        label,
        class,
    };
    let Outside {
        node, label, class, ..
    } = &outside;
    bed.must(&["label", node, &format!("{label}=yes")]);
    namespace.apply(&format!(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{name: {class}}}\n\
         provisioner: kubernetes.io/host-path\nreclaimPolicy: Delete\nvolumeBindingMode: Immediate\n"
    ));
    unscheduled.await_ready(1, &version);
    unbound.await_ready(1, &version);
}
