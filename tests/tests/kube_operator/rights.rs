//! The operator's rights, enforced by a real API server: enough for all it does, and not one more.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use quorate_tests::etcd;
use quorate_tests::kube::bed::{Bed, OPERATOR_NAMESPACE};
use quorate_tests::kube::cluster::{KubeCluster, manifest, peer_selector, text};
use quorate_tests::kube::lax::{CONFIGURATION, CONFIGURATIONS};
use quorate_tests::kube::namespace::Namespace;
use quorate_tests::kube::{said, volume};
use serde_json::{Value, json};

const ACCOUNT: &str = "--as=system:serviceaccount:quorate-system:quorate-operator";

/// Granted, and asked for by no request of the operator: the API server checks them when an object names an owner, as in
/// every EtcdPeer and ReplicaSet. The bed has the admission plugin that does (OwnerReferencesPermissionEnforcement), so
/// that without them no member would be made.
const CHECKED_WITH_OWNERS: [(&str, &str); 2] = [
    ("update", "etcdclusters/finalizers"),
    ("update", "etcdpeers/finalizers"),
];

/// Objects of others, under names that the operator would give: it reads each by name, and leaves it alone.
const OTHERS: &str = "
apiVersion: v1
kind: Service
metadata: {name: service}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim-0}
spec: {accessModes: [ReadWriteOnce], storageClassName: standard, resources: {requests: {storage: 10Mi}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: budget}
spec: {minAvailable: 1, selector: {matchLabels: {app: of-others}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: set-0}
spec:
  replicas: 0
  selector: {matchLabels: {app: of-others}}
  template:
    metadata: {labels: {app: of-others}}
    spec: {containers: [{name: none, image: 'busybox:dev'}]}
---
apiVersion: etcd.improbable.io/v1alpha1
kind: EtcdPeer
metadata: {name: peer-0}
spec:
  clusterName: of-others
  version: 3.5.35
  bootstrap: {initialClusterState: New, static: {initialCluster: [{name: peer-0, host: peer-0.of-others}]}}
  storage: {volumeClaimTemplate: {storageClassName: standard, resources: {requests: {storage: 10Mi}}}}
";

type Rights = BTreeSet<(String, String)>;

/// What the account may do, as the API server has it.
fn granted(bed: &Bed) -> Rights {
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
fn used(bed: &Bed) -> Result<Rights, String> {
    let (pod, _) = bed.acting_operator();
    let samples = bed.try_figures(&pod, "quorate_api_requests_total")?;
    let label = |labels: &str, name: &str| {
        let (_, rest) = labels.split_once(&format!("{name}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let asked = samples
        .iter()
        .filter_map(|(labels, _)| Some((label(labels, "verb")?, label(labels, "resource")?)));
    Ok(asked.collect())
}

/// Clusters whose objects are others' already, and one whose certificates are missing: read by name, and reported.
fn meet_others(namespace: &Namespace, version: &str) {
    namespace.apply(OTHERS);
    for (name, replicas) in [
        ("service", 1),
        ("claim", 1),
        ("budget", 3),
        ("set", 1),
        ("peer", 1),
    ] {
        namespace.apply(&manifest(name, replicas, version));
    }
    let tls = "  tls: {client: {secretName: missing}, peer: {secretName: missing}}\n";
    let own = namespace.create("own", &(manifest("own", 1, version) + tls));
    let why = own.await_condition("Blocked", "True", "Certificates");
    assert!(why.contains("missing"), "{why}");
}

/// What is mended by a patch or made again: a Secret, a budget, a Service, the CA that the API server trusts, the Lease.
fn spoil(bed: &Bed, namespace: &Namespace) {
    let patch = |name: [&str; 2], patch: &str| {
        namespace.must(&["patch", name[0], name[1], "--type=merge", "-p", patch]);
    };
    patch(["secret", "c-0-tls"], r#"{"data":{"server.crt":null}}"#);
    patch(["poddisruptionbudget", "c"], r#"{"spec":{"minAvailable":1}}"#);
    patch(
        ["service", "c-client"],
        r#"{"spec":{"selector":{"app":"elsewhere"}}}"#,
    );
    for kind in CONFIGURATIONS {
        let configuration = bed.json(&[kind, CONFIGURATION]).expect("a configuration");
        // Twice the same CA: the API server goes on to trust it, and the operator sees that it is not as it should be.
        let twice = twice(&text(&configuration["webhooks"][0]["clientConfig"]["caBundle"]));
        let patch = json!([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": twice}]);
        bed.must(&[
            "patch",
            kind,
            CONFIGURATION,
            "--type=json",
            "-p",
            &patch.to_string(),
        ]);
    }
    bed.must(&["-n", OPERATOR_NAMESPACE, "delete", "lease", "quorate-operator"]);
}

/// A text in base64, two times over, in base64.
fn twice(encoded: &str) -> String {
    let script = "{ printf %s \"$1\" | base64 -d; printf %s \"$1\" | base64 -d; } | base64 -w0";
    let output = Command::new("sh").args(["-c", script, "sh", encoded]).output();
    let output = output.expect("sh and base64");
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).expect("base64 is text")
}

/// A member that is not wanted any more before it has a pod: all that was made for it is taken away again.
fn withdraw_unstarted(cluster: &KubeCluster<'_>) {
    let namespace = cluster.namespace;
    namespace.allow_pods(0);
    cluster.scale(3);
    namespace.await_event("FailedCreate", "c-1");
    cluster.scale(1);
    await_only_first(cluster);
    namespace.allow_pods(24);
}

/// Waits until the first member is the only one that has a PVC or a Secret.
fn await_only_first(cluster: &KubeCluster<'_>) {
    cluster.namespace.wait_for("what was scaled away gone", || {
        let names = |kind: &str| cluster.namespace.names(&[kind, "-l", &cluster.selector()]);
        let left = |name: &String| name.starts_with("c-1") || name.starts_with("c-2");
        (names("persistentvolumeclaims") == ["c-0"] && !names("secrets").iter().any(left)).then_some(())
    });
}

/// A volume that etcd may not use: its pod keeps ending and is deleted, so that another looks, until it may.
fn shut_volume(cluster: &KubeCluster<'_>, version: &str) {
    let directory = volume::directory(cluster, "c-0");
    let before = std::fs::metadata(&directory).expect("the volume").permissions();
    std::fs::set_permissions(&directory, Permissions::from_mode(0o000)).expect("root may");
    cluster.kill_pods(&peer_selector("c-0"));
    cluster.namespace.await_event("PodReplaced", "c-0");
    std::fs::set_permissions(&directory, before).expect("root may");
    cluster.await_ready(1, version);
}

#[test]
fn the_operator_may_do_what_it_does_and_nothing_else() {
    let version = etcd::newest("3.6");
    let namespace = Namespace::new("rights");
    let bed = namespace.bed();
    meet_others(&namespace, &version);
    let yaml = manifest("c", 1, &version) + "  tls: {}\n  maintenance: {rollingChanges: true}\n";
    let cluster = namespace.create("c", &yaml);
    cluster.await_ready(1, &version);
    withdraw_unstarted(&cluster);
    cluster.scale(3);
    cluster.await_ready(3, &version);
    spoil(bed, &namespace);
    let patched = cluster.patch(&json!({"forceRedeploymentReason": "to see it"}));
    assert!(patched.status.success(), "{}", said(&patched));
    cluster.await_ready(3, &version);
    namespace.await_event("ServiceRepaired", "c-client");
    namespace.wait_for("the Service leads to the voters", || {
        let service = namespace.json(&["service", "c-client"])?;
        let selector = &service["spec"]["selector"];
        (selector["app"].is_null() && selector["etcd.improbable.io/role"] == "voter").then_some(())
    });
    cluster.scale(1);
    cluster.await_ready(1, &version);
    await_only_first(&cluster);
    let resources = json!({"requests": {"memory": "65Mi"}});
    let patched = cluster.patch(&json!({"podTemplate": {"resources": resources}}));
    assert!(patched.status.success(), "{}", said(&patched));
    namespace.await_event("PodResized", "c-0");
    shut_volume(&cluster, &version);
    namespace.must(&["delete", "etcdcluster", "c", "--cascade=orphan"]);
    namespace.apply(&yaml);
    namespace.await_event("PeerAdopted", "c-0");
    cluster.await_ready(1, &version);

    let checked = CHECKED_WITH_OWNERS.map(|(verb, resource)| (verb.to_owned(), resource.to_owned()));
    let granted = granted(bed);
    let unused = |used: &Rights| {
        let unused: Rights = granted.difference(used).cloned().collect();
        unused
            .difference(&checked.clone().into())
            .cloned()
            .collect::<Rights>()
    };
    let used = bed.wait_for(
        "every right used",
        || {
            let unused = used(bed).map(|used| unused(&used));
            format!("granted and not used: {unused:?}\n{}", namespace.picture())
        },
        // An operator that does not answer just now is asked again.
        || used(bed).ok().filter(|used| unused(used).is_empty()),
    );
    let beyond: Vec<_> = used.difference(&granted).cloned().collect();
    assert!(beyond.is_empty(), "asked for without the right to: {beyond:?}");
    for right in &checked {
        assert!(granted.contains(right), "{right:?} is not granted");
    }
    let others =
        namespace.names(&["services,persistentvolumeclaims,replicasets,poddisruptionbudgets,etcdpeers"]);
    for name in ["service", "claim-0", "set-0", "budget", "peer-0"] {
        assert!(others.iter().any(|n| n == name), "{name} is gone: {others:?}");
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
    // Much is forbidden to everybody: what a quota, a going namespace or the Pod Security Standards refuse. Only this is
    // about rights: the words of access control, and those of the plugin that checks owners.
    let denied = |line: &&str| {
        let account = line.contains("quorate-system:quorate-operator") && line.contains(" cannot ");
        account || line.contains("cannot set blockownerdeletion")
    };
    let forbidden: Vec<&str> = log.lines().filter(denied).collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
}
