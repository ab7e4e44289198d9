//! Schemas of Kubernetes' own types inside ours.
//!
//! In: the types of the Kubernetes API. Out: their structure, without their texts: `kubectl explain` knows those under
//! the pod or claim itself, and a definition with all of them would be too long for `kubectl apply`.
//!
//! What must never happen: a size or amount that a manifest may write as a number, and the schema takes as text only.

use k8s_openapi::api::core::v1::{
    Affinity, LocalObjectReference, PersistentVolumeClaimSpec, PodSecurityContext, ResourceRequirements,
    SecretKeySelector, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A number with an optional unit, as Kubernetes writes amounts.
const QUANTITY: &str = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$";

/// An amount: a number, or a number with a unit.
pub fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "pattern": QUANTITY, "maxLength": 64})
}

/// A number or a text.
pub fn int_or_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "maxLength": 64})
}

/// Whether a cluster is founded or joined.
pub fn initial_cluster_state(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["New", "Existing"]})
}

/// Where pods may be placed.
pub fn affinity(generator: &mut SchemaGenerator) -> Schema {
    bare::<Affinity>(generator)
}

/// Requests and limits of a container.
pub fn resources(generator: &mut SchemaGenerator) -> Schema {
    bare::<ResourceRequirements>(generator)
}

/// Taints that pods bear.
pub fn tolerations(generator: &mut SchemaGenerator) -> Schema {
    bare::<Vec<Toleration>>(generator)
}

/// How pods are spread.
pub fn topology_spread_constraints(generator: &mut SchemaGenerator) -> Schema {
    bare::<Vec<TopologySpreadConstraint>>(generator)
}

/// A pod's security context.
pub fn security_context(generator: &mut SchemaGenerator) -> Schema {
    bare::<PodSecurityContext>(generator)
}

/// Secrets to pull images with.
pub fn image_pull_secrets(generator: &mut SchemaGenerator) -> Schema {
    bare::<Vec<LocalObjectReference>>(generator)
}

/// One key of a Secret.
pub fn secret_key(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = bare::<SecretKeySelector>(generator);
    schema.insert("required".to_owned(), json!(["name", "key"]));
    schema
}

pub fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// Conditions, one of each type.
pub fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = bare::<Vec<Condition>>(generator);
    schema.insert("x-kubernetes-list-type".to_owned(), json!("map"));
    schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(["type"]));
    schema
}

/// A volume claim with a class and a size, one reader and writer unless the manifest says otherwise.
pub fn claim(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = bare::<PersistentVolumeClaimSpec>(generator);
    schema.insert("required".to_owned(), json!(["resources", "storageClassName"]));
    for (place, key, value) in [
        ("/properties/accessModes", "default", json!(["ReadWriteOnce"])),
        ("/properties/volumeMode", "default", json!("Filesystem")),
        ("/properties/resources", "required", json!(["requests"])),
        (
            "/properties/resources/properties/requests",
            "required",
            json!(["storage"]),
        ),
    ] {
        let inside = schema.pointer_mut(place).and_then(Value::as_object_mut);
        if let Some(inside) = inside {
            inside.insert(key.to_owned(), value);
        }
    }
    schema
}

fn bare<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator);
    if let Some(fields) = schema.as_object_mut() {
        strip(fields);
    }
    schema
}

/// Takes the texts out, and lets amounts be what a [`quantity`] is.
fn strip(schema: &mut serde_json::Map<String, Value>) {
    schema.remove("description");
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        schema.insert("pattern".to_owned(), json!(QUANTITY));
        schema.insert("maxLength".to_owned(), json!(64));
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            strip(property);
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(inner) {
            strip(inner);
        }
    }
}
