//! What a cluster's objects need besides the plan's steps: Services, budget, claims and ReplicaSets for the EtcdPeers
//! there are, records on claims, and the end of EtcdPeers that take their claim along.
//!
//! In: what is there. Out: [`Effect`]s, none if all is as it should be. Never: a claim deleted before its pods are gone; a
//! record replaced that is the only proof of what a volume was.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use quorate_api::crd::EtcdPeer;
use quorate_core::Memory;
use quorate_core::memory::{ChangeKind, Mark};
use quorate_core::model::Ordinal;

use crate::build::{Plot, budget, claim, replica_set, service};
use crate::effect::{Effect, Kind, News, Object};
use crate::execute::{Done, take_down};
use crate::names::VOLUME_ANNOTATION;
use crate::observe::Objects;
use crate::record::VolumeRecord;
use crate::slot::SlotObjects;

/// What is there of the objects that belong to the cluster as a whole.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    /// The Services, by name.
    pub services: BTreeMap<String, Service>,
    /// The budget.
    pub budget: Option<PodDisruptionBudget>,
}

/// What is to be done now.
pub fn upkeep(
    plot: &Plot<'_>,
    memory: &Memory,
    objects: &Objects,
    whole: &Whole,
    voters: Option<usize>,
) -> Done {
    let mut done = Done::default();
    services(plot, whole, &mut done);
    // Not while nobody knows how many voters there are: a budget must not shrink because etcd does not answer.
    if let Some(voters) = voters {
        budgets(plot, whole, voters, &mut done);
    }
    for (ordinal, slot) in &objects.slots {
        member(plot, memory, *ordinal, slot, &mut done);
    }
    done
}

fn services(plot: &Plot<'_>, whole: &Whole, done: &mut Done) {
    for wanted in [service::headless(plot), service::for_clients(plot)] {
        let name = wanted.metadata.name.clone().unwrap_or_default();
        if !whole.services.contains_key(&name) {
            done.effects
                .push(Effect::Create(Object::Service(Box::new(wanted))));
            let message = format!("Created service with name {name:?}");
            done.news
                .push(News::done("ServiceCreated", ("Service", &name), message));
        }
    }
}

fn budgets(plot: &Plot<'_>, whole: &Whole, voters: usize, done: &mut Done) {
    let min = |b: &PodDisruptionBudget| b.spec.as_ref().and_then(|s| s.min_available.clone());
    match (budget::budget(plot, voters), &whole.budget) {
        (Some(wanted), None) => done
            .effects
            .push(Effect::Create(Object::Budget(Box::new(wanted)))),
        (Some(wanted), Some(present)) if min(&wanted) != min(present) => {
            done.effects.push(Effect::Apply(Object::Budget(Box::new(wanted))));
        }
        (None, Some(present)) => done.effects.push(Effect::Delete {
            kind: Kind::Budget,
            name: plot.names.cluster.clone(),
            uid: present.metadata.uid.clone().unwrap_or_default(),
        }),
        _ => {}
    }
}

fn member(plot: &Plot<'_>, memory: &Memory, ordinal: Ordinal, slot: &SlotObjects, done: &mut Done) {
    let name = plot.names.member(ordinal).to_string();
    let going = slot.peer.as_ref().is_some_and(|p| p.deleting);
    if !going && abandoned(plot, memory, ordinal, slot) {
        let Done { effects, news } = take_down(slot, &name, true);
        done.effects.extend(effects);
        done.news.extend(news);
        return;
    }
    let Some(peer) = &slot.peer else { return };
    if peer.deleting {
        return end(slot, &name, done);
    }
    if slot.claim.is_none() {
        let made = claim::claim(plot, ordinal, memory);
        done.effects.push(Effect::Create(Object::Claim(Box::new(made))));
    }
    if slot.set.is_none() {
        let owner = owner_of_set(&name, &peer.uid);
        let made = replica_set::replica_set(plot, ordinal, peer, owner);
        done.effects.push(Effect::Create(Object::Set(Box::new(made))));
    }
    record(memory, ordinal, slot, &name, done);
}

/// Was the place made for a member that is not wanted any more, before anything was started in it? No plan knows of such
/// a slot: nothing of it is remembered. The claim says so itself; one that says anything else is left to people.
fn abandoned(plot: &Plot<'_>, memory: &Memory, ordinal: Ordinal, slot: &SlotObjects) -> bool {
    let remembered = memory.slot(ordinal);
    let url = plot.names.peer_url(ordinal, plot.cluster.tls);
    let joins = matches!(&memory.change, Some(change) if change.kind == ChangeKind::AddLearner(url));
    let forming = memory.cluster.is_none() && memory.bootstrap.is_some();
    let idle = remembered.mark == Mark::Never && remembered.member.is_none() && !joins && !forming;
    let unused = slot.claim.as_ref().is_none_or(|claim| {
        let record = claim.record.as_ref();
        record.is_some_and(|r| r.mark == Mark::Never && r.generation == remembered.generation)
    });
    idle && unused && ordinal.0 >= plot.cluster.replicas
}

/// An EtcdPeer that is being deleted and takes its claim along: the pod first, then the claim, then it.
fn end(slot: &SlotObjects, name: &str, done: &mut Done) {
    let Some(peer) = slot.peer.as_ref().filter(|p| p.takes_claim) else {
        return;
    };
    let delete = |kind, uid: &String| Effect::Delete {
        kind,
        name: name.to_owned(),
        uid: uid.clone(),
    };
    if let Some(set) = &slot.set {
        done.effects.push(delete(Kind::Set, set));
    } else if slot.pods.is_empty() {
        match &slot.claim {
            Some(claim) if !claim.deleting => done.effects.push(delete(Kind::Claim, &claim.uid)),
            Some(_) => {}
            None => done.effects.push(Effect::Finalizers {
                name: name.to_owned(),
                uid: peer.uid.clone(),
                finalizers: Vec::new(),
            }),
        }
    }
}

/// Puts the volume that a pod has looked at on record, and keeps the record up to date. A record of the same generation
/// keeps its volume's id: if another volume is there now, that is how it shows.
fn record(memory: &Memory, ordinal: Ordinal, slot: &SlotObjects, name: &str, done: &mut Done) {
    let Some(claim) = &slot.claim else { return };
    let generation = memory.slot(ordinal).generation;
    let looked = slot.pod().and_then(|p| p.report.as_ref());
    let looked = looked.filter(|r| r.generation == generation && !r.volume_id.is_empty());
    let present = claim.record.as_ref().filter(|r| r.is_of(generation));
    let id = match (present, looked) {
        (Some(present), _) => &present.volume_id,
        (None, Some(report)) => &report.volume_id,
        (None, None) => return,
    };
    let wanted = VolumeRecord::of(memory, ordinal, id);
    if claim.record.as_ref() != Some(&wanted) {
        done.effects.push(Effect::Annotate {
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
