//! More members, or fewer: the lowest free ordinal comes as a learner, the highest goes.

use std::time::Duration;

use crate::memory::Mark;
use crate::model::{Ordinal, Process, Volume};
use crate::plan::pass::Pass;
use crate::plan::{BlockReason, WaitReason, pace};

impl Pass<'_> {
    /// Too many go first; otherwise who is missing comes first, so that the last voter is never the one to go.
    pub fn resize(&mut self) -> bool {
        let too_many = self.voters().len() > self.spec.replicas as usize;
        (too_many && self.shrink()) || self.grow() || self.shrink()
    }

    /// True while there are voters that are not wanted.
    fn shrink(&mut self) -> bool {
        let surplus = |o: Option<Ordinal>| o.is_some_and(|o| !self.spec.wants(o));
        let mut surplus: Vec<_> = self.voters().into_iter().filter(|k| surplus(k.ordinal)).collect();
        // Only an unhealthy one may go out of order: it holds no quorum up.
        // One that is being restarted on purpose is as well as it was.
        let restarting = |o: Option<Ordinal>| {
            let view = o.and_then(|o| self.view(o));
            let stopping = view.is_some_and(|v| v.process == Process::Stopping);
            stopping || o.is_some_and(|o| self.disturbance_of(o).is_some())
        };
        surplus.sort_by_key(|k| (k.healthy || restarting(k.ordinal), std::cmp::Reverse(k.ordinal)));
        let Some(victim) = surplus.first().cloned() else {
            return false;
        };
        let others = self.others(victim.listed.id);
        if !self.guards.removal(others) {
            let detail = format!(
                "a member is to go, but only {} of the other {} voters are healthy",
                others.healthy, others.voters
            );
            self.wait(WaitReason::MembersUnhealthy, victim.ordinal, detail);
        } else if self.transfer_leadership_before_removal(victim.listed.id) {
            self.remove(victim.listed.id);
        }
        true
    }

    /// True while members are missing.
    pub fn grow(&mut self) -> bool {
        let known = self.known();
        let missing = |o: &Ordinal| !known.iter().any(|k| k.ordinal == Some(*o));
        let Some(ordinal) = (0..self.spec.replicas).map(Ordinal).find(missing) else {
            return false;
        };
        let name = self.spec.member_name(ordinal);
        let Some(view) = self.view(ordinal) else {
            return true;
        };
        // What keeps a former member from starting says nothing of one that is started as something else.
        let other = view
            .made_for
            .as_ref()
            .is_some_and(|made_for| *made_for != self.setup(ordinal, true));
        if let Some(why) = view.cannot_start.as_ref().filter(|_| !other) {
            let detail = format!("{name} is not added, for it could not be started: {why}");
            self.block(BlockReason::CannotStart, Some(ordinal), detail);
            return true;
        }
        let (times, last) = self.memory.slot(ordinal).withdrawn;
        let (first, longest) = pace::LEARNER_PAUSE;
        let again = times.checked_sub(pace::LEARNER_TRIES);
        let doubled = again.map(|again| 1u32.checked_shl(again).unwrap_or(u32::MAX));
        let pause = doubled.map_or(Duration::ZERO, |by| first.saturating_mul(by).min(longest));
        if self.elapsed(last) < pause {
            let detail = format!(
                "{name} was added {times} times and never became a voter; it is added again {} minutes after the last time",
                pause.as_secs() / 60
            );
            self.wait_until(WaitReason::LearnerFails, Some(ordinal), detail, last + pause);
            return true;
        }
        if !view.leftovers.is_empty() || !self.stopped(ordinal) {
            // Retiring sees to it; until then the place is taken.
            return true;
        }
        if self.is_foreign(ordinal) {
            return true;
        }
        // Storage may have kept what a former member left. A place for it would only start that again.
        if !matches!(view.volume, Volume::Empty | Volume::Unknown) {
            self.start_next_generation(ordinal);
            return true;
        }
        if !self.placed(ordinal, &self.setup(ordinal, true)) {
            return true;
        }
        if view.volume == Volume::Unknown {
            self.wait(
                WaitReason::MemberStarting,
                Some(ordinal),
                format!("the volume of {name} cannot be looked at"),
            );
            return true;
        }
        if self.memory.slot(ordinal).mark != Mark::Never {
            self.start_next_generation(ordinal);
            return true;
        }
        let ill = known.iter().filter(|k| !k.healthy).count();
        if ill > 0 {
            let detail = format!("{name} is added once all members are healthy; {ill} are not");
            self.wait(WaitReason::MembersUnhealthy, Some(ordinal), detail);
            return true;
        }
        self.add_learner(ordinal, view.peer_url.clone());
        true
    }
}
