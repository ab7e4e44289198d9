//! Places in which a right manifest cannot run: reported, and mended by what was missing.

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::manifest;
use quorate_tests::kube::must_be_back;
use quorate_tests::kube::namespace::Namespace;

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
fn a_pod_without_a_node_and_a_claim_without_a_class_are_reported_and_mended_by_what_was_missing() {
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
        let reported = namespace.wait_for("why its pod is not there", || {
            let message = cluster.await_condition("Ready", "False", "Preparing");
            message.contains(word).then_some(message)
        });
        println!("{}: {reported}", cluster.name);
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
