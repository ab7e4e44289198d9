//! CPU and memory that change while a member runs. To the planner that is a change of settings like any other, made in the
//! member's turn: if it does not serve with them, it goes back to what served. It is only not stopped for it.

use crate::memory::Disturbance;
use crate::model::{Ordinal, Process, Resize};
use crate::plan::pass::Pass;
use crate::plan::{Step, WaitReason, pace};

impl Pass<'_> {
    /// Can what is wanted of a member be done while it runs?
    pub fn can_be_resized(&self, ordinal: Ordinal) -> bool {
        let wanted = self.wanted_at(ordinal).version;
        self.view(ordinal).is_some_and(|view| {
            let stays = matches!(view.process, Process::Running { version, .. } if version == wanted);
            stays && view.resize == Resize::Possible
        })
    }

    /// Asks for it, in the member's turn.
    pub fn resize_process(&mut self, ordinal: Ordinal) {
        self.memory.disturbance = Some(Disturbance {
            ordinal,
            since: self.now,
            settle: false,
            again: false,
        });
        let (now, started) = (self.now, self.wanted_at(ordinal));
        let slot = self.slot_mut(ordinal);
        (slot.started, slot.last_start) = (Some(started), now);
        slot.healthy_since = None;
        let config = self.spec.config_of(ordinal).to_owned();
        self.step(Step::Resize { ordinal, config });
    }

    /// With too little memory it ends, as if it were stopped.
    fn others_can_do_without(&self, ordinal: Ordinal) -> bool {
        let voter = self.voters().into_iter().find(|k| k.ordinal == Some(ordinal));
        voter.is_none_or(|voter| self.guards.disturbance(self.others(voter.listed.id)))
    }

    /// Was it asked for, and does not show yet?
    pub fn awaits_resize(&self, ordinal: Ordinal) -> bool {
        let started = self.memory.slot(ordinal).started;
        self.view(ordinal).is_some_and(|view| match view.resize {
            Resize::No => false,
            Resize::Possible => started == Some(self.wanted_at(ordinal)),
            Resize::UnderWay { .. } => true,
        })
    }

    /// Is a member disturbed, and more than that its resources are to change? Others that do not serve need not wait for that.
    pub fn disturbed(&self) -> Option<Ordinal> {
        let disturbed = self.memory.disturbance.as_ref().map(|d| d.ordinal);
        let serves = |o: Ordinal| {
            let status = self.view(o).and_then(|view| view.status.as_ref());
            status.is_some_and(|s| s.healthy)
        };
        disturbed.filter(|o| !(serves(*o) && self.awaits_resize(*o)))
    }

    /// Says what is being done with the member whose turn it is. What was asked for and does not show is asked for again.
    pub fn report_disturbed(&mut self, ordinal: Ordinal) {
        let name = self.spec.member_name(ordinal);
        if let Some(Resize::UnderWay { why }) = self.view(ordinal).map(|view| &view.resize) {
            let detail = format!("the resources of {name} are being changed: {why}");
            return self.wait(WaitReason::ResourcesChanging, Some(ordinal), detail);
        }
        let late = self.elapsed(self.memory.slot(ordinal).last_start) >= pace::SAME_START;
        if late
            && self.in_turn(ordinal).is_some()
            && self.can_be_resized(ordinal)
            && self.awaits_resize(ordinal)
            && self.others_can_do_without(ordinal)
        {
            return self.resize_process(ordinal);
        }
        if self.awaits_resize(ordinal) {
            let detail = format!("{name} has yet to be given its other resources");
            return self.wait(WaitReason::ResourcesChanging, Some(ordinal), detail);
        }
        let detail = format!("{name} is being restarted");
        self.wait(WaitReason::MemberStarting, Some(ordinal), detail);
    }
}
