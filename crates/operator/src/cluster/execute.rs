//! Steps of the ground, as requests to the API server. Every step can be asked for again blindly.
//!
//! In: a step, and the objects it was planned on. Out: [`Effect`]s in order, what to tell people, or why not. Never: a
//! go-ahead for a pod that was not looked at, or before the claim says that its volume was started; more than a step says.

use std::collections::BTreeMap;

use quorate_core::Memory;
use quorate_core::memory::Mark;
use quorate_core::model::{Generation, Ordinal, StorageId, Version};
use quorate_core::plan::{StartHow, Step};
use quorate_pod::contract::{FORMAT, GoAhead, KnownProgress, START_ANNOTATION};

use crate::cluster::build::BuildContext;
use crate::cluster::build::etcd::settings_of;
use crate::cluster::build::peer::peer;
use crate::cluster::observe::Objects;
use crate::cluster::observe::gather::requested;
use crate::cluster::observe::pod_state::Stage;
use crate::cluster::observe::slot::SlotObjects;
use crate::cluster::record::VolumeRecord;
use crate::cluster::resources::{as_text, effective};
use crate::names::VOLUME_ANNOTATION;
use crate::requests::effect::{ClusterEvent, Effect, Kind, Object};

/// What a step comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requests {
    /// To be asked of the API server, in this order.
    pub effects: Vec<Effect>,
    /// Published once the effects are done.
    pub news: Vec<ClusterEvent>,
}

/// What steps are carried out with.
#[derive(Clone, Debug)]
pub struct Executor<'a> {
    /// What the objects are made from.
    pub context: &'a BuildContext<'a>,
    /// The memory that was stored with the plan.
    pub memory: &'a Memory,
    /// What the plan was made on.
    pub objects: &'a Objects,
}

impl Executor<'_> {
    /// The requests for a step of the ground; an error is a refusal that has had no effect.
    pub fn effects(&self, step: &Step) -> Result<Requests, String> {
        match step {
            Step::Provide {
                ordinal,
                generation,
                version,
                config,
            } => self.keeping_its_claim(*ordinal, self.provide(*ordinal, *generation, (*version, config))?),
            Step::Start {
                ordinal,
                generation,
                how,
                version,
                config,
            } => self.keeping_its_claim(
                *ordinal,
                self.start(*ordinal, *generation, how, (*version, config))?,
            ),
            Step::Stop { ordinal, .. } | Step::Withdraw { ordinal } => Ok(self.take_down(*ordinal)),
            Step::Grow { ordinal, storage, .. } => self.grow(*ordinal, storage),
            Step::Resize { ordinal, config } => self.resize(*ordinal, config),
            Step::Discard { ordinal, storage } => Ok(self.discard(*ordinal, storage)),
            Step::SetAside { .. } | Step::DropAside { .. } => {
                Err("old data is kept on the volume itself, and thinned out there".to_owned())
            }
            Step::AddLearner { .. }
            | Step::Promote { .. }
            | Step::Remove { .. }
            | Step::MoveLeader { .. }
            | Step::Write { .. } => Err("etcd is asked for this, not Kubernetes".to_owned()),
        }
    }

    fn provide(
        &self,
        ordinal: Ordinal,
        generation: Generation,
        (version, config): (Version, &str),
    ) -> Result<Requests, String> {
        let slot = self.objects.slot(ordinal);
        let name = self.context.names.member(ordinal).to_string();
        match &slot.peer {
            None => {
                let context = self.context_with(config)?;
                let made = peer(&context, ordinal, (generation, version, config), self.memory);
                Ok(Requests {
                    effects: vec![Effect::Create(Object::Peer(Box::new(made)))],
                    news: vec![ClusterEvent::done(
                        "PeerCreated",
                        ("EtcdPeer", &name),
                        format!("Created a new EtcdPeer with name {name:?}"),
                    )],
                })
            }
            Some(peer) if peer.deleting => Ok(Requests::default()),
            Some(peer)
                if peer.generation == generation && peer.config == config && peer.version == version =>
            {
                Ok(self.recreate_pod(&slot))
            }
            Some(_) => Err("its EtcdPeer was made for something else".to_owned()),
        }
    }

    fn context_with(&self, config: &str) -> Result<BuildContext<'_>, String> {
        let unknown = || format!("the manifest of its settings ({config}) is not known any more");
        self.context.with(config).ok_or_else(unknown)
    }

    /// A claim that somebody deleted goes with the last pod on it, and a start must not be what takes it away.
    fn keeping_its_claim(&self, ordinal: Ordinal, requests: Requests) -> Result<Requests, String> {
        let claim = self.objects.slot(ordinal).claim;
        let goes = claim.is_some_and(|c| c.deleting) && self.memory.slot(ordinal).mark != Mark::Never;
        if goes && requests.effects.iter().any(deletes) {
            return Err("its claim is being deleted, and its data would go with the pod".to_owned());
        }
        Ok(self.if_its_claim_stays(ordinal, requests))
    }

    fn start(
        &self,
        ordinal: Ordinal,
        generation: Generation,
        how: &StartHow,
        (version, config): (Version, &str),
    ) -> Result<Requests, String> {
        let slot = self.objects.slot(ordinal);
        let Some(peer) = slot.peer.as_ref().filter(|p| !p.deleting) else {
            return Err("its EtcdPeer is gone".to_owned());
        };
        if peer.version != version || peer.generation != generation || peer.config != config {
            return Err("its EtcdPeer was made for something else".to_owned());
        }
        let Some((pod, report)) = slot.parked() else {
            return Ok(self.recreate_pod(&slot));
        };
        let Some(claim) = &slot.claim else {
            return Err("its claim is gone".to_owned());
        };
        if let Some(why) = &claim.unreadable {
            return Err(format!("what is written on its claim cannot be read: {why}"));
        }
        let remembered = self.memory.slot(ordinal);
        if remembered.mark == Mark::Never {
            return Err("the start is not on record".to_owned());
        }
        let first = matches!(how, StartHow::New { .. } | StartHow::Join { .. });
        let go = GoAhead {
            format: FORMAT,
            pod: pod.uid.clone(),
            volume_id: report.volume_id.clone(),
            generation,
            version,
            config: settings_of(&peer.config).to_owned(),
            how: how.clone().into(),
            member: remembered.member.filter(|_| !first),
            cluster: self.memory.cluster.filter(|_| !first),
            served: if first {
                remembered.after_served
            } else {
                remembered.served.is_some()
            },
            run: Some(remembered.run),
            floor: KnownProgress {
                epoch: self.memory.epoch,
                reached: remembered.reached,
                // A go-ahead has these in fields of its own.
                ..KnownProgress::default()
            },
        };
        let recorded = claim
            .record
            .as_ref()
            .map_or(report.volume_id.as_str(), |r| r.volume_id.as_str());
        let record = VolumeRecord::of(self.memory, ordinal, recorded);
        let member = self.context.names.member(ordinal).to_string();
        Ok(Requests {
            effects: vec![
                annotate(
                    Kind::Claim,
                    (&member, &claim.uid),
                    VOLUME_ANNOTATION,
                    record.text(),
                ),
                annotate(
                    Kind::Pod,
                    (&pod.name, &pod.uid),
                    START_ANNOTATION,
                    go.to_annotation(),
                ),
            ],
            news: Vec::new(),
        })
    }

    fn take_down(&self, ordinal: Ordinal) -> Requests {
        let name = self.context.names.member(ordinal).to_string();
        let requests = take_down(&self.objects.slot(ordinal), &name);
        self.if_its_claim_stays(ordinal, requests)
    }

    /// Somebody may have deleted the claim since it was seen, and then its data would go with the pod.
    fn if_its_claim_stays(&self, ordinal: Ordinal, mut requests: Requests) -> Requests {
        let claim = self.objects.slot(ordinal).claim;
        let started = self.memory.slot(ordinal).mark != Mark::Never;
        if let Some(claim) = claim.filter(|_| started && requests.effects.iter().any(deletes)) {
            let name = self.context.names.member(ordinal).to_string();
            let uid = claim.uid;
            requests.effects.insert(0, Effect::ConfirmClaim { name, uid });
        }
        requests
    }

    /// An EtcdPeer keeps the size that it was made with: no member has to be recreated for this.
    fn grow(&self, ordinal: Ordinal, storage: &StorageId) -> Result<Requests, String> {
        let claim = self.objects.slot(ordinal).claim.filter(|c| c.uid == storage.uid);
        let (Some(claim), Some(to)) = (claim, requested(&self.context.cluster.claim)) else {
            return Err("its claim is gone".to_owned());
        };
        let name = self.context.names.member(ordinal).to_string();
        let before = claim.asks_for.unwrap_or_default();
        let message = format!("Asked for {to} of storage instead of {before} for the claim {name:?}");
        let about = ("PersistentVolumeClaim", name.as_str());
        Ok(Requests {
            news: vec![ClusterEvent::done("ClaimResized", about, message)],
            effects: vec![Effect::Grow {
                name: name.clone(),
                uid: claim.uid,
                storage: to.to_owned(),
            }],
        })
    }

    /// What the pods after this one are made with follows when it has served with that: see [`super::upkeep`].
    fn resize(&self, ordinal: Ordinal, config: &str) -> Result<Requests, String> {
        let slot = self.objects.slot(ordinal);
        let Some(pod) = slot.pod() else {
            return Err("its pod is gone".to_owned());
        };
        let context = self.context_with(config)?;
        let wanted = context.cluster.pod.resources.clone().unwrap_or_default();
        let resources = as_text(Some(&wanted));
        let message = format!("Resized the pod {:?}: {resources}", pod.name);
        Ok(Requests {
            news: vec![ClusterEvent::done("PodResized", ("Pod", &pod.name), message)],
            effects: vec![Effect::Resize {
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                resources: Box::new(effective(&wanted)),
                config: config.to_owned(),
            }],
        })
    }

    fn discard(&self, ordinal: Ordinal, storage: &StorageId) -> Requests {
        let name = self.context.names.member(ordinal).to_string();
        let message = format!("Deleted the claim {name:?} of a member removed by scaling down");
        let about = ("PersistentVolumeClaim", name.as_str());
        Requests {
            news: vec![ClusterEvent::done("ClaimDeleted", about, message)],
            effects: vec![Effect::DeleteUnchanged {
                kind: Kind::Claim,
                name: name.clone(),
                uid: storage.uid.clone(),
                version: storage.version.clone(),
            }],
        }
    }

    /// A pod that ended, or was refused, is deleted; its ReplicaSet makes another, which looks at the volume again. One
    /// that ended while Secrets are missing stays: it still has them, another would not, and its node starts it again.
    fn recreate_pod(&self, slot: &SlotObjects) -> Requests {
        let secrets_missing = self.context.cluster.tls && self.context.trusted.is_none();
        let stuck = slot.pod().filter(|p| match p.stage {
            Stage::Crashing(_) => !secrets_missing,
            Stage::Refused(_) => true,
            _ => false,
        });
        let Some(pod) = stuck else {
            return Requests::default();
        };
        let why = match &pod.stage {
            Stage::Crashing(exit) => &exit.how,
            Stage::Refused(why) => why,
            _ => "",
        };
        let message = format!("Deleted the pod {:?}, to have it recreated: {why}", pod.name);
        Requests {
            effects: vec![Effect::DeleteUnchanged {
                kind: Kind::Pod,
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                version: pod.version.clone(),
            }],
            news: vec![ClusterEvent::done("PodReplaced", ("Pod", &pod.name), message)],
        }
    }
}

fn deletes(effect: &Effect) -> bool {
    matches!(effect, Effect::Delete { .. } | Effect::DeleteUnchanged { .. })
}

fn annotate(kind: Kind, (name, uid): (&str, &str), key: &str, value: String) -> Effect {
    Effect::Annotate {
        kind,
        name: name.to_owned(),
        uid: uid.to_owned(),
        annotations: BTreeMap::from([(key.to_owned(), value)]),
    }
}

/// The EtcdPeer goes, and with it its ReplicaSet and pod. Its claim stays.
fn take_down(slot: &SlotObjects, name: &str) -> Requests {
    let Some(peer) = slot.peer.as_ref().filter(|p| !p.deleting) else {
        return Requests::default();
    };
    let message = format!("Removed EtcdPeer with name {name:?}");
    Requests {
        news: vec![ClusterEvent::done("PeerRemoved", ("EtcdPeer", name), message)],
        effects: vec![Effect::Delete {
            kind: Kind::Peer,
            name: name.to_owned(),
            uid: peer.uid.clone(),
        }],
    }
}

#[cfg(test)]
pub(crate) mod tests;
