//! Steps of the ground, as requests to the API server. Every step can be asked for again blindly.
//!
//! In: a step, and the objects it was planned on. Out: [`Effect`]s in order, what to tell people, or why not. Never: a
//! go-ahead for a pod that was not looked at, or before the claim says that its volume was started; a claim deleted
//! while a pod may use it.

use std::collections::BTreeMap;

use quorate_core::Memory;
use quorate_core::memory::Mark;
use quorate_core::model::{Generation, Ordinal, Version};
use quorate_core::plan::{StartHow, Step};
use quorate_pod::contract::{FORMAT, GoAhead, START_ANNOTATION};

use crate::build::Plot;
use crate::build::peer::peer;
use crate::effect::{Effect, Kind, News, Object};
use crate::ending::{claim_deleted, take_claim};
use crate::names::VOLUME_ANNOTATION;
use crate::observe::Objects;
use crate::pod_state::Stage;
use crate::record::VolumeRecord;
use crate::slot::{Claim, SlotObjects};

/// What a step comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Done {
    /// To be asked of the API server, in this order.
    pub effects: Vec<Effect>,
    /// To be told once they are done.
    pub news: Vec<News>,
}

/// What steps are carried out with.
#[derive(Clone, Debug)]
pub struct Executor<'a> {
    /// What the objects are made from.
    pub plot: &'a Plot<'a>,
    /// The memory that was stored with the plan.
    pub memory: &'a Memory,
    /// What the plan was made on.
    pub objects: &'a Objects,
    /// The digest of the configuration.
    pub config: &'a str,
}

impl Executor<'_> {
    /// The requests for a step of the ground; an error is a refusal that has had no effect.
    pub fn effects(&self, step: &Step) -> Result<Done, String> {
        match step {
            Step::Provide {
                ordinal,
                generation,
                version,
            } => self.keeping_its_claim(*ordinal, self.provide(*ordinal, *generation, *version)),
            Step::Start {
                ordinal,
                generation,
                how,
                version,
            } => self.keeping_its_claim(*ordinal, self.start(*ordinal, *generation, how, *version)?),
            Step::Stop { ordinal, .. } => Ok(self.take_down(*ordinal, false)),
            Step::SetAside { ordinal, .. } => Ok(self.scaled_away(*ordinal)),
            // Kept on the volume itself, and thinned out there.
            Step::DropAside { .. } => Ok(Done::default()),
            Step::AddLearner { .. }
            | Step::Promote { .. }
            | Step::Remove { .. }
            | Step::MoveLeader { .. } => Err("etcd is asked for this, not Kubernetes".to_owned()),
        }
    }

    fn provide(&self, ordinal: Ordinal, generation: Generation, version: Version) -> Done {
        let slot = self.objects.slot(ordinal);
        let name = self.plot.names.member(ordinal).to_string();
        match &slot.peer {
            None => {
                let made = peer(
                    self.plot,
                    ordinal,
                    (generation, version, self.config),
                    self.memory,
                );
                Done {
                    effects: vec![Effect::Create(Object::Peer(Box::new(made)))],
                    news: vec![News::done(
                        "PeerCreated",
                        ("EtcdPeer", &name),
                        format!("Created a new EtcdPeer with name {name:?}"),
                    )],
                }
            }
            Some(peer) if peer.deleting => Done::default(),
            Some(peer)
                if peer.generation == generation && peer.config == self.config && peer.version == version =>
            {
                self.make_pod_anew(&slot)
            }
            Some(_) => self.take_down(ordinal, false),
        }
    }

    /// A claim that somebody deleted goes with the last pod on it, and a start must not be what takes it away.
    fn keeping_its_claim(&self, ordinal: Ordinal, done: Done) -> Result<Done, String> {
        let claim = self.objects.slot(ordinal).claim;
        let goes = claim.is_some_and(|c| c.deleting) && self.memory.slot(ordinal).mark != Mark::Never;
        let deletes = |effect: &Effect| matches!(effect, Effect::Delete { .. });
        if goes && done.effects.iter().any(deletes) {
            return Err("its claim is being deleted, and its data would go with the pod".to_owned());
        }
        Ok(done)
    }

    fn start(
        &self,
        ordinal: Ordinal,
        generation: Generation,
        how: &StartHow,
        version: Version,
    ) -> Result<Done, String> {
        let slot = self.objects.slot(ordinal);
        let Some(peer) = slot.peer.as_ref().filter(|p| !p.deleting) else {
            return Err("its EtcdPeer is gone".to_owned());
        };
        if peer.version != version || peer.generation != generation {
            // What it was made for is not what is wanted any more; the next pass has another made.
            return Ok(self.take_down(ordinal, false));
        }
        let Some((pod, report)) = slot.parked() else {
            return Ok(self.make_pod_anew(&slot));
        };
        let Some(claim) = &slot.claim else {
            return Err("its claim is gone".to_owned());
        };
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
            config: peer.config.clone(),
            how: how.clone().into(),
            member: remembered.member.filter(|_| !first),
            cluster: self.memory.cluster.filter(|_| !first),
            served: if first {
                remembered.after_served
            } else {
                remembered.served.is_some()
            },
        };
        let recorded = claim
            .record
            .as_ref()
            .map_or(report.volume_id.as_str(), |r| r.volume_id.as_str());
        let record = VolumeRecord::of(self.memory, ordinal, recorded);
        let member = self.plot.names.member(ordinal).to_string();
        Ok(Done {
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

    fn take_down(&self, ordinal: Ordinal, with_claim: bool) -> Done {
        let name = self.plot.names.member(ordinal).to_string();
        take_down(&self.objects.slot(ordinal), &name, with_claim)
    }

    /// The claim says that no member is on it before its EtcdPeer is to take it along: by then the EtcdCluster, which
    /// remembers it, may be gone.
    fn scaled_away(&self, ordinal: Ordinal) -> Done {
        let mut done = self.take_down(ordinal, true);
        let (slot, remembered) = (self.objects.slot(ordinal), self.memory.slot(ordinal));
        let idle = remembered.mark == Mark::Never && remembered.member.is_none();
        // One without a record may hold anything, unless it is remembered that its member is gone.
        let recorded = |c: &&Claim| c.record.as_ref().map_or(Generation(0), |r| r.generation);
        let former = |c: &&Claim| recorded(c) < remembered.generation;
        let claim = slot.claim.as_ref().filter(former);
        if let Some(claim) = claim.filter(|_| idle && slot.peer.is_some() && !done.effects.is_empty()) {
            let record = VolumeRecord::of(self.memory, ordinal, "");
            let name = self.plot.names.member(ordinal).to_string();
            let noted = annotate(Kind::Claim, (&name, &claim.uid), VOLUME_ANNOTATION, record.text());
            done.effects.insert(0, noted);
        }
        done
    }

    /// A pod that ended, or was refused, is deleted; its ReplicaSet makes another, which looks at the volume again.
    fn make_pod_anew(&self, slot: &SlotObjects) -> Done {
        let stuck = slot
            .pod()
            .filter(|p| matches!(p.stage, Stage::Crashing(_) | Stage::Refused(_)));
        let Some(pod) = stuck else {
            return Done::default();
        };
        let why = match &pod.stage {
            Stage::Crashing(exit) => &exit.how,
            Stage::Refused(why) => why,
            _ => "",
        };
        let message = format!("Deleted the pod {:?}, so that another is made: {why}", pod.name);
        Done {
            effects: vec![Effect::Delete {
                kind: Kind::Pod,
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            }],
            news: vec![News::done("PodReplaced", ("Pod", &pod.name), message)],
        }
    }
}

fn annotate(kind: Kind, (name, uid): (&str, &str), key: &str, value: String) -> Effect {
    Effect::Annotate {
        kind,
        name: name.to_owned(),
        uid: uid.to_owned(),
        annotations: BTreeMap::from([(key.to_owned(), value)]),
    }
}

/// The EtcdPeer goes, and with it its ReplicaSet and pod; its claim only if the member was scaled away.
pub(crate) fn take_down(slot: &SlotObjects, name: &str, with_claim: bool) -> Done {
    let Some(peer) = slot.peer.as_ref() else {
        // Someone deleted the EtcdPeer before; what it would have taken along goes by itself.
        let claim = slot.claim.as_ref();
        let unused = slot.set.is_none() && slot.pods.is_empty();
        let claim = claim.filter(|c| with_claim && !c.deleting && unused);
        let effects = claim.map(|claim| Effect::Delete {
            kind: Kind::Claim,
            name: name.to_owned(),
            uid: claim.uid.clone(),
        });
        return Done {
            news: effects.iter().map(|_| claim_deleted(name)).collect(),
            effects: effects.into_iter().collect(),
        };
    };
    let mut done = Done::default();
    if peer.deleting {
        return done;
    }
    if with_claim && !peer.takes_claim {
        done.effects.push(take_claim(name, peer));
    }
    done.effects.push(Effect::Delete {
        kind: Kind::Peer,
        name: name.to_owned(),
        uid: peer.uid.clone(),
    });
    let message = format!("Removed EtcdPeer with name {name:?}");
    done.news
        .push(News::done("PeerRemoved", ("EtcdPeer", name), message));
    done
}

#[cfg(test)]
pub(crate) mod tests;
