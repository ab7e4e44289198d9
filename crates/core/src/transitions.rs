//! What stands in the way of a cluster from plan to plan, for logs: each block and wait when it begins and when it ends.
//!
//! In: every plan, and how steps ended. Out: what changed. Never: the same reported for every pass that it lasts.

use std::collections::{BTreeMap, BTreeSet};

use crate::Memory;
use crate::model::{MemberId, Ordinal, StepResult};
use crate::plan::{Plan, Step};

/// Ended steps remembered, to tell a repetition.
const STEPS_MAX: usize = 32;

/// What was reported of one cluster so far.
#[derive(Clone, Debug, Default)]
pub struct Transitions {
    stands: BTreeMap<(&'static str, Option<Ordinal>), Stands>,
    steps: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stands {
    blocks: bool,
    warns: bool,
    detail: String,
}

/// A block or a wait that began or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub began: bool,
    /// Whether people must do something about it; what is waited for passes by itself.
    pub blocks: bool,
    /// Whether people must hear of it: of every block, and of some waits.
    pub warns: bool,
    pub reason: &'static str,
    pub member: Option<Ordinal>,
    /// As it was when it began.
    pub detail: String,
}

impl Transitions {
    /// What has changed with this plan: first what ended, then what began.
    pub fn changes(&mut self, plan: &Plan) -> Vec<Change> {
        let blocks = plan.blocks.iter();
        let blocks = blocks.map(|b| ((b.reason.name(), b.member), (true, true), &b.detail));
        let waits = plan.waits.iter();
        let waits = waits.map(|w| {
            let stands = (false, w.reason.warns());
            ((w.reason.name(), w.member), stands, &w.detail)
        });
        let mut now = BTreeMap::new();
        for (key, (blocks, warns), detail) in blocks.chain(waits) {
            let detail = detail.clone();
            now.entry(key).or_insert(Stands {
                blocks,
                warns,
                detail,
            });
        }
        if now.is_empty() && plan.steps.is_empty() {
            self.steps.clear();
        }
        let before = std::mem::take(&mut self.stands);
        let change =
            |began, (&(reason, member), stands): (&(&'static str, Option<Ordinal>), &Stands)| Change {
                began,
                blocks: stands.blocks,
                warns: stands.warns,
                reason,
                member,
                detail: stands.detail.clone(),
            };
        let ended = before.iter().filter(|(key, _)| !now.contains_key(*key));
        let began = now.iter().filter(|(key, _)| !before.contains_key(*key));
        let all = ended
            .map(|stood| change(false, stood))
            .chain(began.map(|stands| change(true, stands)))
            .collect();
        self.stands = now;
        all
    }

    /// Has this step ended like that before, since the cluster was last as wanted? One that etcd refuses is tried twice a
    /// second.
    pub fn repeats(&mut self, step: &Step, result: &StepResult) -> bool {
        if *result == StepResult::Done {
            return false;
        }
        let reported = format!("{step}: {result:?}");
        if self.steps.len() >= STEPS_MAX {
            self.steps.clear();
        }
        !self.steps.insert(reported)
    }
}

/// The slot that a step is about.
pub fn subject(step: &Step, memory: &Memory) -> Option<Ordinal> {
    match step {
        Step::Provide { ordinal, .. }
        | Step::Withdraw { ordinal }
        | Step::Start { ordinal, .. }
        | Step::Stop { ordinal, .. }
        | Step::Resize { ordinal, .. }
        | Step::AddLearner { ordinal, .. }
        | Step::Promote { ordinal, .. }
        | Step::SetAside { ordinal, .. }
        | Step::DropAside { ordinal, .. }
        | Step::Write { ordinal, .. }
        | Step::Grow { ordinal, .. }
        | Step::Discard { ordinal, .. } => Some(*ordinal),
        Step::Remove { member, .. } | Step::MoveLeader { to: member, .. } => slot_of(*member, memory),
    }
}

/// The slot that a member is in, as far as is remembered.
pub fn slot_of(member: MemberId, memory: &Memory) -> Option<Ordinal> {
    let mut slots = memory.slots.iter();
    let found = slots.find(|(_, slot)| slot.member == Some(member));
    found.map(|(ordinal, _)| *ordinal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Refused;
    use crate::reason::{Block, BlockReason, Wait, WaitReason};

    fn plan(blocked: Option<u32>, waits: bool) -> Plan {
        Plan {
            blocks: (blocked.map(|member| Block {
                reason: BlockReason::ForeignData,
                member: Some(Ordinal(member)),
                detail: "in words".to_owned(),
            }))
            .into_iter()
            .collect(),
            waits: (waits.then(|| Wait {
                reason: WaitReason::Paused,
                member: None,
                detail: "paused".to_owned(),
                until: None,
            }))
            .into_iter()
            .collect(),
            ..Plan::default()
        }
    }

    #[test]
    fn a_block_is_reported_when_it_begins_and_when_it_ends() {
        let mut standing = Transitions::default();
        let mut reported = |plan: &Plan| -> Vec<String> {
            let changes = standing.changes(plan);
            let shown = changes.iter().map(|c| {
                let how = if c.began { "began" } else { "ended" };
                let member = c.member.map_or(String::new(), |o| format!(" {o}"));
                format!("{how} {}{member}", c.reason)
            });
            shown.collect()
        };
        assert_eq!(reported(&plan(Some(1), false)), ["began ForeignData 1"]);
        assert!(reported(&plan(Some(1), false)).is_empty(), "it lasts");
        let next = ["ended ForeignData 1", "began Paused", "began ForeignData 2"];
        assert_eq!(reported(&plan(Some(2), true)).len(), next.len());
        assert_eq!(reported(&plan(None, true)), ["ended ForeignData 2"]);
        assert_eq!(reported(&plan(None, false)), ["ended Paused"]);
    }

    #[test]
    fn every_block_warns_and_of_waits_those_that_cost_service() {
        let wait = |reason: &WaitReason| Wait {
            reason: *reason,
            member: None,
            detail: String::new(),
            until: None,
        };
        let plan = Plan {
            waits: WaitReason::ALL.iter().map(wait).collect(),
            ..plan(Some(1), false)
        };
        let changes = Transitions::default().changes(&plan);
        let warn = changes.iter().filter(|c| c.warns).map(|c| c.reason);
        let warn: BTreeSet<&str> = warn.collect();
        let expected = ["CaLost", "ForeignData", "MemberUnresponsive", "NoQuorum"];
        assert_eq!(warn, expected.into());
    }

    #[test]
    fn a_step_that_is_refused_again_and_again_is_one() {
        let mut standing = Transitions::default();
        let step = |ordinal| Step::Withdraw {
            ordinal: Ordinal(ordinal),
        };
        let refused = StepResult::Refused(Refused::Other("why".to_owned()));
        assert!(!standing.repeats(&step(0), &refused));
        assert!(standing.repeats(&step(0), &refused));
        assert!(!standing.repeats(&step(0), &StepResult::Done));
        assert!(!standing.repeats(&step(0), &StepResult::Done), "done is news");
        assert!(!standing.repeats(&step(1), &refused));
        standing.changes(&plan(None, false));
        assert!(!standing.repeats(&step(0), &refused), "all was well meanwhile");
        (2..1000).for_each(|ordinal| {
            standing.repeats(&step(ordinal), &refused);
        });
        assert!(standing.steps.len() <= STEPS_MAX);
    }
}
