//! The objects of one cluster, sorted by slot.
//!
//! In: what the watches have of it. Out: [`Objects`]. Never: an EtcdPeer of a former EtcdCluster of that name taken for
//! one that stays.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use quorate_api::crd::EtcdPeer;
use quorate_core::model::Generation;

use crate::names::{CLAIM_FINALIZER, Names, VOLUME_ANNOTATION};
use crate::observe::Objects;
use crate::record::VolumeRecord;
use crate::slot::{Claim, Peer};

/// All objects of one cluster's members.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its EtcdPeers.
    pub peers: Vec<Arc<EtcdPeer>>,
    /// Its claims.
    pub claims: Vec<Arc<PersistentVolumeClaim>>,
    /// Its ReplicaSets.
    pub sets: Vec<Arc<ReplicaSet>>,
    /// Its pods.
    pub pods: Vec<Arc<Pod>>,
}

impl Seen {
    /// By slot. An EtcdPeer of a former EtcdCluster of that name is on its way out.
    pub fn objects(&self, names: &Names, cluster_uid: &str) -> Objects {
        let mut objects = Objects::default();
        for peer in &self.peers {
            let Some(ordinal) = names.ordinal(&peer.name_any()) else {
                continue;
            };
            objects.slots.entry(ordinal).or_default().peer = read_peer(peer, cluster_uid);
        }
        for claim in &self.claims {
            let Some(ordinal) = names.ordinal(&claim.name_any()) else {
                continue;
            };
            let record = claim.annotations().get(VOLUME_ANNOTATION);
            objects.slots.entry(ordinal).or_default().claim = Some(Claim {
                uid: claim.uid().unwrap_or_default(),
                deleting: claim.metadata.deletion_timestamp.is_some(),
                record: record.and_then(|text| VolumeRecord::read(text)),
            });
        }
        for set in &self.sets {
            let Some(ordinal) = names.ordinal(&set.name_any()) else {
                continue;
            };
            objects.slots.entry(ordinal).or_default().set = set.uid();
        }
        for pod in &self.pods {
            let peer = pod.labels().get(quorate_pod::contract::PEER_LABEL);
            let Some(ordinal) = peer.and_then(|name| names.ordinal(name)) else {
                continue;
            };
            objects.slots.entry(ordinal).or_default().add_pod(pod);
        }
        objects
    }
}

fn read_peer(peer: &EtcdPeer, cluster_uid: &str) -> Option<Peer> {
    let start = peer.spec.start.clone().unwrap_or_default();
    let ours = peer.owner_references().iter().any(|o| o.uid == cluster_uid);
    Some(Peer {
        uid: peer.uid()?,
        deleting: peer.metadata.deletion_timestamp.is_some() || !ours,
        takes_claim: peer.finalizers().iter().any(|f| f == CLAIM_FINALIZER),
        version: peer.spec.version.parse().ok()?,
        generation: Generation(start.generation),
        config: start.config,
    })
}
