//! The objects of one cluster, sorted by slot.
//!
//! In: what the watches have of it. Out: [`Objects`]. Never: an EtcdPeer of a former EtcdCluster of that name, or of
//! somebody else, taken for one that stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod};
use kube::{Resource, ResourceExt};
use quorate_api::Quantity;
use quorate_api::crd::{EtcdCluster, EtcdPeer};
use quorate_core::model::Generation;
use quorate_pod::contract::{KnownProgress, REACHED_ANNOTATION};

use crate::cluster::build::etcd::settings_of;
use crate::cluster::observe::Objects;
use crate::cluster::observe::slot::{Claim, Owner, Peer};
use crate::cluster::record::VolumeRecord;
use crate::cluster::resources::TemplateResources;
use crate::names::{CLAIM_FINALIZER, Names, ROLE_LABEL, VOLUME_ANNOTATION, lacking};

/// All objects of one cluster's members.
#[derive(Clone, Debug, Default)]
pub struct MemberObjects {
    pub peers: Vec<Arc<EtcdPeer>>,
    pub claims: Vec<Arc<PersistentVolumeClaim>>,
    pub sets: Vec<Arc<ReplicaSet>>,
    pub pods: Vec<Arc<Pod>>,
}

impl MemberObjects {
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
            objects.slots.entry(ordinal).or_default().claim = Some(read_claim(claim));
        }
        for set in &self.sets {
            let Some(ordinal) = names.ordinal(&set.name_any()) else {
                continue;
            };
            let slot = objects.slots.entry(ordinal).or_default();
            (slot.set, slot.set_fails) = (set.uid(), failure(set));
            let of_pods = pod_labels(set);
            slot.set_role = of_pods.and_then(|labels| labels.get(ROLE_LABEL)).cloned();
            slot.set_lacks = lacking(set.metadata.labels.as_ref());
            slot.set_lacks.extend(lacking(of_pods));
            slot.set_reached = reached(set);
            slot.set_resources = TemplateResources::read(set);
            // It may make its pods with other resources since.
            if let (Some(peer), Some(config)) = (&mut slot.peer, &slot.set_resources.config)
                && set.owner_references().iter().any(|owner| owner.uid == peer.uid)
                && settings_of(config) == settings_of(&peer.config)
            {
                peer.config = config.clone();
            }
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

fn read_claim(claim: &PersistentVolumeClaim) -> Claim {
    let record = claim.annotations().get(VOLUME_ANNOTATION);
    let (record, unreadable) = match record.map(|text| VolumeRecord::read(text)).transpose() {
        Ok(record) => (record, None),
        Err(why) => (None, Some(why)),
    };
    let spec = claim.spec.as_ref();
    let capacity = (claim.status.as_ref()).and_then(|s| s.capacity.as_ref()?.get("storage"));
    let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref());
    let unbound = matches!(phase, Some("Pending" | "Lost")).then(|| {
        let class = spec.and_then(|s| s.storage_class_name.as_deref());
        let class = class.map_or(String::new(), |class| format!(" of StorageClass {class:?}"));
        format!("its claim {}{class} is not bound yet", claim.name_any())
    });
    Claim {
        uid: claim.uid().unwrap_or_default(),
        version: claim.resource_version().unwrap_or_default(),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        record,
        unreadable,
        unbound,
        asks_for: spec.and_then(requested).map(|q| q.to_owned()),
        holds: capacity.map(|q| q.0.clone()),
        lacks: lacking(claim.metadata.labels.as_ref()),
    }
}

/// A Kubernetes quantity of storage, in bytes.
pub fn bytes(quantity: &str) -> Option<u64> {
    Quantity::new(quantity).units().ok()
}

/// How much storage the spec of a claim asks for.
pub fn requested(spec: &PersistentVolumeClaimSpec) -> Option<&str> {
    let requests = spec.resources.as_ref()?.requests.as_ref()?;
    requests.get("storage").map(|quantity| quantity.0.as_str())
}

/// How far their volume has come, as the pods of a ReplicaSet are made with.
fn reached(set: &ReplicaSet) -> Option<KnownProgress> {
    let template = set.spec.as_ref()?.template.as_ref()?;
    let annotations = template.metadata.as_ref()?.annotations.as_ref()?;
    KnownProgress::read(annotations.get(REACHED_ANNOTATION)?.as_bytes()).ok()
}

/// The labels of the pods that a ReplicaSet makes.
fn pod_labels(set: &ReplicaSet) -> Option<&BTreeMap<String, String>> {
    let template = set.spec.as_ref()?.template.as_ref()?;
    template.metadata.as_ref()?.labels.as_ref()
}

/// Why a ReplicaSet cannot make its pod: a quota, a policy, a limit.
fn failure(set: &ReplicaSet) -> Option<String> {
    let conditions = set.status.as_ref()?.conditions.as_ref()?;
    let fails = |c: &&ReplicaSetCondition| c.type_ == "ReplicaFailure" && c.status == "True";
    let failing = conditions.iter().find(fails)?;
    let message = failing.message.as_deref().or(failing.reason.as_deref())?;
    Some(message.chars().take(300).collect())
}

fn read_peer(peer: &EtcdPeer, cluster_uid: &str) -> Option<Peer> {
    let start = peer.spec.start.clone().unwrap_or_default();
    let owner = owner(peer, cluster_uid);
    let theirs = matches!(owner, Owner::Former | Owner::Other(_));
    let (ours, others) = peer
        .finalizers()
        .iter()
        .cloned()
        .partition::<Vec<String>, _>(|f| f == CLAIM_FINALIZER);
    Some(Peer {
        uid: peer.uid()?,
        resource_version: peer.resource_version().unwrap_or_default(),
        deleting: peer.metadata.deletion_timestamp.is_some() || theirs,
        obsolete_finalizer: (!ours.is_empty()).then_some(others),
        owner,
        version: peer.spec.version.parse().ok()?,
        generation: Generation(start.generation),
        config: start.config,
    })
}

fn owner(peer: &EtcdPeer, cluster_uid: &str) -> Owner {
    let owners = peer.owner_references();
    if owners.iter().any(|o| o.uid == cluster_uid) {
        return Owner::Ours;
    }
    match owners.iter().find(|o| o.controller == Some(true)) {
        None => Owner::Nobody(owners.to_vec()),
        Some(o) if o.kind == EtcdCluster::kind(&()) && o.name == peer.spec.cluster_name => Owner::Former,
        Some(o) => Owner::Other(format!(
            "the EtcdPeer {} is controlled by {} {} and not by this EtcdCluster; delete it, or remove that owner",
            peer.name_any(),
            o.kind,
            o.name
        )),
    }
}

#[cfg(test)]
mod tests;
