//! With a quorum's disks gone, what is left is started from its data; nothing starts over, nothing is moved, and
//! only who hangs is stopped.
//!
//! In: a step, at the moment it takes effect. Out: a break. Never: blame for a step planned before anybody could know.

use quorate_core::plan::{StartHow, Step};

use super::{BreakKind, GRACE_TICKS};
use crate::ground::place;
use crate::world::World;

impl World {
    pub fn judge_after_loss(&mut self, step: &Step) {
        let Some(lost_at) = self.quorum_lost_at else {
            return;
        };
        let known = self.ground.etcd.now - lost_at > GRACE_TICKS;
        let harmless = match step {
            Step::Provide { .. } | Step::Withdraw { .. } => true,
            // Its settings are to blame: etcd does nothing.
            Step::Stop { ordinal, .. } => self
                .ground
                .etcd
                .nodes
                .get(&place(*ordinal))
                .is_none_or(|n| n.running.is_none()),
            Step::Start { how, .. } => matches!(how, StartHow::Resume | StartHow::Settle),
            _ => false,
        };
        if known && !harmless && self.ground.etcd.serving_leader().is_none() {
            self.broke(BreakKind::ActedAfterLoss, step.to_string());
        }
    }
}
