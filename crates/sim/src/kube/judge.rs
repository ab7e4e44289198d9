//! What must hold of the objects, from the outside: whose data goes with a claim, and what there is in the end.
//!
//! In: the world. Out: breaks, or what is still missing. Never: a question to the operator's memory.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use quorate_core::model::{MemberId, Ordinal, quorum};
use quorate_core::plan::{Block, BlockReason, WaitReason};
use quorate_operator::cluster::pass::stored;
use quorate_operator::cluster::record::VolumeRecord;
use quorate_operator::names::{CONFIG_ANNOTATION, VOLUME_ANNOTATION};
use quorate_operator::requests::effect::{Effect, Kind};

use super::kubelet::{Phase, Running};
use super::operator::Operator;
use super::world::{KubeBreak, KubeWorld};
use crate::checkers::GRACE_TICKS;
use crate::etcd::{Data, Node, Place};
use crate::fault::{committed_conf, newest_conf};
use crate::ground::FOREIGN;
use crate::user::Settings;

impl KubeWorld {
    /// A claim is about to go with what is on its volume: no member that still belongs to the cluster may be on it.
    pub(super) fn judge_claim(&mut self, name: &str, uid: &str) {
        let Some(place) = self.place(name) else { return };
        let Some(conf) = newest_conf(&self.etcd) else {
            return;
        };
        let node = self.etcd.nodes.get(&place);
        let logs = node
            .into_iter()
            .flat_map(|n| n.volumes.values())
            .filter_map(Data::wal);
        // A copy of what another member has is no loss.
        let elsewhere = |id: &MemberId| {
            let mut others = self.etcd.nodes.iter().filter(|(p, _)| **p != place);
            let has = |node: &Node| {
                node.volumes
                    .values()
                    .filter_map(Data::wal)
                    .any(|w| w.member == *id)
            };
            conf.members[id].place != place && others.any(|(_, node)| has(node))
        };
        let mut members = logs
            .filter(|w| conf.members.contains_key(&w.member) && !elsewhere(&w.member))
            .map(|w| w.member);
        if self.deleted_by_others.contains_key(uid) {
            let lost = members.next().is_some();
            // If its pod went before anyone could know, too few may be left.
            self.stranded |= lost;
            self.reached("stage", "ClaimDeletedByOthers");
            self.forget_without_volumes();
        } else if let Some(member) = members.next() {
            let what = format!("claim {name} goes with the data of {member}, which is a member");
            self.broke(KubeBreak::ClaimLost, what);
        } else {
            self.reached("stage", "ClaimDeleted");
        }
    }

    /// No operator takes away a pod with which the data of a member goes, however late it hears of claims.
    pub(super) fn judge_effect(&mut self, me: &Operator, effect: &Effect) {
        if self.api.has_changed(effect) {
            return;
        }
        self.judge_resize(me, effect);
        let (Effect::Delete { kind, name, uid } | Effect::DeleteUnchanged { kind, name, uid, .. }) = effect
        else {
            return;
        };
        let ordinal = match kind {
            Kind::Peer | Kind::Set => self.names.ordinal(name),
            Kind::Pod => self.pods.get(uid).map(|p| p.ordinal),
            _ => None,
        };
        let Some(ordinal) = ordinal else { return };
        let name = self.names.member(ordinal).to_string();
        let claim = self.api.claims.live.get(&name).and_then(|c| c.uid());
        let since = claim.and_then(|uid| self.deleted_by_others.get(&uid));
        // Between two requests of a pass somebody may delete it.
        let goes = since.is_some_and(|since| self.api.now - since > 24);
        let voter = newest_conf(&self.etcd)
            .is_some_and(|conf| conf.voters().any(|(_, m)| m.place == Place(ordinal.0)));
        let serves = self.etcd.serves(Place(ordinal.0));
        let runs = self
            .etcd
            .nodes
            .get(&Place(ordinal.0))
            .is_some_and(|n| n.running.is_some());
        if goes && voter && runs {
            let what = format!("{effect}, although the claim of the voter {name} goes with it");
            self.broke(KubeBreak::ClaimLost, what);
        }
        // The process of a pod that was deleted by force goes on for a while, whatever is done. And while the API server is
        // away, nobody hears from a node that a process was started.
        let before = self.api.pods.view(self.api.now.saturating_sub(GRACE_TICKS));
        let told = |uid: &String| {
            before
                .values()
                .any(|p| p.metadata.uid.as_ref() == Some(uid) && etcd_runs(p))
        };
        let own = |uid, p: &Running| p.ordinal == ordinal && p.runs() && told(uid) && !p.ghost;
        let seen = me.sees_pods_now() && self.pods.iter().any(|(uid, p)| own(uid, p));
        if voter && serves && *kind != Kind::Set && seen && me.sees_claims_now() {
            self.judge_stop(ordinal, effect);
        }
    }

    /// A voter that serves is stopped only where the others are a quorum, as far as could be known: who went away lately may
    /// have been seen well, and who has only just come may not have been seen at all. Clusters of one or two cannot do without any.
    fn judge_stop(&mut self, ordinal: Ordinal, effect: &Effect) {
        let Some(conf) = newest_conf(&self.etcd) else {
            return;
        };
        // Who trusts only CAs that nobody has any more is, or soon will be, refused by the other members: see `lost_ca`. Refused
        // by the operator alone, it serves.
        let refuses = |(a, b): &(Place, Place)| {
            (*a == Place(ordinal.0) || *b == Place(ordinal.0)) && *a != Place::SITE && *b != Place::SITE
        };
        if self.ca_lost && (self.etcd.refused.iter().any(refuses) || self.trusts_lost_peer_ca(ordinal)) {
            return;
        }
        let now = self.api.now;
        let seen = |place: &Place| {
            self.served
                .get(place)
                .is_some_and(|(since, _)| now - since > GRACE_TICKS)
        };
        let lately = |place: &Place| {
            self.served
                .get(place)
                .is_some_and(|(_, last)| now - last <= GRACE_TICKS)
        };
        let others = conf
            .voters()
            .map(|(_, m)| m.place)
            .filter(|place| place.0 != ordinal.0);
        let others: Vec<Place> = others.collect();
        let (well, needed) = (
            others.iter().filter(|p| lately(p)).count(),
            quorum(others.len() + 1),
        );
        if others.len() >= 2 && well < needed && seen(&Place(ordinal.0)) {
            let what = format!(
                "{effect}; {well} of {} others serve, {needed} are needed",
                others.len()
            );
            self.broke(KubeBreak::PlannedOutage, what);
        }
        self.judge_second_stop(ordinal, effect, &others);
    }

    /// One voter at a time is stopped on purpose: who was stopped so serves again before the next, or is no voter any more.
    fn judge_second_stop(&mut self, ordinal: Ordinal, effect: &Effect, others: &[Place]) {
        let now = self.api.now;
        let back = |place: &Place, at: u64| self.served.get(place).is_some_and(|(since, _)| *since > at);
        // A quorum may have agreed that it is none any more, and the leader may have yet to apply that.
        let agreed = committed_conf(&self.etcd, |cluster| cluster != FOREIGN).unwrap_or_default();
        let votes = |place: &Place| others.contains(place) && agreed.voters().any(|(_, m)| m.place == *place);
        let away = self.stopped.iter().find(|(place, (at, stop))| {
            votes(place) && now - at > GRACE_TICKS && !back(place, *at) && !self.api.is_kept(stop)
        });
        if let Some((place, (at, _))) = away.filter(|_| others.len() >= 2) {
            let what = format!("{effect}, although {place:?} was stopped at {at} and has not served since");
            self.broke(KubeBreak::PlannedOutage, what);
        }
        self.stopped.insert(Place(ordinal.0), (now, effect.clone()));
    }

    /// A member is started. While others serve, settings that etcd does not serve with reach one voter only.
    pub(super) fn judge_settings(&mut self, pod: &Running) {
        if pod.settings == Settings::Good {
            return;
        }
        let Some(conf) = newest_conf(&self.etcd) else {
            return;
        };
        let votes = |o: Ordinal| conf.voters().any(|(_, m)| m.place == Place(o.0));
        let fails = |p: &Running| p.settings == pod.settings && !p.runs() && p.through.is_some() && !p.ghost;
        let mut others = self.pods.values().filter(|p| p.ordinal != pod.ordinal);
        let other = others.find(|p| votes(p.ordinal) && fails(p)).map(|p| p.ordinal);
        // While no quorum answers, what is wanted may be the cure; the go-ahead for that takes a while to be seen.
        let served = |leader: Place| {
            self.served
                .get(&leader)
                .is_some_and(|(since, _)| self.api.now - since > GRACE_TICKS)
        };
        if let Some(other) =
            other.filter(|_| votes(pod.ordinal) && self.etcd.serving_leader().is_some_and(served))
            && self.knows_what_served()
        {
            let what = format!("{} is started with what {other} does not serve with", pod.name);
            self.broke(KubeBreak::SettingsSpread, what);
        }
    }

    /// Is it on record what the cluster last served with? Nothing has while it forms. And that goes with an EtcdCluster that
    /// somebody deletes, and is known again once all members have served as the next one wants.
    fn knows_what_served(&self) -> bool {
        let resource = self.api.clusters.live.get(&self.names.cluster);
        let memory = resource.and_then(|resource| stored(resource).ok()?);
        memory.is_some_and(|memory| memory.good.is_some() && memory.cluster.is_some())
    }

    /// A person does what a block asks for: changes what does not serve. If it would by now, saying so again is a change.
    pub(super) fn change_what_fails(&mut self) {
        let fails = [BlockReason::NewSettingsFail, BlockReason::NewVersionFails];
        let plan = self.operators.first().and_then(|o| o.plan.as_ref());
        let reported = plan.is_some_and(|p| p.blocks.iter().any(|b| fails.contains(&b.reason)));
        if reported && self.api.now.is_multiple_of(64) {
            self.wants.reason = self.wants.reason.wrapping_add(1);
            self.apply_wants();
            self.reached("stage", "ChangedWhatFails");
        }
    }

    /// A person does what a block asks for: gives the only member company, so that it can be replaced.
    pub(super) fn give_company(&mut self) {
        let plan = self.operators.first().and_then(|o| o.plan.as_ref());
        let pending = |b: &Block| b.reason == BlockReason::VolumeDeletionPending;
        let reported = plan.is_some_and(|p| p.blocks.iter().any(pending));
        if reported && self.wants.replicas == 1 && self.api.now.is_multiple_of(64) {
            self.wants.replicas = 2;
            self.apply_wants();
            self.reached("stage", "GivenCompany");
        }
    }

    /// Is a block that says so the right end?
    pub(super) fn left_to_people(&self) -> bool {
        let plan = self.operators.first().and_then(|o| o.plan.as_ref());
        let says = plan.is_some_and(|p| p.blocks.iter().any(|b| b.reason == BlockReason::QuorumLost));
        let none_leads = self.etcd.serving_leader().is_none();
        none_leads && ((self.stranded && says) || self.waits_for_one_that_was_removed())
    }

    /// Has somebody deleted so much that the volumes that stay are no quorum? Then nobody can bring it back without people:
    /// who must be restarted first would lose its volume, or who is made again does not know of a member that has gone. It
    /// is reported, and no new cluster is started.
    pub(super) fn waits_for_people(&self) -> bool {
        let plan = self.operators.first().and_then(|o| o.plan.as_ref());
        let says = [BlockReason::VolumeDeletionPending, BlockReason::QuorumLost];
        let reported = plan.is_some_and(|p| {
            p.blocks.iter().any(|b| says.contains(&b.reason))
                || p.waits.iter().any(|w| w.reason == WaitReason::NoQuorum)
        });
        let conf = newest_conf(&self.etcd).unwrap_or_default();
        let stay = conf.voters().filter(|(id, m)| self.sound(*id, m.place)).count();
        let deleted = !self.deleted_by_others.is_empty() || self.stranded;
        reported && deleted && self.etcd.serving_leader().is_none() && stay < quorum(conf.voters().count())
    }

    /// If somebody deleted every volume of the cluster, and nobody remembers it, for the EtcdCluster was made again, then what
    /// is made now is another cluster.
    pub(super) fn forget_without_volumes(&mut self) {
        let conf = newest_conf(&self.etcd).unwrap_or_default();
        let resource = self.api.clusters.live.get(&self.names.cluster);
        let memory = resource.and_then(|resource| stored(resource).ok()?);
        let remembered = memory.is_some_and(|memory| memory.bootstrap.is_some());
        let mut members = conf.members.iter();
        // With the last of them its log went, and the names of the members with it.
        let had_volumes = members.len() > 0 || !self.deleted_by_others.is_empty();
        if !remembered && had_volumes && !members.any(|(id, m)| self.sound(*id, m.place)) {
            self.was_recreated();
        }
    }

    /// In the end a quorum is called lost only if it is: the volumes that are left are too few.
    pub(super) fn judge_lost(&mut self) {
        let conf = newest_conf(&self.etcd).unwrap_or_default();
        let (voters, sound) = (
            conf.voters().count(),
            conf.voters().filter(|(id, m)| self.sound(*id, m.place)).count(),
        );
        if voters > 0 && sound >= quorum(voters) && !self.waits_for_one_that_was_removed() {
            let what = format!("{sound} of {voters} voters have their data, and the quorum is called lost");
            self.broke(KubeBreak::FalseAlarm, what);
        }
    }

    /// etcd syncs how much is committed only along with the next entry: the survivor of two, killed before that, waits for
    /// ever for the vote of one that knows itself to be removed.
    fn waits_for_one_that_was_removed(&self) -> bool {
        let logs = self.etcd.nodes.values().flat_map(|n| n.volumes.values());
        let removed: BTreeSet<MemberId> = logs
            .filter_map(Data::wal)
            .filter(|wal| wal.conf().removed.contains(&wal.member))
            .map(|wal| wal.member)
            .collect();
        let mut running = self.etcd.nodes.values().filter_map(|n| n.running.as_ref());
        running.any(|r| {
            let left = r.conf.voters().filter(|(id, _)| !removed.contains(id)).count();
            left > 0 && left < r.conf.quorum()
        })
    }

    /// What is not yet as wanted; `None` when all of it is.
    pub fn missing(&self) -> Option<String> {
        let wanted = self.wants.replicas as usize;
        let Some(leader) = self.etcd.serving_leader() else {
            return Some("no member leads".to_owned());
        };
        let (_, conf, _) = self.etcd.list(leader)?;
        if conf.members.len() != wanted {
            return Some(format!("{} members instead of {wanted}", conf.members.len()));
        }
        for ordinal in (0..self.wants.replicas).map(Ordinal) {
            let at = Place(ordinal.0);
            let Some((id, listed)) = conf.members.iter().find(|(_, m)| m.place == at) else {
                return Some(format!("member {ordinal} is not in the list"));
            };
            let node = self.etcd.nodes.get(&at)?;
            if listed.learner || node.member() != Some(*id) || !self.etcd.serves(at) {
                return Some(format!("member {ordinal} does not serve as a voter"));
            }
            if node.running.as_ref().map(|r| r.version) != Some(self.wants.version) {
                return Some(format!("member {ordinal} runs another version"));
            }
        }
        self.objects_missing(wanted).or_else(|| self.still_planning())
    }

    /// Claims that are not wanted, of a cluster that somebody deleted all data of: they stay, for nobody knows what is on
    /// them.
    fn claims_of_before(&self) -> usize {
        let leader = self.etcd.serving_leader().and_then(|l| self.etcd.list(l));
        let Some((now, _, _)) = leader else { return 0 };
        let of_before = |claim: &PersistentVolumeClaim| {
            let record = claim.annotations().get(VOLUME_ANNOTATION);
            let record = record.and_then(|text| VolumeRecord::read(text).ok());
            let wanted = self
                .place(&claim.name_any())
                .is_some_and(|p| p.0 < self.wants.replicas);
            !wanted && record.is_some_and(|r| r.cluster.is_some_and(|cluster| cluster != now))
        };
        self.api.claims.live.values().filter(|c| of_before(c)).count()
    }

    fn objects_missing(&self, wanted: usize) -> Option<String> {
        let api = &self.api;
        let counts = [
            ("EtcdPeers", api.peers.live.len()),
            ("claims", api.claims.live.len() - self.claims_of_before()),
            ("ReplicaSets", api.sets.live.len()),
            ("pods", api.pods.live.len()),
        ];
        if let Some((what, count)) = counts.iter().find(|(_, count)| *count != wanted) {
            return Some(format!("{count} {what} instead of {wanted}"));
        }
        let runs = |p: &super::kubelet::Running| matches!(p.phase, Phase::Running { .. });
        if self.pods.values().filter(|p| runs(p)).count() != wanted {
            return Some("not every pod runs etcd".to_owned());
        }
        let configs: BTreeSet<&str> = self.pods.values().map(|p| p.purpose.config.as_str()).collect();
        let template = |s: &ReplicaSet| {
            s.spec
                .clone()?
                .template?
                .metadata?
                .annotations?
                .remove(CONFIG_ANNOTATION)
        };
        let next: BTreeSet<Option<String>> = api.sets.live.values().map(|s| template(s)).collect();
        let now = api.pods.live.values();
        let now = now.map(|p| p.annotations().get(CONFIG_ANNOTATION).cloned());
        if configs.len() != 1 || next.len() != 1 || now.collect::<BTreeSet<_>>() != next {
            return Some("not all run with one configuration".to_owned());
        }
        let budget = api.budgets.live.contains_key(&self.names.cluster);
        let services = api.services.live.len();
        if services != 2 || budget != (wanted > 1) {
            return Some(format!("{services} Services, budget: {budget}"));
        }
        if let Some(peer) = api.peers.live.values().find(|p| p.owner_references().is_empty()) {
            return Some(format!("EtcdPeer {} has no owner", peer.name_any()));
        }
        let size = format!("{}Gi", self.wants.storage);
        let asks = |c: &std::sync::Arc<PersistentVolumeClaim>| {
            c.spec
                .as_ref()
                .and_then(quorate_operator::cluster::observe::gather::requested)
                == Some(size.as_str())
        };
        if let Some(claim) = api.claims.live.values().find(|c| !asks(c)) {
            return Some(format!("claim {} does not ask for {size}", claim.name_any()));
        }
        if let Some(other) = self.other_limit() {
            return Some(other);
        }
        let going = |c: &std::sync::Arc<PersistentVolumeClaim>| c.metadata.deletion_timestamp.is_some();
        let going = api.claims.live.values().find(|c| going(c));
        going.map(|c| format!("claim {} is going", c.name_any()))
    }

    fn still_planning(&self) -> Option<String> {
        let plan = self.operators.iter().find_map(|o| o.plan.as_ref())?;
        let quiet = plan.steps.is_empty() && plan.waits.is_empty() && plan.blocks.is_empty();
        (!quiet).then(|| {
            format!(
                "the plan is not empty: {:?} {:?} {:?}",
                plan.steps, plan.waits, plan.blocks
            )
        })
    }
}

/// Does etcd run in a pod, as far as the API server knows?
fn etcd_runs(pod: &Pod) -> bool {
    let containers = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
    let mut containers = containers.into_iter().flatten();
    containers.any(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()))
}
