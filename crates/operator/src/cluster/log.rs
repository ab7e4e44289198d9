//! What happens to a cluster, in the operator's log: steps, blocks and waits, each with cluster, member, step and reason.
//!
//! Never: a line for every pass; a value that is secret (steps and reasons hold none).

use quorate_core::model::{Spec, StepResult};
use quorate_core::purpose::purpose;
use quorate_core::transitions::{Change, Transitions, subject};
use quorate_core::{Memory, Step};

use crate::names::Names;

/// Logs that something has come to stand in the way of the plan, or does no longer.
pub(crate) fn change(names: &Names, change: &Change) {
    let Names { namespace, cluster } = names;
    let member = change.member.map(|o| names.member(o).to_string());
    let (member, reason) = (member.as_deref(), change.reason);
    match (change.began, change.blocks) {
        (true, true) => tracing::warn!(namespace, cluster, member, reason, "blocked: {}", change.detail),
        (true, false) if change.warns => {
            tracing::warn!(namespace, cluster, member, reason, "waiting: {}", change.detail);
        }
        (true, false) => tracing::info!(namespace, cluster, member, reason, "waiting: {}", change.detail),
        (false, true) => tracing::info!(namespace, cluster, member, reason, "no longer blocked"),
        (false, false) => tracing::info!(namespace, cluster, member, reason, "no longer waiting"),
    }
}

/// Logs how a step ended, and what one that was done was done for.
pub(crate) fn step(
    names: &Names,
    (step, result): (&Step, &StepResult),
    spec: &Spec,
    memory: &Memory,
    standing: &mut Transitions,
) {
    let Names { namespace, cluster } = names;
    let member = subject(step, memory).map(|o| names.member(o).to_string());
    let (member, described) = (member.as_deref(), step.described(spec, memory));
    let (repeats, purpose) = (standing.repeats(step, result), purpose(step, spec, memory));
    let step = format!("{:?}", step.kind());
    match result {
        StepResult::Done => {
            let reason = purpose.as_deref();
            tracing::info!(namespace, cluster, member, step, reason, "{described}");
        }
        _ if repeats => tracing::debug!(namespace, cluster, member, step, "{described}: again: {result:?}"),
        StepResult::Refused(why) => {
            let reason = why.to_string();
            tracing::warn!(namespace, cluster, member, step, reason, "{described}: refused");
        }
        StepResult::Unclear(why) => {
            tracing::warn!(
                namespace,
                cluster,
                member,
                step,
                reason = why,
                "{described}: outcome unknown"
            );
        }
    }
}
