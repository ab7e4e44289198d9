//! Manifests that slipped past the rules: reported, and nothing is harmed.

use quorate_tests::etcd;
use quorate_tests::kube::bed::Bed;
use quorate_tests::kube::cluster::{condition, manifest, member_id, members, text};
use quorate_tests::kube::lax::{NoRules, NoWebhook};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::tls::encrypted;
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
fn what_slipped_past_the_rules_is_reported_and_the_cluster_is_kept_as_it_was() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("slipped");
    let cluster = namespace.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    let pod = cluster.pod_uid("c-0");

    let no_webhook = NoWebhook::begin(bed);
    let no_rules = NoRules::begin(bed);
    let spec = json!({"version": "foo", "storage": {"volumeClaimTemplate": {"storageClassName": null}}});
    patch_until_let_in(&namespace, &cluster, &spec);
    let invalid = cluster.wait_for("a report of what is wrong", |c| {
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
    namespace.must(&["delete", "persistentvolumeclaim", "c-2", "--wait=false"]);
    let healed = cluster.wait_for("a member that was lost meanwhile replaced", |c| {
        let id = member_id(c, "c-2");
        id.is_some() && id != member_id(&before, "c-2") && c["status"]["readyReplicas"] == 3
    });
    let ready = condition(&healed, "Ready").expect("a condition");
    assert_eq!(text(&ready["reason"]), "Invalid", "it is still reported");

    // One that never had a manifest without faults is not begun.
    namespace.apply(&manifest("d", 1, "foo"));
    let event = namespace.wait_for("a Warning about d", || {
        let mut events = namespace.events("Invalid").into_iter();
        events.find(|event| event["involvedObject"]["name"] == "d")
    });
    assert_eq!(text(&event["type"]), "Warning", "{event}");
    assert!(text(&event["message"]).contains("spec.version"), "{event}");
    namespace.must(&["delete", "etcdcluster", "d"]);

    let storage = before["spec"]["storage"].clone();
    patch_until_let_in(
        &namespace,
        &cluster,
        &json!({"version": version, "storage": storage}),
    );
    drop(no_rules);
    drop(no_webhook);
    let after = cluster.await_ready(3, &version);
    assert_eq!(members(&after), members(&healed));
    assert_eq!(cluster.pod_uid("c-0"), pod);
    namespace.wait_for("the rules in force again", || {
        (!cluster.patch(&json!({"version": "foo"})).status.success()).then_some(())
    });
    bed.await_webhook();
}

/// One tenant's annotation once ended the operator for all, again and again.
#[test]
fn a_time_that_no_clock_shows_on_a_secret_does_not_end_the_operator() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("clockless");
    let runs = || {
        let operators = bed.operators();
        let run = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
        operators.iter().map(run).collect::<Vec<Value>>()
    };
    let cluster = namespace.create("c", &encrypted("c", 1, &version));
    cluster.await_ready(1, &version);
    let before = runs();
    let since = format!("etcd.improbable.io/stage-since={}", u64::MAX);
    namespace.must(&["annotate", "secret", "c-ca", "--overwrite", &since]);
    // Nobody gets there without having read the Secret.
    cluster.scale(3);
    cluster.await_ready(3, &version);
    assert_eq!(runs(), before, "the operator that ran still runs");
}
