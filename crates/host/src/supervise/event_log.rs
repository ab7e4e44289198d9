//! What happens to a cluster, in the supervisor's log: steps, blocks, waits and members that end, each with its fields.
//!
//! Never: a line for every pass; a value that is secret (steps and reasons hold none).

use quorate_core::model::{Exit, MemberName, Ordinal, StepResult};
use quorate_core::purpose::purpose;
use quorate_core::transitions::{Transitions, subject};
use quorate_core::{Memory, Plan, Spec, Step};

/// Logs what has come to stand in the way of the plan, or does no longer.
pub(crate) fn standing(
    cluster: &str,
    named: impl Fn(Ordinal) -> MemberName,
    plan: &Plan,
    standing: &mut Transitions,
) {
    for change in standing.changes(plan) {
        let member = change.member.map(|ordinal| named(ordinal).to_string());
        let (member, reason) = (member.as_deref(), change.reason);
        match (change.began, change.blocks) {
            (true, true) => tracing::warn!(cluster, member, reason, "blocked: {}", change.detail),
            (true, false) => tracing::info!(cluster, member, reason, "waiting: {}", change.detail),
            (false, true) => tracing::info!(cluster, member, reason, "no longer blocked"),
            (false, false) => tracing::info!(cluster, member, reason, "no longer waiting"),
        }
    }
}

/// Logs how a step ended, and what one that was done was done for.
pub(crate) fn step(
    spec: &Spec,
    memory: &Memory,
    (step, result): (&Step, &StepResult),
    standing: &mut Transitions,
) {
    let cluster = &spec.name;
    let member = subject(step, memory).map(|ordinal| spec.member_name(ordinal).to_string());
    let (member, described) = (member.as_deref(), step.described(spec, memory));
    let (repeats, purpose) = (standing.repeats(step, result), purpose(step, spec, memory));
    let step = format!("{:?}", step.kind());
    match result {
        StepResult::Done => {
            let reason = purpose.as_deref();
            tracing::info!(cluster, member, step, reason, "{described}");
        }
        _ if repeats => tracing::debug!(cluster, member, step, "{described}: again: {result:?}"),
        StepResult::Refused(why) => {
            let reason = why.to_string();
            tracing::warn!(cluster, member, step, reason, "{described}: refused");
        }
        StepResult::Unclear(why) => {
            tracing::warn!(
                cluster,
                member,
                step,
                reason = why,
                "{described}: outcome unknown"
            );
        }
    }
}

/// Logs that a member's process has ended.
pub(crate) fn ended(cluster: &str, member: &str, exit: &Exit) {
    if exit.asked {
        tracing::info!(cluster, member, "stopped: {}", exit.how);
    } else {
        tracing::warn!(cluster, member, "ended: {}", exit.how);
    }
}
