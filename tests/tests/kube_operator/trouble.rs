//! What is the matter with a cluster that runs, shown as what it is.

use quorate_tests::etcd;
use quorate_tests::kube::cluster::{condition, is_ready, manifest, members, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::said;
use serde_json::{Value, json};

/// etcd refuses writes then, and nothing else shows it.
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
        .find(|put| !put.status.success() && said(put).contains("space exceeded"));
    assert!(
        refused.is_some(),
        "30 values of 100 kB are more than the quota\n{}",
        namespace.picture()
    );
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

/// Without TLS quorate has no certificate that stands for root.
#[test]
fn with_authentication_enabled_it_says_what_it_needs_and_goes_on_with_the_password_in_a_secret() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("auth");
    let cluster = namespace.create("c", &manifest("c", 1, &version));
    cluster.await_ready(1, &version);
    for command in [
        &["user", "add", "root:hunter2"][..],
        &["role", "add", "root"],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        let done = cluster.etcdctl(command);
        assert!(done.status.success(), "{}", said(&done));
    }
    // Health can be read without a user; a change of the member list cannot be asked for.
    cluster.scale(2);
    let message = cluster.await_condition("Blocked", "True", "LoginRefused");
    assert!(message.contains("spec.auth.rootSecret"), "{message}");
    namespace.must(&[
        "create",
        "secret",
        "generic",
        "etcd-root",
        "--from-literal=password=hunter2",
    ]);
    let patched = cluster.patch(&serde_json::json!({"auth": {"rootSecret": "etcd-root"}}));
    assert!(patched.status.success(), "{}", said(&patched));
    cluster.await_ready(2, &version);
    let picture = namespace.picture();
    assert!(
        !picture.contains("hunter2"),
        "the password is reported: {picture}"
    );
}

/// With too little memory etcd is killed whenever it starts. Nobody can know that before. With another number of threads
/// members are restarted for it.
#[test]
fn settings_with_which_etcd_ends_reach_one_member_which_goes_back() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("settings");
    let yaml = manifest("c", 3, &version) + "  maintenance: {rollingChanges: true}\n";
    let cluster = namespace.create("c", &yaml);
    let before = cluster.await_ready(3, &version);
    let pods = cluster.pod_uids(3);
    let memory = |limit: &str| {
        let resources =
            json!({"requests": {"cpu": "20m", "memory": "6Mi"}, "limits": {"cpu": "2", "memory": limit}});
        let patched = cluster.patch(&json!({"podTemplate": {"resources": resources}}));
        assert!(patched.status.success(), "{}", said(&patched));
    };
    memory("7Mi");
    let message = cluster.await_condition("Blocked", "True", "NewSettingsFail");
    assert!(
        message.contains("c-2 does not serve with the new settings"),
        "{message}"
    );
    let serve = |c: &Value| c["status"]["readyReplicas"] == 3;
    let back = cluster.wait_for("three members that serve", serve);
    assert_eq!(members(&back), members(&before), "no voter was replaced");
    cluster.await_condition("Blocked", "True", "NewSettingsFail");
    assert_eq!(cluster.pod_uids(3)[..2], pods[..2], "no other was touched");
    let pod = cluster.pod("c-2").expect("the pod of c-2");
    let container = pod["spec"]["containers"][0]["resources"]["limits"]["memory"].clone();
    assert_eq!(text(&container), "512Mi", "as before");
    memory("256Mi");
    let after = cluster.await_ready(3, &version);
    assert_eq!(members(&after), members(&before));
}
