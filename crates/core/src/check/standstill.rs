//! What stops changes: a pause stops all of them, data that differ (alarm CORRUPT, rule 16) all but starts, and a manifest
//! that cannot be followed (rule 20) whatever touches members that serve. What was lost is healed all the same.

use super::disturbance::voter_in;
use super::{Case, Violation, refuse};
use crate::model::{AlarmKind, MemberId, Ordinal, SlotView, Volume};
use crate::plan::Step;

pub(super) fn judge(case: Case<'_>, found: &mut Vec<Violation>) {
    let statuses = case
        .observed
        .slots
        .values()
        .filter_map(|view| view.status.as_ref());
    let mut alarms = statuses.flat_map(|status| &status.alarms);
    let corrupt = alarms.any(|alarm| alarm.kind == AlarmKind::Corrupt);
    for step in &case.plan.steps {
        if case.spec.paused {
            refuse(found, 20, format!("{step} while the cluster is paused"));
        }
        if corrupt && !only_runs_what_ended(case, step) {
            refuse(found, 16, format!("{step} while members' data differ"));
        }
        if case.spec.frozen.is_some() && changes_what_serves(case, step) {
            refuse(found, 20, format!("{step} while the manifest cannot be followed"));
        }
    }
}

/// Starts what ended, from its own data, or ends what trusts a lost CA and answers nobody.
fn only_runs_what_ended(case: Case<'_>, step: &Step) -> bool {
    match step {
        Step::Start { .. } | Step::Provide { .. } | Step::Withdraw { .. } => true,
        Step::Stop { ordinal, .. } => !case.observed.slots.get(ordinal).is_some_and(answers),
        _ => false,
    }
}

fn changes_what_serves(case: Case<'_>, step: &Step) -> bool {
    match step {
        Step::Discard { .. } | Step::Grow { .. } | Step::Resize { .. } => true,
        Step::AddLearner { ordinal, .. } => !case.spec.wants(*ordinal),
        Step::Stop { ordinal, .. } => voter_in(case, *ordinal).is_some() && serves(case, *ordinal),
        Step::Remove { member, .. } => slot_of_voter(case, *member).is_some_and(|ordinal| {
            let view = case.observed.slots.get(&ordinal);
            let keeps = |view: &SlotView| {
                matches!(view.volume, Volume::Data { .. } | Volume::Unknown) && !view.deletion_pending
            };
            serves(case, ordinal) && view.is_some_and(keeps)
        }),
        _ => false,
    }
}

fn answers(view: &SlotView) -> bool {
    view.status.is_some()
}

fn serves(case: Case<'_>, ordinal: Ordinal) -> bool {
    let view = case.observed.slots.get(&ordinal);
    let status = view.and_then(|view| view.status.as_ref());
    status.is_some_and(|status| status.healthy)
}

fn slot_of_voter(case: Case<'_>, member: MemberId) -> Option<Ordinal> {
    let quorum = case.observed.quorum.as_ref()?;
    let voter = quorum.members.iter().find(|m| m.id == member && !m.learner)?;
    let mut slots = case.observed.slots.iter();
    let (ordinal, _) = slots.find(|(_, view)| voter.peer_urls.contains(&view.peer_url))?;
    Some(*ordinal)
}
