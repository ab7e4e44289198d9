//! A plan spoilt on purpose: the path of a refusal by the safety check, which no plan of the real planner takes.
//!
//! In: a plan about to be checked. Out: the block a user would see. Never: a spoilt plan that is carried out.

use quorate_core::model::{Observed, Ordinal, Process, Time};
use quorate_core::plan::{BlockReason, Plan, Step};
use quorate_core::{Decision, checked};

use super::Executor;
use crate::checkers::BreakKind;
use crate::etcd::Place;
use crate::world::World;

impl World {
    /// A test double's bad idea: stop the two highest voters at once.
    pub(super) fn spoil(&mut self, plan: &mut Plan, observed: &Observed) -> bool {
        let Some(quorum) = observed
            .quorum
            .as_ref()
            .filter(|q| q.members.iter().filter(|m| !m.learner).count() >= 3)
        else {
            return false;
        };
        let places = quorum
            .members
            .iter()
            .filter(|m| !m.learner)
            .filter_map(|m| Place::of(m.peer_urls.first()?));
        let well = |o: &Ordinal| {
            let slot = observed.slots.get(o);
            slot.is_some_and(|s| s.status.is_some() && matches!(s.process, Process::Running { .. }))
        };
        let ours: Vec<Ordinal> = places.map(|p| Ordinal(p.0)).filter(well).collect();
        if ours.len() < 2 {
            return false;
        }
        plan.steps = ours
            .iter()
            .rev()
            .take(2)
            .map(|o| Step::Stop {
                ordinal: *o,
                since: running_since(observed, *o),
            })
            .collect();
        true
    }

    /// The safety check must refuse it, and the refusal is shown as a block.
    pub(super) fn refuse_spoilt(
        &mut self,
        me: &mut Executor,
        (observed, now): (&Observed, Time),
        spoilt: Decision,
    ) {
        let steps = format!("{:?}", spoilt.plan.steps);
        let refused = checked(&self.spec, observed, &me.memory, now, spoilt);
        let mut blocks = refused.plan.blocks.iter();
        let shown = blocks.any(|block| block.reason == BlockReason::CheckRefused);
        if !shown || !refused.plan.steps.is_empty() || refused.memory != me.memory {
            return self.broke(BreakKind::CheckBlind, format!("not refused: {steps}"));
        }
        self.coverage.plan(&refused.plan);
        self.log_plan(me, &refused.plan);
    }
}

fn running_since(observed: &Observed, ordinal: Ordinal) -> Time {
    match observed.slots.get(&ordinal).map(|s| &s.process) {
        Some(Process::Running { since, .. }) => *since,
        _ => Time(0),
    }
}
