//! EtcdRestore: a new cluster from a backup.
//!
//! What must never happen: a restore into a cluster that exists; a restore whose spec changes while it runs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store::{Bucket, Credentials};
use super::{embed, rules};
use crate::cluster::ClusterSpec;

/// Which backup, and what cluster to make of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "etcd.improbable.io",
    version = "v1alpha1",
    kind = "EtcdRestore",
    plural = "etcdrestores",
    shortname = "etcdr",
    category = "quorate",
    namespaced,
    doc = "A new cluster made from a backup. It never touches a cluster that exists.",
    status = "RestoreStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[x_kube(validation = rules::immutable("an EtcdRestore's spec never changes; make another EtcdRestore"))]
pub struct RestoreSpec {
    /// The backup to restore from.
    pub source: RestoreSource,
    /// The cluster to make.
    pub cluster_template: ClusterTemplate,
}

/// The backup: one of these.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::exactly_one(&["bucket", "objectURL", "archive"]),
    validation = rules::bucket_names_an_object(),
    validation = rules::credentials_beside_url()
)]
pub struct RestoreSource {
    /// A snapshot file in a bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
    /// The address of a snapshot file, for example s3://bucket/path/snapshot.db.
    #[serde(rename = "objectURL", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 2048))]
    pub object_url: Option<String>,
    /// Credentials for the store that objectURL names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// An archive; with toRevision or toTime a point-in-time restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchivePoint>,
}

/// A point in an archive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::at_most_one(&["toRevision", "toTime"]))]
pub struct ArchivePoint {
    /// The address of the archive.
    #[schemars(length(min = 3, max = 2048))]
    pub url: String,
    /// Credentials for the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// The last revision to restore. Absent: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub to_revision: Option<i64>,
    /// The moment to restore, for example 2026-05-02T10:00:00Z: the last revision known to be committed by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::time")]
    pub to_time: Option<Time>,
}

/// The cluster to make.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTemplate {
    /// The EtcdCluster's name. Neither it nor its volume claims may exist.
    #[schemars(length(min = 1, max = 60))]
    pub cluster_name: String,
    /// The EtcdCluster's spec. Without version, the one recorded with the backup is taken.
    #[schemars(schema_with = "restored_spec")]
    pub spec: ClusterSpec,
}

/// An EtcdCluster's spec whose version may be left out. Rules about changes go: nothing here ever changes.
fn restored_spec(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = ClusterSpec::json_schema(generator);
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|field| field != "version");
    }
    for place in [
        "/x-kubernetes-validations",
        "/properties/version/x-kubernetes-validations",
    ] {
        if let Some(Value::Array(rules)) = schema.pointer_mut(place) {
            rules.retain(|rule| !rule["rule"].as_str().is_some_and(|text| text.contains("oldSelf")));
        }
    }
    schema
}

/// What became of a restore.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreStatus {
    /// Pending, Completed or Failed. The last two are final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When the restore began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::time")]
    pub start_time: Option<Time>,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::time")]
    pub completion_time: Option<Time>,
    /// The etcd version of the cluster that is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where that version came from: Spec, Backup or Default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_from: Option<String>,
    /// The last revision that was restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Conditions, one of each type: status, reason and message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "embed::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
