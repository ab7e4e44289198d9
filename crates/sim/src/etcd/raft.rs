//! One tick of raft: leaders replicate, commit and apply; followers without a leader campaign.
//!
//! In: who runs, who can talk to whom, what is on disk. Out: longer logs, newer terms, exits.
//! Never: a commit without a quorum of the leader's own applied list, a vote that is not on disk, a comparison of
//! entries by anything but term and index (raft cannot see more, so neither may the model).

use quorate_core::model::MemberId;

use super::{
    BATCH, ConfChange, ConfMember, Entry, EtcdModel, HEALTH_TICKS, Kind, Link, Note, Place, Role,
    SILENT_TICKS,
};

impl EtcdModel {
    /// Keeps, for each running member, since when it is connected to whom.
    pub(super) fn connections(&mut self) {
        let now = self.now;
        let places: Vec<Place> = self.nodes.keys().copied().collect();
        for place in places {
            let node = &self.nodes[&place];
            let (Some(running), Some(wal)) = (node.running.as_ref(), node.wal()) else {
                continue;
            };
            let (me, cluster) = (wal.member, wal.cluster);
            let mut active = running.active.clone();
            active.retain(|id, _| running.conf.members.contains_key(id));
            for (id, member) in &running.conf.members {
                if *id == me {
                    continue;
                }
                if !self.linked(place, member.place) {
                    // Nothing is heard, and nothing says why.
                    let silent = if running.version.minor <= 4 {
                        HEALTH_TICKS
                    } else {
                        SILENT_TICKS
                    };
                    if active.get(id).is_some_and(|link| now - link.heard > silent) {
                        active.remove(id);
                    }
                    continue;
                }
                let peer = self
                    .reach(place, cluster, *id, member.place)
                    .and_then(|n| n.running.as_ref());
                match (peer, active.get_mut(id)) {
                    (None, _) => drop(active.remove(id)),
                    (Some(peer), Some(link)) if link.born == peer.born => link.heard = now,
                    (Some(peer), _) => drop(active.insert(
                        *id,
                        Link {
                            since: now,
                            heard: now,
                            born: peer.born,
                        },
                    )),
                }
            }
            if let Some(running) = self.node(place).running.as_mut() {
                running.active = active;
            }
        }
    }

    /// A member that is no longer in the list learns it from any member that knows, and ends.
    pub(super) fn removed_members_learn_it(&mut self) {
        let running: Vec<(Place, MemberId)> = self
            .nodes
            .iter()
            .filter_map(|(p, n)| n.member().map(|id| (*p, id)))
            .collect();
        for (place, id) in running {
            let reported = self.nodes.iter().any(|(other, n)| {
                *other != place
                    && self.linked(place, *other)
                    && n.running.as_ref().is_some_and(|r| r.conf.removed.contains(&id))
            });
            let ends = self.nodes[&place]
                .running
                .as_ref()
                .and_then(|r| r.ends_at)
                .is_some_and(|at| at <= self.now);
            let reported = reported
                && self.nodes[&place]
                    .running
                    .as_ref()
                    .is_some_and(|r| r.ends_at.is_none());
            if ends || (reported && self.rng.u8(..) < 128) {
                self.exit(place, "removed from the cluster");
            }
        }
    }

    pub(super) fn lead(&mut self, place: Place) {
        let Some(node) = self.nodes.get(&place).filter(|n| n.leads()) else {
            return;
        };
        let (Some(running), Some(wal)) = (node.running.as_ref(), node.wal()) else {
            return;
        };
        let (me, cluster, stalled) = (wal.member, wal.cluster, node.stalled_until > self.now);
        let peers: Vec<(MemberId, ConfMember)> = running
            .conf
            .members
            .iter()
            .filter(|(id, _)| **id != me)
            .map(|(id, m)| (*id, *m))
            .collect();
        let mut reached = usize::from(running.conf.votes(me));
        for (id, member) in peers {
            // A leader whose disk does not answer says nothing either, until the others give it up.
            if stalled || self.reach(place, cluster, id, member.place).is_none() {
                continue;
            }
            if !self.replicate(place, id, member.place) {
                return; // A newer term exists: it no longer leads.
            }
            let stalled = self.nodes[&member.place].stalled_until > self.now;
            if !member.learner && !stalled && self.reach(place, cluster, id, member.place).is_some() {
                reached += 1;
            }
        }
        let now = self.now;
        let Some((running, _)) = self.node(place).parts() else {
            return;
        };
        let quorum = running.conf.quorum();
        if let Role::Leader { quorum_at, .. } = &mut running.role {
            if reached >= quorum {
                *quorum_at = now;
            } else if now - *quorum_at > 3 {
                running.role = Role::Follower;
                running.leader = None;
                return;
            }
        }
        self.commit(place);
        self.notify_removed(place);
        self.apply(place);
    }

    /// A leader sends word of a commit before it applies it, so also to a peer that the commit removes. A tick is many
    /// messages: a peer that is late only by chance is sent it again.
    fn notify_removed(&mut self, place: Place) {
        let node = &self.nodes[&place];
        let (Some(running), Some(wal)) = (node.running.as_ref(), node.wal()) else {
            return;
        };
        let (me, cluster, commit) = (wal.member, wal.cluster, wal.commit);
        let leaving: Vec<(MemberId, Place)> = wal.log[running.applied..commit]
            .iter()
            .filter_map(|entry| match entry.kind {
                Kind::Conf {
                    change: ConfChange::Remove(id),
                    ..
                } if id != me => Some(id),
                _ => None,
            })
            .filter_map(|id| Some((id, running.conf.members.get(&id)?.place)))
            .collect();
        for (id, at) in leaving {
            for _ in 0..3 {
                let peer = self.reach(place, cluster, id, at).and_then(|n| n.wal());
                if peer.is_none_or(|w| w.commit >= commit) || !self.replicate(place, id, at) {
                    break;
                }
            }
        }
    }

    /// Sends one peer what it lacks. False if the peer knows a newer term.
    fn replicate(&mut self, from: Place, id: MemberId, to: Place) -> bool {
        let leader = &self.nodes[&from];
        let (Some(running), Some(wal)) = (leader.running.as_ref(), leader.wal()) else {
            return true;
        };
        let Role::Leader { matched, .. } = &running.role else {
            return false;
        };
        let (term, commit, me) = (wal.term, wal.commit, wal.member);
        let known = matched.get(&id).copied().unwrap_or(0);
        let Some(theirs) = self.nodes[&to].wal() else {
            return true;
        };
        if theirs.term > term {
            let newer = theirs.term;
            if let Some((running, wal)) = self.node(from).parts() {
                wal.enter(newer);
                running.role = Role::Follower;
                running.leader = None;
            }
            return false;
        }
        if known.min(commit) > theirs.log.len() {
            // raft: "tocommit is out of range. Was the raft log corrupted, truncated, or lost?"
            self.exit(to, "raft panic: tocommit out of range");
            return true;
        }
        let mut same = theirs.log.len().min(wal.log.len());
        while same > 0 && theirs.log[same - 1].term != wal.log[same - 1].term {
            same -= 1;
        }
        if same < theirs.commit && same < wal.log.len() {
            self.exit(to, "raft panic: conflict with a committed entry");
            return true;
        }
        let snapshot = same < wal.compacted;
        let slow = self.nodes[&to].slow_until > self.now;
        let stalled = self.nodes[&to].stalled_until > self.now;
        let lags = self.rng.u8(..) < if slow { 215 } else { 20 } || stalled;
        let batch: Vec<Entry> = if lags || snapshot {
            Vec::new()
        } else {
            self.nodes[&from].wal().map_or(Vec::new(), |w| {
                w.log[same..].iter().take(BATCH).copied().collect()
            })
        };
        let Some((running, wal)) = self.node(to).parts() else {
            return true;
        };
        let synced = wal.term != term || !batch.is_empty();
        wal.enter(term);
        running.role = Role::Follower;
        running.leader = Some(me);
        running.quiet = 0;
        if lags {
            return true;
        }
        if snapshot {
            self.send_snapshot(from, id, to);
            return true;
        }
        let has = same + batch.len();
        if !batch.is_empty() {
            wal.log.truncate(same);
            wal.log.extend(batch);
        }
        wal.commit = wal.commit.max(commit.min(has));
        if synced {
            running.durable = wal.commit;
        }
        self.apply(to);
        if let Some((running, _)) = self.node(from).parts()
            && let Role::Leader { matched, .. } = &mut running.role
        {
            matched.insert(id, has);
        }
        true
    }

    /// The peer's log ends before the leader's begins, so it is sent what the leader has applied. That takes its time.
    fn send_snapshot(&mut self, from: Place, id: MemberId, to: Place) {
        if self.rng.u8(..) < 128 {
            return;
        }
        let leader = &self.nodes[&from];
        let (Some(running), Some(wal)) = (leader.running.as_ref(), leader.wal()) else {
            return;
        };
        let (index, conf) = (running.applied, running.conf.clone());
        let log = wal.log[..index].to_vec();
        let (learner, now) = (!conf.votes(id), self.now);
        let Some((running, wal)) = self.node(to).parts() else {
            return;
        };
        if index > wal.commit {
            wal.log = log;
            (wal.commit, wal.compacted) = (index, index);
            (running.durable, running.applied) = (index, index);
            running.conf = conf;
            if running.conf.removed.contains(&wal.member) {
                running.ends_at.get_or_insert(now + 3);
            }
            let count = &mut self.snapshots_sent;
            *(if learner {
                &mut count.learners
            } else {
                &mut count.voters
            }) += 1;
        }
        if let Some((running, _)) = self.node(from).parts()
            && let Role::Leader { matched, .. } = &mut running.role
        {
            matched.insert(id, index);
        }
    }

    /// The leader commits what a quorum of its voters has, if it is of its own term.
    fn commit(&mut self, place: Place) {
        let Some((running, wal)) = self.node(place).parts() else {
            return;
        };
        let Role::Leader { matched, .. } = &running.role else {
            return;
        };
        let mut have: Vec<usize> = running
            .conf
            .voters()
            .map(|(id, _)| {
                if id == wal.member {
                    wal.log.len()
                } else {
                    matched.get(&id).copied().unwrap_or(0)
                }
            })
            .collect();
        have.sort_unstable_by(|a, b| b.cmp(a));
        let Some(index) = have.get(running.conf.quorum() - 1).copied() else {
            return;
        };
        let index = index.min(wal.log.len());
        if index > wal.commit && wal.log[index - 1].term == wal.term {
            wal.commit = index;
        }
    }

    /// Applies what is committed; a member that applies its own removal will end.
    pub(super) fn apply(&mut self, place: Place) {
        let (now, every) = (self.now, self.snapshot_count);
        let mut results: Vec<(u64, Result<(), super::EtcdError>)> = Vec::new();
        let lags = self.nodes[&place].lags_until > now;
        if lags && self.rng.u8(..) < 160 {
            return;
        }
        let mut most = if lags { 1 } else { usize::MAX };
        let Some((running, wal)) = self.node(place).parts() else {
            return;
        };
        while running.applied < wal.commit && most > 0 {
            most -= 1;
            let entry = wal.log[running.applied];
            running.applied += 1;
            running.counted = running.applied;
            let result = running.conf.apply(entry.kind);
            running.ready |= entry.kind == Kind::Publish(wal.member);
            if let Kind::Conf { request, .. } = entry.kind {
                results.push((request, result));
            }
        }
        wal.compact(running.applied, every);
        if running.conf.removed.contains(&wal.member) {
            running.ends_at.get_or_insert(now + 3);
        }
        for (request, result) in results {
            self.results.entry((place, request)).or_insert(result);
        }
    }

    /// A member without a leader campaigns when its patience ends.
    pub(super) fn tick_election(&mut self, place: Place) {
        let leads = self.nodes[&place].leads() || self.nodes[&place].stalled_until > self.now;
        let patience = self.rng.u64(2..=4);
        let Some((running, wal)) = self.node(place).parts() else {
            return;
        };
        if leads {
            return;
        }
        running.quiet += 1;
        if running.quiet <= running.patience {
            return;
        }
        running.quiet = 0;
        running.patience = patience;
        running.leader = None;
        if running.conf.votes(wal.member) {
            self.campaign(place, false);
        }
    }

    /// An election: first whether it could be won (pre-vote), then in earnest. `forced` when leadership is handed
    /// over: then nobody's lease on the old leader counts.
    pub(super) fn campaign(&mut self, place: Place, forced: bool) -> bool {
        let node = &self.nodes[&place];
        let (Some(running), Some(wal)) = (node.running.as_ref(), node.wal()) else {
            return false;
        };
        let unapplied = &wal.log[running.applied..wal.commit];
        let list_changes = unapplied.iter().any(|e| matches!(e.kind, Kind::Conf { .. }));
        // Whoever does not vote by its own list ignores the call to lead, as does one that has yet to apply a change of it;
        // a disk that stalls cannot record a vote.
        if !running.conf.votes(wal.member) || list_changes || node.stalled_until > self.now {
            return false;
        }
        let (me, cluster, term, last) = (wal.member, wal.cluster, wal.term, wal.last());
        let voters: Vec<(MemberId, Place)> = running.conf.voters().map(|(id, m)| (id, m.place)).collect();
        let quorum = running.conf.quorum();
        let others: Vec<Place> = voters
            .iter()
            .filter(|(id, at)| *id != me && self.reach(place, cluster, *id, *at).is_some())
            .filter(|(_, at)| self.nodes[at].stalled_until <= self.now)
            .map(|(_, at)| *at)
            .collect();
        let would = others.iter().filter(|at| {
            let node = &self.nodes[at];
            let (Some(r), Some(w)) = (node.running.as_ref(), node.wal()) else {
                return false;
            };
            let leased = node.leads() || (r.leader.is_some() && r.quiet <= 1);
            (forced || !leased) && last >= w.last() && w.term <= term + 1
        });
        if would.count() + 1 < quorum {
            // Whoever refuses says its term, and a member goes on from a later one; else those with lower terms and longer
            // logs, and those with higher terms and shorter logs, would refuse each other for ever.
            let later = others
                .iter()
                .filter_map(|at| self.nodes[at].wal())
                .map(|w| w.term)
                .max();
            if let (Some(later), Some((running, wal))) = (later, self.node(place).parts())
                && later > wal.term
            {
                wal.enter(later);
                running.durable = wal.commit;
            }
            return false;
        }
        let term = term + 1;
        if let Some((running, wal)) = self.node(place).parts() {
            wal.enter(term);
            wal.vote = Some(me);
            running.durable = wal.commit;
            running.role = Role::Follower;
        }
        let mut votes = 1;
        for at in others {
            // A vote's message can be lost on the way there, or on the way back.
            let (lost_there, lost_back) = (self.rng.u8(..) < 8, self.rng.u8(..) < 8);
            if lost_there {
                continue;
            }
            let Some((running, wal)) = self.node(at).parts() else {
                continue;
            };
            if wal.term < term {
                wal.enter(term);
                running.role = Role::Follower;
                running.leader = None;
            }
            if wal.term == term && wal.vote.is_none_or(|v| v == me) && last >= wal.last() {
                wal.vote = Some(me);
                running.durable = wal.commit;
                running.quiet = 0;
                votes += usize::from(!lost_back);
            }
        }
        if votes < quorum {
            return false;
        }
        self.become_leader(place, term);
        true
    }

    fn become_leader(&mut self, place: Place, term: u64) {
        let now = self.now;
        let Some((running, wal)) = self.node(place).parts() else {
            return;
        };
        running.role = Role::Leader {
            matched: Default::default(),
            quorum_at: now,
        };
        running.leader = Some(wal.member);
        wal.log.push(Entry {
            term,
            kind: Kind::Noop,
        });
        running.durable = wal.commit;
        let cluster = wal.cluster;
        self.notes.push(Note::Elected { place, cluster, term });
        self.lead(place);
    }

    /// A process says its member's name, through the leader, once it knows the member to be in the list. When that
    /// is applied, it serves clients.
    pub(super) fn publish(&mut self, place: Place) {
        let node = &self.nodes[&place];
        let (Some(running), Some(me)) = (node.running.as_ref(), node.member()) else {
            return;
        };
        if running.ready || !running.conf.members.contains_key(&me) || self.rng.u8(..) < 100 {
            return;
        }
        if running.applied > running.counted + self.apply_gap {
            return;
        }
        let Some(leader) = self.leader_of(place) else {
            return;
        };
        let Some((running, wal)) = self.node(leader).parts() else {
            return;
        };
        let pending = wal.log[running.applied..]
            .iter()
            .any(|e| e.kind == Kind::Publish(me));
        if !pending {
            wal.log.push(Entry {
                term: wal.term,
                kind: Kind::Publish(me),
            });
            running.durable = wal.commit;
        }
    }
}
