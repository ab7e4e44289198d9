//! What the operator may do: the account, and each right one by one, with the reason for the broad ones.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::GROUP;

use super::deployment::labels;
use super::{NAME, Settings};
use crate::webhook::{CONFIGURATION, SERVICE};

/// What is only watched.
const SEE: [&str; 2] = ["list", "watch"];
/// What the operator makes, mends and takes away. It applies on the server's side: `patch`, never `update`.
const KEEP: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

pub(super) fn account(settings: &Settings) -> ServiceAccount {
    ServiceAccount {
        metadata: in_namespace(settings),
        ..ServiceAccount::default()
    }
}

/// Rights in all namespaces, since clusters may live in any; `None` if there are none of these.
pub(super) fn cluster_role(settings: &Settings) -> Option<ClusterRole> {
    let mut rules = match settings.watch_namespace {
        Some(_) => Vec::new(),
        None => rules(),
    };
    if settings.webhook {
        rules.push(trust());
    }
    (!rules.is_empty()).then(|| ClusterRole {
        metadata: everywhere(),
        rules: Some(rules),
        ..ClusterRole::default()
    })
}

/// The same rights in the only namespace that clusters may live in, and who gets them.
pub(super) fn in_watched(settings: &Settings, namespace: &str) -> (Role, RoleBinding) {
    let name = format!("{NAME}-clusters");
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(namespace.to_owned()),
        ..everywhere()
    };
    let role = Role {
        metadata: metadata.clone(),
        rules: Some(rules()),
    };
    let binding = RoleBinding {
        metadata,
        role_ref: RoleRef {
            name,
            ..role_ref("Role")
        },
        subjects: Some(vec![subject(settings)]),
    };
    (role, binding)
}

/// Whom the API server trusts when it asks the webhook: in the two configurations of that name, and in no others.
fn trust() -> PolicyRule {
    PolicyRule {
        resource_names: Some(vec![CONFIGURATION.to_owned()]),
        ..rule(
            "admissionregistration.k8s.io",
            &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            &["list", "watch", "patch"],
        )
    }
}

/// Each of them is used in the test `tests/tests/kube_operator/rights.rs`. Two are as broad as being an administrator of
/// the namespaces they hold in: to read all Secrets, since certificates of users have any name, and to create ReplicaSets,
/// whose pods may run as any account.
fn rules() -> Vec<PolicyRule> {
    vec![
        rule(GROUP, &["etcdclusters"], &SEE),
        rule(GROUP, &["etcdclusters/status"], &["update"]),
        rule(GROUP, &["etcdclusters/finalizers"], &["update"]),
        rule(GROUP, &["etcdpeers"], &KEEP),
        rule(GROUP, &["etcdpeers/status"], &["patch"]),
        rule(GROUP, &["etcdpeers/finalizers"], &["update"]),
        rule("", &["services"], &["get", "list", "watch", "create", "patch"]),
        rule("", &["persistentvolumeclaims"], &KEEP),
        rule("", &["secrets"], &["list", "watch", "create", "patch", "delete"]),
        rule("", &["pods"], &["list", "watch", "patch", "delete"]),
        rule("", &["pods/resize"], &["patch"]),
        rule(
            "apps",
            &["replicasets"],
            &["get", "list", "watch", "create", "patch"],
        ),
        rule("policy", &["poddisruptionbudgets"], &KEEP),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ]
}

/// Gives the account those rights.
pub(super) fn cluster_role_binding(settings: &Settings) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: everywhere(),
        role_ref: role_ref("ClusterRole"),
        subjects: Some(vec![subject(settings)]),
    }
}

/// Rights in the operator's own namespace: the Lease that says which of its pods works, and the Secret of the webhook's
/// certificate, where no other right to Secrets covers it.
pub(super) fn role(settings: &Settings) -> Role {
    let lease = rule("coordination.k8s.io", &["leases"], &["get", "create", "update"]);
    let mut rules = vec![lease];
    if settings.webhook && settings.watch_namespace.is_some() {
        let own = PolicyRule {
            resource_names: Some(vec![SERVICE.to_owned()]),
            ..rule("", &["secrets"], &["list", "watch", "patch", "delete"])
        };
        // What is yet to be made has no name that a rule could know.
        rules.extend([own, rule("", &["secrets"], &["create"])]);
    }
    Role {
        metadata: in_namespace(settings),
        rules: Some(rules),
    }
}

/// Gives the account those rights.
pub(super) fn role_binding(settings: &Settings) -> RoleBinding {
    RoleBinding {
        metadata: in_namespace(settings),
        role_ref: role_ref("Role"),
        subjects: Some(vec![subject(settings)]),
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

fn role_ref(kind: &str) -> RoleRef {
    RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: NAME.to_owned(),
    }
}

fn subject(settings: &Settings) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: NAME.to_owned(),
        namespace: Some(settings.namespace.clone()),
        ..Subject::default()
    }
}

fn everywhere() -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.to_owned()),
        labels: Some(labels()),
        ..ObjectMeta::default()
    }
}

fn in_namespace(settings: &Settings) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(settings.namespace.clone()),
        ..everywhere()
    }
}
