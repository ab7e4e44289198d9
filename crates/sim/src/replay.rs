//! Which etcd could replay a member's log: up to 3.5 etcd writes requests that a newer one cannot read, and they stay in
//! the log until a raft snapshot lies behind them.
//!
//! In: starts. Out: the newest minor that could replay each volume's log. Snapshots that a
//! member takes by itself do not count here, so that nothing but a planned one helps.

use quorate_core::model::{Generation, Ordinal, Version};
use quorate_core::plan::StartHow;

use crate::ground::Ground;

impl Ground {
    /// The newest minor that could replay the log of a volume, if there is such a limit.
    pub fn replay_limit(&self, ordinal: Ordinal, generation: Generation) -> Option<u32> {
        self.slots.get(&ordinal)?.replay.get(&generation).copied()
    }

    /// An etcd of `version` runs on a volume from now on, and writes what it writes.
    pub fn writes(&mut self, (ordinal, generation): (Ordinal, Generation), how: &StartHow, version: Version) {
        let own = match version.minor {
            ..=4 => Some(5),
            5 => Some(6),
            _ => None,
        };
        let before = match how {
            StartHow::Settle => None,
            // It is sent the whole log of whoever leads.
            StartHow::Join { .. } => self
                .slots
                .values()
                .filter_map(|s| s.replay.get(&s.in_use()?))
                .min()
                .copied(),
            StartHow::New { .. } | StartHow::Resume => self.replay_limit(ordinal, generation),
        };
        let slot = self.slot(ordinal);
        match own.into_iter().chain(before).min() {
            Some(limit) => slot.replay.insert(generation, limit),
            None => slot.replay.remove(&generation),
        };
    }
}
