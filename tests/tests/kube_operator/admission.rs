//! Admission: manifests that are wrong are refused with all their faults, right ones are let in and completed.

use quorate_tests::kube::cluster::manifest;
use quorate_tests::kube::manifests::assert_refused;
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::said;
use serde_json::{Value, json};

const SAMPLE: &str = include_str!("../../../config/samples/etcd_v1alpha1_etcdcluster.yaml");
const SAMPLE_PEER: &str = include_str!("../../../config/samples/etcd_v1alpha1_etcdpeer.yaml");

/// Nothing is made for it.
fn at_rest(name: &str) -> String {
    manifest(name, 3, "3.6.1").replace("spec:", "spec:\n  paused: true")
}

#[test]
fn faults_of_every_sort_are_reported_in_one_refusal_and_what_is_right_is_let_in() {
    let namespace = Namespace::new("webhook");
    let wrong = json!({
        "apiVersion": "etcd.improbable.io/v1alpha1",
        "kind": "EtcdCluster",
        "metadata": {"name": "1c"},
        "spec": {
            "replicas": 0,
            "version": "4.0.0",
            "paused": "yes",
            "storage": {"volumeClaimTemplate": {"resources": {"requests": {"storage": "50Mi"}}}},
            "podTemplate": {"metadata": {"annotations": {"etcd.improbable.io/x": "y"}}},
            "options": {"heartbeatInterval": 500, "electionTimeout": 600},
        },
    });
    let clean = || {
        namespace.must(&["delete", "etcdclusters,etcdpeers", "--all"]);
    };
    let faults = [
        "The EtcdCluster \"1c\" is invalid",
        "* metadata.name: ",
        "* spec.replicas: Invalid value: 0: expected at least 1",
        "* spec.version: Invalid value: \"4.0.0\": only Etcd version 3 is supported",
        "* spec.paused: Invalid value: the text \"yes\": expected true or false",
        "* spec.storage.volumeClaimTemplate.storageClassName: Required value",
        "* spec.podTemplate.metadata: Invalid value: \"etcd.improbable.io/x\"",
        "* spec.options",
    ];
    let reported = namespace.refusal(&faults, || namespace.try_apply(&wrong.to_string(), &[]), clean);
    println!("{reported}");
    let peer = json!({
        "apiVersion": "etcd.improbable.io/v1alpha1",
        "kind": "EtcdPeer",
        "metadata": {"name": "c-0"},
        "spec": {"version": "3.5.0", "bootstrap": {"static": {"initialCluster": []}}},
    });
    let faults = [
        "spec.clusterName: Required value",
        "spec.version: Invalid value: \"3.5.0\"",
        "spec.storage",
        "spec.bootstrap.initialClusterState: Required value",
    ];
    namespace.refusal(&faults, || namespace.try_apply(&peer.to_string(), &[]), clean);
    namespace.apply(&at_rest("c"));
    let even = at_rest("c").replace("replicas: 3", "replicas: 4");
    let warning = ["Warning: spec.replicas: 4 members"];
    namespace.answer(
        &warning,
        true,
        || namespace.try_apply(&even, &[]),
        || {
            namespace.apply(&at_rest("c"));
        },
    );
    let changed = at_rest("c").replace("50Mi", "60Mi").replace("3.6.1", "3.5.35");
    let faults = [
        "spec.version: ",
        "no way from 3.6.1 to 3.5.35",
        "Unsupported changes",
        "50Mi",
    ];
    namespace.refusal(
        &faults,
        || namespace.try_apply(&changed, &[]),
        || {
            clean();
            namespace.apply(&at_rest("c"));
        },
    );
}

#[test]
fn a_wrong_manifest_is_refused_with_all_its_faults() {
    let namespace = Namespace::new("refused");
    assert_refused(&namespace);
}

/// Strictly: a field that the definitions do not know would only be warned about.
#[test]
fn every_sample_is_accepted_as_it_is() {
    let namespace = Namespace::new("samples");
    let samples = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../config/samples"));
    let mut kinds = Vec::new();
    for entry in std::fs::read_dir(samples).expect("the checkout has samples") {
        let path = entry.expect("an entry").path();
        let yaml = std::fs::read_to_string(&path).expect("a file can be read");
        let dry = namespace.try_apply(&yaml, &["--dry-run=server", "--validate=strict"]);
        assert!(dry.status.success(), "{}: {}", path.display(), said(&dry));
        assert!(
            !said(&dry).contains("Warning"),
            "{}: {}",
            path.display(),
            said(&dry)
        );
        let said = said(&dry);
        kinds.push(said.split('.').next().unwrap_or_default().to_owned());
    }
    kinds.sort();
    let all = [
        "etcdbackup",
        "etcdbackupschedule",
        "etcdcluster",
        "etcdpeer",
        "etcdrestore",
    ];
    assert_eq!(kinds, all);
}

#[test]
fn defaults_are_filled_in_and_what_is_missing_is_named() {
    let namespace = Namespace::new("admission");
    for (kind, sample) in [("EtcdCluster", SAMPLE), ("EtcdPeer", SAMPLE_PEER)] {
        let filled = namespace.try_apply(sample, &["--dry-run=server", "-o", "json"]);
        assert!(filled.status.success(), "{kind}: {}", said(&filled));
        let filled: Value = serde_json::from_slice(&filled.stdout).expect("JSON");
        let claim = &filled["spec"]["storage"]["volumeClaimTemplate"];
        assert_eq!(claim["accessModes"], json!(["ReadWriteOnce"]), "{kind}");
        assert_eq!(claim["volumeMode"], "Filesystem", "{kind}");

        let without = sample.replace("      storageClassName: standard\n", "");
        assert_ne!(without, sample);
        let text = "spec.storage.volumeClaimTemplate.storageClassName: Required value";
        namespace.refusal(
            &[text],
            || {
                let refused = namespace.try_apply(&without, &["--dry-run=server", "-o", "json"]);
                assert!(
                    refused.status.success() || refused.stdout.is_empty(),
                    "{kind}: nothing is printed but the refusal"
                );
                refused
            },
            || {},
        );
    }
}
