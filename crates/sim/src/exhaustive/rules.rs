//! The safety list as a stranger would read it off a plan's steps: what was seen, and what the steps would do.
//!
//! In: a case and its plan. Out: the first step that should not be. Never: a word with the planner, its guards or
//! its safety check.

use quorate_core::Memory;
use quorate_core::memory::Mark;
use quorate_core::model::{FirstStart, MemberId, Observed, Ordinal, Process, SlotView, Volume, quorum};
use quorate_core::plan::{Plan, StartHow, Step};

use super::{Case, Disk, InList, Runs, Standstill, State};

pub(super) fn judge(case: &Case, observed: &Observed, before: &Memory, plan: &Plan) -> Result<(), String> {
    if let Some(step) = plan.steps.iter().find(|step| !stands_still(case, step)) {
        return Err(format!("{step} although {:?}", case.standstill));
    }
    let changes = plan.steps.iter().filter(|s| s.changes_membership()).count();
    if changes > 1 {
        return Err(format!("{changes} membership changes: {:?}", plan.steps));
    }
    if changes > 0 && observed.quorum.is_none() {
        return Err(format!("a membership change without a list: {:?}", plan.steps));
    }
    let stops = plan
        .steps
        .iter()
        .filter(|s| matches!(s, Step::Stop { ordinal, .. } if votes(case, *ordinal)))
        .count();
    if stops > 1 {
        return Err(format!("{stops} voters stopped: {:?}", plan.steps));
    }
    plan.steps
        .iter()
        .try_for_each(|step| one(case, observed, before, step).map_err(|why| format!("{step}: {why}")))
}

/// Does a step leave alone what is not to be changed?
fn stands_still(case: &Case, step: &Step) -> bool {
    let sound = |n: usize| {
        let state = case.slots.get(n);
        state.is_some_and(|s| s.listed == InList::Voter && s.runs == Runs::Well && s.disk == Disk::Data)
    };
    let answers = |s: &State| matches!(s.runs, Runs::Unwell | Runs::Well);
    let standstill = match case.standstill {
        // Nobody says so.
        Standstill::Corrupt if !case.slots.iter().any(answers) => Standstill::No,
        other => other,
    };
    match (standstill, step) {
        (Standstill::No, _) | (Standstill::Corrupt, Step::Start { .. }) => true,
        (Standstill::Paused | Standstill::Corrupt, _) => false,
        (Standstill::Frozen, Step::Stop { ordinal, .. }) => !sound(ordinal.0 as usize),
        (Standstill::Frozen, Step::Remove { member, .. }) => {
            !(0..case.slots.len()).any(|n| Case::id(n) == *member && sound(n))
        }
        (Standstill::Frozen, Step::AddLearner { ordinal, .. }) => ordinal.0 < case.replicas,
        (Standstill::Frozen, _) => true,
    }
}

fn votes(case: &Case, ordinal: Ordinal) -> bool {
    case.slots
        .get(ordinal.0 as usize)
        .is_some_and(|s| s.listed == InList::Voter)
}

fn one(case: &Case, observed: &Observed, before: &Memory, step: &Step) -> Result<(), String> {
    match step {
        Step::Start { ordinal, how, .. } => start(&observed.slots[ordinal], before.slot(*ordinal).mark, how),
        Step::Stop { ordinal, .. } if votes(case, *ordinal) => {
            let (others, well) = others(case, Case::id(ordinal.0 as usize));
            let needed = if others < 2 { others } else { quorum(others + 1) };
            if well < needed {
                Err(format!("{well} of {others} others are well"))
            } else {
                Ok(())
            }
        }
        Step::Remove { member, .. } => {
            let learner = case
                .slots
                .iter()
                .enumerate()
                .any(|(n, s)| Case::id(n) == *member && s.listed == InList::Learner);
            let (others, well) = others(case, *member);
            if !learner && (others == 0 || well < quorum(others)) {
                return Err(format!("{well} of {others} others are well"));
            }
            Ok(())
        }
        Step::SetAside { ordinal, generation } => {
            let view = &observed.slots[ordinal];
            let running = matches!(view.process, Process::Running { generation: g, .. } if g == *generation);
            if running {
                Err("a process uses it".into())
            } else {
                Ok(())
            }
        }
        Step::DropAside { .. } => Err("there is none".into()),
        Step::Provide { .. } | Step::Withdraw { .. } => Err("every place is there".into()),
        Step::Grow { .. } | Step::Discard { .. } => Err("there is no storage".into()),
        Step::Resize { .. } => Err("every process has all there is".into()),
        Step::Stop { .. }
        | Step::AddLearner { .. }
        | Step::Promote { .. }
        | Step::MoveLeader { .. }
        | Step::Write { .. } => Ok(()),
    }
}

fn start(view: &SlotView, mark: Mark, how: &StartHow) -> Result<(), String> {
    if !matches!(view.process, Process::Stopped { .. }) {
        return Err("it runs already".into());
    }
    let proven = matches!(view.first_start, FirstStart::NotRun | FirstStart::RanWithoutData);
    let never_ran = mark == Mark::Never || (mark == Mark::Intended && proven);
    match how {
        StartHow::Resume | StartHow::Settle if !matches!(view.volume, Volume::Data { .. }) => {
            Err("there is no data".into())
        }
        StartHow::New { .. } | StartHow::Join { .. } if view.volume != Volume::Empty => {
            Err("there is data".into())
        }
        StartHow::New { .. } if !never_ran => Err("it may have run".into()),
        StartHow::New { .. } | StartHow::Join { .. } | StartHow::Resume | StartHow::Settle => Ok(()),
    }
}

fn others(case: &Case, leaving: MemberId) -> (usize, usize) {
    let others = case
        .slots
        .iter()
        .enumerate()
        .filter(|(n, s)| s.listed == InList::Voter && Case::id(*n) != leaving);
    let well = others.clone().filter(|(_, s)| s.runs == Runs::Well).count();
    (others.count(), well)
}
