//! The one door through which the member list is changed: an intent first, one at a time, on a view of this pass.

use crate::guard::Guard;
use crate::memory::{Change, ChangeKind, Handover};
use crate::model::{Basis, MemberId, Ordinal, PeerUrl, quorum};
use crate::plan::pass::Pass;
use crate::plan::{BlockReason, Step, WaitReason, WriteBefore, pace};

impl Pass<'_> {
    /// False if it must wait.
    fn change(&mut self, kind: ChangeKind, step: Step) -> bool {
        let described = step.described(self.spec, &self.memory);
        if self.memory.change.is_some() {
            let detail = format!("waiting for the membership change in progress; next: {described}");
            self.wait(WaitReason::ChangeInFlight, None, detail);
            return false;
        }
        let not_before = self.memory.change_not_before;
        if self.now < not_before && not_before - self.now <= pace::CHANGE_RETRY {
            let detail = format!("etcd refused it; retrying: {described}");
            self.wait_until(WaitReason::EtcdRefused, None, detail, not_before);
            return false;
        }
        let voters = self.voters();
        let healthy = voters.iter().filter(|k| k.healthy).count();
        if self.guards.on(Guard::QuorumAfterRemoval) && healthy < quorum(voters.len()) {
            let detail = format!(
                "only {healthy} of {} voters are healthy; not yet: {described}",
                voters.len()
            );
            self.wait(WaitReason::MembersUnhealthy, None, detail);
            return false;
        }
        self.memory.change = Some(Change {
            kind,
            since: self.now,
        });
        self.step(step);
        true
    }

    fn basis(&self) -> Basis {
        Basis::of(self.quorum().map_or(&[], |q| &q.members))
    }

    pub fn add_learner(&mut self, ordinal: Ordinal, peer_url: PeerUrl) {
        // On record before it is asked for: an add that takes effect late is ours all the same.
        self.slot_mut(ordinal);
        let step = Step::AddLearner {
            ordinal,
            peer_url: peer_url.clone(),
            basis: self.basis(),
        };
        self.change(ChangeKind::AddLearner(peer_url), step);
    }

    pub fn promote(&mut self, ordinal: Ordinal, member: MemberId) {
        let step = Step::Promote {
            ordinal,
            member,
            basis: self.basis(),
        };
        if self.change(ChangeKind::Promote(member), step) {
            self.write_down(member);
        }
    }

    /// False if it must wait.
    pub fn remove(&mut self, member: MemberId) -> bool {
        let step = Step::Remove {
            member,
            basis: self.basis(),
        };
        let voted = self.voters().iter().any(|k| k.listed.id == member);
        let removed = self.change(ChangeKind::Remove(member), step);
        if removed && voted {
            self.write_down(member);
        }
        removed
    }

    /// One more entry after `member` has become a voter or stopped being one.
    fn write_down(&mut self, member: MemberId) {
        self.have_another_write(member, WriteBefore::Outage);
    }

    /// The entry after a change that was not answered may be missing, or have come before it.
    pub fn write_unanswered_change_down(&mut self) {
        if let Some(member) = self.unanswered_change {
            self.write_down(member);
        }
    }

    /// An entry that changes nothing, through another than `member`: the leader, best of all. False if there is nobody.
    pub fn have_another_write(&mut self, member: MemberId, before: WriteBefore) -> bool {
        let leader = self.leader();
        let mut others = self.voters();
        others.retain(|k| k.healthy && k.listed.id != member);
        others.sort_by_key(|k| Some(k.listed.id) != leader);
        let writer = others.first().and_then(|k| k.ordinal);
        if let Some(ordinal) = writer {
            self.step(Step::Write { ordinal, before });
        }
        writer.is_some()
    }

    /// Leadership leaves `member` before it is disturbed: to a voter that already runs as wanted, if there is one.
    /// True when `member` may be disturbed now. Best effort, a few times: a stopping etcd hands over by itself too.
    pub fn transfer_leadership(&mut self, member: MemberId) -> bool {
        if self.leader() != Some(member) {
            return true;
        }
        let Some(transferee) = self.transferee(member) else {
            return true;
        };
        let handover = self.memory.handover.as_ref().filter(|h| h.from == member);
        let tries = handover.map_or(0, |h| h.tries);
        if tries >= pace::HANDOVER_TRIES {
            return true;
        }
        self.hand_over(member, transferee, tries + 1);
        false
    }

    /// The same before `member` is removed. A leader that removes itself may be gone before the others have learned that
    /// it is out; they then need a quorum of the old list to find out. So it must not lead, unless the healthy ones that
    /// stay are that many. Of two voters the one that stays never is.
    pub fn transfer_leadership_before_removal(&mut self, member: MemberId) -> bool {
        let voters = self.voters();
        let leader = self.leader();
        let stays = |k: &crate::plan::pass::Known| k.listed.id != member;
        if voters.iter().any(|k| stays(k) && leader == Some(k.listed.id)) {
            return true;
        }
        if self.others(member).healthy >= quorum(voters.len()) {
            return self.transfer_leadership(member);
        }
        match self.transferee(member) {
            Some(transferee) if leader == Some(member) => self.hand_over(member, transferee, 1),
            _ => {
                let detail = "one of the members that stay must lead before the other is removed";
                self.wait(WaitReason::LeaderMoving, None, detail);
            }
        }
        false
    }

    fn transferee(&self, member: MemberId) -> Option<MemberId> {
        let healthy = |k: &crate::plan::pass::Known| k.healthy && k.listed.id != member;
        let mut heirs: Vec<_> = self.voters().into_iter().filter(healthy).collect();
        heirs.sort_by_key(|k| (k.ordinal.is_none_or(|o| !self.runs_as_wanted(o)), k.ordinal));
        heirs.first().map(|k| k.listed.id)
    }

    fn hand_over(&mut self, from: MemberId, to: MemberId, tries: u32) {
        self.memory.handover = Some(Handover { from, tries });
        let leader = self.known().into_iter().find(|k| k.listed.id == from);
        let leader = leader.map_or(from.to_string(), |k| self.called(&k));
        let detail = format!("leadership moves off {leader} before it is disturbed");
        self.wait(WaitReason::LeaderMoving, None, detail);
        self.step(Step::MoveLeader { from, to });
    }

    /// Members that nobody here started are not touched, and nothing is built on them.
    pub fn unknown_members(&mut self) -> bool {
        let unknown: Vec<String> = self
            .known()
            .into_iter()
            .filter(|k| k.ordinal.is_none())
            .map(|k| {
                format!(
                    "{} ({})",
                    k.listed.id,
                    k.listed
                        .peer_urls
                        .iter()
                        .map(|u| u.as_str())
                        .collect::<Vec<_>>()
                        .join(",")
                )
            })
            .collect();
        if unknown.is_empty() {
            return false;
        }
        let detail = format!(
            "the member list has members that quorate did not add: {}",
            unknown.join("; ")
        );
        self.block(BlockReason::UnknownMember, None, detail);
        true
    }
}
