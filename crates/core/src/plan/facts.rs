//! What one look teaches the memory: ids, marks, versions, which intents came true, who is well again.

use std::time::Duration;

use super::pass::Pass;
use super::{BlockReason, pace};
use crate::memory::{ChangeKind, LearnerWatch, Mark};
use crate::model::{Basis, Process, Resize, Setup, StepKind, StepResult, Time};

impl Pass<'_> {
    /// Takes in everything the observation shows. Nothing is decided here.
    pub fn learn(&mut self) {
        self.learn_cluster();
        // Who was not asked is wanted as it was made, for want of anything better: that is no other wish.
        if !self.observed.unasked {
            self.forget_former_failures();
        }
        self.learn_slots();
        self.learn_members();
        self.settle_change();
        self.learn_good();
        self.settle_disturbance();
        self.watch_learner();
    }

    /// The first answer of a quorum latches the cluster's id; any other id afterwards is somebody else's cluster.
    fn learn_cluster(&mut self) {
        let Some(quorum) = self.observed.quorum.as_ref() else {
            return;
        };
        match self.memory.cluster {
            None => self.memory.cluster = Some(quorum.cluster),
            Some(ours) if ours != quorum.cluster => {
                self.foreign_quorum = true;
                let detail = format!(
                    "cluster {} answers at our addresses; ours is {ours}",
                    quorum.cluster
                );
                self.block(BlockReason::ForeignData, None, detail);
            }
            Some(_) => {}
        }
    }

    /// What failed under another version or configuration says nothing about the ones that are wanted now, nor does how
    /// long it was tried.
    fn forget_former_failures(&mut self) {
        let turn = &mut self.memory.disturbance;
        for (ordinal, slot) in &mut self.memory.slots {
            let wanted = Some(self.spec.setup_of(*ordinal));
            if slot.wanted.is_some() && slot.wanted != wanted {
                (slot.fails, slot.starts, slot.withdrawn.0) = (0, 0, 0);
                if let Some(turn) = turn
                    .as_mut()
                    .filter(|d| d.ordinal == *ordinal && !d.settle && !d.again)
                {
                    turn.since = self.now;
                }
            }
            slot.wanted = wanted;
        }
    }

    fn learn_slots(&mut self) {
        for ordinal in self.observed.slots.keys() {
            self.learn_owner(*ordinal);
        }
        let (now, unasked) = (self.now, self.observed.unasked);
        let slots = self.memory.slots.values().filter(|slot| slot.served_as.is_some());
        let proven: Vec<Option<Setup>> = slots.map(|slot| slot.served_as.clone()).collect();
        for ordinal in self.ordinals() {
            let Some(view) = self.view(ordinal) else { continue };
            self.learn_progress(ordinal);
            let settled = view.replay_limit.is_none();
            let ours = self.holds_its_own_data(ordinal);
            let slot = self.slot_mut(ordinal);
            if ours {
                slot.mark = Mark::Started;
            }
            if settled {
                slot.settles = 0;
            }
            if ours {
                slot.version = slot.version.max(view.ran);
            }
            // A process of the volume before may still answer; what it says is not true of this one.
            let runs_as = match &view.process {
                Process::Running {
                    generation,
                    config,
                    version,
                    ..
                } if *generation == slot.generation => Some(Setup {
                    version: *version,
                    config: config.clone(),
                }),
                _ => None,
            };
            let runs = runs_as.is_some();
            let status = view.status.as_ref().filter(|_| runs);
            let silent = runs && status.is_none() && !unasked;
            slot.unhealthy_since = if runs && !unasked && !status.is_some_and(|s| s.healthy) {
                Some(slot.unhealthy_since.filter(|since| *since <= now).unwrap_or(now))
            } else {
                None
            };
            let leaderless = status.is_some_and(|s| s.leader.is_none());
            slot.unanswered = count(slot.unanswered, silent, pace::UNANSWERED, now);
            slot.leaderless = count(slot.leaderless, leaderless, pace::LEADERLESS, now);
            if let Some(status) = status {
                slot.served = slot.served.max(Some(status.version));
                slot.version = slot.version.max(slot.served);
            }
            let under_way = matches!(view.resize, Resize::UnderWay { .. });
            if status.is_some_and(|s| s.healthy) && !under_way {
                let since = slot.healthy_since.filter(|since| *since <= now).unwrap_or(now);
                slot.healthy_since = Some(since);
                slot.fails = 0;
                let stays = now - since >= pace::STABLE;
                // What another has served with for a while is known to serve.
                if stays || slot.served_as.is_none() || proven.contains(&runs_as) {
                    slot.served_as = runs_as;
                }
                if stays {
                    slot.starts = 0;
                    slot.replacements = 0;
                    slot.withdrawn.0 *= u32::from(!slot.voter);
                }
            } else {
                slot.healthy_since = None;
            }
        }
    }

    /// Ties members to slots, and lets go of the volume of every member that a quorum says is gone.
    fn learn_members(&mut self) {
        let Some(quorum) = self.quorum() else { return };
        let basis = Basis::of(&quorum.members);
        let now = self.now;
        if self
            .memory
            .list
            .is_none_or(|(known, since)| known != basis || since > now)
        {
            self.memory.list = Some((basis, now));
        }
        for ordinal in self.ordinals() {
            let slot = self.memory.slot(ordinal);
            let gone = match slot.member {
                Some(id) => !quorum.members.iter().any(|m| m.id == id),
                // It was started, and removed before anybody noted under which id.
                None => {
                    let listed = quorum.members.iter().any(|m| self.ordinal_of(m) == Some(ordinal));
                    slot.mark != Mark::Never
                        && !listed
                        && self.memory.change.is_none()
                        && !self.untouchable(ordinal)
                }
            };
            if gone {
                self.start_next_generation(ordinal);
            }
        }
        for member in &quorum.members {
            if let Some(ordinal) = self.ordinal_of(member) {
                let slot = self.slot_mut(ordinal);
                slot.member = Some(member.id);
                slot.voter = !member.learner;
            }
        }
    }

    /// A change that shows in the list is done; one that was refused, or has not shown for long, is void. If the clock
    /// was set back, "for long" starts over: it may have been asked for a moment ago.
    fn settle_change(&mut self) {
        let now = self.now;
        if let Some(change) = self.memory.change.as_mut().filter(|change| change.since > now) {
            change.since = now;
        }
        let (Some(change), Some(quorum)) = (self.memory.change.clone(), self.quorum()) else {
            return;
        };
        let find = |id| quorum.members.iter().find(|m| m.id == id);
        let (kind, done) = match &change.kind {
            ChangeKind::AddLearner(url) => (
                StepKind::AddLearner,
                quorum.members.iter().any(|m| m.peer_urls.contains(url)),
            ),
            ChangeKind::Promote(id) => (StepKind::Promote, find(*id).is_none_or(|m| !m.learner)),
            ChangeKind::Remove(id) => (StepKind::Remove, find(*id).is_none()),
        };
        let refused = self.observed.last.as_ref().is_some_and(|last| {
            last.step == kind && last.at >= change.since && matches!(last.result, StepResult::Refused(_))
        });
        let answered = self.observed.last.as_ref().is_some_and(|last| {
            let result = matches!(last.result, StepResult::Done);
            result && last.step == kind && last.at >= change.since
        });
        if let (ChangeKind::Promote(member) | ChangeKind::Remove(member), true) =
            (&change.kind, done && !answered)
        {
            self.unanswered_change = Some(*member);
        }
        if done || refused || self.elapsed(change.since) > pace::CHANGE_DEADLINE {
            self.memory.change = None;
        }
        if refused && !done {
            self.memory.change_not_before = self.now + pace::CHANGE_RETRY;
        }
    }

    /// A disturbance ends when its member is healthy again, whatever it runs: if that is not what is wanted (the user
    /// changed it meanwhile), its turn simply comes again. The first that serves as is wanted has to do so for a while. It
    /// also ends when it is no member any more.
    fn settle_disturbance(&mut self) {
        if let Some(handover) = &self.memory.handover
            && self.leader().is_some_and(|l| l != handover.from)
        {
            self.memory.handover = None;
        }
        let Some(ordinal) = self.memory.disturbance.as_ref().map(|d| d.ordinal) else {
            return;
        };
        let member = self.memory.slot(ordinal).member;
        let view = self.view(ordinal);
        let runs = view.is_some_and(|v| matches!(v.process, Process::Running { .. }));
        let healthy = view.and_then(|v| v.status.as_ref()).is_some_and(|s| s.healthy);
        let settled = !self.on_trial(ordinal) && !self.awaits_resize(ordinal);
        if member.is_none() || (runs && healthy && settled) {
            self.memory.disturbance = None;
        }
    }

    fn watch_learner(&mut self) {
        let Some(quorum) = self.quorum() else { return };
        let Some(learner) = quorum.members.iter().find(|m| m.learner) else {
            self.memory.learner = None;
            return;
        };
        let status = self
            .ordinal_of(learner)
            .and_then(|o| self.view(o))
            .and_then(|v| v.status.as_ref());
        let applied = status.filter(|s| s.member == learner.id).map_or(0, |s| s.applied);
        let now = self.now;
        let watch = match self.memory.learner.take() {
            // Every step of it would be a memory to store; a mark now and then is enough to tell slow from stuck.
            Some(watch)
                if watch.member == learner.id
                    && watch.progressed <= now
                    && (watch.applied >= applied || self.elapsed(watch.progressed) < pace::LEARNER_MARK) =>
            {
                watch
            }
            _ => LearnerWatch {
                member: learner.id,
                applied,
                progressed: now,
            },
        };
        self.memory.learner = Some(watch);
    }
}

/// Counts how long something `lasts`, as (times, when last): `every` so often, up to a limit. A clock that jumps adds one.
fn count(before: (u32, Time), lasts: bool, (every, limit): (Duration, u32), now: Time) -> (u32, Time) {
    match before {
        _ if !lasts => (0, Time(0)),
        (times, at) if times < limit && (at > now || now - at >= every) => (times + 1, now),
        before => before,
    }
}
