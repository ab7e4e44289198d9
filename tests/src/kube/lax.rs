//! A Kubernetes that lets in what it should not, for a while: without the rules of EtcdClusters, as an administrator's
//! older definition may be, or without the webhook. For tests that have the bed alone; put back when dropped, and a test
//! in which that fails fails itself: those after it would be let through what they are to be refused.

use serde_json::{Value, json};

use super::bed::Bed;
use super::{must_be_back, said};

/// The definition of EtcdClusters, whose schema holds the rules.
pub(super) const DEFINITION: [&str; 2] = ["customresourcedefinition", "etcdclusters.etcd.improbable.io"];
/// The configurations by which the API server knows of the webhook; both have the same name.
pub const CONFIGURATIONS: [&str; 2] = ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"];
pub const CONFIGURATION: &str = "quorate-operator";

/// Whether the definition of EtcdClusters has its rules, as [`NoRules`] takes them away.
pub(super) fn has_rules(definition: &Value) -> bool {
    let fields = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties");
    fields.is_some_and(Value::is_object)
}

/// The definition of EtcdClusters without its rules.
pub struct NoRules {
    definition: Value,
    bed: &'static Bed,
}

impl NoRules {
    pub fn begin(bed: &'static Bed) -> NoRules {
        let definition = bed.json(&DEFINITION).expect("the definition");
        let path = "/spec/versions/0/schema/openAPIV3Schema";
        let lax = json!([{"op": "replace", "path": path, "value": {"type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}]);
        bed.must(
            &[
                &["patch"],
                &DEFINITION[..],
                &["--type=json", "-p", &lax.to_string()],
            ]
            .concat(),
        );
        NoRules {
            definition: without_identity(definition),
            bed,
        }
    }
}

impl Drop for NoRules {
    fn drop(&mut self) {
        let put_back = self
            .bed
            .kubectl_with(&["replace", "-f", "-"], &self.definition.to_string());
        must_be_back("the rules of EtcdClusters", &put_back);
    }
}

/// An API server that asks nobody.
pub struct NoWebhook {
    configurations: Vec<Value>,
    bed: &'static Bed,
}

impl NoWebhook {
    pub fn begin(bed: &'static Bed) -> NoWebhook {
        // The guard is there before anything is taken away: what fails in between puts back what was.
        let mut guard = NoWebhook {
            configurations: Vec::new(),
            bed,
        };
        for kind in CONFIGURATIONS {
            let configuration = bed.json(&[kind, CONFIGURATION]).expect("a configuration");
            guard.configurations.push(without_identity(configuration));
            bed.must(&["delete", kind, CONFIGURATION]);
        }
        guard
    }
}

impl Drop for NoWebhook {
    fn drop(&mut self) {
        let put_back = |configuration: &Value| {
            self.bed
                .kubectl_with(&["create", "-f", "-"], &configuration.to_string())
        };
        // All of them first: the first failure must not leave the second away.
        let all: Vec<_> = self.configurations.iter().map(put_back).collect();
        // The last one may never have been deleted.
        for put_back in all.iter().filter(|o| !said(o).contains("AlreadyExists")) {
            must_be_back("the webhook", put_back);
        }
        if !std::thread::panicking() {
            self.bed.await_webhook();
        }
    }
}

/// The object as it can be put back.
fn without_identity(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    metadata.remove("resourceVersion");
    metadata.remove("uid");
    object
}
