//! An alarm is told for as long as it is seen, and while members' data differ nothing is changed.
//!
//! In: a look and the plan made from it. Out: a break. Never: an opinion on what is to be done about an alarm.

use quorate_core::model::{AlarmKind, Observed};
use quorate_core::plan::{BlockReason, Plan, Step};

use super::BreakKind;
use crate::world::World;

impl World {
    pub fn judge_alarms(&mut self, observed: &Observed, plan: &Plan) {
        let statuses = observed.slots.values().filter_map(|slot| slot.status.as_ref());
        for alarm in statuses.flat_map(|status| &status.alarms) {
            let reason = match alarm.kind {
                AlarmKind::NoSpace => BlockReason::NoSpace,
                AlarmKind::Corrupt => BlockReason::Corrupt,
            };
            if !plan.blocks.iter().any(|block| block.reason == reason) {
                let what = format!("{alarm:?} is seen, and no block says so");
                return self.broke(BreakKind::AlarmIgnored, what);
            }
            let changes = |step: &&Step| {
                !matches!(
                    step,
                    Step::Start { .. } | Step::Provide { .. } | Step::Withdraw { .. }
                )
            };
            let step = plan.steps.iter().find(changes);
            if let Some(step) = step.filter(|_| alarm.kind == AlarmKind::Corrupt) {
                return self.broke(BreakKind::AlarmIgnored, format!("{alarm:?} is seen, and: {step}"));
            }
        }
    }
}
