//! EtcdBackup: one copy of a cluster's data, taken once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::store::{Archive, Bucket, Credentials, LocalDirectory};
use super::{embed, rules};

/// What to back up, and to where.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "etcd.improbable.io",
    version = "v1alpha1",
    kind = "EtcdBackup",
    plural = "etcdbackups",
    shortname = "etcdb",
    category = "quorate",
    namespaced,
    doc = "One backup of an etcd cluster, taken once, when this is made.",
    status = "BackupStatus",
    derive = "Default",
    derive = "PartialEq"
)]
#[x_kube(validation = rules::exactly_one(&["source", "clusterEndpoints"]))]
pub struct BackupSpec {
    /// What to back up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<BackupSource>,
    /// What to back up, in the older form: the members' client endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub cluster_endpoints: Option<Vec<Endpoint>>,
    /// Where to put it.
    pub destination: BackupDestination,
}

/// What to back up: one of these.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::exactly_one(&["clusterName", "clusterURL", "clusterEndpoints"]))]
pub struct BackupSource {
    /// An EtcdCluster in the same namespace. quorate chooses a member, and knows the certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub cluster_name: Option<String>,
    /// The client address of a member or of a Service, for example http://my-cluster:2379.
    #[serde(rename = "clusterURL", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub cluster_url: Option<String>,
    /// The members' client endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub cluster_endpoints: Option<Vec<Endpoint>>,
}

/// Where a member serves clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// http or https. Absent: http.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["http", "https"]))]
    pub scheme: Option<String>,
    /// The host's name or address.
    #[schemars(length(min = 1, max = 253))]
    pub host: String,
    /// The port. Absent: 2379.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// Where to put a backup: one of these.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::exactly_one(&["bucket", "objectURLTemplate", "archive", "local"]),
    validation = rules::credentials_beside_template()
)]
pub struct BackupDestination {
    /// A bucket of an object store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
    /// The address of the object to write, for example s3://bucket/{{ .Namespace }}/{{ .Name }}.db. The placeholders
    /// are .Name, .Namespace, .UID, .CreationTimestamp and .Labels of this EtcdBackup.
    #[serde(
        rename = "objectURLTemplate",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 3, max = 2048))]
    pub object_url_template: Option<String>,
    /// Credentials for the store that objectURLTemplate names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// An archive, which keeps full backups and the deltas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<Archive>,
    /// A directory of the pod that takes the backup; for trying things out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalDirectory>,
}

/// What became of a backup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupStatus {
    /// BackingUp, Completed or Failed. The last two are final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When the backup began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::time")]
    pub start_time: Option<Time>,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::time")]
    pub completion_time: Option<Time>,
    /// Where the backup object lies.
    #[serde(rename = "objectURL", default, skip_serializing_if = "Option::is_none")]
    pub object_url: Option<String>,
    /// The revision that was backed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Its size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// The etcd version of the member it was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,
    /// Conditions, one of each type: status, reason and message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "embed::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
