//! What is stopped or removed on purpose leaves a healthy quorum, as far as could be known.
//!
//! In: a planned stop or removal, at the moment it takes effect. Out: a break, if others that have been down for
//! long (or were stopped on purpose) leave less than a quorum. Never: blame for a crash that nobody could have seen
//! yet, nor for a stop at the moment in which somebody else adds a voter, nor for clusters of one or two, where every
//! stop costs a short outage.

use quorate_core::model::{MemberId, Ordinal, quorum};

use super::BreakKind;
use crate::fault::committed_conf;
use crate::ground::{Proc, place};
use crate::world::World;

/// A member that went away this recently may have been seen well: the age of a view plus the time of a pass.
pub const GRACE_TICKS: u64 = 24;

impl World {
    /// Voters other than `leaving`, and those of them that serve or went away too recently for anybody to know. Before
    /// a removal the list is read again; before a stop it is not, and a stranger's newest voter may be unseen.
    fn others_well(&self, leaving: MemberId, stopped: bool) -> Option<(usize, usize)> {
        let leader = self.ground.etcd.serving_leader()?;
        let served = self.ground.etcd.nodes[&leader].wal()?.cluster;
        // A leader that applies late still has the list of before a change that a quorum has agreed on.
        let conf = committed_conf(&self.ground.etcd, |cluster| cluster == served)?;
        if !conf.votes(leaving) {
            return None;
        }
        let now = self.ground.etcd.now;
        let unseen =
            |id: MemberId| self.stranger == Some(id) && now - self.stranger_since <= GRACE_TICKS && stopped;
        let others: Vec<_> = conf
            .voters()
            .filter(|(id, _)| *id != leaving && !unseen(*id))
            .collect();
        let well = others.iter().filter(|(id, m)| {
            let ordinal = Ordinal(m.place.0);
            let slot = self.ground.slots.get(&ordinal);
            let deliberate = slot.is_some_and(|s| {
                let stopping = matches!(&s.process, Proc::Stopping { .. });
                let stopped = matches!(&s.process, Proc::Stopped { last: Some(exit) } if exit.asked);
                !s.stopped_by_mistake && (stopping || stopped)
            });
            let member = self.ground.etcd.nodes.get(&m.place).and_then(|n| n.member());
            let serves = member == Some(*id) && self.ground.etcd.serves(m.place);
            let lately = self.ground.slots.get(&ordinal).and_then(|s| s.served_at);
            !deliberate && (serves || lately.is_some_and(|at| now - at <= GRACE_TICKS))
        });
        Some((others.len(), well.count()))
    }

    /// A member is stopped on purpose.
    pub fn judge_stop(&mut self, ordinal: Ordinal) {
        let Some(id) = self
            .ground
            .etcd
            .nodes
            .get(&place(ordinal))
            .and_then(|n| n.member())
        else {
            return;
        };
        let Some((others, well)) = self.others_well(id, true) else {
            return;
        };
        let needed = quorum(others + 1);
        if others + 1 >= 3 && well < needed {
            let what = format!(
                "member {ordinal} is stopped; {well} of {others} others are well, {needed} are needed"
            );
            self.broke(BreakKind::PlannedOutage, what);
        }
    }

    /// A member is removed on purpose, and etcd took the request.
    pub fn judge_removal(&mut self, member: MemberId) {
        self.judge_cost(member);
        let Some((others, well)) = self.others_well(member, false) else {
            return;
        };
        if well < quorum(others) {
            let what = format!("voter {member} is removed; {well} of the {others} that remain are well");
            self.broke(BreakKind::PlannedOutage, what);
        }
    }
}
