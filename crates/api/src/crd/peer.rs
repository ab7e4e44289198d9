//! EtcdPeer: one member's place: its claim, its ReplicaSet and pod. The operator makes and deletes these.
//!
//! What must never happen: a spec that changes; a member is changed by deleting its EtcdPeer and recreating it on the
//! same claim.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{PeerStatus, embed, rules};
use crate::cluster::pod::PodTemplate;
use crate::cluster::storage::Storage;

/// What a member's place should be. It never changes; quorate deletes the EtcdPeer and recreates it instead.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "etcd.improbable.io",
    version = "v1alpha1",
    kind = "EtcdPeer",
    plural = "etcdpeers",
    shortname = "etcdp",
    category = "quorate",
    namespaced,
    doc = "The place of one member of an EtcdCluster. quorate makes these; there is no need to.",
    status = "PeerStatus",
    derive = "Default",
    derive = "PartialEq",
    selectable = ".spec.clusterName"
)]
#[schemars(extend("required" = ["clusterName", "storage", "version"]))]
#[x_kube(validation = rules::immutable("an EtcdPeer's spec never changes; delete it and make another"))]
pub struct PeerSpec {
    /// The EtcdCluster it belongs to, in the same namespace.
    #[schemars(length(min = 1, max = 64))]
    pub cluster_name: String,
    /// Which etcd, as three numbers.
    #[schemars(length(max = 32))]
    #[x_kube(
        validation = rules::dotted_tri(),
        validation = rules::major_three(),
        validation = rules::supported_minor(),
        validation = rules::keeps_data_intact()
    )]
    pub version: String,
    /// How the member first comes to its cluster. Absent: its volume says that it already belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
    /// Where the member keeps its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// What the member's pod carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
    /// Internal: how quorate means the member to be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<PeerStart>,
}

/// How a member first comes to its cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The members it should know at its first start.
    #[serde(rename = "static", default, skip_serializing_if = "Option::is_none")]
    pub static_: Option<StaticBootstrap>,
    /// New: it founds the cluster together with the others. Existing: it joins one that runs.
    #[schemars(schema_with = "embed::initial_cluster_state")]
    pub initial_cluster_state: InitialClusterState,
}

/// Whether a cluster is founded or joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InitialClusterState {
    /// The cluster is founded.
    New,
    /// The cluster runs already. The default, since it can never found a second cluster by mistake.
    #[default]
    Existing,
}

/// The members to know at a first start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticBootstrap {
    /// All members, this one among them.
    #[schemars(length(min = 1))]
    pub initial_cluster: Vec<InitialMember>,
}

/// A member to know at a first start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitialMember {
    /// The name of the member.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The host where it is reached, without scheme and port.
    #[schemars(length(min = 1))]
    pub host: String,
}

/// How quorate means a member to be started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerStart {
    /// Which data directory of the volume: a replaced member gets the next one.
    #[schemars(extend("format" = "int64"))]
    pub generation: u32,
    /// A digest of the configuration it is started with.
    pub config: String,
}
