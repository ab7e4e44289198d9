//! An operator that looks after one namespace: all that it does it may do there, and it may do nothing anywhere else.

use quorate_tests::etcd;
use quorate_tests::kube::bed::{Bed, install_stream_with};
use quorate_tests::kube::cluster::{manifest, member_id, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::{must_be_back, said};

/// The operator of all namespaces is away until this is dropped.
struct Away(&'static Bed);

impl Away {
    fn begin(bed: &'static Bed) -> Away {
        let away = Away(bed);
        bed.scale_operator(0);
        away
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let scale = ["scale", "deployment", "quorate-operator", "--replicas=1"];
        let back = self.0.kubectl(&[&["-n", "quorate-system"], &scale[..]].concat());
        must_be_back("the operator of all namespaces", &back);
    }
}

/// How many pods of its own namespace a NetworkPolicy is about.
fn selected(namespace: &Namespace, policy: &str) -> usize {
    let policy = namespace
        .json(&["networkpolicy", policy])
        .expect("a NetworkPolicy");
    let labels = policy["spec"]["podSelector"]["matchLabels"].as_object().cloned();
    let labels = labels.expect("a selector by labels").into_iter();
    let selector: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", text(&value)))
        .collect();
    namespace.names(&["pods", "-l", &selector.join(",")]).len()
}

#[test]
fn an_operator_of_one_namespace_heals_there_and_has_no_rights_elsewhere() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let [own, watched, other] = ["own", "watched", "other"].map(Namespace::alone);
    // The operator has no limit on CPU, which that quota asks of every pod.
    own.must(&["delete", "resourcequota", "quota"]);
    let away = Away::begin(bed);
    let flags = [
        "--namespace",
        &own.name,
        "--watch-namespace",
        &watched.name,
        "--network-policy",
    ];
    let installed = bed.kubectl_with(&["apply", "-f", "-"], &install_stream_with(&flags));
    assert!(installed.status.success(), "kubectl apply: {}", said(&installed));
    own.must(&[
        "rollout",
        "status",
        "deployment",
        "quorate-operator",
        "--timeout=120s",
    ]);

    let account = format!("--as=system:serviceaccount:{}:quorate-operator", own.name);
    let may = |namespace: &str, verb: &str, kind: &str| {
        let asked = bed.kubectl(&["-n", namespace, "auth", "can-i", verb, kind, &account]);
        asked.status.success()
    };
    assert!(may(&watched.name, "delete", "persistentvolumeclaims"));
    for elsewhere in [&other.name, "default", "kube-system"] {
        for kind in [
            "secrets",
            "pods",
            "persistentvolumeclaims",
            "etcdclusters.etcd.improbable.io",
        ] {
            for verb in ["get", "list", "create", "delete"] {
                assert!(!may(elsewhere, verb, kind), "{verb} {kind} in {elsewhere}");
            }
        }
    }

    let unseen = other.create("c", &manifest("c", 1, &version));
    let cluster = watched.create("c", &manifest("c", 3, &version));
    let before = cluster.await_ready(3, &version);
    watched.must(&["delete", "persistentvolumeclaim", "c-2", "--wait=false"]);
    cluster.wait_for("c-2 under a new id, and three members that serve", |c| {
        let id = member_id(c, "c-2");
        id.is_some() && id != member_id(&before, "c-2") && c["status"]["readyReplicas"] == 3
    });
    assert_eq!(selected(&own, "quorate-operator"), 1);
    assert_eq!(selected(&watched, "quorate-members"), 3);
    // It came before all of this, and nobody has looked at it.
    assert!(unseen.get()["status"].is_null(), "{}", unseen.get());
    assert_eq!(other.items(&["pods,persistentvolumeclaims,services"]).len(), 0);
    let log = own.must(&["logs", "deployment/quorate-operator", "--tail=-1"]);
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
    drop(away);
    bed.await_operator();
    bed.await_webhook();
}
