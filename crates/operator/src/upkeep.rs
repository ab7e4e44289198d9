//! What a cluster's objects need besides the plan's steps: Services, budget, claims and ReplicaSets for the EtcdPeers
//! there are, records on claims, and storage that is to grow.
//!
//! In: what is there. Out: [`Effect`]s, none if all is as it should be. Never: a record
//! replaced that is the only proof of what a volume was.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use quorate_api::Quantity;
use quorate_api::crd::EtcdPeer;
use quorate_core::Memory;
use quorate_core::memory::{ChangeKind, Mark};
use quorate_core::model::Ordinal;

use crate::build::{Plot, budget, claim, replica_set, service};
use crate::effect::{Effect, Kind, News, Object};
use crate::ending::{end, stay};
use crate::execute::{Done, take_down};
use crate::gather::requested;
use crate::names::VOLUME_ANNOTATION;
use crate::observe::Objects;
use crate::record::VolumeRecord;
use crate::slot::{Owner, Peer, SlotObjects};

/// What is there of the objects that belong to the cluster as a whole.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    /// The Services, by name.
    pub services: BTreeMap<String, Service>,
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
    let name = &plot.names.cluster;
    let stay = budget::must_stay(voters, plot.cluster.replicas).unwrap_or_default();
    let (effect, reason, message) = match (budget::budget(plot, voters), &whole.budget) {
        (Some(wanted), None) => (
            Effect::Create(Object::Budget(Box::new(wanted))),
            "BudgetCreated",
            format!("Created the PodDisruptionBudget {name:?}: {stay} members must stay"),
        ),
        (Some(wanted), Some(present)) if min(&wanted) != min(present) => (
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
        _ => return,
    };
    done.effects.push(effect);
    done.news
        .push(News::done(reason, ("PodDisruptionBudget", name), message));
}

/// Claims that are to ask for more storage than they do. What a claim has is never taken back; and an EtcdPeer keeps the
/// size that it was made with, for no member has to be made anew for this.
pub fn growth(plot: &Plot<'_>, objects: &Objects) -> Done {
    let mut done = Done::default();
    let Some(storage) = requested(&plot.cluster.claim) else {
        return done;
    };
    let bytes = |text: &str| Quantity::new(text).units().ok();
    for (ordinal, slot) in &objects.slots {
        let wanted = ordinal.0 < plot.cluster.replicas;
        let Some(claim) = slot.claim.as_ref().filter(|c| wanted && !c.deleting) else {
            continue;
        };
        let has = claim.asks_for.as_deref();
        let grows = matches!((bytes(storage), has.and_then(bytes)), (Some(to), Some(from)) if to > from);
        if !grows {
            continue;
        }
        let name = plot.names.member(*ordinal).to_string();
        let message = format!(
            "Asked for {storage} of storage instead of {} for the claim {name:?}",
            has.unwrap_or_default()
        );
        done.effects.push(Effect::Grow {
            name: name.clone(),
            uid: claim.uid.clone(),
            storage: storage.to_owned(),
        });
        done.news.push(News::done(
            "ClaimResized",
            ("PersistentVolumeClaim", &name),
            message,
        ));
    }
    done
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
        return end(plot.names, Some(memory), ordinal, slot, done);
    }
    let wanted = ordinal.0 < plot.cluster.replicas;
    done.effects
        .extend(stay(plot.names, memory, ordinal, (wanted, slot)));
    if let Owner::Nobody(others) = &peer.owner {
        adopt(plot, (&name, peer), others, done);
    }
    if slot.claim.is_none() {
        let made = claim::claim(plot, ordinal, memory);
        done.effects.push(Effect::Create(Object::Claim(Box::new(made))));
        let (about, message) = (
            ("PersistentVolumeClaim", name.as_str()),
            format!("Created the claim {name:?}"),
        );
        done.news.push(News::done("ClaimCreated", about, message));
    }
    if slot.set.is_none() {
        let owner = owner_of_set(&name, &peer.uid);
        let made = replica_set::replica_set(plot, ordinal, peer, owner);
        done.effects.push(Effect::Create(Object::Set(Box::new(made))));
        let message = format!("Created the ReplicaSet {name:?}");
        done.news
            .push(News::done("ReplicaSetCreated", ("ReplicaSet", &name), message));
    }
    record(memory, ordinal, slot, &name, done);
}

/// An EtcdPeer that was left behind when its EtcdCluster was deleted is taken up again, with the member in it. If it is
/// not what is wanted, it is made anew like any other.
fn adopt(plot: &Plot<'_>, (name, peer): (&str, &Peer), others: &[OwnerReference], done: &mut Done) {
    let mut owners = others.to_vec();
    owners.push(plot.owner.clone());
    done.effects.push(Effect::Adopt {
        name: name.to_owned(),
        uid: peer.uid.clone(),
        owners,
    });
    let message = format!("Adopted the EtcdPeer {name:?}, which had no owner");
    done.news
        .push(News::done("PeerAdopted", ("EtcdPeer", name), message));
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
