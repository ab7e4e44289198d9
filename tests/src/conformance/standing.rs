//! What stands still in a cluster while nobody touches it: its leader and its connections. And why a script is run again.
//!
//! In: how the members of a quorum looked when a step was over, and how they look now. Out: what changed although the
//! step was no cause of it. Such a change is the machine's: a process was not scheduled for longer than etcd waits. Never:
//! a judgement of a step that kills, starts, cuts off or heals, for those are causes.

use std::collections::BTreeMap;

use super::members::{Connection, Looks};
use super::script::Place;
use super::trace::Did;

/// The members of a quorum that serves, as they looked at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The id of the leader.
    leader: u64,
    /// The term in which it leads.
    term: u64,
    /// How often each member found a leader.
    leaders_found: BTreeMap<Place, u64>,
    /// Their connections to each other, by place and the peer's id.
    connections: BTreeMap<(Place, u64), Connection>,
}

impl Standing {
    /// How these members look; `None` while they do not agree on a leader.
    pub fn of(members: &[(Place, u64)], looks: &BTreeMap<Place, Looks>) -> Option<Standing> {
        let mut standing = Standing::default();
        for (place, _) in members {
            let looks = looks.get(place)?;
            let status = looks.status.as_ref()?;
            let leads = (status.leader?, status.raft_term);
            if !standing.leaders_found.is_empty() && leads != (standing.leader, standing.term) {
                return None;
            }
            (standing.leader, standing.term) = leads;
            standing.leaders_found.insert(*place, looks.leaders_found);
            let connections = looks.connections.as_ref()?;
            let peers = members.iter().filter(|(peer, _)| peer != place);
            let connected = peers.filter_map(|(_, id)| Some(((*place, *id), *connections.get(id)?)));
            standing.connections.extend(connected);
        }
        (!standing.leaders_found.is_empty()).then_some(standing)
    }

    /// What changed since `before` although nothing was done that changes it. Members that came or went in between are
    /// not compared, nor is anything once the leader of `before` is not among `members`.
    pub fn disturbed_since(&self, before: &Standing, did: &Did, members: &[(Place, u64)]) -> Option<String> {
        let untouched = matches!(did, Did::Nothing | Did::Asked);
        if !untouched || members.iter().all(|(_, id)| *id != before.leader) {
            return None;
        }
        if (self.leader, self.term) != (before.leader, before.term) {
            return Some(format!(
                "{:x} led in term {} and {:x} leads in term {}",
                before.leader, before.term, self.leader, self.term
            ));
        }
        for (place, found) in &self.leaders_found {
            if before.leaders_found.get(place).is_some_and(|then| then != found) {
                return Some(format!("{place} lost its leader for a while"));
            }
        }
        for ((place, peer), connection) in &self.connections {
            if before
                .connections
                .get(&(*place, *peer))
                .is_some_and(|then| then.lost != connection.lost)
            {
                return Some(format!("{place} lost its connection to {peer:x} for a while"));
            }
        }
        None
    }
}

/// etcd lost a race with itself: a message that it tried to send before a cut was healed failed after the streams to
/// that peer were recreated, and marked the peer inactive; nothing marks it active again while the streams last. What
/// such a cluster answers depends on which message that was, so that the script is run again.
#[derive(Debug)]
pub struct Raced(pub String);

impl std::fmt::Display for Raced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "etcd took a peer in reach for lost: {}", self.0)
    }
}

impl std::error::Error for Raced {}

/// The machine did not let etcd run for longer than etcd waits, so that an election or a lost connection came that no
/// step caused. The answers of such a cluster depend on when that was; the script is run again.
#[derive(Debug)]
pub struct Disturbed(pub String);

impl std::fmt::Display for Disturbed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "disturbed by the machine: {}", self.0)
    }
}

impl std::error::Error for Disturbed {}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: [(Place, u64); 2] = [(1, 0xa), (2, 0xb)];

    fn standing() -> Standing {
        let connection = Connection {
            active: true,
            lost: 1,
        };
        Standing {
            leader: 0xa,
            term: 2,
            leaders_found: [(1, 1), (2, 1)].into(),
            connections: [((1, 0xb), connection), ((2, 0xa), connection)].into(),
        }
    }

    #[test]
    fn nothing_disturbs_a_cluster_that_stands_still() {
        for did in [Did::Nothing, Did::Asked] {
            assert_eq!(standing().disturbed_since(&standing(), &did, &MEMBERS), None);
        }
    }

    /// The same leader in a later term, a follower that lost its leader without a new term (as with PreVote), and a
    /// connection that broke and came back: each makes other answers than the model's right.
    #[test]
    fn what_no_step_caused_is_a_disturbance() {
        let mut term = standing();
        term.term = 3;
        let mut leader = standing();
        leader.leader = 0xb;
        let mut follower = standing();
        follower.leaders_found.insert(2, 2);
        let mut connection = standing();
        if let Some(connection) = connection.connections.get_mut(&(1, 0xb)) {
            connection.lost = 2;
        }
        for now in [term, leader, follower, connection] {
            let why = now.disturbed_since(&standing(), &Did::Asked, &MEMBERS);
            assert!(why.is_some(), "{now:?}");
            // An election follows on a kill, and on the removal of the leader.
            assert_eq!(now.disturbed_since(&standing(), &Did::Killed, &MEMBERS), None);
            let without_leader = &MEMBERS[1..];
            assert_eq!(
                now.disturbed_since(&standing(), &Did::Asked, without_leader),
                None
            );
        }
    }

    #[test]
    fn a_member_that_was_not_there_before_disturbs_nothing() {
        let mut now = standing();
        now.leaders_found.insert(3, 5);
        now.connections.insert((3, 0xa), Connection::default());
        let members = [MEMBERS[0], MEMBERS[1], (3, 0xc)];
        assert_eq!(now.disturbed_since(&standing(), &Did::Asked, &members), None);
    }
}
