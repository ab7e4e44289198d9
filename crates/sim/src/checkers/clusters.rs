//! One cluster for one root, for ever; and `new` only on a volume that never ran.
//!
//! In: elections and starts. Out: a second cluster id, or a volume that was used. Never: a look at tokens.

use quorate_core::Memory;
use quorate_core::guard::Guard;
use quorate_core::model::{ClusterId, Generation, Ordinal};
use quorate_core::plan::{BlockReason, Plan, StartHow};

use super::BreakKind;
use crate::etcd::Data;
use crate::ground::place;
use crate::world::World;

/// The cluster that was seen to serve.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    first: Option<ClusterId>,
}

impl Clusters {
    /// A leader of `cluster` was elected.
    pub fn elected(&mut self, cluster: ClusterId) -> Option<String> {
        let first = *self.first.get_or_insert(cluster);
        (first != cluster).then(|| format!("cluster {cluster} has a leader; {first} was first"))
    }
}

impl World {
    /// Nobody calls a volume rolled back that nobody put back.
    pub fn judge_rolled_back(&mut self, plan: &Plan, memory: &Memory) {
        let called = plan.blocks.iter().filter(|b| b.reason == BlockReason::RolledBack);
        for ordinal in called.filter_map(|b| b.member) {
            let generation = memory.slot(ordinal).generation;
            if !self.ground.slot(ordinal).rolled_back.contains(&generation) {
                let what = format!("member {ordinal} ({generation}) is called rolled back, and is not");
                self.broke(BreakKind::FalseAlarm, what);
            }
        }
    }

    /// A first start on a volume that ever ran must not be `new`.
    pub fn judge_start(&mut self, ordinal: Ordinal, generation: Generation, how: &StartHow) {
        let used = self.ground.slot(ordinal).ever_ran.contains(&generation);
        let data = self
            .ground
            .etcd
            .nodes
            .get(&place(ordinal))
            .and_then(|n| n.volumes.get(&generation));
        let empty = matches!(data, None | Some(Data::Empty));
        let guarded = self.guards.on(Guard::PresentVolume);
        let resumes = matches!(how, StartHow::Resume | StartHow::Settle);
        if guarded && resumes && self.ground.slot(ordinal).rolled_back.contains(&generation) {
            self.broke(
                BreakKind::RolledBackStarted,
                format!("member {ordinal} ({generation}) was rolled back and starts from that"),
            );
        }
        if used && empty && matches!(how, StartHow::New { .. }) {
            self.broke(
                BreakKind::NewOnUsed,
                format!("member {ordinal} ({generation}) ran before and starts as new"),
            );
        }
    }
}
