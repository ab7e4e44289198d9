//! What a cluster's objects need besides the plan's steps: Services, budget, claims and ReplicaSets for the EtcdPeers
//! there are, records on claims, and storage that is to grow.
//!
//! In: what is there. Out: [`Effect`]s, none if all is as it should be. Never: a record
//! replaced that is the only proof of what a volume was, or that was not understood.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use quorate_api::crd::EtcdPeer;
use quorate_core::Memory;
use quorate_core::memory::{Mark, Slot};
use quorate_core::model::{Generation, Ordinal, Progress};
use quorate_core::reason::EventReason;
use quorate_pod::contract::{KnownProgress, REACHED_ANNOTATION};

use crate::cluster::build::etcd::settings_of;
use crate::cluster::build::{BuildContext, budget, claim, pod, replica_set, service};
use crate::cluster::execute::Requests;
use crate::cluster::observe::Objects;
use crate::cluster::observe::slot::{Owner, Peer, SlotObjects};
use crate::cluster::record::VolumeRecord;
use crate::names::{LEFT_BEHIND_LABEL, ROLE_LABEL, Role, VOLUME_ANNOTATION, lacking};
use crate::requests::effect::{ClusterEvent, Effect, Kind, Object};

/// What is there of the objects that belong to the cluster as a whole.
#[derive(Clone, Debug, Default)]
pub struct ClusterObjects {
    /// The Services, by name.
    pub services: BTreeMap<String, Service>,
    pub budget: Option<PodDisruptionBudget>,
}

/// What is to be done now.
pub fn upkeep(
    context: &BuildContext<'_>,
    memory: &Memory,
    objects: &Objects,
    whole: &ClusterObjects,
    voters: Option<usize>,
) -> Requests {
    let mut requests = Requests::default();
    for (ordinal, slot) in &objects.slots {
        member(context, memory, *ordinal, slot, &mut requests);
    }
    // What selects voters is made to once all pods say what they are: until then some voter would not be found.
    let mut pods = objects
        .slots
        .values()
        .flat_map(|slot| &slot.pods)
        .filter(|pod| !pod.terminating);
    let distinguished = pods.all(|pod| pod.role.is_some());
    services(context, whole, distinguished, &mut requests);
    // Not while nobody knows how many voters there are: a budget must not shrink because etcd does not answer.
    if let Some(voters) = voters.filter(|_| distinguished) {
        budgets(context, whole, voters, &mut requests);
    }
    requests
}

fn services(
    context: &BuildContext<'_>,
    whole: &ClusterObjects,
    distinguished: bool,
    requests: &mut Requests,
) {
    for wanted in [service::headless(context), service::for_clients(context)] {
        let name = wanted.metadata.name.clone().unwrap_or_default();
        let (effect, reason, message) = match whole.services.get(&name) {
            None => (
                Effect::Create(Object::Service(Box::new(wanted))),
                "ServiceCreated",
                format!("Created service with name {name:?}"),
            ),
            Some(present) if distinguished && !service::fits(present, &wanted) => (
                Effect::Apply(Object::Service(Box::new(wanted))),
                "ServiceRepaired",
                format!(
                    "Repaired service with name {name:?}: its selector or ports were not those of the cluster"
                ),
            ),
            Some(present) => {
                let labels = labelled_whole(Kind::Service, &present.metadata);
                requests.effects.extend(labels);
                continue;
            }
        };
        requests.effects.push(effect);
        requests
            .news
            .push(ClusterEvent::done(reason, ("Service", &name), message));
    }
}

fn budgets(context: &BuildContext<'_>, whole: &ClusterObjects, voters: usize, requests: &mut Requests) {
    let reported = |b: &PodDisruptionBudget| {
        let spec = b.spec.clone().unwrap_or_default();
        (spec.min_available, spec.selector)
    };
    let name = &context.names.cluster;
    let stay = budget::must_stay(voters, context.cluster.replicas).unwrap_or_default();
    let (effect, reason, message) = match (budget::budget(context, voters), &whole.budget) {
        (Some(wanted), None) => (
            Effect::Create(Object::Budget(Box::new(wanted))),
            "BudgetCreated",
            format!("Created the PodDisruptionBudget {name:?}: {stay} members must stay"),
        ),
        (Some(wanted), Some(present)) if reported(&wanted) != reported(present) => (
            Effect::Apply(Object::Budget(Box::new(wanted))),
            "BudgetChanged",
            format!("Changed the PodDisruptionBudget {name:?}: {stay} members must stay"),
        ),
        (None, Some(present)) => (
            Effect::Delete {
                kind: Kind::Budget,
                name: name.clone(),
                uid: present.metadata.uid.clone().unwrap_or_default(),
            },
            "BudgetDeleted",
            format!("Deleted the PodDisruptionBudget {name:?}: a single member needs none"),
        ),
        (Some(_), Some(present)) => {
            let labels = labelled_whole(Kind::Budget, &present.metadata);
            requests.effects.extend(labels);
            return;
        }
        (None, None) => return,
    };
    requests.effects.push(effect);
    requests
        .news
        .push(ClusterEvent::done(reason, ("PodDisruptionBudget", name), message));
}

fn member(
    context: &BuildContext<'_>,
    memory: &Memory,
    ordinal: Ordinal,
    slot: &SlotObjects,
    requests: &mut Requests,
) {
    let name = context.names.member(ordinal).to_string();
    let Some(peer) = &slot.peer else { return };
    requests.effects.extend(release(&name, peer));
    if peer.deleting {
        return;
    }
    if let Owner::Nobody(others) = &peer.owner {
        adopt(context, (&name, peer), others, requests);
    }
    if slot.claim.is_none() {
        let made = claim::claim(context, ordinal, memory);
        requests
            .effects
            .push(Effect::Create(Object::Claim(Box::new(made))));
        let (about, message) = (
            ("PersistentVolumeClaim", name.as_str()),
            format!("Created the claim {name:?}"),
        );
        requests
            .news
            .push(ClusterEvent::done("ClaimCreated", about, message));
    }
    if let Some(claim) = slot.claim.as_ref().filter(|claim| !claim.deleting) {
        let labels = labelled(Kind::Claim, (&name, &claim.uid), claim.lacks.clone());
        requests.effects.extend(labels);
    }
    let role = Role::of(memory, ordinal);
    if let Some(set) = &slot.set {
        label(slot, (&name, set), role, requests);
        if peer.generation == memory.slot(ordinal).generation {
            annotate_reached(memory, ordinal, slot, (&name, set), requests);
        }
    } else if peer.generation >= memory.slot(ordinal).generation
        && let Some(context) = context.with(&peer.config)
    {
        // Not for one whose volume was given up, or whose settings nobody knows any more: its place is being taken away.
        let owner = owner_of_set(&name, &peer.uid);
        let pods = (role, floor(memory, ordinal, peer.generation));
        let made = replica_set::replica_set(&context, ordinal, peer, pods, owner);
        requests.effects.push(Effect::Create(Object::Set(Box::new(made))));
        let message = format!("Created the ReplicaSet {name:?}");
        requests.news.push(ClusterEvent::done(
            "ReplicaSetCreated",
            ("ReplicaSet", &name),
            message,
        ));
    }
    refit(context, memory, (ordinal, &name), slot, requests);
    withdraw_addresses(slot, requests);
    record(memory, ordinal, slot, &name, requests);
}

/// What a member was given while it runs, and has served with since, is what the pods after this one are made for.
fn refit(
    context: &BuildContext<'_>,
    memory: &Memory,
    (ordinal, name): (Ordinal, &str),
    slot: &SlotObjects,
    requests: &mut Requests,
) {
    let (Some(peer), Some(set), Some(pod)) = (&slot.peer, &slot.set, slot.pod()) else {
        return;
    };
    let Some(has) = pod.made_for.as_ref().map(|made_for| &made_for.config) else {
        return;
    };
    let serves = memory
        .slot(ordinal)
        .served_as
        .is_some_and(|setup| setup.config == *has);
    let resized = *has != peer.config && settings_of(has) == settings_of(&peer.config);
    if let Some(context) = context.with(has).filter(|_| serves && resized && !peer.deleting) {
        let peer = Peer {
            config: has.clone(),
            ..peer.clone()
        };
        let pods = (Role::of(memory, ordinal), floor(memory, ordinal, peer.generation));
        requests.effects.push(Effect::Template {
            name: name.to_owned(),
            uid: set.clone(),
            template: Box::new(pod::template(&context, ordinal, &peer, pods)),
        });
    }
}

/// Takes pods that were left behind out of the Services. Their node may never end them; and as long as a member's name
/// leads to such an address too, the others do not reach the member.
fn withdraw_addresses(slot: &SlotObjects, requests: &mut Requests) {
    for pod in slot.left_behind().filter(|pod| !pod.left_behind) {
        let (label, value) = LEFT_BEHIND_LABEL;
        let labels = BTreeMap::from([(label.to_owned(), value.to_owned())]);
        requests
            .effects
            .extend(labelled(Kind::Pod, (&pod.name, &pod.uid), labels));
        let node = pod.node.as_deref().unwrap_or("its node");
        let message = format!(
            "Took pod {:?} out of the Services: {node} has not terminated it, and another one runs in its place",
            pod.name
        );
        requests.news.push(ClusterEvent::warning(
            EventReason::PodLeftBehind.name(),
            ("Pod", &pod.name),
            message,
        ));
    }
}

/// Says of a member's pod, and of those that come after it, what the member is.
fn label(slot: &SlotObjects, (name, set): (&str, &str), role: Role, requests: &mut Requests) {
    let missing = |present: &Option<String>, lacks: &BTreeMap<String, String>| {
        let mut labels = lacks.clone();
        if present.as_deref() != Some(role.as_str()) {
            labels.insert(ROLE_LABEL.to_owned(), role.as_str().to_owned());
        }
        labels
    };
    let of_set = missing(&slot.set_role, &slot.set_lacks);
    requests.effects.extend(labelled(Kind::Set, (name, set), of_set));
    for pod in slot.pods.iter().filter(|pod| !pod.terminating) {
        let of_pod = missing(&pod.role, &pod.lacks);
        requests
            .effects
            .extend(labelled(Kind::Pod, (&pod.name, &pod.uid), of_pod));
    }
}

/// Labels put on an object, if there are any.
fn labelled(kind: Kind, (name, uid): (&str, &str), labels: BTreeMap<String, String>) -> Option<Effect> {
    (!labels.is_empty()).then(|| Effect::Label {
        kind,
        name: name.to_owned(),
        uid: uid.to_owned(),
        labels,
    })
}

/// The same for an object of the cluster as a whole.
fn labelled_whole(kind: Kind, meta: &ObjectMeta) -> Option<Effect> {
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    labelled(
        kind,
        (&of(&meta.name), &of(&meta.uid)),
        lacking(meta.labels.as_ref()),
    )
}

/// What is known to be on the volume of this generation.
fn floor(memory: &Memory, ordinal: Ordinal, generation: Generation) -> KnownProgress {
    let slot = memory.slot(ordinal);
    let present = slot.generation == generation;
    KnownProgress {
        epoch: memory.epoch,
        reached: if present {
            slot.reached
        } else {
            Progress::default()
        },
        // From the time that its data was seen: a learner may be withdrawn before, and be added again as another.
        member: slot.member.filter(|_| present && slot.mark == Mark::Started),
        cluster: memory.cluster,
    }
}

/// Is the member well for good? What its log has come to is written down then, and not with each step on the way there.
fn is_well(slot: &Slot) -> bool {
    slot.healthy_since.is_some() && slot.starts == 0
}

/// Says to pods that come after the present one what is on their volume, so that they can tell, while nobody is there to ask,
/// that it was rolled back, or is that of an earlier cluster of this name. What was on it a while ago will do until a member is well for good again.
fn annotate_reached(
    memory: &Memory,
    ordinal: Ordinal,
    slot: &SlotObjects,
    (name, set): (&str, &str),
    requests: &mut Requests,
) {
    let remembered = memory.slot(ordinal);
    let wanted = floor(memory, ordinal, remembered.generation);
    let said = slot.set_reached.unwrap_or_default();
    let other_run = (said.epoch, said.reached.run) != (wanted.epoch, wanted.reached.run);
    let grown = is_well(&remembered) && wanted.reached.index > said.reached.index;
    // The user agreed to go on from less.
    let given_up = wanted.reached.index < said.reached.index;
    let other_ids = (said.member, said.cluster) != (wanted.member, wanted.cluster);
    if other_run || other_ids || grown || given_up {
        requests.effects.push(Effect::Annotate {
            kind: Kind::Set,
            name: name.to_owned(),
            uid: set.to_owned(),
            annotations: BTreeMap::from([(REACHED_ANNOTATION.to_owned(), wanted.to_annotation())]),
        });
    }
}

/// An EtcdPeer that was left behind when its EtcdCluster was deleted is taken up again, with the member in it. If it is
/// not what is wanted, it is recreated like any other.
fn adopt(
    context: &BuildContext<'_>,
    (name, peer): (&str, &Peer),
    others: &[OwnerReference],
    requests: &mut Requests,
) {
    let mut owners = others.to_vec();
    owners.push(context.owner.clone());
    requests.effects.push(Effect::Adopt {
        name: name.to_owned(),
        uid: peer.uid.clone(),
        version: peer.resource_version.clone(),
        owners,
    });
    let message = format!("Adopted the EtcdPeer {name:?}, which had no owner");
    requests
        .news
        .push(ClusterEvent::done("PeerAdopted", ("EtcdPeer", name), message));
}

/// Takes the finalizer of former operators off, which would have it wait for ever.
pub fn release(name: &str, peer: &Peer) -> Option<Effect> {
    let finalizers = peer.obsolete_finalizer.clone()?;
    Some(Effect::Finalizers {
        name: name.to_owned(),
        uid: peer.uid.clone(),
        version: peer.resource_version.clone(),
        finalizers,
    })
}

/// Puts the volume that a pod has looked at on record, and keeps the record up to date. A record of the same generation
/// keeps its volume's id: if another volume is there now, that is how it shows.
fn record(memory: &Memory, ordinal: Ordinal, slot: &SlotObjects, name: &str, requests: &mut Requests) {
    let Some(claim) = slot.claim.as_ref().filter(|claim| claim.unreadable.is_none()) else {
        return;
    };
    let generation = memory.slot(ordinal).generation;
    let looked = slot.pod().and_then(|p| p.report.as_ref());
    // A volume that has gone on to a later generation is not on record as one of this.
    let looked =
        looked.filter(|r| r.generation == generation && r.gone_on_to().is_none() && !r.volume_id.is_empty());
    let present = claim.record.as_ref().filter(|r| r.is_of(generation));
    let id = match (present, looked) {
        (Some(present), _) => &present.volume_id,
        (None, Some(report)) => &report.volume_id,
        (None, None) => return,
    };
    let mut wanted = VolumeRecord::of(memory, ordinal, id);
    if let Some(present) = present.filter(|_| !is_well(&memory.slot(ordinal))) {
        wanted.reached.index = wanted.reached.index.min(present.reached.index);
    }
    if claim.record.as_ref() != Some(&wanted) {
        requests.effects.push(Effect::Annotate {
            kind: Kind::Claim,
            name: name.to_owned(),
            uid: claim.uid.clone(),
            annotations: BTreeMap::from([(VOLUME_ANNOTATION.to_owned(), wanted.text())]),
        });
    }
}

fn owner_of_set(name: &str, uid: &str) -> OwnerReference {
    use kube::Resource;
    OwnerReference {
        api_version: EtcdPeer::api_version(&()).into_owned(),
        kind: EtcdPeer::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests;
