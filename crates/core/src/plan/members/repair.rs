//! A voter whose data is gone is removed, so that it can come back as a learner under a new id. Dead voters first,
//! their replacements after: etcd refuses an add while a voter is down.

use crate::guard::Guard;
use crate::memory::Mark;
use crate::model::{Ordinal, Process, Volume, quorum};
use crate::plan::pass::{Known, Pass};
use crate::plan::{BlockReason, StartHow, WaitReason, pace};

impl Pass<'_> {
    /// True while there is something to repair.
    pub fn repair(&mut self) -> bool {
        let voters = self.voters();
        let mut lost: Vec<(Known, Ordinal, String)> = Vec::new();
        for voter in &voters {
            let Some(ordinal) = voter.ordinal else { continue };
            if let Some(why) = self.lost(ordinal) {
                lost.push((voter.clone(), ordinal, why));
            }
        }
        // One that is down already costs nothing to remove; one that still runs from deleted files comes after.
        lost.sort_by_key(|(voter, ordinal, _)| (voter.healthy, std::cmp::Reverse(*ordinal)));
        let Some((victim, ordinal, why)) = lost.into_iter().next() else {
            return false;
        };
        // The only one there is can be replaced once there is another; until then the cluster may grow.
        if self.deletion_pending(ordinal) && self.others(victim.listed.id).voters == 0 {
            return false;
        }
        self.replace(&victim, ordinal, &why);
        true
    }

    /// Would the volume of a slot go with its process?
    pub fn deletion_pending(&self, ordinal: Ordinal) -> bool {
        self.guards.on(Guard::LeavingVolume) && self.view(ordinal).is_some_and(|v| v.deletion_pending)
    }

    /// Says which members' volumes go when they stop, for as long as there is time to save the data.
    pub fn report_deletions(&mut self) {
        for ordinal in self.ordinals() {
            if self.deletion_pending(ordinal) && self.memory.slot(ordinal).mark != Mark::Never {
                let detail = format!(
                    "somebody asked for the volume of {} to be deleted: its data is gone when it stops, so it is not \
                     stopped before it is replaced; save the data now with quorate snapshot save",
                    self.spec.member_name(ordinal)
                );
                self.block(BlockReason::VolumeDeletionPending, Some(ordinal), detail);
            }
        }
    }

    /// Why a member's data cannot be counted on, if so.
    fn lost(&self, ordinal: Ordinal) -> Option<String> {
        let view = self.view(ordinal)?;
        let slot = self.memory.slot(ordinal);
        if self.starting(ordinal) {
            return None;
        }
        if self.deletion_pending(ordinal) {
            return Some("somebody asked for its volume to be deleted, which is gone when it stops".into());
        }
        if let Some(why) = self.stale(ordinal) {
            return self.stopped(ordinal).then_some(why);
        }
        if self.failed_at_rejected(ordinal) || self.failed_at_unproven(ordinal) {
            return None;
        }
        // What keeps it from starting is known, and is not its data.
        if view.cannot_start.is_some() && matches!(view.volume, Volume::Data { .. }) {
            return None;
        }
        match (&view.volume, &view.process) {
            // A member that has just been started for the first time has no data yet; only one that had some lost it.
            (Volume::Empty, Process::Running { .. }) if slot.mark == Mark::Started => Some(
                "its data directory was deleted while it runs; it serves from files that are gone".into(),
            ),
            (Volume::Empty, Process::Stopped { .. }) => Some("its data directory is gone".into()),
            (Volume::Damaged { why }, Process::Stopped { .. }) => Some(format!("its data is damaged: {why}")),
            (Volume::Data { .. }, Process::Stopped { last: Some(exit) })
                if slot.fails >= pace::CRASH_LIMIT
                    && slot.replacements < pace::REPLACEMENTS_MAX
                    && !exit.asked
                    && !self.certificates_are_wrong() =>
            {
                Some(format!(
                    "it ended {} times without getting healthy ({})",
                    slot.fails, exit.how
                ))
            }
            _ => None,
        }
    }

    fn replace(&mut self, victim: &Known, ordinal: Ordinal, why: &str) {
        let name = self.spec.member_name(ordinal);
        if !self.guards.on(Guard::NewIdForWiped) && self.stopped(ordinal) {
            let initial = self.initial_list();
            return self.start(ordinal, StartHow::Join { initial });
        }
        let others = self.others(victim.listed.id);
        if !self.guards.removal(others) {
            if others.voters == 0 {
                let detail = format!(
                    "{name} is the only member, and {why}. If it still runs, do not stop it: take a snapshot now"
                );
                return self.block(BlockReason::QuorumLost, Some(ordinal), detail);
            }
            let detail = format!(
                "{name} must be replaced ({why}), but only {} of the other {} voters are healthy; {} must be",
                others.healthy,
                others.voters,
                quorum(others.voters)
            );
            return self.wait(WaitReason::MembersUnhealthy, Some(ordinal), detail);
        }
        if self.transfer_leadership_before_removal(victim.listed.id) && self.remove(victim.listed.id) {
            if matches!(self.view(ordinal).map(|v| &v.volume), Some(Volume::Data { .. })) {
                let slot = self.slot_mut(ordinal);
                slot.replacements = slot.replacements.saturating_add(1);
            }
            let detail = format!("{name} is replaced: {why}");
            self.wait(WaitReason::ChangeInFlight, Some(ordinal), detail);
        }
    }
}
