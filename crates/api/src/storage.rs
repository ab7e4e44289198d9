//! `spec.storage`: the claim for a member's volume, as written.
//!
//! On the host the size is all that counts; the rest is Kubernetes' and is passed on as it is.

use serde::{Deserialize, Serialize};

use crate::pod::Resources;

/// Where a member's data lives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// The claim made for each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_claim_template: Option<VolumeClaimTemplate>,
}

/// Kubernetes' PersistentVolumeClaimSpec.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaimTemplate {
    /// Default: `ReadWriteOnce`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_modes: Option<Vec<String>>,
    /// Default: `Filesystem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    /// Required on Kubernetes, ignored on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// `requests.storage` is the volume's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<serde_json::Value>,
    /// Passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_name: Option<String>,
    /// Passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_name: Option<String>,
    /// Passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_source: Option<serde_json::Value>,
    /// Passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_source_ref: Option<serde_json::Value>,
}
