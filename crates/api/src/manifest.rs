//! The manifest as written: apiVersion, kind, metadata, spec.
//!
//! These types accept what Kubernetes would hand us: every field is optional here, so that
//! [`crate::validate`] can name all that is missing at once; [`crate::parse`] is what refuses unknown fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cluster::ClusterSpec;

pub const GROUP: &str = "etcd.improbable.io";
/// The API group and version of a manifest.
pub const API_VERSION: &str = "etcd.improbable.io/v1alpha1";
pub const KIND: &str = "EtcdCluster";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdCluster {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: ClusterSpec,
}

/// The part of Kubernetes' object metadata that a manifest may carry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The cluster's name; members are `NAME-0`, `NAME-1`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The namespace, on Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
