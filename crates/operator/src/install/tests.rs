//! The stream as an API server would read it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use serde_json::Value;

use super::*;

fn documents(settings: &Settings) -> Vec<Value> {
    let text = stream(settings).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

fn of_kind(documents: &[Value], kind: &str) -> Value {
    let mut found = documents.iter().filter(|document| document["kind"] == kind);
    let only = found.next().unwrap().clone();
    assert!(found.next().is_none(), "{kind} twice");
    only
}

#[test]
fn kinds_in_an_order_that_can_be_applied() {
    let kinds: Vec<String> = documents(&Settings::default())
        .iter()
        .map(|document| {
            format!(
                "{}/{}",
                document["apiVersion"].as_str().unwrap(),
                document["kind"].as_str().unwrap()
            )
        })
        .collect();
    let mut expected = vec!["apiextensions.k8s.io/v1/CustomResourceDefinition"; 5];
    expected.extend([
        "v1/Namespace",
        "v1/ServiceAccount",
        "rbac.authorization.k8s.io/v1/ClusterRole",
        "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
        "rbac.authorization.k8s.io/v1/Role",
        "rbac.authorization.k8s.io/v1/RoleBinding",
        "v1/Service",
        "apps/v1/Deployment",
    ]);
    assert_eq!(kinds, expected);
}

#[test]
fn settings_reach_every_place() {
    let settings = Settings {
        namespace: "elsewhere".to_owned(),
        image: "example/quorate:test".to_owned(),
        replicas: 2,
        etcd_repository: Some("example/etcd".to_owned()),
        pull_secrets: vec!["pull".to_owned()],
        ..Settings::default()
    };
    let documents = documents(&settings);
    assert!(!stream(&settings).unwrap().contains(NAMESPACE));
    assert_eq!(of_kind(&documents, "Namespace")["metadata"]["name"], "elsewhere");
    for kind in ["ServiceAccount", "Role", "RoleBinding", "Service", "Deployment"] {
        assert_eq!(
            of_kind(&documents, kind)["metadata"]["namespace"],
            "elsewhere",
            "{kind}"
        );
    }
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        assert_eq!(
            of_kind(&documents, kind)["subjects"][0]["namespace"],
            "elsewhere",
            "{kind}"
        );
    }
    let deployment: Deployment = serde_json::from_value(of_kind(&documents, "Deployment")).unwrap();
    let spec = deployment.spec.unwrap();
    assert_eq!(spec.replicas, Some(2));
    let pod = spec.template.spec.unwrap();
    assert_eq!(pod.image_pull_secrets.unwrap()[0].name, "pull");
    let container = &pod.containers[0];
    assert_eq!(container.image.as_deref(), Some("example/quorate:test"));
    let args = ["operator", "--etcd-repository=example/etcd"];
    assert_eq!(container.args.as_deref(), Some(&args.map(str::to_owned)[..]));
}

#[test]
fn one_namespace_is_all_it_has_rights_in() {
    let settings = Settings {
        watch_namespace: Some("clusters".to_owned()),
        network_policy: true,
        ..Settings::default()
    };
    let documents = documents(&settings);
    let kind = |kind: &str| {
        let of_kind = documents.iter().filter(|d| d["kind"] == kind);
        of_kind
            .map(|d| d["metadata"]["namespace"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(kind("ClusterRole"), [""; 0]);
    assert_eq!(kind("ClusterRoleBinding"), [""; 0]);
    assert_eq!(kind("Role"), ["clusters", NAMESPACE]);
    assert_eq!(kind("RoleBinding"), ["clusters", NAMESPACE]);
    assert_eq!(kind("NetworkPolicy"), [NAMESPACE, "clusters"]);
    let deployment: Deployment = serde_json::from_value(of_kind(&documents, "Deployment")).unwrap();
    let container = &deployment.spec.unwrap().template.spec.unwrap().containers[0];
    assert_eq!(container.args.as_ref().unwrap()[1], "--watch=clusters");
    // All that it may do everywhere otherwise, it may do there.
    let everywhere = of_kind(&super::tests::documents(&Settings::default()), "ClusterRole");
    let there = documents
        .iter()
        .find(|d| d["metadata"]["name"] == "quorate-operator-clusters");
    assert_eq!(there.unwrap()["rules"], everywhere["rules"]);
    let webhook = Settings {
        webhook: true,
        ..settings
    };
    let rules = &of_kind(&super::tests::documents(&webhook), "ClusterRole")["rules"];
    assert_eq!(rules.as_array().unwrap().len(), 1, "{rules}");
    // The Secret of its certificate is in the operator's own namespace.
    let documents = super::tests::documents(&webhook);
    let own = |d: &&Value| d["kind"] == "Role" && d["metadata"]["namespace"] == NAMESPACE;
    let rules = documents.iter().find(own).unwrap()["rules"].as_array().unwrap();
    let secrets = |rule: &&Value| rule["resources"][0] == "secrets";
    let verbs = rules
        .iter()
        .filter(secrets)
        .flat_map(|rule| rule["verbs"].as_array().unwrap());
    let verbs: Vec<&str> = verbs.filter_map(Value::as_str).collect();
    for verb in ["list", "watch", "create", "patch"] {
        assert!(verbs.contains(&verb), "{verb}: {rules:?}");
    }
}

#[test]
fn rights_are_listed_one_by_one() {
    let documents = documents(&Settings::default());
    let everywhere: ClusterRole = serde_json::from_value(of_kind(&documents, "ClusterRole")).unwrap();
    let own: Role = serde_json::from_value(of_kind(&documents, "Role")).unwrap();
    let rules: Vec<PolicyRule> = everywhere.rules.into_iter().chain(own.rules).flatten().collect();
    assert!(!rules.is_empty());
    let mut granted = Vec::new();
    for rule in rules {
        let groups = rule.api_groups.unwrap();
        let resources = rule.resources.unwrap();
        for word in groups.iter().chain(&resources).chain(&rule.verbs) {
            assert!(!word.contains('*'), "a wildcard: {word}");
        }
        for resource in resources {
            granted.extend(
                rule.verbs
                    .iter()
                    .map(|verb| format!("{}/{resource} {verb}", groups[0])),
            );
        }
    }
    // Rights that it has no use for. `create` on ReplicaSets, which it needs in every namespace that may hold a cluster,
    // is as good as `create` on pods: a holder of the operator's token can run pods with any account of those namespaces.
    assert!(granted.contains(&"apps/replicasets create".to_owned()));
    for never in [
        "/pods create",
        "/pods/exec create",
        "etcd.improbable.io/etcdclusters delete",
        "etcd.improbable.io/etcdclusters patch",
        "etcd.improbable.io/etcdbackups list",
        "/nodes get",
        "/configmaps list",
    ] {
        assert!(!granted.contains(&never.to_owned()), "{never}");
    }
    for needed in [
        "etcd.improbable.io/etcdclusters/status update",
        "/secrets create",
        "coordination.k8s.io/leases update",
    ] {
        assert!(granted.contains(&needed.to_owned()), "{needed}");
    }
    let mut once = granted.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), granted.len(), "a right is granted twice");
}

#[test]
fn the_pod_has_no_power_of_its_own() {
    let deployment: Deployment =
        serde_json::from_value(of_kind(&documents(&Settings::default()), "Deployment")).unwrap();
    let spec = deployment.spec.unwrap();
    let pod = spec.template.spec.unwrap();
    assert_eq!(spec.selector.match_labels, spec.template.metadata.unwrap().labels);
    let security = pod.security_context.unwrap();
    assert_eq!(
        (security.run_as_non_root, security.run_as_user),
        (Some(true), Some(65532))
    );
    assert_eq!(security.seccomp_profile.unwrap().type_, "RuntimeDefault");
    let [container] = pod.containers.as_slice() else {
        panic!("one container");
    };
    let security = container.security_context.as_ref().unwrap();
    assert_eq!(security.read_only_root_filesystem, Some(true));
    assert_eq!(security.allow_privilege_escalation, Some(false));
    assert_eq!(
        security.capabilities.as_ref().unwrap().drop,
        Some(vec!["ALL".to_owned()])
    );
    assert!(container.liveness_probe.is_none() && container.startup_probe.is_none());
    let ready = container
        .readiness_probe
        .as_ref()
        .unwrap()
        .http_get
        .as_ref()
        .unwrap();
    assert_eq!(ready.path.as_deref(), Some("/readyz"));
    let names: Vec<&str> = container
        .env
        .iter()
        .flatten()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["POD_NAME", "POD_NAMESPACE", "QUORATE_IMAGE"]);
}

#[test]
fn the_webhook_is_asked_for_and_brings_no_more_rights_than_it_needs() {
    let plain = stream(&Settings::default()).unwrap();
    assert!(!plain.contains("admissionregistration") && !plain.contains("webhook"));
    let settings = Settings {
        namespace: "elsewhere".to_owned(),
        webhook: true,
        ..Settings::default()
    };
    let text = stream(&settings).unwrap();
    assert!(text.starts_with(&plain[..100]) && !text.contains("caBundle:"));
    let documents = documents(&settings);
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let configuration = of_kind(&documents, kind);
        assert_eq!(configuration["metadata"]["name"], NAME);
        assert_eq!(configuration["metadata"].get("namespace"), None);
        let service = &configuration["webhooks"][0]["clientConfig"]["service"];
        assert_eq!(service["namespace"], "elsewhere");
        let named = |document: &&Value| document["metadata"]["name"] == service["name"];
        let of_name: Vec<&Value> = documents.iter().filter(named).collect();
        let [service] = of_name.as_slice() else {
            panic!("one Service: {of_name:?}");
        };
        assert_eq!(service["kind"], "Service");
        assert_eq!(service["spec"]["ports"][0]["port"], 443);
    }
    let everywhere: ClusterRole = serde_json::from_value(of_kind(&documents, "ClusterRole")).unwrap();
    let about = |rule: &PolicyRule| {
        let groups = rule.api_groups.as_ref().unwrap();
        groups.contains(&"admissionregistration.k8s.io".to_owned())
    };
    let rules: Vec<PolicyRule> = everywhere.rules.unwrap().into_iter().filter(about).collect();
    let [rule] = rules.as_slice() else {
        panic!("one rule: {rules:?}");
    };
    assert_eq!(rule.resource_names, Some(vec![NAME.to_owned()]));
    assert_eq!(rule.verbs, ["list", "watch", "patch"]);
    let deployment: Deployment = serde_json::from_value(of_kind(&documents, "Deployment")).unwrap();
    let container = &deployment.spec.unwrap().template.spec.unwrap().containers[0];
    assert_eq!(
        container.args,
        Some(vec!["operator".to_owned(), "--webhook=0.0.0.0:9443".to_owned()])
    );
}
