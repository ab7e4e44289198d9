//! What is the matter with a cluster that runs, shown as what it is.

use quorate_tests::etcd;
use quorate_tests::kube::cluster::{condition, is_ready, manifest, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::said;

/// etcd refuses writes then, and nothing else tells of it.
#[test]
fn an_alarm_is_a_condition_and_a_warning_until_it_is_taken_back() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("alarm");
    let yaml = manifest("c", 1, &version) + "  quota: 1Mi\n";
    let cluster = namespace.create("c", &yaml);
    cluster.await_ready(1, &version);
    let value = "x".repeat(100_000);
    let refused = (0..30)
        .map(|n| cluster.etcdctl(&["put", &format!("key-{n}"), &value]))
        .find(|put| !put.status.success());
    let refused = refused.expect("30 values of 100 kB are more than the quota");
    assert!(said(&refused).contains("space exceeded"), "{}", said(&refused));
    let message = cluster.await_condition("Blocked", "True", "NoSpace");
    assert!(message.contains("c-0"), "{message}");
    let shown = cluster.get();
    let ready = condition(&shown, "Ready").expect("the condition Ready");
    assert_eq!(
        (text(&ready["status"]), text(&ready["reason"])),
        ("False".to_owned(), "NoSpace".to_owned())
    );
    let event = namespace.await_event("NoSpace", "c-0");
    assert_eq!(text(&event["type"]), "Warning");
    let disarmed = cluster.etcdctl(&["alarm", "disarm"]);
    assert!(disarmed.status.success(), "{}", said(&disarmed));
    cluster.wait_for("the alarm taken back", |c| is_ready(c, 1, &version));
}
