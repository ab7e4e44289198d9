//! `spec.storage`: the claim for a member's volume, as written.
//!
//! On the host the size is all that counts; the rest is Kubernetes' and is passed on as it is.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::quantity::Quantity;
use crate::crd::embed;

/// Where a member's data lives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["volumeClaimTemplate"]))]
pub struct Storage {
    /// The claim made for each member. storageClassName and resources.requests.storage are required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embed::claim")]
    pub volume_claim_template: Option<PersistentVolumeClaimSpec>,
}

impl Storage {
    /// The size that is asked for.
    pub fn size(&self) -> Option<Quantity> {
        let resources = self.volume_claim_template.as_ref()?.resources.as_ref()?;
        let size = resources.requests.as_ref()?.get("storage")?;
        Some(Quantity::new(&size.0))
    }
}
