//! Rule 20: a change of version or settings that does not serve stops at its first member, and goes back.

use super::{Case, Violation, refuse};
use crate::memory::Slot;
use crate::model::{Ordinal, Process, Setup};
use crate::plan::{StartHow, Step};

pub(super) fn judge(case: Case<'_>, found: &mut Vec<Violation>) {
    let known =
        |o: &Ordinal, config: &str| config == case.spec.config_of(*o) || fallback(case, *o) == Some(config);
    for step in &case.plan.steps {
        match step {
            Step::Stop { ordinal, .. } | Step::Resize { ordinal, .. } if is_healthy_voter(case, *ordinal) => {
                stopped(case, step, *ordinal, found)
            }
            Step::Provide { ordinal, config, .. } | Step::Start { ordinal, config, .. }
                if !known(ordinal, config) =>
            {
                refuse(found, 20, format!("{step} with unknown settings"));
            }
            Step::Start {
                ordinal, how, config, ..
            } if *config == case.spec.config_of(*ordinal) => started(case, step, *ordinal, how, found),
            _ => {}
        }
    }
}

/// Nobody who serves is stopped for what was rejected, nor while another has yet to serve as is wanted.
fn stopped(case: Case<'_>, step: &Step, ordinal: Ordinal, found: &mut Vec<Violation>) {
    if rejected(case) {
        refuse(found, 20, format!("{step} for a change that did not serve"));
    }
    let listed = |slot: &Slot| {
        let mut members = case.observed.quorum.iter().flat_map(|q| &q.members);
        members.any(|m| Some(m.id) == slot.member && !m.learner)
    };
    let tries = |other: &Ordinal, slot: &Slot| {
        let as_what = match case.observed.slots.get(other).map(|view| &view.process) {
            Some(Process::Running { config, .. }) => Some(config.as_str()),
            _ => slot.started.as_ref().map(|s| s.config.as_str()),
        };
        let served = slot.served_as.as_ref().map(|s| s.config.as_str());
        as_what == Some(case.spec.config_of(*other)) && served.is_some() && served != as_what
    };
    let mut others = case.after.slots.iter().filter(|(o, _)| **o != ordinal);
    if let Some((other, _)) = others.find(|(o, slot)| listed(slot) && tries(o, slot)) {
        refuse(found, 20, format!("{step} before member {other} serves"));
    }
}

/// Settings that are new to a member reach it in its turn, or when it does not start with those that served. New members
/// come with those that served.
fn started(case: Case<'_>, step: &Step, ordinal: Ordinal, how: &StartHow, found: &mut Vec<Violation>) {
    let slot = case.before.slot(ordinal);
    let wanted = case.spec.config_of(ordinal);
    if good(case, ordinal).is_none_or(|good| good.config == wanted) {
        return;
    }
    match how {
        StartHow::New { .. } => return,
        StartHow::Join { .. } => {
            return refuse(found, 20, format!("{step} with unproven settings"));
        }
        StartHow::Resume | StartHow::Settle => {}
    }
    let served = slot.served_as.as_ref();
    let served = served.is_some_and(|s| s.config == wanted);
    if rejected(case) {
        return refuse(found, 20, format!("{step} with settings that failed"));
    }
    let in_turn = case
        .after
        .disturbance
        .as_ref()
        .is_some_and(|d| d.ordinal == ordinal);
    let other = case
        .after
        .disturbance
        .as_ref()
        .is_some_and(|d| d.ordinal != ordinal);
    if !served && !in_turn && (slot.fails < 3 || (other && case.observed.quorum.is_some())) {
        refuse(found, 20, format!("{step} with other settings, out of turn"));
    }
}

fn is_healthy_voter(case: Case<'_>, ordinal: Ordinal) -> bool {
    let status = case.observed.slots.get(&ordinal).and_then(|v| v.status.as_ref());
    let mut members = case.observed.quorum.iter().flat_map(|q| &q.members);
    status.is_some_and(|s| s.healthy && members.any(|m| m.id == s.member && !m.learner))
}

fn rejected(case: Case<'_>) -> bool {
    let rejected = case.after.rejected.as_ref();
    rejected.is_some_and(|r| r.setup == case.spec.setup_of(r.member))
}

fn fallback(case: Case<'_>, ordinal: Ordinal) -> Option<&str> {
    let slot = case.after.slots.get(&ordinal);
    let served = slot.and_then(|slot| slot.served_as.as_ref());
    case.spec.fallback_of(ordinal, served)
}

/// What every voter has served with, if it can still be built and is not what is wanted.
fn good(case: Case<'_>, ordinal: Ordinal) -> Option<Setup> {
    let own = case.spec.own_fallbacks.contains_key(&ordinal);
    let known = case.after.good.as_ref();
    let known = known.filter(|good| own || !good.unproven || case.after.cluster.is_none())?;
    let config = fallback(case, ordinal)?.to_owned();
    let again = Setup {
        version: known.setup.version,
        config,
    };
    (known.manifest != case.spec.manifest).then_some(again)
}
