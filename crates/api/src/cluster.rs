//! `spec` of an EtcdCluster, as written.

use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::pod::PodTemplate;
use crate::quantity::Quantity;
use crate::storage::Storage;

/// Kubernetes' affinity, passed on as it is.
pub type Affinity = serde_json::Value;

/// What a cluster should be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// How many members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// Which etcd, e.g. `3.6.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where the data lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// What the members' pods carry; Kubernetes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
    /// The same as `podTemplate.affinity`; Kubernetes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Encryption. Absent: the ground's default (on for the host, off for Kubernetes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// etcd's own settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Options>,
    /// The largest database etcd accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quantity>,
    /// Look, but change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Members are restarted, one by one, when this changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_redeployment_reason: Option<String>,
    /// What only a cluster on this machine needs; host only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
}

/// Encryption between members and toward clients. `tls: {}` is on, with certificates that quorate keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// `false` turns it off where the ground would have it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Settings of a cluster on this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// The first member's client port; the others' follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_port: Option<i64>,
    /// The first member's peer port; the others' follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_port: Option<i64>,
    /// The name of the systemd units, before the member's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_name: Option<String>,
    /// A member's memory limit in MiB; 0 is none.
    #[serde(default, rename = "memoryLimitMB", skip_serializing_if = "Option::is_none")]
    pub memory_limit_mb: Option<i64>,
    /// The CPU a member may use, e.g. `500m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
}
