//! The operator's rights, enforced by a real API server: enough for all it does, and not one more.
#![cfg(feature = "kube")]

use std::collections::BTreeSet;

use quorate_tests::etcd;
use quorate_tests::kube::bed::{Bed, OPERATOR_NAMESPACE};
use quorate_tests::kube::cluster::{manifest, text};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::said;
use serde_json::{Value, json};

const ACCOUNT: &str = "--as=system:serviceaccount:quorate-system:quorate-operator";

/// Granted and not seen in this test, each with its reason.
const NOT_SEEN: [(&str, &str, &str); 17] = [
    ("get", "etcdpeers", READ_BACK),
    ("get", "persistentvolumeclaims", READ_BACK),
    ("get", "poddisruptionbudgets", READ_BACK),
    ("get", "replicasets", READ_BACK),
    (
        "get",
        "secrets",
        "the user's own certificates are read by name, and what is there already",
    ),
    ("get", "services", READ_BACK),
    ("patch", "mutatingwebhookconfigurations", TRUSTED),
    ("patch", "validatingwebhookconfigurations", TRUSTED),
    ("update", "etcdclusters/finalizers", OWNERS),
    ("update", "etcdpeers/finalizers", OWNERS),
    (
        "patch",
        "events",
        "what is told again and again is told once, with a count",
    ),
    (
        "patch",
        "secrets",
        "certificates are renewed long after they were made",
    ),
    (
        "patch",
        "etcdpeers",
        "an EtcdPeer is let go when its claim is, and only then has something to be taken off",
    ),
    (
        "patch",
        "poddisruptionbudgets",
        "a budget may be made anew instead",
    ),
    (
        "delete",
        "pods",
        "a pod that keeps ending, or was refused, goes so that another looks at the volume again",
    ),
    (
        "delete",
        "replicasets",
        "mostly Kubernetes itself deletes what an EtcdPeer owned",
    ),
    (
        "create",
        "leases",
        "the Lease is made once, by the first operator there ever was",
    ),
];
const TRUSTED: &str = "whom the API server trusts is set once, and when the authority changes";
const READ_BACK: &str = "what is found there although it was to be made is read before it is relied on";
const OWNERS: &str =
    "asked by API servers that enforce who may be named an owner, when owned objects are made";

/// What the account may do, as the API server has it.
fn granted(bed: &Bed) -> BTreeSet<(String, String)> {
    let everywhere = bed.json(&["clusterrole", "quorate-operator"]);
    let own = bed.json(&["-n", OPERATOR_NAMESPACE, "role", "quorate-operator"]);
    let words = |value: &Value| -> Vec<String> {
        let all = value.as_array().into_iter().flatten();
        all.map(text).collect()
    };
    let mut granted = BTreeSet::new();
    for role in [everywhere, own] {
        let role = role.expect("what `quorate install` printed");
        for rule in role["rules"].as_array().expect("rules") {
            for resource in words(&rule["resources"]) {
                let verbs = words(&rule["verbs"]).into_iter();
                granted.extend(verbs.map(|verb| (verb, resource.clone())));
            }
        }
    }
    granted
}

/// What the operator has asked for so far, by its own count.
fn used(bed: &Bed) -> BTreeSet<(String, String)> {
    let (pod, _) = bed.acting_operator();
    let samples = bed.figures(&pod, "quorate_api_requests_total");
    let label = |labels: &str, name: &str| {
        let (_, rest) = labels.split_once(&format!("{name}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let asked = samples
        .iter()
        .filter_map(|(labels, _)| Some((label(labels, "verb")?, label(labels, "resource")?)));
    asked.collect()
}

#[test]
fn the_operator_may_do_what_it_does_and_nothing_else() {
    let bed = Bed::get();
    let _alone = bed.alone();
    let version = etcd::newest("3.6");
    let namespace = Namespace::alone("rights");
    let yaml = manifest("c", 1, &version).replace("spec:\n  replicas", "spec:\n  tls: {}\n  replicas");
    let cluster = namespace.create("c", &yaml);
    cluster.await_ready(1, &version);
    cluster.scale(3);
    cluster.await_ready(3, &version);
    let patched = cluster.patch(&json!({"forceRedeploymentReason": "to see it"}));
    assert!(patched.status.success(), "{}", said(&patched));
    cluster.await_ready(3, &version);
    cluster.scale(1);
    cluster.await_ready(1, &version);
    namespace.wait_for("what was scaled away gone", || {
        let claims = namespace.names(&["persistentvolumeclaims"]);
        let secrets = namespace.names(&["secrets", "-l", &cluster.selector()]);
        let left = secrets
            .iter()
            .any(|name| name.starts_with("c-1") || name.starts_with("c-2"));
        (claims == ["c-0"] && !left).then_some(())
    });

    let (granted, used) = (granted(bed), used(bed));
    let beyond: Vec<_> = used.difference(&granted).collect();
    assert!(beyond.is_empty(), "asked for without the right to: {beyond:?}");
    let excused = |verb: &str, resource: &str| NOT_SEEN.iter().any(|(v, r, _)| (*v, *r) == (verb, resource));
    let unused = granted
        .difference(&used)
        .filter(|(verb, resource)| !excused(verb, resource));
    let unused: Vec<_> = unused.collect();
    assert!(unused.is_empty(), "granted and not used: {unused:?}");
    for (verb, resource, reason) in NOT_SEEN {
        if used.contains(&(verb.to_owned(), resource.to_owned())) {
            println!("{verb} {resource} was used this time, and need not be: {reason}");
        }
        assert!(
            granted.contains(&(verb.to_owned(), resource.to_owned())),
            "{verb} {resource} is excused ({reason}) and not granted"
        );
    }

    let refused = [
        "create pods",
        "delete etcdclusters",
        "get nodes",
        "list configmaps",
        "create pods/exec",
    ];
    for action in refused {
        let words: Vec<&str> = action.split(' ').collect();
        let asked = namespace.kubectl(&["auth", "can-i", words[0], words[1], ACCOUNT]);
        let answer = String::from_utf8_lossy(&asked.stdout);
        assert!(!asked.status.success(), "{action}: {}", said(&asked));
        assert_eq!(answer.trim(), "no", "{action}: {}", said(&asked));
    }
    let may = namespace.must(&["auth", "can-i", "create", "replicasets.apps", ACCOUNT]);
    assert_eq!(may.trim(), "yes", "the account is asked about, not another");

    namespace.must(&["delete", "etcdcluster", "c"]);
    let log = bed.whole_operator_log().to_lowercase();
    // In a namespace that is going, everything new is forbidden to everybody.
    let denied = |line: &&str| line.contains("forbidden") && !line.contains("being terminated");
    let forbidden: Vec<&str> = log.lines().filter(denied).collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
}
