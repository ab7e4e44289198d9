//! Volumes that somebody puts back, clones, swaps or binds again behind the operator's back, and puts right again in the end.
//!
//! In: chance. Out: volumes that are not what they were. Never: more than one such exchange at a time; a rollback that nobody
//! could know of, because it is newer than all that was written down of the volume (decision 15).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use quorate_core::model::{Generation, MemberId, Ordinal, VolumeMarks};
use quorate_core::plan::{BlockReason, Plan};
use quorate_operator::cluster::pass::stored;
use quorate_pod::contract::{KnownProgress, REACHED_ANNOTATION};
use quorate_pod::rules::Record;

use crate::etcd::{Data, Place, Volumes};
use crate::fault::newest_conf;
use crate::kube::kubelet::Running;
use crate::kube::operator::release::on_record;
use crate::kube::volume::Volume;
use crate::kube::world::{KubeBreak, KubeWorld};

/// A volume as it was at some time.
#[derive(Clone, Debug)]
pub struct Saved {
    ordinal: Ordinal,
    claim: String,
    record: Option<Record>,
    data: Volumes,
}

impl Saved {
    /// The newest generation with data on it, whose that is, and what is written on it.
    fn newest(&self) -> Option<(Generation, MemberId, VolumeMarks)> {
        let (generation, data) = self.data.iter().next_back()?;
        let (wal, entry) = (data.wal()?, self.record.as_ref()?.entry(*generation));
        let marks = VolumeMarks {
            epoch: entry.epoch,
            run: entry.run,
            last_index: Some(wal.log.len() as u64),
        };
        Some((*generation, wal.member, marks))
    }
}

impl KubeWorld {
    fn saved(&mut self, ordinal: Ordinal, claim: &str) -> Option<Saved> {
        Some(Saved {
            ordinal,
            claim: claim.to_owned(),
            record: self.volumes.get(claim)?.record.clone(),
            data: self.etcd.node(Place(ordinal.0)).volumes.clone(),
        })
    }

    /// Takes a snapshot of every volume of which there is none.
    fn take_snapshots(&mut self) {
        for ordinal in (0..self.wants.replicas).map(Ordinal) {
            let name = self.names.member(ordinal).to_string();
            let claim = self.api.claims.live.get(&name).and_then(|c| c.uid());
            let Some(now) = claim.and_then(|claim| self.saved(ordinal, &claim)) else {
                continue;
            };
            let whose = |s: &Saved| s.newest().map(|(generation, member, _)| (generation, member));
            let taken = |s: &Saved| s.claim == now.claim && whose(s) == whose(&now);
            if whose(&now).is_some() && !self.snapshots.get(&ordinal).is_some_and(taken) {
                self.snapshots.insert(ordinal, now);
            }
        }
    }

    /// Puts a volume back to a snapshot that was taken before.
    pub(in crate::kube) fn roll_back(&mut self) -> bool {
        self.take_snapshots();
        let Some((ordinal, claim)) = self.may_exchange() else {
            return false;
        };
        let Some(now) = self.saved(ordinal, &claim) else {
            return false;
        };
        let earlier = self.snapshots.get(&ordinal).filter(|s| s.claim == claim).cloned();
        let Some(earlier) = earlier.filter(|s| self.shows(s, &now)) else {
            return false;
        };
        let Some((generation, ..)) = earlier.newest() else {
            return false;
        };
        self.snapshots.remove(&ordinal);
        self.put(&earlier);
        let volume = self.volumes.entry(claim).or_default();
        volume.rolled_back.insert(generation);
        self.rolled_back.insert(ordinal);
        self.log.event(
            "fault",
            format_args!("member {ordinal} ({generation}) is rolled back"),
        );
        true
    }

    /// Would it show that the volume was put back to `earlier`: to the next pod, and to a cluster that is recreated?
    fn shows(&self, earlier: &Saved, now: &Saved) -> bool {
        let (Some((generation, member, marks)), Some((present, own, _))) = (earlier.newest(), now.newest())
        else {
            return false;
        };
        let name = self.names.member(earlier.ordinal).to_string();
        let set = self.api.sets.live.get(&name);
        let template = set.and_then(|s| s.spec.as_ref()?.template.as_ref()?.metadata.as_ref());
        let annotation = template.and_then(|meta| meta.annotations.as_ref()?.get(REACHED_ANNOTATION));
        let reported = annotation.and_then(|text| KnownProgress::read(text.as_bytes()).ok());
        let claim = self.api.claims.live.get(&name);
        let record = claim.and_then(|c| on_record(c));
        let recorded = record
            .filter(|r| r.generation == generation)
            .map(|r| KnownProgress {
                epoch: r.epoch,
                reached: r.reached,
                ..KnownProgress::default()
            });
        let refused =
            |floor: Option<KnownProgress>| floor.is_some_and(|floor| floor.refuses(&marks).is_some());
        (generation, member) == (present, own) && refused(reported) && refused(recorded)
    }

    /// Nobody calls a volume rolled back that nobody put back.
    pub(in crate::kube) fn judge_rolled_back(&mut self, plan: &Plan) {
        let mut called = plan.blocks.iter().filter(|b| b.reason == BlockReason::RolledBack);
        let wrong = called.find(|b| b.member.is_some_and(|o| !self.rolled_back.contains(&o)));
        if let Some(block) = wrong.cloned() {
            self.broke(KubeBreak::FalseAlarm, block.detail);
        }
    }

    /// Puts a copy of one member's volume in the place of another's, or swaps the two.
    pub(in crate::kube) fn exchange(&mut self, swap: bool) -> bool {
        let Some((ordinal, claim)) = self.may_exchange() else {
            return false;
        };
        let others: Vec<Ordinal> = (0..self.wants.replicas)
            .map(Ordinal)
            .filter(|o| *o != ordinal && self.etcd.serves(Place(o.0)))
            .collect();
        if others.is_empty() {
            return false;
        }
        let other = others[self.rng.usize(..others.len())];
        let name = self.names.member(other).to_string();
        let Some(other_claim) = self.api.claims.live.get(&name).and_then(|c| c.uid()) else {
            return false;
        };
        let (Some(own), Some(theirs)) = (self.saved(ordinal, &claim), self.saved(other, &other_claim)) else {
            return false;
        };
        if own.newest().is_none() || theirs.newest().is_none() {
            return false;
        }
        let moved = |from: &Saved, to: &Saved| Saved {
            record: from.record.clone(),
            data: from.data.clone(),
            ..to.clone()
        };
        self.put(&moved(&theirs, &own));
        if swap {
            self.put(&moved(&own, &theirs));
            self.exchanged.push(theirs);
        }
        self.exchanged.push(own);
        self.log.event(
            "fault",
            format_args!(
                "the volume of member {other} is {} member {ordinal}",
                if swap { "swapped with that of" } else { "cloned to" }
            ),
        );
        true
    }

    /// Whoever exchanged volumes puts everything where it was, as far as it is still there.
    pub(in crate::kube) fn put_right(&mut self) {
        for own in std::mem::take(&mut self.exchanged) {
            let there = self.volumes.get(&own.claim).and_then(|v| v.record.as_ref());
            let belongs_to = there.and_then(|r| r.belongs_to.as_ref());
            let foreign = match belongs_to {
                Some(member) => *member != self.names.member_ref(own.ordinal),
                // Its record was wiped.
                None => self.holds_data_of_another(&own),
            };
            if foreign {
                self.put(&own);
                self.log.event(
                    "someone",
                    format_args!("puts the volume of member {} back", own.ordinal),
                );
            }
        }
    }

    fn holds_data_of_another(&self, own: &Saved) -> bool {
        let members = |data: &Volumes| -> BTreeSet<MemberId> {
            data.values().filter_map(|d| Some(d.wal()?.member)).collect()
        };
        let node = self.etcd.nodes.get(&Place(own.ordinal.0));
        let there = node.map(|n| members(&n.volumes)).unwrap_or_default();
        !there.is_empty() && there.is_disjoint(&members(&own.data))
    }

    /// The operator leaves storage alone that held another's data. Whoever exchanged volumes deletes it, if nobody wants its
    /// member any more.
    pub(in crate::kube) fn delete_foreign_storage(&mut self) {
        let plan = self.operators.first().and_then(|o| o.plan.as_ref());
        let blocks = plan.iter().flat_map(|p| &p.blocks);
        let foreign = blocks.filter(|b| b.reason == BlockReason::ForeignData);
        let conf = newest_conf(&self.etcd).unwrap_or_default();
        let listed = |o: &Ordinal| conf.members.values().any(|m| m.place == Place(o.0));
        let unwanted = foreign.filter_map(|b| b.member.filter(|o| o.0 >= self.wants.replicas && !listed(o)));
        for ordinal in unwanted.collect::<Vec<_>>() {
            let name = self.names.member(ordinal).to_string();
            let Some(uid) = self.api.claims.live.get(&name).and_then(|c| c.uid()) else {
                continue;
            };
            let _ = self.api.delete::<PersistentVolumeClaim>(&name, Some(&uid));
            self.deleted_by_others.insert(uid, self.api.now);
            self.reached("stage", "ForeignStorageDeleted");
        }
    }

    /// Before a cluster begins, the operator leaves data to people. Whoever bound a member's own volume again binds an empty one
    /// instead.
    pub(in crate::kube) fn bind_empty_volumes(&mut self) {
        let resource = self.api.clusters.live.get(&self.names.cluster);
        let memory = resource.and_then(|resource| stored(resource).ok()?);
        if memory.is_some_and(|memory| memory.bootstrap.is_some()) {
            return;
        }
        let plan = self.operators.first().and_then(|o| o.plan.as_ref());
        let blocks = plan.iter().flat_map(|p| &p.blocks);
        let foreign = blocks.filter(|b| b.reason == BlockReason::ForeignData);
        for ordinal in foreign.filter_map(|b| b.member).collect::<Vec<_>>() {
            let name = self.names.member(ordinal).to_string();
            let claim = self.api.claims.live.get(&name).and_then(|c| c.uid());
            let Some(claim) = claim.filter(|claim| self.bound_again.remove(claim)) else {
                continue;
            };
            self.put(&Saved {
                ordinal,
                claim,
                record: None,
                data: Volumes::default(),
            });
            self.log.event(
                "someone",
                format_args!("binds an empty volume to member {ordinal}"),
            );
            self.forget_without_volumes();
        }
    }

    /// Storage keeps what was on the volume of a claim that goes.
    pub(in crate::kube) fn retain_volume(&mut self, ordinal: Ordinal, claim: &str) {
        let saved = self
            .saved(ordinal, claim)
            .filter(|saved| saved.newest().is_some());
        self.retained.extend(saved.map(|saved| (ordinal, saved)));
    }

    /// A claim gets its volume: a new one or, if somebody wants that, one that was retained, whosever it was.
    pub(in crate::kube) fn bind_volume(&mut self, ordinal: Ordinal, claim: &str) {
        if self.volumes.contains_key(claim) {
            return;
        }
        self.volumes.insert(claim.to_owned(), Volume::default());
        if !self.binds_retained || !self.exchanged.is_empty() || self.retained.is_empty() {
            return;
        }
        self.binds_retained = false;
        let nth = self.rng.usize(..self.retained.len());
        let Some(kept) = self.retained.values().nth(nth).cloned() else {
            return;
        };
        self.retained.remove(&kept.ordinal);
        self.etcd.exchange(Place(ordinal.0), kept.data.clone());
        if let Some(volume) = self.volumes.get_mut(claim) {
            volume.record = kept.record.clone();
        }
        let own = kept.ordinal == ordinal;
        if own {
            self.bound_again.insert(claim.to_owned());
        } else {
            // Who bound it binds an empty one in the end.
            self.exchanged.push(Saved {
                ordinal,
                claim: claim.to_owned(),
                record: None,
                data: Volumes::default(),
            });
        }
        self.reached(
            "stage",
            if own {
                "OwnVolumeRetained"
            } else {
                "ForeignVolumeRetained"
            },
        );
        self.log.event(
            "fault",
            format_args!(
                "member {ordinal} gets the volume that member {} left",
                kept.ordinal
            ),
        );
    }

    fn may_exchange(&mut self) -> Option<(Ordinal, String)> {
        if !self.exchanged.is_empty() {
            return None;
        }
        self.may_lose()
    }

    /// What is in a place is exchanged for this. Storage is not exchanged under a running pod.
    fn put(&mut self, saved: &Saved) {
        let place = Place(saved.ordinal.0);
        let gone: Vec<String> = self
            .pods
            .iter()
            .filter(|(_, p)| p.ordinal == saved.ordinal)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in gone {
            if let Some(pod) = self.pods.remove(&uid) {
                self.api.remove::<Pod>(&pod.name);
            }
        }
        self.etcd.exchange(place, saved.data.clone());
        let volume = self.volumes.entry(saved.claim.clone()).or_default();
        if saved.data.is_empty() {
            *volume = Volume::default();
        }
        volume.lock = None;
        volume.record = saved.record.clone();
        volume.remains.clear();
    }

    /// etcd is about to go on from data: no other may run under that id, the volume is that member's own, and it was not
    /// put back.
    pub(in crate::kube) fn judge_data(&mut self, pod: &Running, volume: &Volume) {
        let (place, generation) = (Place(pod.ordinal.0), pod.purpose.generation);
        let node = self.etcd.nodes.get(&place);
        let Some(member) = node
            .and_then(|n| n.volumes.get(&generation))
            .and_then(Data::wal)
            .map(|w| w.member)
        else {
            return;
        };
        if volume.rolled_back.contains(&generation) {
            let what = format!("{} starts from {generation}, which was rolled back", pod.name);
            self.broke(KubeBreak::RolledBackStarted, what);
        }
        let owner = volume.record.as_ref().and_then(|r| r.belongs_to.as_ref());
        let runs = |at: &Place, node: &crate::etcd::Node| *at != place && node.member() == Some(member);
        if self.etcd.nodes.iter().any(|(at, node)| runs(at, node))
            || owner.is_some_and(|owner| *owner != pod.purpose.member)
        {
            let what = format!("{} starts as {member}, which is another", pod.name);
            self.broke(KubeBreak::OneIdTwice, what);
        }
    }
}
