//! What people see of a cluster and its peers: `status`, conditions, in the plan's own words.
//!
//! In: the last status, what was seen, what is planned. Out: the next status. Never: members forgotten because nobody
//! answers; a condition that changes without its reason; a new status for a change nobody would care about.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time as K8sTime};
use quorate_api::crd::{ClusterStatus, MemberStatus, PeerStatus};
use quorate_core::model::{Observed, Ordinal, SlotView, Spec, Version, quorum};
use quorate_core::reason::{StatusReason, WaitReason};
use quorate_core::{Memory, Plan};

use crate::cluster::memory_text::MemoryText;
use crate::names::Names;

/// Said of the quorum while it is not known.
const UNASKED: &str = "the members are not asked how they are until that is mended";

/// How many blocks a condition lists besides the first.
const BLOCKS_MAX: usize = 8;

/// A status is written after this long although it is the same, so that its age says whether anybody observes.
const OBSERVED_EVERY: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

/// Does it differ from the last one, or is that one old? One from the future is as old as it is ahead.
pub fn is_due(next: &ClusterStatus, last: &ClusterStatus, now: jiff::Timestamp) -> bool {
    let age = last.observed_at.as_ref().map(|at| now.duration_since(at.0).abs());
    next != last || age.is_none_or(|age| age >= OBSERVED_EVERY)
}

/// What a status is made from.
#[derive(Debug)]
pub struct StatusInput<'a> {
    /// What the cluster is called.
    pub names: &'a Names,
    pub spec: &'a Spec,
    pub observed: &'a Observed,
    pub plan: &'a Plan,
    pub memory: &'a Memory,
    /// What lies aside on the volumes of members: how many sets of old data, and the room they take.
    pub asides: &'a BTreeMap<Ordinal, (u32, u64)>,
    /// How many EtcdPeers there are.
    pub peers: usize,
    /// The generation of the EtcdCluster.
    pub generation: Option<i64>,
    /// What the manifest says that is not done, if anything.
    pub warnings: &'a [String],
    /// What the API server did not do as asked, if anything: a reason and a text.
    pub trouble: Option<(&'static str, &'a str)>,
    pub now: jiff::Timestamp,
}

/// A condition, before it is known whether it is new.
struct Holds<'a> {
    kind: &'static str,
    status: Option<bool>,
    reason: &'a str,
    message: String,
}

impl StatusInput<'_> {
    /// The next status of the cluster.
    pub fn cluster(&self, last: &ClusterStatus, texts: &mut MemoryText) -> ClusterStatus {
        let voters = self.healthy_voters();
        ClusterStatus {
            replicas: i32::try_from(self.peers).unwrap_or(i32::MAX),
            ready_replicas: (!self.observed.unasked).then(|| i32::try_from(voters).unwrap_or(i32::MAX)),
            members: self.members(&last.members),
            cluster_version: self
                .cluster_version()
                .unwrap_or_else(|| last.cluster_version.clone()),
            conditions: self.conditions(&last.conditions),
            selector: Some(self.names.selector()),
            observed_generation: self.generation,
            observed_at: last.observed_at.clone(),
            memory: texts.pack(self.memory),
        }
    }

    fn answer(&self, id: quorate_core::model::MemberId) -> Option<&quorate_core::model::MemberStatus> {
        let statuses = self.observed.slots.values().filter_map(|s| s.status.as_ref());
        statuses.into_iter().find(|s| s.member == id)
    }

    fn healthy_voters(&self) -> usize {
        let members = self.observed.quorum.iter().flat_map(|q| &q.members);
        let healthy = members.filter(|m| !m.learner && self.answer(m.id).is_some_and(|s| s.healthy));
        healthy.count()
    }

    fn members(&self, last: &[MemberStatus]) -> Vec<MemberStatus> {
        let Some(quorum) = &self.observed.quorum else {
            return unserved(last, (!self.observed.unasked).then_some(false));
        };
        let member = |m: &quorate_core::model::Listed| {
            let answer = self.answer(m.id);
            let id = m.id.to_string();
            let before = last.iter().find(|b| b.id == id);
            let size = |now: Option<u64>, before: Option<i64>| {
                let now = now.and_then(|n| i64::try_from(n).ok());
                // A size that has hardly moved is no news.
                match (now, before) {
                    (Some(now), Some(before))
                        if now.abs_diff(before).saturating_mul(10) < before.unsigned_abs() =>
                    {
                        Some(before)
                    }
                    _ => now.or(before),
                }
            };
            let name = self.name_of(m);
            let aside = self.names.ordinal(&name).and_then(|o| self.asides.get(&o));
            MemberStatus {
                asides: aside.map(|(sets, _)| i64::from(*sets)),
                aside_bytes: aside.and_then(|(_, bytes)| i64::try_from(*bytes).ok()),
                name,
                healthy: Some(answer.is_some_and(|s| s.healthy)),
                learner: Some(m.learner),
                leader: Some(quorum.leader == Some(m.id)),
                version: answer.map(|s| s.version.to_string()),
                db_size: size(answer.map(|s| s.db_size), before.and_then(|b| b.db_size)),
                db_size_in_use: size(answer.map(|s| s.db_in_use), before.and_then(|b| b.db_size_in_use)),
                id,
            }
        };
        let mut all: Vec<MemberStatus> = quorum.members.iter().map(member).collect();
        all.sort_by_key(|m| (self.names.ordinal(&m.name), m.id.clone()));
        all
    }

    /// A member's name; one that has not started yet is known by its address.
    fn name_of(&self, member: &quorate_core::model::Listed) -> String {
        if !member.name.is_empty() {
            return member.name.clone();
        }
        let slot = |v: &SlotView| member.peer_urls.contains(&v.peer_url);
        let slot = self.observed.slots.iter().find(|(_, v)| slot(v)).map(|(o, _)| *o);
        slot.map_or(String::new(), |o| self.names.member(o).to_string())
    }

    /// What etcd works as.
    fn cluster_version(&self) -> Option<String> {
        let members = &self.observed.quorum.as_ref()?.members;
        agreed(members.iter().map(|m| self.answer(m.id).map(|s| s.version)))
    }

    fn conditions(&self, last: &[Condition]) -> Vec<Condition> {
        let block = self.plan.blocks.first();
        let wait = self.plan.waits.first();
        let healthy = self.healthy_voters();
        let whole = healthy == self.spec.replicas as usize && self.observed.quorum.is_some();
        let (reason, message) = match (block, wait) {
            (Some(block), _) => (block.reason.name(), block.detail.clone()),
            (None, Some(wait)) => (wait.reason.name(), wait.detail.clone()),
            (None, None) if !self.plan.steps.is_empty() => (StatusReason::Working.name(), self.steps()),
            (None, None) => (
                StatusReason::AsWanted.name(),
                format!("{healthy} healthy members of etcd {}", self.spec.version),
            ),
        };
        let ready = whole && block.is_none() && wait.is_none() && self.plan.steps.is_empty();
        let listed = self.observed.quorum.as_ref();
        let voters = listed.map_or(0, |q| q.members.iter().filter(|m| !m.learner).count());
        let serving = match listed {
            Some(_) if healthy < quorum(voters) => (
                StatusReason::Serving.name(),
                format!("a quorum answers, though only {healthy} of {voters} voters did in time"),
            ),
            Some(_) => (
                StatusReason::Serving.name(),
                format!(
                    "{healthy} of {voters} voters are healthy, {} are needed",
                    quorum(voters)
                ),
            ),
            None if self.observed.unasked => (reason, UNASKED.to_owned()),
            None => (
                WaitReason::NoQuorum.name(),
                "no quorum of members answers; the members shown are as last seen".to_owned(),
            ),
        };
        let busy = !self.plan.steps.is_empty() || wait.is_some();
        let progress = match self.trouble {
            Some(trouble) => idle(trouble),
            None => Holds {
                kind: "Progressing",
                status: Some(busy && block.is_none()),
                reason: if busy { reason } else { StatusReason::AtRest.name() },
                message: if busy {
                    message.clone()
                } else {
                    "there is nothing left to do".to_owned()
                },
            },
        };
        let mut all = vec![
            Holds {
                kind: "Ready",
                status: Some(ready),
                reason,
                message,
            },
            Holds {
                kind: "Quorate",
                status: listed
                    .map(|_| true)
                    .or((self.memory.cluster.is_some() && !self.observed.unasked).then_some(false)),
                reason: serving.0,
                message: serving.1,
            },
            progress,
            Holds {
                kind: "Blocked",
                status: Some(block.is_some()),
                reason: block.map_or(StatusReason::NotBlocked.name(), |b| b.reason.name()),
                message: self.blocks(),
            },
        ];
        if !self.warnings.is_empty() {
            all.push(Holds {
                kind: "Warning",
                status: Some(true),
                reason: StatusReason::Manifest.name(),
                message: self.warnings.join("; "),
            });
        }
        all.into_iter().map(|holds| self.condition(holds, last)).collect()
    }

    /// All that stops the plan: the first in its words, the others after it under their names.
    fn blocks(&self) -> String {
        let mut blocks = self.plan.blocks.iter();
        let mut reported: Vec<String> = blocks.next().map(|b| b.detail.clone()).into_iter().collect();
        let more = blocks.len().saturating_sub(BLOCKS_MAX);
        reported.extend(
            blocks
                .take(BLOCKS_MAX)
                .map(|b| format!("{}: {}", b.reason.name(), b.detail)),
        );
        reported.extend((more > 0).then(|| format!("and {more} more")));
        reported.join("; ")
    }

    fn steps(&self) -> String {
        let reported: Vec<String> = self
            .plan
            .steps
            .iter()
            .map(|s| s.described(self.spec, self.memory))
            .collect();
        reported.join("; ")
    }

    fn condition(&self, holds: Holds<'_>, last: &[Condition]) -> Condition {
        condition(holds, last, self.generation, self.now)
    }

    /// The next status of the EtcdPeer in a slot.
    pub fn peer(&self, ordinal: Ordinal, last: &PeerStatus, generation: Option<i64>) -> PeerStatus {
        let answer = self.observed.slots.get(&ordinal).and_then(|s| s.status.as_ref());
        let ready = answer.is_some_and(|s| s.healthy);
        let wait = self.plan.waits.iter().find(|w| w.member == Some(ordinal));
        let block = self.plan.blocks.iter().find(|b| b.member == Some(ordinal));
        let (reason, message) = match (block, wait) {
            (Some(block), _) => (block.reason.name(), block.detail.clone()),
            (None, Some(wait)) => (wait.reason.name(), wait.detail.clone()),
            (None, None) if ready => (StatusReason::Serving.name(), "it serves".to_owned()),
            (None, None) if self.observed.unasked => {
                let frozen = self.spec.frozen.as_ref().map(|f| f.reason.name());
                return unasked_peer(last, frozen.unwrap_or_default(), generation, self.now);
            }
            (None, None) => (
                StatusReason::NotServing.name(),
                "it does not answer, or reaches no quorum".to_owned(),
            ),
        };
        let holds = Holds {
            kind: "Ready",
            status: Some(ready),
            reason,
            message,
        };
        PeerStatus {
            server_version: answer.map_or(String::new(), |s| s.version.to_string()),
            conditions: vec![condition(holds, &last.conditions, generation, self.now)],
            observed_generation: generation,
        }
    }
}

/// The status of a cluster of which nothing more can be said until people have mended something: everything else stays
/// as it was, but for the members, whom nobody asks.
pub fn held(
    last: &ClusterStatus,
    (reason, why): (&str, &str),
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> ClusterStatus {
    let blocked = Holds {
        kind: "Blocked",
        status: Some(true),
        reason,
        message: why.to_owned(),
    };
    unasked(
        last,
        (reason, why),
        [blocked, idle((reason, why))],
        generation,
        now,
    )
}

/// The status of a cluster whose members were not asked how they are, and these conditions besides.
fn unasked<'a>(
    last: &ClusterStatus,
    (reason, why): (&'a str, &str),
    besides: impl IntoIterator<Item = Holds<'a>>,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> ClusterStatus {
    let unready = Holds {
        kind: "Ready",
        status: Some(false),
        reason,
        message: why.to_owned(),
    };
    let quorate = Holds {
        kind: "Quorate",
        status: None,
        reason,
        message: UNASKED.to_owned(),
    };
    ClusterStatus {
        ready_replicas: None,
        members: unserved(&last.members, None),
        conditions: replaced(
            &last.conditions,
            [unready, quorate].into_iter().chain(besides),
            generation,
            now,
        ),
        observed_generation: generation,
        ..last.clone()
    }
}

/// The members as they were last seen, of which none is known to serve or to lead.
fn unserved(last: &[MemberStatus], healthy: Option<bool>) -> Vec<MemberStatus> {
    let unserved = |member: &MemberStatus| MemberStatus {
        healthy,
        leader: healthy,
        ..member.clone()
    };
    last.iter().map(unserved).collect()
}

/// The status of an EtcdPeer whose member is not asked how it is until something of its cluster is mended.
pub fn unasked_peer(
    last: &PeerStatus,
    reason: &str,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> PeerStatus {
    let holds = Holds {
        kind: "Ready",
        status: None,
        reason,
        message: "the member is not asked how it is until its EtcdCluster is mended".to_owned(),
    };
    PeerStatus {
        conditions: vec![condition(holds, &last.conditions, generation, now)],
        observed_generation: generation,
        ..last.clone()
    }
}

/// The status of an EtcdPeer whose EtcdCluster does not exist.
pub fn ownerless(
    last: &PeerStatus,
    names: &Names,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> PeerStatus {
    let holds = Holds {
        kind: "Ready",
        status: Some(false),
        reason: StatusReason::NoCluster.name(),
        message: format!(
            "there is no EtcdCluster {:?} in this namespace, so nothing is done about this EtcdPeer; create that \
             EtcdCluster, which takes it up, or delete this. EtcdPeers are made by quorate; there is no need to",
            names.cluster
        ),
    };
    PeerStatus {
        conditions: vec![condition(holds, &last.conditions, generation, now)],
        observed_generation: generation,
        ..last.clone()
    }
}

/// The status of a cluster of which nothing is known but that the API server does not do as asked. Its members are not
/// asked either.
pub fn refused(
    last: &ClusterStatus,
    trouble: (&'static str, &str),
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> ClusterStatus {
    unasked(last, trouble, [idle(trouble)], generation, now)
}

/// The status of a cluster whose first certificates are being made, or are not while it is paused. Its members are not asked
/// before.
pub fn pending(
    last: &ClusterStatus,
    paused: bool,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> ClusterStatus {
    let (reason, why) = if paused {
        (
            WaitReason::Paused.name(),
            "spec.paused is set: its certificates are not made",
        )
    } else {
        (WaitReason::Preparing.name(), "its certificates are being made")
    };
    let progress = Holds {
        kind: "Progressing",
        status: Some(!paused),
        reason,
        message: why.to_owned(),
    };
    unasked(last, (reason, why), [progress], generation, now)
}

/// Nothing is done, for this reason.
fn idle<'a>((reason, text): (&'a str, &str)) -> Holds<'a> {
    Holds {
        kind: "Progressing",
        status: Some(false),
        reason,
        message: text.to_owned(),
    }
}

/// The last conditions with these in place of those of their kind.
fn replaced<'a>(
    last: &[Condition],
    new: impl IntoIterator<Item = Holds<'a>>,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> Vec<Condition> {
    let mut all = last.to_vec();
    for holds in new {
        let next = condition(holds, last, generation, now);
        match all.iter_mut().find(|c| c.type_ == next.type_) {
            Some(place) => *place = next,
            None => all.push(next),
        }
    }
    all
}

/// The lowest minor of all members. `None` while one of them does not answer, for then etcd itself goes on as before.
fn agreed(versions: impl Iterator<Item = Option<Version>>) -> Option<String> {
    let versions: Option<Vec<Version>> = versions.collect();
    let (major, minor) = versions?.iter().map(|v| (v.major, v.minor)).min()?;
    Some(format!("{major}.{minor}.0"))
}

fn condition(
    holds: Holds<'_>,
    last: &[Condition],
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> Condition {
    let status = match holds.status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let before = last.iter().find(|c| c.type_ == holds.kind && c.status == status);
    Condition {
        type_: holds.kind.to_owned(),
        status: status.to_owned(),
        reason: holds.reason.to_owned(),
        message: holds.message.chars().take(1024).collect(),
        last_transition_time: before.map_or(K8sTime(now), |c| c.last_transition_time.clone()),
        observed_generation: generation,
    }
}

#[cfg(test)]
mod tests;
