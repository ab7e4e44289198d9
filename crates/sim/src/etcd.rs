//! A model of etcd, honest about what a wrong planner breaks: persistent logs, terms and votes, elections by
//! raft's rules, commit at a quorum of the leader's own list, and the membership API's refusals.
//!
//! In: operations of members and faults, and the passing of ticks. Out: results by request, exits, and
//! [`Note`]s for the checkers. Never: knowledge of what the planner wants, and no messages: a tick is a round in
//! which a leader reaches whom it can reach. Real raft's bad cases stay possible: two leaders of different terms on
//! two islands, entries that are overwritten, a proposal that commits after its client gave up, and a member with
//! amnesia that votes twice.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::model::{Alarm, AlarmKind, ClusterId, Generation, MemberId, Refused, Version};

mod log;
mod membership;
mod raft;
mod start;

pub use log::{Conf, ConfChange, ConfMember, Data, Entry, Kind, Place, Volumes, Wal};
pub use membership::{Asked, Operation, add_needs_only_quorum};
pub use start::{As, CannotStart};

/// How long a connection must have lasted to count as healthy: etcd's HealthInterval of 5 s.
pub const HEALTH_TICKS: u64 = 10;
/// How long a peer that fell silent still counts as connected: the read timeout of etcd's streams is set on a dialer
/// that is not used (`NewTimeoutTransport` sets `Dial`, `NewTransport` set `DialContext`), so TCP's keepalive decides,
/// after 300 s. In 3.4 the timeout works: five seconds.
pub const SILENT_TICKS: u64 = 600;
/// How much of the leader's log a learner must have to be promoted.
pub const READY_PERCENT: usize = 90;
/// How many entries a member takes in one tick.
const BATCH: usize = 40;
/// After so many entries etcd 3.6 takes a raft snapshot.
pub const SNAPSHOT_COUNT: usize = 10_000;
/// A member that counts more than this as yet to be applied refuses every request, its own first one included
/// (`maxGapBetweenApplyAndCommitIndex`).
pub const APPLY_GAP: usize = 5_000;
/// A read through a member that has more than this yet to apply does not end in time.
const APPLY_LAG_MAX: usize = 20;

/// Why etcd says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EtcdError {
    /// A voter was not connected for the last five seconds.
    UnhealthyCluster,
    /// Too few started members after the change.
    NotEnoughStarted,
    /// The learner has not caught up.
    LearnerNotReady,
    /// There is a learner already.
    TooManyLearners,
    /// Another member has that URL.
    PeerUrlExists,
    /// No such id, or it was removed.
    MemberNotFound,
    /// A voter cannot be promoted.
    MemberNotLearner,
    /// A learner serves no membership requests.
    NotSupportedForLearner,
    /// Leadership cannot go there, or is not here.
    BadTransferee,
    /// No leader, no quorum, or no answer in time.
    Timeout,
    Unreachable,
}

impl EtcdError {
    /// As the core names it; `None` where the effect is unknown.
    pub fn refused(self) -> Option<Refused> {
        Some(match self {
            EtcdError::UnhealthyCluster => Refused::UnhealthyCluster,
            EtcdError::NotEnoughStarted => Refused::NotEnoughStarted,
            EtcdError::LearnerNotReady => Refused::LearnerNotReady,
            EtcdError::TooManyLearners => Refused::TooManyLearners,
            EtcdError::PeerUrlExists => Refused::Other("peer URL exists".into()),
            EtcdError::MemberNotFound => Refused::Other("member not found".into()),
            EtcdError::MemberNotLearner => Refused::Other("can only promote a learner member".into()),
            EtcdError::NotSupportedForLearner => Refused::Other("rpc not supported for learner".into()),
            EtcdError::BadTransferee => Refused::Other("bad leader transferee".into()),
            EtcdError::Unreachable => Refused::Other("connection refused".into()),
            EtcdError::Timeout => return None,
        })
    }
}

/// Something the checkers must see when it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A member won an election.
    Elected {
        place: Place,
        cluster: ClusterId,
        /// The term it leads.
        term: u64,
    },
    /// A client's write is known to be committed.
    Acknowledged { value: u64, place: Place, term: u64 },
    /// A process ended by itself.
    Exited { place: Place, why: &'static str },
}

/// What a running member is in raft's eyes.
#[derive(Clone, Debug)]
pub enum Role {
    /// Follows, or waits for its patience to end.
    Follower,
    Leader {
        /// How far each member is known to have the log.
        matched: BTreeMap<MemberId, usize>,
        /// When a quorum was last in reach.
        quorum_at: u64,
    },
}

#[derive(Clone, Debug)]
pub struct Running {
    pub version: Version,
    pub generation: Generation,
    /// The list, applied so far.
    pub conf: Conf,
    /// How much of the log is applied.
    pub applied: usize,
    /// What etcd itself counts as applied: entries, but not what came in a raft snapshot, until the next entry comes.
    counted: usize,
    pub role: Role,
    pub leader: Option<MemberId>,
    /// Ticks since a leader was heard.
    quiet: u64,
    /// Ticks it will wait for one.
    patience: u64,
    /// It applied its own removal: it ends a second later, so that others learn of the commit (`stopWithDelay`).
    ends_at: Option<u64>,
    active: BTreeMap<MemberId, Link>,
    /// Which process this is: connections end with either of theirs.
    born: u64,
    /// It has told the cluster of itself since it started; until then etcd serves no client at all.
    pub ready: bool,
    /// How much of the log is known to be committed on disk: etcd syncs that only along with entries, a term or a
    /// vote, and what was not synced lies in a buffer of the process.
    durable: usize,
    /// How much of the log the database had applied when the process started: that can be more than is known to be
    /// committed, and what the database lists is what a joining member gets.
    stored: usize,
}

/// A connection to a peer.
#[derive(Clone, Copy, Debug)]
struct Link {
    since: u64,
    /// When it was last known to work.
    heard: u64,
    born: u64,
}

/// A place: its volumes and perhaps a process.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// All volumes that lie here.
    pub volumes: Volumes,
    pub running: Option<Running>,
    /// Acknowledges late until this tick.
    pub slow_until: u64,
    /// Its disk answers nothing until this tick: connected, but neither appends nor votes.
    pub stalled_until: u64,
    /// It applies what is committed with delay until this tick.
    pub lags_until: u64,
    /// Which side of a partition it is on.
    pub island: u8,
    /// How much of the log each volume's database had applied when its process was killed.
    stored: BTreeMap<Generation, usize>,
}

impl Node {
    /// The log the process runs on.
    pub fn wal(&self) -> Option<&Wal> {
        self.volumes.get(&self.running.as_ref()?.generation)?.wal()
    }

    fn parts(&mut self) -> Option<(&mut Running, &mut Wal)> {
        let running = self.running.as_mut()?;
        let wal = self.volumes.get_mut(&running.generation)?.wal_mut()?;
        Some((running, wal))
    }

    /// Id of the running member.
    pub fn member(&self) -> Option<MemberId> {
        self.wal().map(|w| w.member)
    }

    pub fn leads(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|r| matches!(r.role, Role::Leader { .. }))
    }
}

#[derive(Clone, Debug)]
pub struct EtcdModel {
    /// Places, running or not.
    pub nodes: BTreeMap<Place, Node>,
    pub now: u64,
    /// For the checkers; they take it.
    pub notes: Vec<Note>,
    /// Chance, its own, so that the model's course does not shift when another part asks for a number more.
    pub rng: fastrand::Rng,
    /// The island quorate is on.
    pub site_island: u8,
    /// Who refuses whom, for want of a certificate that is trusted; the lower place first.
    pub refused: BTreeSet<(Place, Place)>,
    /// Alarms that are raised. etcd keeps them with the data, and every member shows them.
    pub alarms: BTreeSet<Alarm>,
    /// After so many entries a member takes a raft snapshot.
    pub snapshot_count: usize,
    /// How many entries a member may count as yet to be applied and still take requests ([`APPLY_GAP`]).
    pub apply_gap: usize,
    /// Raft snapshots that voters and learners were sent, because the leader's log began later than theirs ended.
    pub snapshots_sent: Snapshots,
    results: BTreeMap<(Place, u64), Result<(), EtcdError>>,
    requests: u64,
    writes: Vec<PendingWrite>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    pub voters: u64,
    pub learners: u64,
}

#[derive(Clone, Copy, Debug)]
struct PendingWrite {
    value: u64,
    place: Place,
    term: u64,
    index: usize,
    until: u64,
}

impl EtcdModel {
    pub fn new(seed: u64) -> Self {
        Self {
            nodes: BTreeMap::new(),
            now: 0,
            notes: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
            site_island: 0,
            refused: BTreeSet::new(),
            alarms: BTreeSet::new(),
            snapshot_count: SNAPSHOT_COUNT,
            apply_gap: APPLY_GAP,
            snapshots_sent: Snapshots::default(),
            results: BTreeMap::new(),
            requests: 0,
            writes: Vec::new(),
        }
    }

    /// The node at `place`, made if there is none.
    pub fn node(&mut self, place: Place) -> &mut Node {
        self.nodes.entry(place).or_default()
    }

    /// The island of a place.
    pub fn island(&self, place: Place) -> u8 {
        if place == Place::SITE {
            self.site_island
        } else {
            self.nodes.get(&place).map_or(0, |n| n.island)
        }
    }

    /// Can these two talk?
    pub fn linked(&self, a: Place, b: Place) -> bool {
        self.island(a) == self.island(b) && !self.refused.contains(&(a.min(b), a.max(b)))
    }

    /// Puts a place on an island of the partition.
    pub fn cut(&mut self, place: Place, island: u8) {
        if place == Place::SITE {
            self.site_island = island;
        } else {
            self.node(place).island = island;
        }
    }

    pub fn heal(&mut self) {
        self.site_island = 0;
        self.nodes.values_mut().for_each(|n| n.island = 0);
    }

    /// The process dies at once and forgets what it had not synced: how much was committed; a patch that corrupts
    /// also the tail of its log.
    pub fn kill(&mut self, place: Place) {
        let tail = self.rng.usize(1..=4);
        let node = self.node(place);
        let mut stored = None;
        if let Some((running, wal)) = node.parts() {
            stored = Some((running.generation, running.applied.max(running.stored)));
            // What a snapshot holds is synced.
            wal.commit = wal.commit.min(running.durable).max(wal.compacted);
            if running.version.corrupts() {
                let keep = wal.log.len().saturating_sub(tail).max(wal.compacted);
                wal.log.truncate(keep);
                wal.commit = wal.commit.min(keep);
            }
        }
        node.stored.extend(stored);
        node.running = None;
    }

    /// The process ends cleanly: everything is on disk.
    pub fn stop(&mut self, place: Place) {
        self.node(place).running = None;
    }

    /// A volume's content is gone; a process on it does not survive that.
    pub fn wipe(&mut self, place: Place, generation: Generation) {
        self.lose(place, generation, Data::Empty);
    }

    /// A volume's content becomes unreadable.
    pub fn damage(&mut self, place: Place, generation: Generation) {
        self.lose(place, generation, Data::Damaged);
    }

    fn lose(&mut self, place: Place, generation: Generation, into: Data) {
        let node = self.node(place);
        if node.running.as_ref().is_some_and(|r| r.generation == generation) {
            node.running = None;
        }
        node.stored.remove(&generation);
        if let Some(volume) = node.volumes.get_mut(&generation) {
            *volume = into;
        }
    }

    /// All volumes of a place are exchanged for others.
    pub fn exchange(&mut self, place: Place, volumes: Volumes) {
        self.kill(place);
        let node = self.node(place);
        node.stored.clear();
        node.volumes = volumes;
    }

    /// The process ends by itself.
    fn exit(&mut self, place: Place, why: &'static str) {
        self.node(place).running = None;
        self.notes.push(Note::Exited { place, why });
    }

    /// Where a running member with this id of this cluster is, as far as `from` can reach.
    fn reach(&self, from: Place, cluster: ClusterId, id: MemberId, at: Place) -> Option<&Node> {
        let node = self.nodes.get(&at)?;
        let wal = node.wal()?;
        (self.linked(from, at) && wal.member == id && wal.cluster == cluster).then_some(node)
    }

    /// The leader a member follows, if it is in reach and still leads.
    pub fn leader_of(&self, place: Place) -> Option<Place> {
        let node = self.nodes.get(&place)?;
        let running = node.running.as_ref()?;
        let wal = node.wal()?;
        let leader = running.leader?;
        if leader == wal.member {
            return node.leads().then_some(place);
        }
        let at = running.conf.members.get(&leader).map(|m| m.place).or_else(|| {
            // A joining member has no list of its own yet; it knows who speaks to it.
            self.nodes
                .iter()
                .find(|(_, n)| n.member() == Some(leader))
                .map(|(p, _)| *p)
        })?;
        let node = self.reach(place, wal.cluster, leader, at)?;
        (node.leads() && node.wal()?.term == wal.term).then_some(at)
    }

    /// Would a linearizable read through this member succeed now?
    pub fn serves(&self, place: Place) -> bool {
        let Some(leader) = self.leader_of(place) else {
            return false;
        };
        let node = &self.nodes[&leader];
        let (Some(running), Some(wal)) = (node.running.as_ref(), node.wal()) else {
            return false;
        };
        let own_term = running.applied > 0 && wal.log[running.applied - 1].term == wal.term;
        let me = self.nodes[&place].member();
        let applied = self.nodes[&place].running.as_ref().map_or(0, |r| r.applied);
        own_term
            && wal.commit.saturating_sub(applied) <= APPLY_LAG_MAX
            && self.nodes[&place].stalled_until <= self.now
            && node.stalled_until <= self.now
            && matches!(running.role, Role::Leader { quorum_at, .. } if quorum_at == self.now)
            && me.is_some_and(|id| running.conf.members.contains_key(&id))
    }

    /// The list a linearizable read through `place` gives: it waits until all that is committed is applied.
    pub fn list(&self, place: Place) -> Option<(ClusterId, Conf, MemberId)> {
        if !self.serves(place) {
            return None;
        }
        let node = &self.nodes[&self.leader_of(place)?];
        let (running, wal) = (node.running.as_ref()?, node.wal()?);
        let mut conf = running.conf.clone();
        for entry in &wal.log[running.applied..wal.commit] {
            let _ = conf.apply(entry.kind);
        }
        Some((wal.cluster, conf, wal.member))
    }

    /// Is this one a voter in the list that is read through `via`?
    pub fn votes_by_list(&self, via: Option<Place>, id: MemberId) -> bool {
        via.and_then(|via| self.list(via))
            .is_some_and(|(_, conf, _)| conf.votes(id))
    }

    /// Raises an alarm for the member at `place`, if a quorum takes it.
    pub fn raise(&mut self, place: Place, kind: AlarmKind) -> bool {
        let Some(member) = self.nodes.get(&place).and_then(Node::member) else {
            return false;
        };
        self.serves(place) && self.alarms.insert(Alarm { member, kind })
    }

    /// The leader that serves, whoever can see it; the newest term if there are two.
    pub fn serving_leader(&self) -> Option<Place> {
        let leaders = self.nodes.iter().filter(|(p, n)| n.leads() && self.serves(**p));
        leaders
            .max_by_key(|(_, n)| n.wal().map_or(0, |w| w.term))
            .map(|(p, _)| *p)
    }

    /// A client writes `value` through a member. Whether it was heard shows in a note, or never.
    pub fn write(&mut self, via: Place, value: u64) {
        // NOSPACE and CORRUPT both: no member takes a client's write.
        let Some(place) = self.leader_of(via).filter(|_| self.alarms.is_empty()) else {
            return;
        };
        let until = self.now + 14;
        let Some((running, wal)) = self.node(place).parts() else {
            return;
        };
        wal.log.push(Entry {
            term: wal.term,
            kind: Kind::Write(value),
        });
        running.durable = wal.commit;
        let (term, index) = (wal.term, wal.log.len());
        self.writes.push(PendingWrite {
            value,
            place,
            term,
            index,
            until,
        });
    }

    /// One more log entry that changes nothing, through a member: with it what is committed becomes durable.
    pub fn write_nothing(&mut self, via: Place) {
        let Some(place) = self.leader_of(via) else { return };
        if let Some((running, wal)) = self.node(place).parts() {
            wal.log.push(Entry {
                term: wal.term,
                kind: Kind::Noop,
            });
            running.durable = wal.commit;
        }
    }

    /// Half a second passes.
    pub fn advance(&mut self) {
        self.now += 1;
        self.connections();
        self.removed_members_learn_it();
        let mut places: Vec<Place> = self.nodes.keys().copied().collect();
        self.rng.shuffle(&mut places);
        for place in &places {
            self.lead(*place);
        }
        for place in &places {
            // What is known to be committed is applied whether or not there is a leader.
            if !self.nodes[place].leads() {
                self.apply(*place);
            }
            self.tick_election(*place);
        }
        for place in &places {
            self.publish(*place);
        }
        self.acknowledge();
    }

    fn acknowledge(&mut self) {
        let pending = std::mem::take(&mut self.writes);
        for write in pending {
            let node = self.nodes.get(&write.place);
            let leads = node.filter(|n| n.leads() && n.wal().is_some_and(|w| w.term == write.term));
            let Some(node) = leads else { continue };
            if node.running.as_ref().is_some_and(|r| r.applied >= write.index) {
                let PendingWrite {
                    value, place, term, ..
                } = write;
                self.notes.push(Note::Acknowledged { value, place, term });
            } else if self.now < write.until {
                self.writes.push(write);
            }
        }
    }
}

#[cfg(test)]
mod tests;
