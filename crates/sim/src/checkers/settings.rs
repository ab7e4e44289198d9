//! Settings that etcd does not serve with cost no voter, and reach one member only.
//!
//! In: a removal, or a start, as it takes effect. Out: a break. Never: blame for a member that is not wanted any more, whose
//! data is lost, or that had nothing to go back to.

use quorate_core::model::{MemberId, Ordinal};

use super::{BreakKind, GRACE_TICKS};
use crate::etcd::Data;
use crate::ground::place;
use crate::user::Settings;
use crate::world::World;

impl World {
    /// A voter is removed. Were its settings to blame, and not its data?
    pub(super) fn judge_cost(&mut self, member: MemberId) {
        let now = self.ground.etcd.now;
        let at = self.ground.slots.iter().find(|(ordinal, _)| {
            let node = self.ground.etcd.nodes.get(&place(**ordinal));
            let mut volumes = node.iter().flat_map(|n| n.volumes.values()).filter_map(Data::wal);
            volumes.any(|wal| wal.member == member)
        });
        let Some((ordinal, slot)) = at else { return };
        let wanted = self.spec.wants(*ordinal)
            && slot
                .unwanted_at
                .is_none_or(|at| now.saturating_sub(at) > GRACE_TICKS);
        let votes = self.store.memory.slot(*ordinal).voter;
        let blamed =
            Settings::of(&slot.last_config) != Settings::Good && slot.crashes_until + 4 * GRACE_TICKS <= now;
        let rolled_back = slot
            .rolled_back
            .contains(&self.store.memory.slot(*ordinal).generation);
        if wanted && votes && blamed && !rolled_back {
            let what = format!(
                "voter {ordinal} is removed, which was started with {}",
                slot.last_config
            );
            self.broke(BreakKind::SettingsCostVoter, what);
        }
    }

    /// A member is started. Does another one fail at the same?
    pub fn judge_settings(&mut self, ordinal: Ordinal, config: &str) {
        let memory = &self.store.memory;
        if Settings::of(config) == Settings::Good || memory.good.is_none() {
            return;
        }
        // Without a quorum nobody knows what serves: whatever may bring it back is tried.
        let mut members = self.ground.slots.keys();
        if !members.any(|o| self.ground.etcd.serves(place(*o))) {
            return;
        }
        let fails = |o: Ordinal| {
            let slot = &memory.slot(o);
            slot.member.is_some() && slot.fails > 0 && !self.ground.etcd.serves(place(o))
        };
        // One that does not start as it served loses nothing by it.
        if memory.slot(ordinal).fails > 3 {
            return;
        }
        let mut others = self.ground.slots.iter().filter(|(o, _)| **o != ordinal);
        let other = others.find(|(o, s)| s.last_config == config && fails(**o));
        if let Some((other, _)) = other {
            let what = format!("member {ordinal} is started with {config}, at which member {other} fails");
            self.broke(BreakKind::SettingsSpread, what);
        }
    }
}
