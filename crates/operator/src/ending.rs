//! The end of EtcdPeers that take their claim along: the pod first, then the claim, then the EtcdPeer. Also when their
//! EtcdCluster is gone.
//!
//! In: what is remembered, if anything is, and the slot's objects. Out: [`Effect`]s. Never: a claim deleted before its
//! pods are gone, or on which a member may be: who was to go when the finalizer was put there may have come back since.

use quorate_core::Memory;
use quorate_core::memory::{ChangeKind, Mark};
use quorate_core::model::Ordinal;

use crate::effect::{Effect, Kind, News};
use crate::execute::Done;
use crate::names::{CLAIM_FINALIZER, Names};
use crate::observe::Objects;
use crate::slot::{Claim, Peer, SlotObjects};

/// What is left to do for a cluster whose EtcdCluster is gone, or going: `memory` is what that one remembers, if it is
/// still there. Otherwise claims speak for themselves.
pub fn endings(names: &Names, memory: Option<&Memory>, objects: &Objects) -> Done {
    let mut done = Done::default();
    for (ordinal, slot) in &objects.slots {
        end(names, memory, *ordinal, slot, &mut done);
    }
    done
}

/// Takes an EtcdPeer that is being deleted one step further, if it is one that waits for its claim.
pub(crate) fn end(
    names: &Names,
    memory: Option<&Memory>,
    ordinal: Ordinal,
    slot: &SlotObjects,
    done: &mut Done,
) {
    let Some(peer) = slot.peer.as_ref().filter(|p| p.takes_claim && p.deleting) else {
        return;
    };
    let name = names.member(ordinal).to_string();
    if !vacant(names, memory, ordinal, slot.claim.as_ref()) {
        return done.effects.push(keep_claim(&name, peer));
    }
    let delete = |kind, uid: &String| Effect::Delete {
        kind,
        name: name.clone(),
        uid: uid.clone(),
    };
    if let Some(set) = &slot.set {
        done.effects.push(delete(Kind::Set, set));
    } else if slot.pods.is_empty() {
        match &slot.claim {
            Some(claim) if !claim.deleting => {
                done.effects.push(delete(Kind::Claim, &claim.uid));
                done.news.push(claim_deleted(&name));
            }
            Some(_) => {}
            None => done.effects.push(keep_claim(&name, peer)),
        }
    }
}

/// Is it proven that no member is in the slot, and none is on its way there? Without an EtcdCluster only the claim can
/// say so, and one that says nothing may hold anything.
fn vacant(names: &Names, memory: Option<&Memory>, ordinal: Ordinal, claim: Option<&Claim>) -> bool {
    let record = claim.and_then(|c| c.record.as_ref());
    let unused = |r: &crate::record::VolumeRecord| r.mark == Mark::Never && r.member.is_none();
    let Some(memory) = memory else {
        return claim.is_none() || record.is_some_and(unused);
    };
    let slot = memory.slot(ordinal);
    let urls = [false, true].map(|tls| names.peer_url(ordinal, tls));
    let joins =
        matches!(&memory.change, Some(c) if matches!(&c.kind, ChangeKind::AddLearner(u) if urls.contains(u)));
    let forming = memory.cluster.is_none() && memory.bootstrap.is_some();
    let idle = slot.mark == Mark::Never && slot.member.is_none() && !joins && !forming;
    let agrees = match record {
        // What is on record was a member once, and is remembered to be none any more.
        Some(record) if record.generation < slot.generation => true,
        Some(record) => record.generation == slot.generation && unused(record),
        None => claim.is_none() || slot.generation.0 > 0,
    };
    idle && agrees
}

/// Has an EtcdPeer go, or stay, without its claim. What others wait for is theirs.
pub(crate) fn keep_claim(name: &str, peer: &Peer) -> Effect {
    Effect::Finalizers {
        name: name.to_owned(),
        uid: peer.uid.clone(),
        finalizers: peer.finalizers.clone(),
    }
}

/// Has an EtcdPeer take its claim along when it goes.
pub(crate) fn take_claim(name: &str, peer: &Peer) -> Effect {
    let mut finalizers = peer.finalizers.clone();
    finalizers.push(CLAIM_FINALIZER.to_owned());
    Effect::Finalizers {
        name: name.to_owned(),
        uid: peer.uid.clone(),
        finalizers,
    }
}

/// Takes back what an EtcdPeer was to do, if it stays after all: the operator ended before it could delete it, and now
/// the member is wanted, or has long joined.
pub(crate) fn stay(
    names: &Names,
    memory: &Memory,
    ordinal: Ordinal,
    (wanted, slot): (bool, &SlotObjects),
) -> Option<Effect> {
    let peer = slot.peer.as_ref().filter(|p| p.takes_claim && !p.deleting)?;
    let stays = wanted || !vacant(names, Some(memory), ordinal, slot.claim.as_ref());
    stays.then(|| keep_claim(names.member(ordinal).as_str(), peer))
}

pub(crate) fn claim_deleted(name: &str) -> News {
    let message = format!("Deleted the claim {name:?} of a member that was scaled away");
    News::done("ClaimDeleted", ("PersistentVolumeClaim", name), message)
}

#[cfg(test)]
mod tests;
