//! The membership API with strict-reconfig-check, as `etcdserver/server.go` has it (read in v3.5.16, v3.5.27,
//! v3.5.31, v3.6.10, v3.6.11 and v3.7.0): what the asked member checks at once, and what is only found when the change is applied.
//!
//! In: an operation and the member it is asked of. Out: a refusal at once, or a request whose result is polled.
//! Never: a change without the leader's log, and never an answer to a change that raft dropped.

use quorate_core::model::{MemberId, Version, quorum};

use super::{
    ConfChange, Entry, EtcdError, EtcdModel, HEALTH_TICKS, Kind, Place, READY_PERCENT, Role, Running,
};

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Add a learner at a place.
    AddLearner(Place),
    /// Add a voter at a place.
    AddVoter(Place),
    /// Make a learner a voter.
    Promote(MemberId),
    Remove(MemberId),
}

/// A request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub request: u64,
    /// The member it was asked of.
    pub via: Place,
    /// The id a new member gets.
    pub member: Option<MemberId>,
}

impl EtcdModel {
    /// Asks a member for a change.
    pub fn ask(&mut self, via: Place, operation: Operation) -> Result<Asked, EtcdError> {
        let node = self.nodes.get(&via).ok_or(EtcdError::Unreachable)?;
        let running = node.running.as_ref().ok_or(EtcdError::Unreachable)?;
        let me = node.member().ok_or(EtcdError::Unreachable)?;
        let now = self.now;
        if !running.ready {
            // embed/serve.go waits for ReadyNotify; the port is open and nobody answers.
            return Err(EtcdError::Timeout);
        }
        if running.conf.members.get(&me).is_some_and(|m| m.learner) {
            // v3rpc/interceptor.go, before anything else.
            return Err(EtcdError::NotSupportedForLearner);
        }
        match operation {
            Operation::AddLearner(_) | Operation::AddVoter(_) => {
                may_add(running, me, now, matches!(operation, Operation::AddVoter(_)))?;
            }
            Operation::Remove(id) => may_remove(running, me, now, id)?,
            Operation::Promote(id) => self.may_promote(via, id)?,
        }
        let leader = self.leader_of(via).ok_or(EtcdError::Timeout)?;
        self.requests += 1;
        let request = self.requests;
        let mut member = None;
        let change = match operation {
            Operation::AddLearner(place) | Operation::AddVoter(place) => {
                // etcd hashes URLs, cluster name and the time; here the request's number stands for the time.
                let id = MemberId(super::start::hash(&format!(
                    "{} at {now} request {request}",
                    place.url()
                )));
                member = Some(id);
                ConfChange::Add {
                    id,
                    place,
                    learner: matches!(operation, Operation::AddLearner(_)),
                    named: false,
                }
            }
            Operation::Promote(id) => ConfChange::Promote(id),
            Operation::Remove(id) => ConfChange::Remove(id),
        };
        let Some((running, wal)) = self.node(leader).parts() else {
            return Err(EtcdError::Timeout);
        };
        let pending = wal.log[running.applied..]
            .iter()
            .any(|e| matches!(e.kind, Kind::Conf { .. }));
        // raft takes one unapplied change at a time and turns the next into an empty entry, silently.
        let kind = if pending {
            Kind::Noop
        } else {
            Kind::Conf { request, change }
        };
        wal.log.push(Entry { term: wal.term, kind });
        running.durable = wal.commit;
        Ok(Asked { request, via, member })
    }

    /// The result, once the member that was asked knows it. `None`: not yet, or never.
    pub fn answer(&self, asked: Asked) -> Option<Result<(), EtcdError>> {
        self.nodes.get(&asked.via)?.running.as_ref()?;
        self.results.get(&(asked.via, asked.request)).copied()
    }

    /// Hands leadership over: the target is brought up to date and campaigns at once.
    pub fn move_leader(&mut self, via: Place, to: MemberId) -> Result<(), EtcdError> {
        let node = self
            .nodes
            .get(&via)
            .filter(|n| n.running.is_some())
            .ok_or(EtcdError::Unreachable)?;
        if !node.leads() {
            return Err(EtcdError::BadTransferee);
        }
        let conf = node
            .running
            .as_ref()
            .map(|r| &r.conf)
            .ok_or(EtcdError::Unreachable)?;
        let target = conf
            .members
            .get(&to)
            .filter(|m| !m.learner)
            .ok_or(EtcdError::BadTransferee)?
            .place;
        if target == via {
            return Ok(());
        }
        let cluster = node.wal().map(|w| w.cluster).ok_or(EtcdError::Unreachable)?;
        self.reach(via, cluster, to, target).ok_or(EtcdError::Timeout)?;
        self.lead(via);
        let behind = self.nodes[&target].wal().map(|w| w.last()) < self.nodes[&via].wal().map(|w| w.last());
        if behind || !self.campaign(target, true) {
            Err(EtcdError::Timeout)
        } else {
            Ok(())
        }
    }

    /// Only the leader knows how far a learner is; a follower forwards the question.
    fn may_promote(&self, via: Place, id: MemberId) -> Result<(), EtcdError> {
        let leader = self.leader_of(via).ok_or(EtcdError::Timeout)?;
        let node = &self.nodes[&leader];
        let (Some(running), Some(wal)) = (node.running.as_ref(), node.wal()) else {
            return Err(EtcdError::Timeout);
        };
        let Role::Leader { matched, .. } = &running.role else {
            return Err(EtcdError::Timeout);
        };
        // The leader tells a follower only some refusals apart; for others it asks again until its time is up.
        let forwarded = |error| if via == leader { error } else { EtcdError::Timeout };
        if !running.conf.members.contains_key(&id) {
            // 3.4 proposes it all the same, and finds the id removed.
            let old = running.version.minor <= 4 && running.conf.removed.contains(&id);
            return Err(if old {
                forwarded(EtcdError::MemberNotFound)
            } else {
                EtcdError::MemberNotFound
            });
        }
        let has = if id == wal.member {
            wal.log.len()
        } else {
            matched.get(&id).copied().unwrap_or(0)
        };
        if has * 100 < wal.log.len() * READY_PERCENT {
            return Err(EtcdError::LearnerNotReady);
        }
        let voters = running.conf.voters().count() + 1;
        let started = running.conf.voters().filter(|(_, m)| m.named).count() + 1;
        if started < quorum(voters) {
            Err(forwarded(EtcdError::NotEnoughStarted))
        } else {
            Ok(())
        }
    }
}

fn connected(running: &Running, me: MemberId, now: u64) -> usize {
    let long = |id: MemberId| {
        running
            .active
            .get(&id)
            .is_some_and(|link| now - link.since >= HEALTH_TICKS)
    };
    running
        .conf
        .voters()
        .filter(|(id, _)| *id == me || long(*id))
        .count()
}

/// From 3.5.30 and 3.6.11 on etcd asks for a quorum that would hold with the new member down; before, for every voter.
pub fn add_needs_only_quorum(version: Version) -> bool {
    version >= Version::new(3, 6, 11) || (version.minor == 5 && version.patch >= 30)
}

fn may_add(running: &Running, me: MemberId, now: u64, voter: bool) -> Result<(), EtcdError> {
    let voters = running.conf.voters().count();
    let started = running.conf.voters().filter(|(_, m)| m.named).count();
    let restoring_one = started == 1 && voters == 1;
    if voter && !restoring_one && started < quorum(voters + 1) {
        return Err(EtcdError::NotEnoughStarted);
    }
    let connected = connected(running, me, now);
    let well = if add_needs_only_quorum(running.version) {
        voters == 1 || connected >= quorum(voters + 1)
    } else {
        connected == voters
    };
    if well {
        Ok(())
    } else {
        Err(EtcdError::UnhealthyCluster)
    }
}

fn may_remove(running: &Running, me: MemberId, now: u64, id: MemberId) -> Result<(), EtcdError> {
    if running.conf.members.get(&id).is_some_and(|m| m.learner) {
        return Ok(());
    }
    let others = running.conf.voters().filter(|(other, _)| *other != id).count();
    let started = running
        .conf
        .voters()
        .filter(|(other, m)| *other != id && m.named)
        .count();
    if started < quorum(others) {
        return Err(EtcdError::NotEnoughStarted);
    }
    if id != me && !running.active.contains_key(&id) {
        return Ok(());
    }
    let voters = running.conf.voters().count();
    if connected(running, me, now) < 2 + voters.saturating_sub(1) / 2 {
        return Err(EtcdError::UnhealthyCluster);
    }
    Ok(())
}
