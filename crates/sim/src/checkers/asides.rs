//! Old data is kept until its replacement has served, and is bounded.
//!
//! In: asides dropped, and how many lie there. Out: a break. Never: an opinion on what was set aside and why.

use quorate_core::model::Ordinal;

use super::BreakKind;
use crate::world::World;

/// No slot may hold more than this.
pub const ASIDES_MAX: usize = 4;
/// So long a slot counts as given up after the user last did not want it: a plan's time to be done.
const GIVEN_UP_TICKS: u64 = 40;

impl World {
    /// An aside is deleted: the slot's member must have served since it was put there.
    pub fn judge_drop(&mut self, ordinal: Ordinal, late: bool) {
        let now = self.ground.etcd.now;
        let slot = self.ground.slot(ordinal);
        let Some(oldest) = slot.asides.first() else { return };
        let served = slot.served_at.is_some_and(|at| at > oldest.at);
        // A slot that the user gave up needs no replacement.
        let given_up = slot.unwanted_at.is_some_and(|at| now - at <= GIVEN_UP_TICKS);
        if !served && !given_up {
            let what = format!(
                "aside {} of member {ordinal} deleted, nothing served since (late duplicate: {late})",
                oldest.generation
            );
            self.broke(BreakKind::AsideDroppedEarly, what);
        }
    }

    /// The bound holds for every slot.
    pub fn judge_asides(&mut self) {
        let over = self
            .ground
            .slots
            .iter()
            .find(|(_, s)| s.asides.len() > ASIDES_MAX);
        if let Some((ordinal, slot)) = over {
            let what = format!("member {ordinal} has {} sets of old data", slot.asides.len());
            self.broke(BreakKind::AsidesUnbounded, what);
        }
    }
}
