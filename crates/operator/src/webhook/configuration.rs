//! By which the API server knows whom to ask: two configurations, as they are installed, and whom they trust.
//!
//! In: the operator's namespace. Out: the objects that `quorate install --webhook` prints, and for those there are the
//! change that brings `caBundle` to what it should be. It is left out of what is printed: then applying the same again
//! does not own the field and leaves it as it is. Never: a change to a hook that is not ours.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use quorate_api::GROUP;
use serde_json::{Value, json};

use super::{CONFIGURATION, PATH, SERVICE};

/// The hook before the schema is looked at.
pub const FIRST_HOOK: &str = "all-faults.etcd.improbable.io";
/// The hook after all other changes.
pub const LAST_HOOK: &str = "rules.etcd.improbable.io";
/// How long the API server waits; then it goes on by itself.
const TIMEOUT_SECONDS: i32 = 5;
/// The rules are in the definitions too: an operator that is away stops nobody.
const ON_FAILURE: &str = "Ignore";

/// Asks before the schema is looked at. It changes nothing.
pub fn mutating(namespace: &str, metadata: ObjectMeta) -> MutatingWebhookConfiguration {
    MutatingWebhookConfiguration {
        metadata: named(metadata),
        webhooks: Some(vec![MutatingWebhook {
            name: FIRST_HOOK.to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: service(namespace),
            failure_policy: Some(ON_FAILURE.to_owned()),
            match_policy: Some("Equivalent".to_owned()),
            rules: Some(vec![rule()]),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECONDS),
            ..MutatingWebhook::default()
        }]),
    }
}

/// Asks again, about what others made of the object.
pub fn validating(namespace: &str, metadata: ObjectMeta) -> ValidatingWebhookConfiguration {
    ValidatingWebhookConfiguration {
        metadata: named(metadata),
        webhooks: Some(vec![ValidatingWebhook {
            name: LAST_HOOK.to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: service(namespace),
            failure_policy: Some(ON_FAILURE.to_owned()),
            match_policy: Some("Equivalent".to_owned()),
            rules: Some(vec![rule()]),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECONDS),
            ..ValidatingWebhook::default()
        }]),
    }
}

fn named(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: Some(CONFIGURATION.to_owned()),
        namespace: None,
        ..metadata
    }
}

fn rule() -> RuleWithOperations {
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    RuleWithOperations {
        api_groups: words(&[GROUP]),
        api_versions: words(&["v1alpha1"]),
        operations: words(&["CREATE", "UPDATE"]),
        resources: words(&["etcdclusters", "etcdpeers"]),
        scope: Some("Namespaced".to_owned()),
    }
}

fn service(namespace: &str) -> WebhookClientConfig {
    WebhookClientConfig {
        service: Some(ServiceReference {
            name: SERVICE.to_owned(),
            namespace: namespace.to_owned(),
            path: Some(PATH.to_owned()),
            port: Some(443),
        }),
        ..WebhookClientConfig::default()
    }
}

/// A configuration of either sort.
pub trait Configuration: ResourceExt {
    /// Its hooks, by name, and whom each trusts.
    fn hooks(&self) -> Vec<(&str, &WebhookClientConfig)>;
}

impl Configuration for MutatingWebhookConfiguration {
    fn hooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let hooks = self.webhooks.iter().flatten();
        hooks
            .map(|hook| (hook.name.as_str(), &hook.client_config))
            .collect()
    }
}

impl Configuration for ValidatingWebhookConfiguration {
    fn hooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let hooks = self.webhooks.iter().flatten();
        hooks
            .map(|hook| (hook.name.as_str(), &hook.client_config))
            .collect()
    }
}

/// The change, of the sort that merges hooks by name, after which our hook trusts `bundle`; `None` if it does already, or
/// is not there.
pub fn trusting(configuration: &impl Configuration, bundle: &[u8]) -> Option<Value> {
    let bundle = ByteString(bundle.to_vec());
    let ours = |name: &str| name == FIRST_HOOK || name == LAST_HOOK;
    let hooks: Vec<Value> = configuration
        .hooks()
        .into_iter()
        .filter(|(name, client)| ours(name) && client.ca_bundle.as_ref() != Some(&bundle))
        .map(|(name, _)| json!({"name": name, "clientConfig": {"caBundle": bundle}}))
        .collect();
    if hooks.is_empty() {
        return None;
    }
    // The very one that was seen, as it was seen: what changed meanwhile is looked at first.
    let metadata = json!({"uid": configuration.uid(), "resourceVersion": configuration.resource_version()});
    Some(json!({"metadata": metadata, "webhooks": hooks}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_that_is_away_stops_nobody() {
        let first = mutating("n", ObjectMeta::default());
        let last = validating("n", ObjectMeta::default());
        let first = serde_json::to_value(&first.webhooks.unwrap()[0]).unwrap();
        let last = serde_json::to_value(&last.webhooks.unwrap()[0]).unwrap();
        for hook in [first, last] {
            assert_eq!(hook["failurePolicy"], "Ignore");
            assert_eq!(hook["timeoutSeconds"], 5);
            assert_eq!(hook["sideEffects"], "None");
            let rule = &hook["rules"][0];
            assert_eq!(rule["resources"], json!(["etcdclusters", "etcdpeers"]));
            assert_eq!(rule["operations"], json!(["CREATE", "UPDATE"]));
            assert_eq!(hook["clientConfig"]["caBundle"], Value::Null);
        }
    }

    #[test]
    fn only_our_hook_is_changed_and_only_if_it_needs_to_be() {
        let mut seen = mutating("n", ObjectMeta::default());
        seen.metadata.resource_version = Some("7".to_owned());
        let hooks = seen.webhooks.as_mut().unwrap();
        hooks.push(MutatingWebhook {
            name: "another.example.com".to_owned(),
            ..MutatingWebhook::default()
        });
        let change = trusting(&seen, b"bundle").unwrap();
        assert_eq!(
            change["webhooks"],
            json!([{"name": FIRST_HOOK, "clientConfig": {"caBundle": "YnVuZGxl"}}])
        );
        assert_eq!(change["metadata"]["resourceVersion"], "7");
        seen.webhooks.as_mut().unwrap()[0].client_config.ca_bundle = Some(ByteString(b"bundle".to_vec()));
        assert_eq!(trusting(&seen, b"bundle"), None);
        assert!(trusting(&seen, b"another").is_some());
    }
}
