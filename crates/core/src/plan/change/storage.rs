//! Storage that is to grow: one member's at a time, while the others are a healthy quorum. A member that is unhealthy comes
//! first, for want of room may be why; a healthy one is not disturbed meanwhile.
//!
//! Some storage grows only when its member is restarted, and some fails to: what happens to the first is seen before the
//! next is asked.

use crate::model::Ordinal;
use crate::plan::pass::Pass;
use crate::plan::{Step, WaitReason};

impl Pass<'_> {
    pub fn grow_storage(&mut self) {
        let Some(to) = self.spec.storage else { return };
        let Some(smaller) = self.smaller_storage(to) else {
            return;
        };
        let unhealthy = self.voters().into_iter().filter(|k| !k.healthy);
        let unhealthy: Vec<Option<Ordinal>> = unhealthy.map(|k| k.ordinal).collect();
        let first = smaller.iter().find(|o| unhealthy.contains(&Some(**o)));
        let Some(&ordinal) = first.or(smaller.first()) else {
            return;
        };
        if first.is_none() && !unhealthy.is_empty() {
            let name = self.spec.member_name(ordinal);
            let detail = format!("the storage of {name} grows once all members are healthy");
            return self.wait(WaitReason::MembersUnhealthy, Some(ordinal), detail);
        }
        let Some(view) = self.view(ordinal).filter(|v| !v.deletion_pending) else {
            return;
        };
        let member = self.voters().into_iter().find(|k| k.ordinal == Some(ordinal));
        if let Some(member) = member
            && !self.guards.disturbance(self.others(member.listed.id))
        {
            let name = self.spec.member_name(ordinal);
            let detail = format!("the storage of {name} must wait: the others are no quorum without it");
            return self.wait(WaitReason::MembersUnhealthy, Some(ordinal), detail);
        }
        if let Some(storage) = &view.storage {
            let storage = storage.id.clone();
            self.step(Step::Grow { ordinal, storage, to });
        }
    }

    /// Without a quorum, that of a member which cannot be started: it disturbs nobody, and may be what it lacks.
    pub fn grow_storage_of_stopped(&mut self) {
        let Some(to) = self.spec.storage else { return };
        let Some(smaller) = self.smaller_storage(to) else {
            return;
        };
        let stopped = smaller.into_iter().filter(|o| self.stopped(*o));
        let found = stopped
            .filter_map(|o| Some((o, self.view(o)?)))
            .find_map(|(o, view)| {
                let waits = view.cannot_start.is_some() && !view.deletion_pending;
                Some((o, view.storage.as_ref().filter(|_| waits)?.id.clone()))
            });
        if let Some((ordinal, storage)) = found {
            self.step(Step::Grow { ordinal, storage, to });
        }
    }

    /// Wanted members whose storage was asked to be smaller than `to`; none while that of one still grows, which is said.
    fn smaller_storage(&mut self, to: u64) -> Option<Vec<Ordinal>> {
        let wanted: Vec<Ordinal> = (0..self.spec.replicas).map(Ordinal).collect();
        // Also of a slot whose volume was given up in this pass: the storage is the slot's, and still grows.
        let seen = &self.observed.slots;
        let size = |o: &Ordinal| seen.get(o).and_then(|v| Some(v.storage.as_ref()?.size));
        if let Some(ordinal) = wanted.iter().find(|o| size(o).is_some_and(|s| s.grows())) {
            let name = self.spec.member_name(*ordinal);
            let detail = format!("the storage of {name} was asked to grow and has not yet");
            self.wait(WaitReason::StorageGrowing, Some(*ordinal), detail);
            return None;
        }
        let smaller = |o: &Ordinal| size(o).and_then(|s| s.asked).is_some_and(|asked| asked < to);
        Some(wanted.into_iter().filter(smaller).collect())
    }
}
