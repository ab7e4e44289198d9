//! `spec.podTemplate`: what the members' pods carry, as written. Kubernetes only.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, LocalObjectReference, PodSecurityContext, ResourceRequirements, Toleration,
    TopologySpreadConstraint,
};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::crd::{embed, rules};

/// What is applied to each member's pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<PodMetadata>,
    /// The etcd container's requests and limits. With a CPU limit, etcd runs as many threads as whole cores of it, and
    /// at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Where the pods may be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::affinity")]
    pub affinity: Option<Affinity>,
    /// Taints of nodes that the pods bear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::tolerations")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// How the pods are spread over zones, nodes and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::topology_spread_constraints")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// The pods' priority class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// The pods' security context; what is set here takes the place of quorate's own setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::security_context")]
    pub security_context: Option<PodSecurityContext>,
    /// Secrets to pull the images with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::image_pull_secrets")]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
}

/// The part of a pod's metadata that may be set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::no_reserved_annotation())]
pub struct PodMetadata {
    /// Annotations. Names that begin with etcd.improbable.io/ are quorate's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub annotations: BTreeMap<String, String>,
}
