//! Manifests that the API server must refuse, whether the operator runs or not.

use super::cluster::manifest;
use super::namespace::Namespace;

/// Manifests that are wrong, and words of the refusal that both the API server and the operator have for them.
fn wrong() -> Vec<(String, &'static [&'static str])> {
    let good = manifest("c", 3, "3.6.1");
    let reserved = "  podTemplate:\n    metadata:\n      annotations:\n        etcd.improbable.io/x: value\n";
    vec![
        (
            good.replace("      storageClassName: standard\n", "")
                .replace("replicas: 3", "replicas: 0"),
            &[
                "spec.storage.volumeClaimTemplate.storageClassName: Required value",
                "spec.replicas",
            ],
        ),
        (
            good.replace("3.6.1", "4.0.0")
                .replace("  podTemplate:\n", reserved),
            &[
                "only Etcd version 3 is supported",
                "is a reserved name ('etcd.improbable.io' prefix)",
            ],
        ),
        (
            good.replace("3.6.1", "'3.6'"),
            &["3.6 is not in dotted-tri format"],
        ),
        (good.replace("name: c", "name: 1c"), &["begin"]),
        (
            good.clone() + "  quota: 1Ki\n",
            &["at least 1Mi and less than 8Ei"],
        ),
        (
            good.clone() + "  quota: 8Ei\n",
            &["at least 1Mi and less than 8Ei"],
        ),
        (
            good.clone() + "  options: {maxRequestBytes: 1Ki}\n",
            &["at least 4Ki"],
        ),
        (
            good.clone() + "  options: {maxRequestBytes: 1Gi}\n",
            &["at most 256Mi"],
        ),
        (
            good.clone() + "  options: {autoCompactionRetention: soon}\n",
            &["a time such as 1h or 30m"],
        ),
        (
            good.clone() + "  options: {autoCompactionRetention: 2562048}\n",
            &["at most 2562047h"],
        ),
    ]
}

/// Hands in each of them, and checks that it is refused with all its faults.
pub fn assert_refused(namespace: &Namespace) {
    for (yaml, faults) in wrong() {
        namespace.refusal(
            faults,
            || namespace.try_apply(&yaml, &[]),
            || {
                namespace.must(&["delete", "etcdclusters", "--all"]);
            },
        );
    }
    assert!(
        namespace.names(&["etcdclusters"]).is_empty(),
        "none of them is there"
    );
}
