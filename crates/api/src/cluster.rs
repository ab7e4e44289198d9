//! `spec` of an EtcdCluster, as written: one type for manifests on a machine and for the custom resource.
//!
//! Every field is optional to the reader, so that [`crate::validate`] can name all that is missing at once and a
//! watch survives an object that an older schema let in. The schema says what is required.

pub(crate) mod options;
pub(crate) mod pod;
pub(crate) mod quantity;
pub(crate) mod storage;

use k8s_openapi::api::core::v1::Affinity;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::crd::{BackupPlan, ClusterStatus, embed, rules};
use options::Options;
use pod::PodTemplate;
use quantity::Quantity;
use storage::Storage;

/// What a cluster should be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "etcd.improbable.io",
    version = "v1alpha1",
    kind = "EtcdCluster",
    plural = "etcdclusters",
    shortname = "etcd",
    category = "quorate",
    namespaced,
    doc = "A cluster of etcd members that quorate starts, keeps running, resizes and upgrades.",
    status = "ClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    validation = rules::cluster_name(),
    validation = rules::never_down_a_minor()
)]
#[schemars(extend("required" = ["replicas", "storage", "version"]))]
#[x_kube(
    validation = rules::one_affinity(),
    validation = rules::storage_is_kept(),
    validation = rules::pod_template_is_kept(),
    validation = rules::affinity_is_kept(),
    validation = rules::tls_is_kept()
)]
pub struct ClusterSpec {
    /// How many members. Odd numbers survive most: 3 the loss of one, 5 the loss of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 99), extend("format" = "int32"))]
    pub replicas: Option<i64>,
    /// Which etcd, as three numbers, for example 3.6.1: from 3.4 to 3.7, up one minor at a time, never down one that a
    /// member has run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(
        validation = rules::dotted_tri(),
        validation = rules::major_three(),
        validation = rules::supported_minor(),
        validation = rules::keeps_data_intact(),
        validation = rules::one_minor_at_a_time(),
        validation = rules::patch_before_minor()
    )]
    pub version: Option<String>,
    /// Where the members keep their data. Cannot be changed later, unless maintenance.rollingChanges is true: then
    /// the volumes may grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// What the members' pods carry. Cannot be changed later, unless maintenance.rollingChanges is true: then the
    /// pods are replaced one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
    /// Where the members' pods may be placed. The same as podTemplate.affinity; set one of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::affinity")]
    pub affinity: Option<Affinity>,
    /// Encryption between members and toward clients. Absent: none on Kubernetes. `{}`: on, with certificates that
    /// quorate makes and renews. Whether it is on, and whose the certificates are, cannot be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// How quorate logs in where etcd's authentication is enabled. Not needed with TLS: quorate's certificate is root's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// etcd's own settings. What is left out is etcd's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Options>,
    /// The largest database etcd accepts, for example 2Gi; above it etcd accepts no more writes until space is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::quantity")]
    #[x_kube(validation = rules::quota_in_range())]
    pub quota: Option<Quantity>,
    /// True: look and report, but change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The members are restarted, one by one, when this text changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub force_redeployment_reason: Option<String>,
    /// Consent that the only member goes on from a volume that was put back to an earlier state: the text that the reason
    /// RolledBack shows. What was written since is lost. It counts for that state of that volume, once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub accept_rolled_back: Option<String>,
    /// Backups of this cluster: shorthand for an EtcdBackupSchedule that names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupPlan>,
    /// How the cluster may be worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
    /// Settings of a cluster that runs on a machine without Kubernetes; ignored with a warning on Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
}

impl Tls {
    /// Whether encryption is on.
    pub fn is_on(&self) -> bool {
        self.enabled.unwrap_or(true)
    }
}

impl ClusterSpec {
    /// Whether the pod template may change and storage may grow.
    pub fn rolling_changes(&self) -> bool {
        self.maintenance
            .as_ref()
            .is_some_and(|maintenance| maintenance.rolling_changes == Some(true))
    }
}

/// Encryption between members and toward clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::both_secrets_or_none())]
pub struct Tls {
    /// False turns encryption off where it would be on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Your own certificate toward clients. Absent: quorate makes and renews one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<TlsSecret>,
    /// Your own certificate between members. Absent: quorate makes and renews one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<TlsSecret>,
}

/// How quorate logs in where etcd's authentication is enabled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Auth {
    /// The name of a Secret in the cluster's namespace: its key password is that of the user root; a key username names
    /// another user with the role root. Kubernetes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub root_secret: Option<String>,
    /// A file that holds the password of the user root. Without Kubernetes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub password_file: Option<String>,
}

/// A Secret with a certificate of your own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["secretName"]))]
pub struct TlsSecret {
    /// The Secret's name, in the cluster's namespace. It holds tls.crt, tls.key and ca.crt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// How the cluster may be worked on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Maintenance {
    /// True: the pod template may be changed, and members' pods are replaced one by one; storage may grow. False or
    /// absent: both stay as they were when the cluster was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_changes: Option<bool>,
}

/// Settings of a cluster on a machine without Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// The first member's client port; the others' follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub client_port: Option<i64>,
    /// The first member's peer port; the others' follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub peer_port: Option<i64>,
    /// The name of the systemd units, before the member's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub unit_name: Option<String>,
    /// A member's memory limit in MiB; 0 is none.
    #[serde(default, rename = "memoryLimitMB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory_limit_mb: Option<i64>,
    /// The CPU a member may use, for example 500m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::quantity")]
    pub cpu: Option<Quantity>,
}
