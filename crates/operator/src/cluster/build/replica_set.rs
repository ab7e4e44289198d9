//! The ReplicaSet of a member: one pod, made again by Kubernetes whenever it is gone, with or without the operator.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use quorate_core::model::Ordinal;
use quorate_pod::contract::KnownProgress;

use super::{BuildContext, pod};
use crate::cluster::observe::slot::Peer;
use crate::names::Role;

/// The ReplicaSet, owned by the EtcdPeer.
pub fn replica_set(
    context: &BuildContext<'_>,
    ordinal: Ordinal,
    peer: &Peer,
    pods: (Role, KnownProgress),
    owner: OwnerReference,
) -> ReplicaSet {
    let mut metadata = context.member_meta(ordinal);
    metadata.owner_references = Some(vec![owner]);
    ReplicaSet {
        metadata,
        spec: Some(ReplicaSetSpec {
            replicas: Some(1),
            selector: LabelSelector {
                match_labels: Some(context.names.member_labels(ordinal)),
                ..LabelSelector::default()
            },
            template: Some(pod::template(context, ordinal, peer, pods)),
            ..ReplicaSetSpec::default()
        }),
        status: None,
    }
}
