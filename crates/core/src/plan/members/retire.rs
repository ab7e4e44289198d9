//! What is left of members that are gone: processes stopped, volumes set aside, asides thinned out once what replaced them
//! serves; of members that are not wanted any more the place is taken away, and then their storage.

use crate::guard::Guard;
use crate::memory::Mark;
use crate::model::{Ordinal, Process, Volume};
use crate::plan::pass::Pass;
use crate::plan::{BlockReason, Step, pace};

impl Pass<'_> {
    /// Runs in every pass with a quorum; touches only slots that a quorum says are no members.
    pub fn retire(&mut self) {
        for ordinal in self.memory.slots.keys().copied().collect::<Vec<_>>() {
            self.give_up_unwanted(ordinal);
            self.stop_former(ordinal);
            self.set_aside(ordinal);
            self.prune_asides(ordinal);
        }
        for ordinal in self.observed.slots.keys().copied() {
            self.delete_unwanted(ordinal);
        }
    }

    /// What is left of wanted members that were lost makes room for those that replace them, whatever else must wait.
    pub fn clear_wanted_places(&mut self) {
        for ordinal in self.memory.slots.keys().copied().collect::<Vec<_>>() {
            if self.spec.wants(ordinal) {
                self.stop_former(ordinal);
                self.set_aside(ordinal);
            }
        }
    }

    /// The place and the storage of a slot that is neither a member, nor wanted, nor about to be one. A place may have been
    /// made for a member that was never started: of such a slot nothing is remembered. Storage waits until every voter
    /// serves: then none of them has its data elsewhere, should volumes have been swapped.
    fn delete_unwanted(&mut self, ordinal: Ordinal) {
        if !self.guards.on(Guard::NeededStorage) {
            return self.delete_whatever_is_unwanted(ordinal);
        }
        let slot = self.memory.slot(ordinal);
        let vacant = slot.mark == Mark::Never && slot.member.is_none() && self.memory.change.is_none();
        if self.spec.wants(ordinal) || self.is_member(ordinal) || !vacant || !self.stopped(ordinal) {
            return;
        }
        let Some(view) = self.view(ordinal).filter(|_| !self.untouchable(ordinal)) else {
            return;
        };
        let Some(storage) = &view.storage else { return };
        let settled = match storage.record {
            Some((generation, started)) => {
                generation < slot.generation || (generation == slot.generation && !started)
            }
            // It may hold anything, unless it is remembered that a member was here and is gone.
            None => slot.generation.0 > 0,
        };
        if !settled {
            return;
        }
        if let Some(belongs_to) = slot.belongs_to.filter(|_| !storage.in_use) {
            let detail = format!(
                "{} is not wanted any more, but its storage belongs to {belongs_to}: it is not deleted; delete it yourself \
                 if nobody needs it",
                self.spec.member_name(ordinal)
            );
            return self.block(BlockReason::ForeignData, Some(ordinal), detail);
        }
        if view.made_for.is_some() {
            self.withdraw(ordinal);
        } else if !storage.in_use && !view.deletion_pending && self.voters().iter().all(|k| k.healthy) {
            let storage = storage.id.clone();
            self.step(Step::Discard { ordinal, storage });
        }
    }

    /// What becomes of the storage of a slot that is not wanted where nobody asks who needs it. For the simulator only.
    fn delete_whatever_is_unwanted(&mut self, ordinal: Ordinal) {
        let seen = self
            .observed
            .slots
            .get(&ordinal)
            .and_then(|view| view.storage.as_ref());
        if let Some(storage) = seen.filter(|_| !self.spec.wants(ordinal) && self.stopped(ordinal)) {
            let storage = storage.id.clone();
            self.step(Step::Discard { ordinal, storage });
        }
    }

    /// Is there what belongs to another, or to a later life of this cluster?
    pub fn untouchable(&self, ordinal: Ordinal) -> bool {
        match self.view(ordinal).map(|v| &v.volume) {
            Some(Volume::Foreign { .. }) => true,
            Some(Volume::OtherEpoch { epoch }) => *epoch > self.memory.epoch,
            _ => false,
        }
    }

    fn is_member(&self, ordinal: Ordinal) -> bool {
        self.known().iter().any(|k| k.ordinal == Some(ordinal))
    }

    /// Data in the place of a slot that is neither a member nor wanted.
    fn give_up_unwanted(&mut self, ordinal: Ordinal) {
        if self.spec.wants(ordinal) || self.is_member(ordinal) || self.memory.change.is_some() {
            return;
        }
        let Some(view) = self.view(ordinal) else { return };
        if self.untouchable(ordinal) {
            return; // Blocked: see `keep_running`.
        }
        let something = !matches!(view.volume, Volume::Empty | Volume::Unknown);
        if something || self.memory.slot(ordinal).mark != Mark::Never {
            self.start_next_generation(ordinal);
        }
    }

    /// A process on a volume that is no longer its slot's. The raw observation counts here, not the present volume. Should
    /// its removal be undone by a crash, the others need its vote.
    fn stop_former(&mut self, ordinal: Ordinal) {
        let Some(view) = self.observed.slots.get(&ordinal) else {
            return;
        };
        if self.unanswered_change.is_some() {
            return;
        }
        if let Process::Running {
            generation, since, ..
        } = view.process
            && generation != self.memory.slot(ordinal).generation
        {
            self.step(Step::Stop { ordinal, since });
        }
    }

    fn set_aside(&mut self, ordinal: Ordinal) {
        let Some(view) = self.view(ordinal) else { return };
        // The volume in use is of another generation; a process still on an old one is stopped first.
        let current = self.memory.slot(ordinal).generation;
        let busy = match view.process {
            Process::Running { generation, .. } => generation != current,
            Process::Stopping => true,
            Process::Stopped { .. } => false,
        };
        let Some(&generation) = view.leftovers.first() else {
            return;
        };
        if busy {
            return;
        }
        if view.asides >= pace::ASIDES.1 {
            let name = self.spec.member_name(ordinal);
            let detail = format!(
                "{} sets of old data of {name} lie aside and no replacement has served yet; move them away to go on",
                view.asides
            );
            return self.block(BlockReason::NoRoomAside, Some(ordinal), detail);
        }
        self.step(Step::SetAside { ordinal, generation });
    }

    /// Says whose replacement waits until somebody makes room, where the ground sets data aside by itself.
    pub fn report_no_room(&mut self) {
        for ordinal in self.ordinals() {
            if let Some(why) = self.view(ordinal).and_then(|view| view.no_room_aside.clone()) {
                let detail = format!("{}: {why}", self.spec.member_name(ordinal));
                self.block(BlockReason::NoRoomAside, Some(ordinal), detail);
            }
        }
    }

    /// Old data goes only when the slot serves again, or is no longer wanted while a quorum is well.
    fn prune_asides(&mut self, ordinal: Ordinal) {
        let Some(view) = self.view(ordinal) else { return };
        if view.asides <= pace::ASIDES.0 || !view.leftovers.is_empty() {
            return;
        }
        let voters = self.voters();
        let serves = voters.iter().any(|k| k.ordinal == Some(ordinal) && k.healthy);
        let all_well = voters.iter().all(|k| k.healthy);
        let gone_for_good = !self.spec.wants(ordinal) && !self.is_member(ordinal) && all_well;
        if serves || gone_for_good {
            let keep = pace::ASIDES.0;
            self.step(Step::DropAside { ordinal, keep });
        }
    }
}
