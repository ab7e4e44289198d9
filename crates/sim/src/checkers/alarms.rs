//! An alarm is reported for as long as it is seen, and while members' data differ nothing is changed.
//!
//! In: a look and the plan made from it. Out: a break. Never: an opinion on what is to be done about an alarm.

use quorate_core::model::{AlarmKind, Observed};
use quorate_core::plan::{BlockReason, Plan, Step};

use super::BreakKind;
use crate::world::World;

/// What is wrong with a plan that passes over an alarm which was seen.
pub fn ignored_alarm(observed: &Observed, plan: &Plan) -> Option<String> {
    let statuses = observed.slots.values().filter_map(|slot| slot.status.as_ref());
    for alarm in statuses.flat_map(|status| &status.alarms) {
        let reason = match alarm.kind {
            AlarmKind::NoSpace => BlockReason::NoSpace,
            AlarmKind::Corrupt => BlockReason::Corrupt,
        };
        if !plan.blocks.iter().any(|block| block.reason == reason) {
            return Some(format!("{alarm:?} is seen, and no block says so"));
        }
        let changes = |step: &&Step| {
            !matches!(
                step,
                Step::Start { .. } | Step::Provide { .. } | Step::Withdraw { .. }
            )
        };
        let step = plan.steps.iter().find(changes);
        if let Some(step) = step.filter(|_| alarm.kind == AlarmKind::Corrupt) {
            return Some(format!("{alarm:?} is seen, and: {step}"));
        }
    }
    None
}

impl World {
    pub fn judge_alarms(&mut self, observed: &Observed, plan: &Plan) {
        if let Some(what) = ignored_alarm(observed, plan) {
            self.broke(BreakKind::AlarmIgnored, what);
        }
    }
}
