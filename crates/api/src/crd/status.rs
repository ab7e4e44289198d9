//! `status` of an EtcdCluster and of an EtcdPeer: what the operator reports.
//!
//! What rules read of it is bounded, for an API server refuses a rule over anything else; what the operator writes is within.
//!
//! What must never happen: a report that forgets what was last known because contact was lost; a secret in it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::embed;

/// What is known of a cluster. Best effort: what cannot be reached is as it was last seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// How many EtcdPeers there are. During changes this may differ from the members and from the running pods.
    #[serde(default)]
    pub replicas: i32,
    /// How many members are voters and healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The members as etcd itself lists them. Blank until the cluster first answers; stale while it does not.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub members: Vec<MemberStatus>,
    /// The version all members agree on, which governs what the cluster can do, for example 3.6.0.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub cluster_version: String,
    /// Conditions, one of each type. Ready says whether the cluster matches its spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "embed::conditions")]
    pub conditions: Vec<Condition>,
    /// The label selector of the members' pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When this status was last written. The operator writes it at least every ten minutes: an older one says how the
    /// cluster was, not how it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::time")]
    pub observed_at: Option<Time>,
    /// Internal: the operator's state between two passes. Not for reading or editing; without it a
    /// change under way may be refused until it is understood again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// A member as etcd lists it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// The member's id, in hexadecimal digits.
    pub id: String,
    /// The member's name: the name of its EtcdPeer.
    pub name: String,
    /// Whether it answers and follows a leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Whether it still catches up and has no vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learner: Option<bool>,
    /// Whether it is the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<bool>,
    /// The etcd it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub version: Option<String>,
    /// The size of its database file, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db_size: Option<i64>,
    /// How much of that file is in use, in bytes; defragmentation frees the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db_size_in_use: Option<i64>,
    /// How many sets of old data lie aside on its volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asides: Option<i64>,
    /// The room that they take, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside_bytes: Option<i64>,
}

/// What is known of a member's pod and process. It is written when it changes, and as old as `status.observedAt` of its
/// EtcdCluster says: a time of its own would cost another request for each member.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerStatus {
    /// The etcd version that the member reports; blank while it does not answer.
    #[serde(default)]
    pub server_version: String,
    /// Conditions, one of each type: status, reason and message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "embed::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
