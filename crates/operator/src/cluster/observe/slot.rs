//! One slot as the planner sees it, from the objects of one member: its EtcdPeer, its claim, its pods.
//!
//! In: those objects, and what is remembered of the slot. Out: a [`SlotView`] without the member's own answer, where to
//! ask it, and the pod that waits for a go-ahead. Never: anything concluded about a volume that no pod has looked at.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use quorate_core::Memory;
use quorate_core::memory::Mark;
use quorate_core::model::{
    Exit, FirstStart, Generation, Ordinal, PeerUrl, Place, Process, Resize, Setup, SlotView, Storage,
    StorageId, StorageSize, Time, Version, Volume, VolumeMarks,
};
use quorate_pod::contract::{KnownProgress, MemberRef, NO_ROOM_ASIDE, Report};

use crate::cluster::observe::gather::bytes;
use crate::cluster::observe::pod_state::{PodState, Stage, UNSCHEDULED, is_full, is_starved};
use crate::cluster::record::VolumeRecord;
use crate::cluster::resources::TemplateResources;
use crate::names::{Names, VOLUME_ANNOTATION};

/// After this long a pod that was refused is recreated, so that it looks again. If it seems to be of the future by as much,
/// the operator's clock was set back: nobody waits until that has caught up.
const REFUSED_MS: u64 = 60_000;

/// The EtcdPeer of a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    pub uid: String,
    pub resource_version: String,
    /// It is being deleted.
    pub deleting: bool,
    /// Set if it carries the finalizer of former operators, which had it take its claim along: those that stay.
    pub obsolete_finalizer: Option<Vec<String>>,
    pub owner: Owner,
    pub version: Version,
    pub generation: Generation,
    /// The digest of its configuration.
    pub config: String,
}

/// Whose an EtcdPeer is.
#[derive(Clone, Debug, PartialEq)]
pub enum Owner {
    Ours,
    /// A former EtcdCluster's of that name: it is on its way out.
    Former,
    /// Nobody's: its EtcdCluster was deleted without it, or somebody made it by hand. Besides the controller that it
    /// lacks it has these owners.
    Nobody(Vec<OwnerReference>),
    /// Somebody else's, in words.
    Other(String),
}

/// The claim of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub uid: String,
    /// The resourceVersion that it was seen at.
    pub version: String,
    /// It is being deleted.
    pub deleting: bool,
    /// What is written on it.
    pub record: Option<VolumeRecord>,
    /// Something is written there that cannot be read; why, in words. It is no proof of anything, and stays.
    pub unreadable: Option<String>,
    /// It has no volume yet; in words.
    pub unbound: Option<String>,
    /// How much storage it asks for, as a Kubernetes quantity.
    pub asks_for: Option<String>,
    /// How much there is, as a Kubernetes quantity.
    pub holds: Option<String>,
    /// Labels that it should carry and does not.
    pub lacks: BTreeMap<String, String>,
}

/// Everything of one slot.
#[derive(Clone, Debug, Default)]
pub struct SlotObjects {
    pub peer: Option<Peer>,
    pub claim: Option<Claim>,
    /// The uid of its ReplicaSet.
    pub set: Option<String>,
    /// The role in the labels of the pods that its ReplicaSet makes.
    pub set_role: Option<String>,
    /// Labels that the ReplicaSet or its pods should carry and do not.
    pub set_lacks: BTreeMap<String, String>,
    /// How far their volume has come, as its pods are made with.
    pub set_reached: Option<KnownProgress>,
    /// What the template of its ReplicaSet says of resources.
    pub set_resources: TemplateResources,
    /// Why its ReplicaSet cannot make a pod.
    pub set_fails: Option<String>,
    /// Its pods, oldest first.
    pub pods: Vec<PodState>,
    /// Whether the EtcdCluster is there to whose member the volume belongs, if that is another; where that is known.
    pub owner_exists: Option<bool>,
}

impl SlotObjects {
    pub fn add_pod(&mut self, pod: &Pod) {
        self.pods.push(PodState::of(pod));
        self.pods
            .sort_by(|a, b| (a.created, &a.uid).cmp(&(b.created, &b.uid)));
    }

    /// The pod that counts: the newest that is neither going nor over.
    pub fn pod(&self) -> Option<&PodState> {
        self.pods
            .iter()
            .rfind(|p| !p.terminating && p.stage != Stage::Finished)
    }

    /// Does etcd run in the newest pod? The volume's lock lets only one run, so it runs in no older one; what is left of
    /// those, on a node that was lost, may never go.
    fn is_replaced(&self) -> bool {
        let newest = self.pods.iter().rfind(|pod| pod.is_alive());
        newest.is_some_and(|pod| !pod.terminating && matches!(pod.stage, Stage::Running { .. }))
    }

    /// Pods that are still there although another runs in their place. Their addresses lead nowhere.
    pub fn left_behind(&self) -> impl Iterator<Item = &PodState> {
        let replaced = self.is_replaced();
        self.pods.iter().filter(move |pod| replaced && pod.terminating)
    }

    /// The pod that waits for a go-ahead, with what it saw.
    pub fn parked(&self) -> Option<(&PodState, &Report)> {
        let pod = self.pod().filter(|p| p.stage == Stage::AwaitingGoAhead)?;
        Some((pod, pod.report.as_ref()?))
    }

    /// Where to ask its member. One that is seen to have ended may run again: kubelet could not say so yet.
    pub fn address(&self) -> Option<&str> {
        let pods = || self.pods.iter().rev();
        let running = pods().find(|p| matches!(p.stage, Stage::Running { .. }));
        let ended = || pods().find(|p| matches!(p.stage, Stage::Crashing(_)));
        running.or_else(ended).and_then(|p| p.ip.as_deref())
    }

    /// Is the volume that a parked pod saw on record, as this generation of the slot?
    pub fn recorded(&self, generation: Generation) -> bool {
        let record = self.claim.as_ref().and_then(|c| c.record.as_ref());
        record.is_some_and(|r| r.is_of(generation))
    }

    /// The member that the volume belongs to, if a pod found that it is not the one of this slot.
    pub fn foreign(&self, names: &Names, ordinal: Ordinal) -> Option<&MemberRef> {
        let report = self.pod()?.report.as_ref()?;
        let own = names.member_ref(ordinal);
        report
            .belongs_to
            .as_ref()
            .filter(|belongs_to| **belongs_to != own)
    }

    /// The generation that the volume has gone on to, as a pod found, where the claim does not say which is the present one.
    fn unrecorded(&self) -> Option<(&Report, Generation)> {
        let says_nothing = |r: &VolumeRecord| !r.is_of(r.generation);
        self.claim
            .as_ref()
            .filter(|claim| claim.record.as_ref().is_none_or(says_nothing))?;
        let report = self.pod()?.report.as_ref()?;
        Some((report, report.gone_on_to()?))
    }

    /// The present generation of a volume whose claim lost its record, where the volume itself says that it belongs to this
    /// member; or where it says nothing, and it is `known` which ids to compare its data with.
    pub fn own_generation(&self, names: &Names, ordinal: Ordinal, known: bool) -> Option<Generation> {
        let (report, newest) = self.unrecorded()?;
        let own = match &report.belongs_to {
            Some(member) => *member == names.member_ref(ordinal),
            None => known,
        };
        own.then_some(newest)
    }

    /// What a pod found written on the volume, before etcd was executed in it, or what the gate has written since.
    fn marks(&self, generation: Generation) -> Option<VolumeMarks> {
        let pod = self.pod()?;
        let report = pod.report.as_ref().filter(|r| r.generation == generation)?;
        match pod.stage {
            Stage::AwaitingGoAhead | Stage::Refused(_) => Some(report.marks()),
            // What its log came to then is less than it comes to now.
            Stage::Running { .. } | Stage::Crashing(_) => Some(VolumeMarks {
                run: pod.run.or(report.run),
                last_index: None,
                ..report.marks()
            }),
            Stage::Starting(_) | Stage::Admitted | Stage::Finished => None,
        }
    }

    /// Has a pod found its own data on the volume, which must not start? Another pod would find the same.
    fn stale(&self, memory: &Memory, ordinal: Ordinal) -> Option<Volume> {
        let pod = self.pod()?;
        let report = pod.report.as_ref()?;
        let before_etcd = matches!(pod.stage, Stage::AwaitingGoAhead | Stage::Refused(_));
        let data = matches!(report.volume(), Volume::Data { .. });
        let present = report.generation == memory.slot(ordinal).generation;
        let stale = before_etcd && data && present && memory.fault(ordinal, report.marks()).is_some();
        stale.then(|| report.volume())
    }

    /// The slot as the planner sees it.
    pub fn view(
        &self,
        names: &Names,
        ordinal: Ordinal,
        peer_url: PeerUrl,
        memory: &Memory,
        now: Time,
    ) -> SlotView {
        let slot = memory.slot(ordinal);
        // One that was started and never seen to have data may have come to nothing.
        let known = slot.mark == Mark::Started && slot.member.is_some() && memory.cluster.is_some();
        let foreign = self.foreign(names, ordinal);
        let stale = self.stale(memory, ordinal);
        let unrecorded = self.unrecorded();
        let unrecorded = unrecorded.filter(|(report, _)| report.generation == slot.generation);
        let kept = unrecorded.filter(|_| memory.bootstrap.is_none());
        let (process, place) = match self.process(slot.generation, known, now) {
            // The gate refuses it; another pod would find the same.
            (Process::Stopped { .. }, _) if foreign.is_some() || stale.is_some() || kept.is_some() => {
                (Process::Stopped { last: None }, Place::Ready)
            }
            // What lies in that generation says nothing; in the gate's words.
            (Process::Stopped { .. }, _) if let Some((report, newest)) = unrecorded => {
                let why = format!(
                    "its pod is for {}, and the volume has gone on to {newest}; its claim does not say so, and the volume \
                     does not say that it belongs to {}; write the annotation {VOLUME_ANNOTATION} on the claim as it was, \
                     or bind an empty volume to it",
                    report.generation,
                    names.member(ordinal)
                );
                (Process::Stopped { last: None }, Place::Preparing { why })
            }
            other => other,
        };
        let report = self.pod().and_then(|p| p.report.as_ref());
        let report = report.filter(|r| r.generation == slot.generation);
        let looked = report.filter(|_| place == Place::Ready && self.parked().is_some());
        let volume = match (looked, &process) {
            (_, Process::Stopped { .. }) if let Some(belongs_to) = foreign => Volume::Foreign {
                belongs_to: belongs_to.to_string(),
                slot: names.ordinal_of(belongs_to),
                owner_exists: self.owner_exists,
            },
            (_, Process::Stopped { .. }) if let Some(volume) = stale => volume,
            // Storage kept it from a former cluster.
            (_, Process::Stopped { .. }) if let Some((_, newest)) = kept => Volume::Damaged {
                why: format!("it has gone on to {newest}"),
            },
            (Some(report), _) => report.volume(),
            // It has crashed since it was looked at. That its data is gone is found out by the next look.
            (None, Process::Stopped { last: Some(_) }) => {
                let found = report.map(Report::volume);
                match (slot.member, memory.cluster) {
                    (Some(member), Some(cluster)) if known => Volume::Data { member, cluster },
                    _ => found
                        .filter(|v| matches!(v, Volume::Data { .. }))
                        .unwrap_or(Volume::Unknown),
                }
            }
            _ => Volume::Unknown,
        };
        let recorded = self.claim.as_ref().and_then(|c| c.record.as_ref());
        let recorded = recorded.filter(|r| r.is_of(slot.generation));
        let first_start = looked.map_or(FirstStart::Unknown, |report| {
            report.first_start(recorded.map(|r| r.volume_id.as_str()))
        });
        SlotView {
            peer_url,
            volume,
            marks: self.marks(slot.generation),
            durable: None,
            first_start,
            // Kept on the volume itself, and thinned out there.
            leftovers: Vec::new(),
            asides: 0,
            no_room_aside: self.no_room_aside(),
            place,
            made_for: self.peer.as_ref().filter(|p| !p.deleting).map(Peer::setup),
            storage: self.storage(),
            // Against what is wanted: see `observe`.
            resize: Resize::No,
            process,
            located: self.pod().map(PodState::located),
            status: None,
            deletion_pending: self.claim.as_ref().is_some_and(|c| c.deleting),
            in_service: self.pod().is_some_and(|p| p.ready),
            cannot_start: self.lacks(),
            ran: report.and_then(|r| r.started.as_ref()).map(|s| s.version),
            replay_limit: report.and_then(|r| r.replay_limit),
        }
    }

    fn no_room_aside(&self) -> Option<String> {
        match &self.pod()?.stage {
            Stage::Refused(why) if why.contains(NO_ROOM_ASIDE) => Some(why.clone()),
            _ => None,
        }
    }

    /// How many sets of old data lie aside on its volume, and the room they take, as its pod saw it.
    pub fn asides(&self) -> Option<(u32, u64)> {
        let report = self.pod()?.report.as_ref()?;
        Some((report.asides, report.aside_bytes)).filter(|(asides, _)| (1..u32::MAX).contains(asides))
    }

    /// A member that lacks memory, or room on its volume, is not helped by other data.
    fn lacks(&self) -> Option<String> {
        let Some(Stage::Crashing(exit)) = self.pod().map(|p| &p.stage) else {
            return None;
        };
        let advice = if is_starved(exit) {
            "it needs more memory than its limit; raise spec.podTemplate.resources.limits.memory (a change of podTemplate \
             needs spec.maintenance.rollingChanges: true)"
        } else if is_full(exit) {
            "its volume is full; raise the storage request in spec.storage, if its class lets volumes grow, or make room \
             under aside/ on it"
        } else {
            return None;
        };
        Some(advice.to_owned())
    }

    fn storage(&self) -> Option<Storage> {
        let claim = self.claim.as_ref()?;
        let started = |r: &VolumeRecord| r.mark != Mark::Never || r.member.is_some();
        Some(Storage {
            id: StorageId {
                uid: claim.uid.clone(),
                version: claim.version.clone(),
            },
            in_use: self.peer.is_some() || self.set.is_some() || !self.pods.is_empty(),
            size: StorageSize {
                asked: claim.asks_for.as_deref().and_then(bytes),
                holds: claim.holds.as_deref().and_then(bytes),
            },
            record: claim.record.as_ref().map(|r| (r.generation, started(r))),
        })
    }

    fn process(&self, generation: Generation, known: bool, now: Time) -> (Process, Place) {
        let stopped = Process::Stopped { last: None };
        let preparing = |why: &str| Place::Preparing { why: why.to_owned() };
        let owned = self.peer.as_ref().is_some_and(|p| !p.deleting);
        let replaced = self.is_replaced();
        // A pod that its node does not end holds up nobody else: not where there is to be no other, nor once another has
        // got hold of the volume.
        let looked = self.pod().is_some_and(PodState::has_looked);
        let left_behind = |p: &PodState| p.lingers(now) && (!owned || looked);
        let going = self.pods.iter().filter(|p| p.terminating || !owned);
        let mut going = going.filter(|p| p.is_alive() && !left_behind(p));
        if let Some(pod) = going.next().filter(|_| !(owned && replaced)) {
            return (Process::Stopping, preparing(&pod.going(now)));
        }
        let Some(peer) = self.peer.as_ref().filter(|p| !p.deleting) else {
            if let Some(Owner::Other(whose)) = self.peer.as_ref().map(|p| &p.owner) {
                return (stopped, preparing(whose));
            }
            let claim_goes = self.claim.as_ref().is_some_and(|c| c.deleting);
            let pods = self.pods.iter().any(|p| !left_behind(p));
            let going = self.peer.is_some() || pods || self.set.is_some() || claim_goes;
            return (
                stopped,
                if going {
                    preparing("the previous pod is terminating")
                } else {
                    Place::Absent
                },
            );
        };
        let Some(pod) = self.pod() else {
            let place = if peer.generation == generation {
                match &self.set_fails {
                    Some(why) => preparing(&format!("its pod cannot be made: {why}")),
                    None => preparing("its pod is being made"),
                }
            } else {
                Place::Unfit
            };
            return (stopped, place);
        };
        if let Stage::Running { .. } | Stage::Admitted = pod.stage {
            let since = match pod.stage {
                Stage::Running { since } => since,
                _ => pod.created,
            };
            let made = pod.made_for.clone();
            let process = Process::Running {
                since,
                version: made.as_ref().map_or(peer.version, |m| m.version),
                generation: made.as_ref().map_or(peer.generation, |m| m.generation),
                config: made.map_or_else(|| peer.config.clone(), |m| m.config),
            };
            return (process, Place::Ready);
        }
        if peer.generation != generation {
            return (stopped, Place::Unfit);
        }
        match &pod.stage {
            Stage::Starting(why) => {
                let unbound = self.claim.as_ref().and_then(|c| c.unbound.as_ref());
                match unbound.filter(|_| why.starts_with(UNSCHEDULED)) {
                    Some(unbound) => (stopped, preparing(&format!("{unbound}; {why}"))),
                    None => (stopped, preparing(why)),
                }
            }
            Stage::AwaitingGoAhead if !self.recorded(generation) => {
                (stopped, preparing("its volume is put on record"))
            }
            Stage::AwaitingGoAhead => {
                // Nothing has failed here: there is nothing to wait for before it is started.
                let last = Some(Exit {
                    at: pod.created,
                    asked: true,
                    how: "it waits to be started".to_owned(),
                });
                (Process::Stopped { last }, Place::Ready)
            }
            // Nobody knows what became of its volume: another pod has to look.
            Stage::Crashing(exit) => {
                let last = Some(exit.clone());
                let place = if known { Place::Ready } else { Place::Absent };
                (Process::Stopped { last }, place)
            }
            Stage::Refused(_) if now.0.abs_diff(pod.created.0) > REFUSED_MS => (stopped, Place::Absent),
            Stage::Refused(why) => (stopped, preparing(why)),
            Stage::Finished | Stage::Running { .. } | Stage::Admitted => {
                (stopped, preparing("its pod is being made"))
            }
        }
    }
}

impl Peer {
    /// What it was made for.
    pub fn setup(&self) -> Setup {
        Setup {
            version: self.version,
            config: self.config.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
