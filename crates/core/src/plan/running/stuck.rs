//! A voter whose process runs and does not serve is started again. No probe does that: a probe cannot tell whether the
//! others can do without it.

use crate::model::{Ordinal, Process, Time};
use crate::plan::pace;
use crate::plan::pass::{Known, Pass};

impl Pass<'_> {
    /// Restarts one that has been stuck for long, while the others are a quorum. True if it does.
    pub fn restart_stuck(&mut self) -> bool {
        let disturbed = self.disturbed();
        let of_another = |o: Ordinal| disturbed.is_some_and(|other| other != o);
        let stuck = self.voters().into_iter().find_map(|voter: Known| {
            let restartable = |o: &Ordinal| !of_another(*o) && !self.deletion_pending(*o);
            let ordinal = voter.ordinal.filter(restartable)?;
            Some((voter.listed.id, ordinal, self.stuck_since(ordinal)?))
        });
        let Some((member, ordinal, since)) = stuck else {
            return false;
        };
        let others = match self.trusts_lost_ca(ordinal) {
            Some(_) => self.others_heard_or_not(member),
            None => self.others(member),
        };
        if !self.guards.restart(others) {
            return false;
        }
        self.disturb_and_stop(ordinal, since, true);
        self.slot_mut(ordinal).unhealthy_since = None;
        true
    }

    /// Since when the process runs, if it is stuck.
    fn stuck_since(&self, ordinal: Ordinal) -> Option<Time> {
        let Process::Running { since, .. } = self.view(ordinal)?.process else {
            return None;
        };
        if self.trusts_lost_ca(ordinal).is_some() {
            return Some(since); // It will not come to its senses.
        }
        let slot = self.memory.slot(ordinal);
        let (first, longest) = pace::STUCK;
        let times = 1u32.checked_shl(slot.fails.saturating_sub(1)).unwrap_or(u32::MAX);
        let patience = first.saturating_mul(times).min(longest);
        (self.elapsed(slot.unhealthy_since?) >= patience).then_some(since)
    }
}
