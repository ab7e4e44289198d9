//! The ReplicaSet of a member: one pod, made again by Kubernetes whenever it is gone, with or without the operator.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use quorate_core::model::Ordinal;

use super::{Plot, pod};
use crate::names::Role;
use crate::slot::Peer;

/// The ReplicaSet, owned by the EtcdPeer.
pub fn replica_set(
    plot: &Plot<'_>,
    ordinal: Ordinal,
    (peer, role): (&Peer, Role),
    owner: OwnerReference,
) -> ReplicaSet {
    let mut metadata = plot.member_meta(ordinal);
    metadata.owner_references = Some(vec![owner]);
    ReplicaSet {
        metadata,
        spec: Some(ReplicaSetSpec {
            replicas: Some(1),
            selector: LabelSelector {
                match_labels: Some(plot.names.member_labels(ordinal)),
                ..LabelSelector::default()
            },
            template: Some(pod::template(plot, ordinal, peer, role)),
            ..ReplicaSetSpec::default()
        }),
        status: None,
    }
}
