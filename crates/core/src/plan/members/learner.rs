//! A learner in the list: started, waited for, promoted; or withdrawn when it is not wanted, cannot start, or has
//! lost its data. While there is one, nothing else changes the list, but for a dead voter that keeps it from being promoted.

use crate::memory::LearnerWatch;
use crate::model::{MemberName, Ordinal, PeerUrl, Volume, quorum};
use crate::plan::pass::{Known, Pass};
use crate::plan::{StartHow, WaitReason, pace};

impl Pass<'_> {
    /// True while there is a learner, whatever was done about it.
    pub fn tend_learner(&mut self) -> bool {
        let Some(learner) = self.known().into_iter().find(|k| k.listed.learner) else {
            return false;
        };
        let Some(ordinal) = learner.ordinal else {
            return true;
        };
        if let Some(why) = self.withdrawn(ordinal, &learner) {
            self.wait(
                WaitReason::LearnerCatchingUp,
                Some(ordinal),
                format!("the learner is withdrawn: {why}"),
            );
            self.remove(learner.listed.id);
        } else if self.fresh(ordinal) && self.stopped(ordinal) {
            let initial = self.initial_list();
            self.start(ordinal, StartHow::Join { initial });
        } else {
            self.promote_when_ready(ordinal, &learner);
        }
        true
    }

    fn withdrawn(&self, ordinal: Ordinal, learner: &Known) -> Option<&'static str> {
        if !self.spec.wants(ordinal) {
            return Some("it is no longer wanted");
        }
        let watch = self
            .memory
            .learner
            .as_ref()
            .filter(|w| w.member == learner.listed.id);
        let late = |w: &LearnerWatch| self.elapsed(w.progressed) > pace::LEARNER_PATIENCE;
        if watch.is_some_and(late) && !self.caught_up(ordinal, learner) {
            return Some("it has not got on for a long time");
        }
        let view = self.view(ordinal)?;
        match view.volume {
            Volume::Empty if !self.fresh(ordinal) && self.stopped(ordinal) => Some("its data is gone"),
            Volume::Damaged { .. } if self.stopped(ordinal) => Some("its data is damaged"),
            _ if self.stale(ordinal).is_some() && self.stopped(ordinal) => {
                Some("its volume was rolled back, or is of an older epoch")
            }
            _ if self.stopped(ordinal)
                && !self.starting(ordinal)
                && self.memory.slot(ordinal).fails >= pace::CRASH_LIMIT =>
            {
                Some("it ends again and again")
            }
            _ => None,
        }
    }

    /// The whole list under the names that the members have or will have.
    pub fn initial_list(&self) -> Vec<(MemberName, PeerUrl)> {
        let rows = self.known().into_iter().flat_map(|k| {
            let name = match k.ordinal {
                Some(ordinal) => self.spec.member_name(ordinal),
                None => MemberName(k.listed.name.clone()),
            };
            k.listed.peer_urls.into_iter().map(move |url| (name.clone(), url))
        });
        rows.collect()
    }

    fn promote_when_ready(&mut self, ordinal: Ordinal, learner: &Known) {
        let name = self.spec.member_name(ordinal);
        if !self.caught_up(ordinal, learner) {
            // In tenths, so that what people see does not change with every look.
            let tenths = u128::from(self.applied(ordinal)) * 10 / u128::from(self.ahead().max(1));
            let detail = format!("{name} has copied about {}% of the log", tenths.min(10) * 10);
            return self.wait(WaitReason::LearnerCatchingUp, Some(ordinal), detail);
        }
        let voters = self.voters();
        let healthy = voters.iter().filter(|k| k.healthy).count();
        // It may die the moment it votes, so the others must be a quorum without it. A sole voter can never be that.
        if voters.len() == 1 || healthy >= quorum(voters.len() + 1) {
            return self.promote(ordinal, learner.listed.id);
        }
        let detail = format!(
            "{name} has copied the log and waits to vote: only {healthy} of {} voters are healthy",
            voters.len()
        );
        self.wait(WaitReason::MembersUnhealthy, Some(ordinal), detail);
        let _ = self.repair() || self.restart_stuck();
    }

    /// etcd itself refuses to promote one that has less than nine tenths; asking sooner only makes noise.
    fn caught_up(&self, ordinal: Ordinal, learner: &Known) -> bool {
        let ahead = self.ahead();
        learner.healthy && self.applied(ordinal) >= ahead - ahead / 10
    }

    fn applied(&self, ordinal: Ordinal) -> u64 {
        let status = self.view(ordinal).and_then(|v| v.status.as_ref());
        status.map_or(0, |s| s.applied)
    }

    /// What the leader has applied.
    fn ahead(&self) -> u64 {
        let leads = |k: &Known| Some(k.listed.id) == self.leader();
        let leader = self.voters().into_iter().find(leads);
        leader.and_then(|k| k.ordinal).map_or(0, |o| self.applied(o))
    }
}
