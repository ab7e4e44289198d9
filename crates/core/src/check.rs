//! The safety check: judges a plan against the safety list by rules of its own.
//!
//! In: everything the planner had and everything it gave. Out: what it would break, empty if nothing.
//! Never: a word of the planner's or the guards' reasoning; only their data types are shared, so that a mistake
//! there is not repeated here.

use std::fmt;

use crate::memory::Memory;
use crate::model::{Observed, Spec, Time};
use crate::plan::Plan;

mod change;
mod data;
mod disturbance;
mod membership;
mod remembering;
mod standstill;
mod starting;
#[cfg(test)]
mod tests;

/// A rule of the safety list that a plan would break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number in the safety list.
    pub rule: u8,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}", self.rule, self.what)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub spec: &'a Spec,
    pub observed: &'a Observed,
    pub before: &'a Memory,
    pub after: &'a Memory,
    pub plan: &'a Plan,
    pub now: Time,
}

/// Judges `plan`, made from `before` and asking to store `after`.
pub fn check(
    spec: &Spec,
    observed: &Observed,
    before: &Memory,
    after: &Memory,
    plan: &Plan,
    now: Time,
) -> Vec<Violation> {
    let case = Case {
        spec,
        observed,
        before,
        after,
        plan,
        now,
    };
    let mut found = Vec::new();
    membership::judge(case, &mut found);
    starting::judge(case, &mut found);
    disturbance::judge(case, &mut found);
    data::judge(case, &mut found);
    remembering::judge(case, &mut found);
    change::judge(case, &mut found);
    standstill::judge(case, &mut found);
    found
}

pub(crate) fn refuse(found: &mut Vec<Violation>, rule: u8, what: impl Into<String>) {
    found.push(Violation {
        rule,
        what: what.into(),
    });
}

/// Voters other than `except`, as (all, healthy). Health is what each said of itself under its own id in this look.
pub(crate) fn voters_but(observed: &Observed, except: Option<crate::model::MemberId>) -> (usize, usize) {
    let members = observed.quorum.iter().flat_map(|q| &q.members);
    let voters: Vec<_> = members.filter(|m| !m.learner && Some(m.id) != except).collect();
    // A member that was told to stop may still answer; it does not count.
    let stays = |s: &&crate::model::SlotView| s.process != crate::model::Process::Stopping;
    let healthy = voters.iter().filter(|m| {
        let mut statuses = observed
            .slots
            .values()
            .filter(stays)
            .filter_map(|s| s.status.as_ref());
        statuses.any(|s| s.member == m.id && s.healthy)
    });
    (voters.len(), healthy.count())
}

/// Was it looked at within the last seconds, as far as the clock can say?
pub(crate) fn recent(case: Case<'_>) -> bool {
    case.observed.at <= case.now && case.now.0 - case.observed.at.0 < 6_000
}

pub(crate) fn majority(healthy: usize, all: usize) -> bool {
    healthy * 2 > all
}
