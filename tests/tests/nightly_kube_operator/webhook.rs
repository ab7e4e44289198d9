//! Admission by the operator: what only it says, and that it goes on saying it whatever becomes of its certificate.

use std::net::TcpStream;

use quorate_tests::kube::bed::{Bed, OPERATOR_NAMESPACE, install_stream, install_stream_with};
use quorate_tests::kube::cluster::{manifest, text};
use quorate_tests::kube::lax::{CONFIGURATION, CONFIGURATIONS, NoRules, NoWebhook};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::{must_be_back, said};
use serde_json::{Value, json};

/// Where the operator listens for reviews.
const PORT: u16 = 9443;
const SECRET: &str = "quorate-operator-webhook";
const DEPLOYMENT: [&str; 4] = ["-n", OPERATOR_NAMESPACE, "deployment", "quorate-operator"];

/// Nothing is made for it.
fn at_rest(name: &str) -> String {
    manifest(name, 3, "3.6.1").replace("spec:", "spec:\n  paused: true")
}

/// Without its rules the API server itself refuses nothing: what is refused here, the operator refuses.
#[test]
fn what_slipped_in_can_be_labelled_and_deleted_and_not_changed_to_something_as_wrong() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let namespace = Namespace::alone("webhook-slipped");
    let cluster = namespace.create("c", &at_rest("c"));
    let no_rules = NoRules::begin(bed);
    let no_webhook = NoWebhook::begin(bed);
    namespace.wait_for("a wrong version let in", || {
        let patched = cluster.patch(&json!({"version": "foo"}));
        patched.status.success().then_some(())
    });
    drop(no_webhook);
    bed.await_webhook();
    namespace.must(&["label", "etcdcluster", "c", "team=storage"]);
    namespace.must(&[
        "patch",
        "etcdcluster",
        "c",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":["quorate.test/kept"]}}"#,
    ]);
    let changed = cluster.patch(&json!({"replicas": 5}));
    assert!(!changed.status.success());
    assert!(
        said(&changed).contains("foo is not in dotted-tri format"),
        "{}",
        said(&changed)
    );
    namespace.must(&["delete", "etcdcluster", "c", "--wait=false"]);
    namespace.must(&[
        "patch",
        "etcdcluster",
        "c",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ]);
    namespace.wait_for("the cluster gone", || cluster.get().is_null().then_some(()));
    drop(no_rules);
}

fn secret(bed: &Bed) -> Option<Value> {
    bed.json(&["-n", OPERATOR_NAMESPACE, "secret", SECRET])
}

fn value(bed: &Bed, key: &str) -> String {
    secret(bed).map_or_else(String::new, |secret| text(&secret["data"][key]))
}

/// What the configurations trust.
fn trusted(bed: &Bed) -> Vec<String> {
    let bundle = |kind: &str| {
        let configuration = bed.json(&[kind, CONFIGURATION]).expect("a configuration");
        text(&configuration["webhooks"][0]["clientConfig"]["caBundle"])
    };
    CONFIGURATIONS.map(bundle).to_vec()
}

fn operator_log(bed: &Bed) -> String {
    format!("{:?}\n{}", trusted(bed), bed.operator_log(40))
}

/// Waits until both configurations trust the Secret's CA and no other, and it is not `former`.
fn await_trust(bed: &Bed, former: &str) {
    bed.wait_for(
        "both configurations trust the one CA",
        || operator_log(bed),
        || {
            let own = value(bed, "ca.crt");
            let trusts = trusted(bed).iter().all(|bundle| *bundle == own);
            (trusts && own != former && own.len() > 100).then_some(())
        },
    );
}

fn lose_leaf(bed: &Bed) {
    let lose = r#"{"data":{"tls.crt":null}}"#;
    bed.must(&[
        "-n",
        OPERATOR_NAMESPACE,
        "patch",
        "secret",
        SECRET,
        "--type=merge",
        "-p",
        lose,
    ]);
}

/// The operator's pods but for those on their way out.
fn operator_pods(bed: &Bed) -> Vec<Value> {
    let pods = bed.json(&[
        "-n",
        OPERATOR_NAMESPACE,
        "pods",
        "-l",
        "app.kubernetes.io/name=quorate-operator",
    ]);
    let mut pods = pods
        .and_then(|list| list["items"].as_array().cloned())
        .unwrap_or_default();
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    pods
}

/// Each of them, and how often it was restarted.
fn pods(bed: &Bed) -> Vec<(String, Value)> {
    let seen = |pod: &Value| {
        (
            text(&pod["metadata"]["uid"]),
            pod["status"]["containerStatuses"][0]["restartCount"].clone(),
        )
    };
    operator_pods(bed).iter().map(seen).collect()
}

/// Whoever reaches the operator's port can hold more connections open than it serves at a time, and say nothing.
#[test]
fn connections_that_say_nothing_do_not_switch_admission_off() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let passed_over = bed.webhook_passed_over();
    let pods = operator_pods(bed);
    let address = format!("{}:{PORT}", text(&pods[0]["status"]["podIP"]));
    for _ in 0..4 {
        let silent: Vec<_> = (0..128)
            .map(|_| TcpStream::connect(&address).expect("the port of the operator's pod"))
            .collect();
        assert_eq!(bed.unjudged(), None);
        drop(silent);
    }
    assert_eq!(bed.webhook_passed_over(), passed_over, "{}", operator_log(bed));
}

#[test]
fn whatever_becomes_of_its_certificate_it_is_believed_again_without_a_restart() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let before = pods(bed);
    assert_eq!(before.len(), 1);

    let ca = value(bed, "ca.crt");
    bed.must(&["-n", OPERATOR_NAMESPACE, "delete", "secret", SECRET]);
    await_trust(bed, &ca);
    bed.await_webhook();

    let ca = value(bed, "ca.crt");
    for kind in CONFIGURATIONS {
        let wipe = r#"[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]"#;
        bed.must(&["patch", kind, CONFIGURATION, "--type=json", "-p", wipe]);
    }
    await_trust(bed, "");
    assert_eq!(value(bed, "ca.crt"), ca, "nothing else was wrong");
    bed.await_webhook();

    let leaf = value(bed, "tls.crt");
    lose_leaf(bed);
    bed.wait_for(
        "another certificate",
        || operator_log(bed),
        || {
            let now = value(bed, "tls.crt");
            (now.len() > 100 && now != leaf).then_some(())
        },
    );
    assert_eq!(value(bed, "ca.crt"), ca, "of the same CA");
    bed.await_webhook();

    bed.must(&[
        "-n",
        OPERATOR_NAMESPACE,
        "annotate",
        "secret",
        SECRET,
        "etcd.improbable.io/rotate=now",
    ]);
    await_trust(bed, &ca);
    bed.wait_for(
        "the replacement at its end",
        || operator_log(bed),
        || {
            let secret = secret(bed)?;
            let asked = &secret["metadata"]["annotations"]["etcd.improbable.io/rotate"];
            asked.is_null().then_some(())
        },
    );
    bed.await_webhook();
    assert_eq!(pods(bed), before, "nobody was restarted");

    let ca = value(bed, "ca.crt");
    let stream = install_stream();
    for flags in [&[][..], &["--server-side", "--force-conflicts"]] {
        let applied = bed.kubectl_with(&[&["apply", "-f", "-"], flags].concat(), &stream);
        assert!(applied.status.success(), "{}", said(&applied));
        // Not blanked, or if another way of applying did own the field, put back at once.
        await_trust(bed, "");
        assert_eq!(value(bed, "ca.crt"), ca, "kubectl apply {flags:?}");
    }
    bed.await_operator();
    bed.await_webhook();
}

/// The operator's Deployment as it was before a test changed it; put back when dropped.
struct Usual {
    bed: &'static Bed,
    spec: Value,
}

impl Usual {
    fn change(bed: &'static Bed, changes: &Value) -> Usual {
        let deployment = bed.json(&DEPLOYMENT).expect("the Deployment");
        let spec = deployment["spec"].clone();
        let usual = Usual { bed, spec };
        usual.patch(changes);
        usual
    }

    fn args(&self) -> &Value {
        &self.spec["template"]["spec"]["containers"][0]["args"]
    }

    fn patch(&self, patch: &Value) {
        let patch = patch.to_string();
        self.bed
            .must(&[&["patch", "--type=json", "-p", &patch], &DEPLOYMENT[..]].concat());
    }
}

impl Drop for Usual {
    fn drop(&mut self) {
        let patch = json!([
            {"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": self.args()},
            {"op": "replace", "path": "/spec/replicas", "value": self.spec["replicas"]},
        ]);
        let patch = patch.to_string();
        let patch = ["patch", "--type=json", "-p", &patch];
        let patched = self.bed.kubectl(&[&patch[..], &DEPLOYMENT[..]].concat());
        must_be_back("the operator's Deployment", &patched);
    }
}

/// Renewed by time, with certificates that live for half a minute.
#[test]
fn certificates_are_renewed_in_time_and_a_pod_that_stands_by_shows_them_too() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let usual = Usual::change(
        bed,
        &json!([
            {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--leaf-lifetime=30s"},
            {"op": "replace", "path": "/spec/replicas", "value": 2},
        ]),
    );
    bed.await_operator();
    let before = pods(bed);
    assert_eq!(before.len(), 2, "{before:?}");
    // One that lives for a year is good for long: the first short one is made when it is lost.
    lose_leaf(bed);
    let mut seen: Vec<String> = Vec::new();
    bed.wait_for(
        "four certificates, one after another",
        || operator_log(bed),
        || {
            let now = value(bed, "tls.crt");
            if now.len() > 100 && !seen.contains(&now) {
                seen.push(now);
            }
            (seen.len() >= 4).then_some(())
        },
    );
    // Whichever pod is asked shows what is good now: the first ones have ended. Each try is a connection of its own.
    let unbelieved: Vec<String> = (0..16).filter_map(|_| bed.unjudged()).collect();
    assert!(unbelieved.is_empty(), "{unbelieved:#?}\n{}", operator_log(bed));
    assert_eq!(pods(bed), before, "nobody was restarted\n{}", operator_log(bed));
    drop(usual);
    bed.await_operator();
    bed.must(&["-n", OPERATOR_NAMESPACE, "delete", "secret", SECRET]);
    bed.await_webhook();
}

/// The Lease is held by a pod that makes no certificate, and stays until the new one is ready.
#[test]
fn an_operator_that_knows_no_webhook_is_followed_by_one_that_does() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let install = |stream: &str| {
        let applied = bed.kubectl_with(&["apply", "-f", "-"], stream);
        assert!(applied.status.success(), "{}", said(&applied));
        bed.await_operator();
    };
    install(&install_stream_with(&[]));
    for kind in CONFIGURATIONS {
        bed.must(&["delete", kind, CONFIGURATION]);
    }
    bed.must(&["-n", OPERATOR_NAMESPACE, "delete", "secret", SECRET]);
    assert!(!bed.is_judged(), "nobody is asked");
    install(&install_stream());
    bed.await_webhook();
}
