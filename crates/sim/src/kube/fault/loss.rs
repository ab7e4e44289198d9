//! Volumes that are lost: within a budget, so that what is left can win, or beyond it, so that only people can help.
//!
//! In: chance. Out: volumes that are wiped, damaged, or about to go with their claims. Never: more than the others can do
//! without, now and after a change that is under way; but where a person deletes the claim of one of few, or this seed takes
//! a quorum away, the end may be a block that says so.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use quorate_core::model::{MemberId, Ordinal, quorum};
use quorate_operator::cluster::pass::stored;

use super::KubeFault;
use crate::etcd::{Conf, Data, Place};
use crate::fault::{change_pending, newest_conf};
use crate::kube::world::KubeWorld;

impl KubeWorld {
    /// A member whose data may be lost: the others' volumes are a quorum without it, with no change under way that could
    /// make them fewer. A leader that dies before the others know of a change leaves them with the quorum of before.
    pub(super) fn may_lose(&mut self) -> Option<(Ordinal, String)> {
        self.etcd.serving_leader()?;
        let conf = newest_conf(&self.etcd)?;
        // Nobody loses what is lost already, or was exchanged.
        let sound = conf.members.iter().filter(|(id, m)| self.sound(**id, m.place));
        let places: Vec<Place> = sound.map(|(_, m)| m.place).collect();
        if places.is_empty() {
            return None;
        }
        let place = places[self.rng.usize(..places.len())];
        let claim = self.claim_of(place).filter(|_| self.can_spare(&conf, place))?;
        Some((Ordinal(place.0), claim))
    }

    /// Would the volumes of the others still be a quorum?
    fn can_spare(&self, conf: &Conf, place: Place) -> bool {
        let voters = conf.voters().count();
        let others = conf.voters().filter(|(_, m)| m.place != place);
        let sound = others.filter(|(id, m)| self.sound(*id, m.place)).count();
        let in_flight = change_pending(&self.etcd) || self.operators.iter().any(|o| o.is_busy());
        // A change under way may take a sound one out, or bring one in that has nothing yet.
        let after = sound > quorum(voters.saturating_sub(1)) && sound >= quorum(voters + 1);
        sound >= quorum(voters) && (!in_flight || after)
    }

    /// Does the member with this id have its data, as it left it, on a volume that stays?
    pub(in crate::kube) fn sound(&self, id: MemberId, place: Place) -> bool {
        let Some(claim) = self.claim_of(place) else {
            return false;
        };
        let Some(volume) = self.volumes.get(&claim) else {
            return false;
        };
        let own = |data: &Data| data.wal().is_some_and(|w| w.member == id);
        let node = self.etcd.nodes.get(&place);
        let mut data = node.into_iter().flat_map(|n| &n.volumes);
        !self.deleted_by_others.contains_key(&claim)
            && data.any(|(generation, data)| own(data) && !volume.rolled_back.contains(generation))
    }

    fn claim_of(&self, place: Place) -> Option<String> {
        let name = self.names.member(Ordinal(place.0)).to_string();
        self.api.claims.live.get(&name)?.uid()
    }

    pub(in crate::kube) fn lose(&mut self, kind: KubeFault) -> bool {
        let Some((ordinal, claim)) = self.may_lose() else {
            return false;
        };
        self.destroy(kind, ordinal, claim);
        true
    }

    fn destroy(&mut self, kind: KubeFault, ordinal: Ordinal, claim: String) {
        self.log
            .event("fault", format_args!("{kind:?} of member {ordinal}"));
        let volume = self.volumes.entry(claim).or_default();
        if matches!(kind, KubeFault::WipeRecord | KubeFault::WipeVolume) {
            volume.record = None;
        }
        if kind == KubeFault::WipeRecord {
            return;
        }
        if kind == KubeFault::WipeVolume {
            volume.remains.clear();
            volume.asides = 0;
        }
        let place = Place(ordinal.0);
        let generations: Vec<_> = self.etcd.node(place).volumes.keys().copied().collect();
        for generation in generations {
            if kind == KubeFault::DamageData {
                self.etcd.damage(place, generation);
            } else {
                self.etcd.wipe(place, generation);
                self.etcd.node(place).volumes.remove(&generation);
            }
        }
    }

    /// Somebody deletes a claim. Where there are few members, none can be spared: it must not be stopped, and if it is, by
    /// somebody else, people have lost its data.
    pub(super) fn delete_claim(&mut self) -> bool {
        let conf = newest_conf(&self.etcd).unwrap_or_default();
        let places: Vec<Place> = conf.voters().map(|(_, m)| m.place).collect();
        let chosen = if (1..3).contains(&places.len()) {
            let place = places[self.rng.usize(..places.len())];
            self.claim_of(place).map(|claim| (Ordinal(place.0), claim))
        } else {
            self.may_lose()
        };
        let Some((ordinal, claim)) = chosen.filter(|(_, c)| !self.deleted_by_others.contains_key(c)) else {
            return false;
        };
        let name = self.names.member(ordinal).to_string();
        let _ = self.api.delete::<PersistentVolumeClaim>(&name, Some(&claim));
        self.deleted_by_others.insert(claim, self.api.now);
        self.log
            .event("fault", format_args!("the claim of member {ordinal} is deleted"));
        if places.len() < 3 {
            self.reached("stage", "ClaimOfFewDeleted");
        }
        true
    }

    /// Somebody takes what is written on a claim away.
    pub(super) fn strip_claim(&mut self) -> bool {
        let Some((ordinal, claim)) = self.may_lose() else {
            return false;
        };
        let name = self.names.member(ordinal).to_string();
        let strip = |claim: &mut PersistentVolumeClaim| claim.metadata.annotations = None;
        self.api.change(&name, Some(&claim), strip).is_ok()
    }

    /// So many volumes are wiped at once that the rest is no quorum.
    pub(super) fn lose_quorum(&mut self) -> bool {
        let Some(conf) = newest_conf(&self.etcd).filter(|conf| self.knows_voters(conf)) else {
            return false;
        };
        let voters: Vec<Place> = conf.voters().map(|(_, m)| m.place).collect();
        let most = voters.len() + 1 - quorum(voters.len());
        let claims = voters.iter().filter_map(|p| Some((*p, self.claim_of(*p)?)));
        let lost: Vec<(Place, String)> = claims.collect::<Vec<_>>().into_iter().rev().take(most).collect();
        if lost.len() < most || !self.exchanged.is_empty() || change_pending(&self.etcd) {
            return false;
        }
        for (place, claim) in lost {
            self.destroy(KubeFault::WipeVolume, Ordinal(place.0), claim);
        }
        self.stranded = true;
        self.trouble.rates.remove(&KubeFault::QuorumLoss);
        true
    }

    /// Does the memory name just these voters? After a change that it has not seen, nobody can tell what a quorum is.
    fn knows_voters(&self, conf: &Conf) -> bool {
        let resource = self.api.clusters.live.get(&self.names.cluster);
        let Some(memory) = resource.and_then(|resource| stored(resource).ok()?) else {
            return false;
        };
        let known = memory.slots.values().filter(|s| s.voter).filter_map(|s| s.member);
        let listed: BTreeSet<MemberId> = conf.voters().map(|(id, _)| id).collect();
        memory.change.is_none() && memory.cluster.is_some() && known.collect::<BTreeSet<_>>() == listed
    }
}
