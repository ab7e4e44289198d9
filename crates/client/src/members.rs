//! All members of a cluster, in the planner's words: what they say, and the steps that etcd itself is asked for.
//!
//! In: endpoints by ordinal, steps. Out: [`Answers`], and [`StepResult`]s. A member that does not answer is absent, never an
//! error. A change is asked for once, of one member, after the list it was planned on was read again there.
//! Never: a retry of a change whose effect is not known.

pub(crate) mod prove;
pub(crate) mod quorum;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::model::{
    Alarm as RaisedAlarm, Basis, ClusterId, Listed, MemberId, MemberStatus, Observed, Ordinal, PeerUrl,
    QuorumView, Refused, SlotView, StepResult, Version,
};
use quorate_core::plan::{Step, WriteBefore};

use crate::{
    Alarm, AlarmKind, Credentials, Endpoint, Error as ClientError, InvalidEndpoint, Outcome, Refusal, Target,
    Timeouts, Tls,
};

/// How long all members together have to answer one look: at first, and after looks that found no quorum. A cluster
/// that is only just forming keeps a read waiting until it has a leader; the next look then finds one sooner.
const LOOK_LIMITS: [Duration; 3] = [
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1500),
];
/// How long the list may take before a change.
const LIST_LIMIT: Duration = Duration::from_millis(1500);
/// How long a change may take. With the list it must stay below the planner's `CHANGE_DEADLINE`.
const CHANGE_LIMIT: Duration = Duration::from_secs(4);

/// Written and deleted again, so that a member has written.
const WRITTEN_KEY: &[u8] = b"quorate/before-upgrade";
/// How long each such request may take.
const WRITE_LIMIT: Duration = Duration::from_secs(2);

/// Where a member is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub url: String,
    /// The name in its certificate, where that is not the host of the URL.
    pub server_name: Option<String>,
}

impl From<String> for Address {
    /// An address under which a member is also known.
    fn from(url: String) -> Address {
        Address {
            url,
            server_name: None,
        }
    }
}

impl Address {
    /// A client to the member there. It connects anew, whatever other clients there are.
    pub fn endpoint(&self, tls: Option<&Tls>) -> Result<Endpoint, InvalidEndpoint> {
        let named = tls
            .zip(self.server_name.as_ref())
            .map(|(tls, name)| tls.clone().with_server_name(name));
        Endpoint::connect_lazy(&self.url, named.as_ref().or(tls), Timeouts::default())
    }
}

/// Connections to the members.
#[derive(Debug, Default)]
pub struct Members {
    tls: Option<Tls>,
    credentials: Option<Credentials>,
    /// etcd has refused the last change for want of a user who may ask for it; in its words.
    change_refused: Mutex<Option<String>>,
    endpoints: BTreeMap<Ordinal, (Address, Endpoint)>,
    /// None of them is connected.
    closed: bool,
    /// Looks so far: the first few wait for a shorter time, until a quorum has answered.
    looks: usize,
    /// A quorum has answered; from then on a slow answer is waited for.
    served: bool,
    /// The index that is known to be on the disk of each member that answered in the last look.
    durable: BTreeMap<Ordinal, (MemberId, u64)>,
}

/// What the members said.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// What each said of itself.
    pub statuses: BTreeMap<Ordinal, MemberStatus>,
    /// The member list, read linearizably.
    pub quorum: Option<QuorumView>,
    /// etcd asks for a user, and what it was given is not enough; in its words.
    pub login_refused: Option<String>,
    /// The index that is known to be on the disk of each member that answered, in this look or in the one before: when one
    /// goes down, that is remembered along with it.
    pub durable: BTreeMap<Ordinal, (MemberId, u64)>,
}

/// A change of the member list.
#[derive(Clone, Debug)]
enum Change<'a> {
    AddLearner(&'a PeerUrl),
    Promote(MemberId),
    Remove(MemberId),
}

impl Members {
    /// Connections with this TLS material from now on. The present ones are dropped if it is another.
    pub fn renew(&mut self, tls: Option<Tls>) {
        if self.tls != tls {
            self.tls = tls;
            self.endpoints.clear();
        }
    }

    /// Asks as this user from now on, where etcd asks for one.
    pub fn log_in(&mut self, credentials: Option<Credentials>) {
        if self.credentials != credentials {
            self.credentials = credentials;
            *self.change_refused() = None;
            self.endpoints.clear();
        }
    }

    fn change_refused(&self) -> MutexGuard<'_, Option<String>> {
        self.change_refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn endpoint(&mut self, ordinal: Ordinal, address: &Address) -> Option<Endpoint> {
        if let Some((_, endpoint)) = self.endpoints.get(&ordinal).filter(|(known, _)| known == address) {
            return Some(endpoint.clone());
        }
        let mut endpoint = address.endpoint(self.tls.as_ref()).ok()?;
        if let Some(credentials) = &self.credentials {
            endpoint = endpoint.with_credentials(credentials.clone());
        }
        self.endpoints
            .insert(ordinal, (address.clone(), endpoint.clone()));
        Some(endpoint)
    }

    fn connected(&self, ordinal: Ordinal) -> Option<&Endpoint> {
        self.endpoints.get(&ordinal).map(|(_, endpoint)| endpoint)
    }

    /// The index that is known to be on the disk of each member that answered in the last look.
    pub fn durable(&self) -> &BTreeMap<Ordinal, (MemberId, u64)> {
        &self.durable
    }

    /// Forgets connections to members that do not run.
    pub fn keep_only(&mut self, running: impl Fn(Ordinal) -> bool) {
        self.endpoints.retain(|ordinal, _| running(*ordinal));
    }

    /// Connections that stay open until the next look.
    pub fn connections(&self) -> usize {
        if self.closed { 0 } else { self.endpoints.len() }
    }

    /// Closes the connections. The next look opens them again.
    pub fn disconnect(&mut self) {
        self.endpoints
            .values()
            .for_each(|(_, endpoint)| endpoint.disconnect());
        self.closed = true;
    }

    /// Asks all members at once.
    pub async fn look(&mut self, running: &BTreeMap<Ordinal, Address>) -> Answers {
        self.closed = false;
        let mut ordinals = Vec::new();
        let mut targets = Vec::new();
        for (ordinal, address) in running {
            if let Some(endpoint) = self.endpoint(*ordinal, address) {
                ordinals.push(*ordinal);
                targets.push(Target {
                    label: ordinal.to_string(),
                    endpoint,
                });
            }
        }
        let mut durable = std::mem::take(&mut self.durable);
        if targets.is_empty() {
            return Answers {
                durable,
                ..Answers::default()
            };
        }
        if let Some(holder) = targets.iter().find(|target| target.endpoint.holds_token()) {
            let others = targets.iter().filter(|target| target.label != holder.label);
            others.for_each(|target| target.endpoint.borrow_token(&holder.endpoint));
        }
        let [.., longest] = LOOK_LIMITS;
        let limit = LOOK_LIMITS.get(self.looks).filter(|_| !self.served);
        let view = crate::QuorumView::ask(&targets, limit.copied().unwrap_or(longest)).await;
        self.served |= view.member_list.is_some();
        self.looks = self.looks.saturating_add(1);
        let refused = self.change_refused().clone();
        let login_refused = view.members.iter().find_map(login_refused).or(refused);
        let listed = view.member_list.as_ref();
        let mut statuses = BTreeMap::new();
        for (ordinal, member) in ordinals.iter().zip(&view.members) {
            let Ok(status) = &member.status else {
                // If it was for the token, another is borrowed next time.
                self.connected(*ordinal).iter().for_each(|e| e.forget_token());
                continue;
            };
            // A voter that has not applied its promotion yet calls itself a learner, and serves nobody.
            let votes = listed.is_some_and(|l| {
                l.list
                    .members
                    .iter()
                    .any(|m| m.id == status.member_id && !m.is_learner)
            });
            let healthy = (status.is_learner && !votes) || member.linearizable_read.is_ok();
            let Some(told) = member_status(status, healthy) else {
                continue;
            };
            if member.linearizable_read.is_ok() {
                self.durable.insert(*ordinal, (told.member, told.applied));
            }
            statuses.insert(*ordinal, told);
        }
        // Of those who name a leader, whoever is in the latest term knows best.
        let leader = statuses
            .values()
            .filter(|s| s.leader.is_some())
            .max_by_key(|s| s.term)
            .and_then(|s| s.leader);
        let quorum = view.member_list.map(|listed| QuorumView {
            cluster: ClusterId(listed.list.cluster_id),
            members: listed.list.members.into_iter().map(in_list).collect(),
            leader,
        });
        durable.extend(self.durable.clone());
        Answers {
            statuses,
            quorum,
            login_refused,
            durable,
        }
    }

    /// Does a step that etcd is asked for; `None` if it is the ground's.
    pub async fn execute(&self, step: &Step, observed: &Observed) -> Option<StepResult> {
        let (change, basis, except) = match step {
            Step::AddLearner { peer_url, basis, .. } => (Change::AddLearner(peer_url), basis, None),
            Step::Promote { member, basis, .. } => (Change::Promote(*member), basis, None),
            // Not through the one that goes: it stops answering when it is gone.
            Step::Remove { member, basis } => (Change::Remove(*member), basis, Some(*member)),
            Step::MoveLeader { from, to } => {
                return Some(match slot_of(observed, *from) {
                    Some(leader) => self.move_leader(leader, *to).await,
                    None => StepResult::Refused(Refused::Other(format!("the leader {from} does not answer"))),
                });
            }
            Step::Write { ordinal, before } => return Some(self.write(*ordinal, *before).await),
            _ => return None,
        };
        Some(self.change(&via(observed, except), change, *basis).await)
    }

    /// Asks for a change of the member list, through the first of `via` that can give the present list.
    async fn change(&self, via: &[Ordinal], change: Change<'_>, basis: Basis) -> StepResult {
        let mut failures = Vec::new();
        for endpoint in via.iter().filter_map(|ordinal| self.connected(*ordinal)).take(2) {
            match endpoint.within(LIST_LIMIT / 2).member_list_linearizable().await {
                Ok(list) => {
                    let members: Vec<Listed> = list.members.into_iter().map(in_list).collect();
                    let asked = change.ask(&endpoint.within(CHANGE_LIMIT), &members, basis).await;
                    let about_users = |error: &ClientError| {
                        let refusal = error.refusal();
                        refusal.is_about_users().then(|| refusal.to_string())
                    };
                    *self.change_refused() = asked.as_ref().err().and_then(about_users);
                    return asked.unwrap_or_else(|error| refused(&error));
                }
                Err(error) => failures.push(error.chain()),
            }
        }
        // Only lists were asked for: nothing can have happened.
        let why = if failures.is_empty() {
            "no healthy member to ask".to_owned()
        } else {
            failures.join("; ")
        };
        StepResult::Refused(Refused::Other(why))
    }

    /// Writes through the member in slot `via`. A member that cannot be written to has been: it is full, or asks for a
    /// password; then what is wrong is worth a line, and no more.
    async fn write(&self, via: Ordinal, before: WriteBefore) -> StepResult {
        let Some(endpoint) = self.connected(via) else {
            return StepResult::Refused(Refused::Other("it is not connected".to_owned()));
        };
        let endpoint = endpoint.within(WRITE_LIMIT);
        let written = match before {
            WriteBefore::LeavingMinor4 => match endpoint.put(WRITTEN_KEY, b"").await {
                Ok(_) => endpoint.delete(WRITTEN_KEY).await.map(drop),
                Err(error) => Err(error),
            },
            // An entry that changes nothing, which a full member takes, too.
            WriteBefore::Outage | WriteBefore::Serving => {
                let nothing = Alarm {
                    member_id: 0,
                    kind: AlarmKind::Unknown(0),
                };
                endpoint.disarm(nothing).await.map(drop)
            }
        };
        written.map_or_else(|error| refused(&error), |()| StepResult::Done)
    }

    /// Asks the leader in slot `via` to hand over to `to`.
    async fn move_leader(&self, via: Ordinal, to: MemberId) -> StepResult {
        let Some(endpoint) = self.connected(via) else {
            return StepResult::Refused(Refused::Other("the leader cannot be asked".to_owned()));
        };
        match endpoint.within(CHANGE_LIMIT).move_leader(to.0).await {
            Ok(()) => StepResult::Done,
            Err(error) if error.refusal() == Refusal::NotLeader => StepResult::Refused(Refused::Moved),
            Err(error) => refused(&error),
        }
    }
}

impl Change<'_> {
    /// Is the effect there already?
    fn is_done(&self, members: &[Listed]) -> bool {
        match self {
            Change::AddLearner(url) => members.iter().any(|m| m.peer_urls.contains(url)),
            Change::Promote(id) => members.iter().any(|m| m.id == *id && !m.learner),
            Change::Remove(id) => members.iter().all(|m| m.id != *id),
        }
    }

    async fn ask(
        &self,
        endpoint: &Endpoint,
        members: &[Listed],
        basis: Basis,
    ) -> Result<StepResult, ClientError> {
        if self.is_done(members) {
            return Ok(StepResult::Done);
        }
        if Basis::of(members) != basis {
            return Ok(StepResult::Refused(Refused::Moved));
        }
        let asked = match self {
            Change::AddLearner(url) => endpoint
                .member_add_learner(std::slice::from_ref(&url.0))
                .await
                .map(drop),
            Change::Promote(id) => endpoint.member_promote(id.0).await.map(drop),
            Change::Remove(id) => endpoint.member_remove(id.0).await.map(drop),
        };
        match (self, asked) {
            (_, Ok(())) => Ok(StepResult::Done),
            (Change::Remove(_), Err(error)) if error.refusal() == Refusal::MemberNotFound => {
                Ok(StepResult::Done)
            }
            (Change::Promote(_), Err(error)) if error.refusal() == Refusal::MemberNotLearner => {
                Ok(StepResult::Done)
            }
            (_, Err(error)) => Err(error),
        }
    }
}

/// Why a member does not let us in, if so.
fn login_refused(member: &crate::MemberView) -> Option<String> {
    let read = member.linearizable_read.as_ref().err();
    let all = member.status.as_ref().err().into_iter().chain(read);
    let mut refused = all.filter(|failure| failure.refusal.is_about_users());
    refused.next().map(|failure| failure.refusal.to_string())
}

/// Healthy voters to ask, the leader first, never `except`.
fn via(observed: &Observed, except: Option<MemberId>) -> Vec<Ordinal> {
    let Some(quorum) = &observed.quorum else {
        return Vec::new();
    };
    let votes = |id: MemberId| quorum.members.iter().any(|m| m.id == id && !m.learner);
    let healthy = observed.slots.iter().filter_map(|(ordinal, slot)| {
        let status = slot
            .status
            .as_ref()
            .filter(|status| status.healthy && votes(status.member))?;
        (Some(status.member) != except).then_some((Some(status.member) != quorum.leader, *ordinal))
    });
    let mut all: Vec<(bool, Ordinal)> = healthy.collect();
    all.sort();
    all.into_iter().map(|(_, ordinal)| ordinal).collect()
}

/// The slot in which `member` answered.
fn slot_of(observed: &Observed, member: MemberId) -> Option<Ordinal> {
    let answers = |slot: &&SlotView| slot.status.as_ref().is_some_and(|s| s.member == member);
    observed
        .slots
        .iter()
        .find(|(_, slot)| answers(slot))
        .map(|(ordinal, _)| *ordinal)
}

fn refused(error: &ClientError) -> StepResult {
    if error.outcome() == Outcome::Unknown {
        return StepResult::Unclear(error.chain());
    }
    StepResult::Refused(match error.refusal() {
        Refusal::UnhealthyCluster => Refused::UnhealthyCluster,
        Refusal::NotEnoughStarted => Refused::NotEnoughStarted,
        Refusal::LearnerNotReady => Refused::LearnerNotReady,
        Refusal::TooManyLearners => Refused::TooManyLearners,
        Refusal::MemberNotFound | Refusal::MemberExists | Refusal::PeerUrlExists => Refused::Moved,
        _ => Refused::Other(error.chain()),
    })
}

fn in_list(member: crate::Member) -> Listed {
    Listed {
        id: MemberId(member.id),
        name: member.name,
        peer_urls: member.peer_urls.into_iter().map(PeerUrl).collect(),
        learner: member.is_learner,
    }
}

fn member_status(status: &crate::Status, healthy: bool) -> Option<MemberStatus> {
    let version: Version = status.version.parse().ok()?;
    Some(MemberStatus {
        member: MemberId(status.member_id),
        cluster: ClusterId(status.cluster_id),
        leader: status.leader.map(MemberId),
        term: status.raft_term,
        applied: status.raft_applied_index,
        version,
        db_size: status.db_size,
        db_in_use: status.db_size_in_use,
        healthy,
        alarms: status
            .errors
            .iter()
            .filter_map(|text| RaisedAlarm::read(text))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: u64, learner: bool) -> Listed {
        Listed {
            id: MemberId(id),
            name: String::new(),
            peer_urls: vec![PeerUrl(format!("https://h:{id}"))],
            learner,
        }
    }

    #[test]
    fn an_effect_that_is_there_is_recognised() {
        let members = [listed(1, false), listed(2, true)];
        let (two, three) = (
            PeerUrl("https://h:2".to_owned()),
            PeerUrl("https://h:3".to_owned()),
        );
        assert!(Change::AddLearner(&two).is_done(&members));
        assert!(!Change::AddLearner(&three).is_done(&members));
        assert!(Change::Promote(MemberId(1)).is_done(&members));
        assert!(!Change::Promote(MemberId(2)).is_done(&members));
        assert!(!Change::Promote(MemberId(3)).is_done(&members));
        assert!(Change::Remove(MemberId(3)).is_done(&members));
        assert!(!Change::Remove(MemberId(2)).is_done(&members));
    }

    #[tokio::test]
    async fn with_nobody_to_ask_nothing_happened() {
        let result = Members::default()
            .change(&[Ordinal(0)], Change::Remove(MemberId(1)), Basis(0))
            .await;
        assert!(
            matches!(result, StepResult::Refused(Refused::Other(_))),
            "{result:?}"
        );
    }
}
