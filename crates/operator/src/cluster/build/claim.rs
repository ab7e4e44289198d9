//! The claim of a member. It has no owner, on purpose: deleting an EtcdCluster, or an EtcdPeer in an upgrade, must never
//! take data along.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use quorate_core::Memory;
use quorate_core::model::Ordinal;

use super::BuildContext;
use crate::cluster::record::VolumeRecord;
use crate::names::VOLUME_ANNOTATION;

/// The claim. It says from the first that nothing was ever started on it: one that says nothing may hold anything.
pub fn claim(context: &BuildContext<'_>, ordinal: Ordinal, memory: &Memory) -> PersistentVolumeClaim {
    let record = VolumeRecord::of(memory, ordinal, "");
    let mut metadata = context.member_meta(ordinal);
    metadata.annotations = Some([(VOLUME_ANNOTATION.to_owned(), record.text())].into());
    PersistentVolumeClaim {
        metadata,
        spec: Some(context.cluster.claim.clone()),
        status: None,
    }
}
