//! A plan that the safety check has agreed to, or why there is none: what both grounds act on.
//!
//! In: what is wanted, seen and remembered. Out: a [`Decision`]. Never: a step of a plan that was refused, nor the
//! memory of such a plan.

use crate::check::{Violation, check};
use crate::guard::Guards;
use crate::memory::Memory;
use crate::model::{Observed, Spec, Time};
use crate::plan::{Block, BlockReason, Plan, pace, plan_with};

/// What to do now, and what to remember before any of it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub plan: Plan,
    pub memory: Memory,
}

/// Plans, and has the plan checked. A plan that the check refuses keeps its waits and blocks, says so, and loses its
/// steps and its memory.
pub fn decide(spec: &Spec, observed: &Observed, before: &Memory, now: Time) -> Decision {
    decide_with(spec, observed, before, now, Guards::all())
}

/// The same with these guards. Where one is off, which is for the simulator only, the check is too: it knows them all.
pub fn decide_with(spec: &Spec, observed: &Observed, before: &Memory, now: Time, guards: Guards) -> Decision {
    let (plan, memory) = plan_with(spec, observed, before, now, guards);
    let planned = Decision { plan, memory };
    if guards != Guards::all() {
        return planned;
    }
    checked(spec, observed, before, now, planned)
}

/// What the safety check leaves of a decision.
pub fn checked(spec: &Spec, observed: &Observed, before: &Memory, now: Time, planned: Decision) -> Decision {
    let Decision { plan, memory } = planned;
    let violations = check(spec, observed, before, &memory, &plan, now);
    judged(plan, memory, before, &violations)
}

fn judged(mut plan: Plan, after: Memory, before: &Memory, violations: &[Violation]) -> Decision {
    if violations.is_empty() {
        return Decision { plan, memory: after };
    }
    plan.steps.clear();
    plan.requeue_after = plan.requeue_after.max(pace::AFTER_REFUSAL);
    plan.blocks.extend(violations.iter().map(|violation| Block {
        reason: BlockReason::CheckRefused,
        member: None,
        detail: format!("a plan was refused by the safety check and not carried out: {violation}"),
    }));
    Decision {
        plan,
        memory: before.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use crate::plan::tests::fixture::Fixture;

    #[test]
    fn a_refused_plan_has_no_steps_and_no_memory() {
        let mut f = Fixture::healthy(3);
        f.spec.replicas = 2;
        let (plan, after) = plan(&f.spec, &f.observed, &f.memory, f.now);
        assert!(!plan.steps.is_empty() && after != f.memory, "{plan:?}");
        let violation = Violation {
            rule: 2,
            what: "a test".to_owned(),
        };
        let refused = judged(plan.clone(), after.clone(), &f.memory, &[violation]);
        assert_eq!((refused.plan.steps.len(), &refused.memory), (0, &f.memory));
        let last = refused.plan.blocks.last().unwrap();
        assert_eq!(last.reason, BlockReason::CheckRefused);
        assert!(last.detail.contains("rule 2: a test"), "{}", last.detail);
        let agreed = decide(&f.spec, &f.observed, &f.memory, f.now);
        assert_eq!((agreed.plan, agreed.memory), (plan, after));
    }
}
