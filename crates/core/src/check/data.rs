//! Rule 6: data is moved aside, never from under a member, and deleted only when what replaced it serves.

use super::{Case, Violation, refuse};
use crate::model::{Ordinal, Process};
use crate::plan::Step;

pub(super) fn judge(case: Case<'_>, found: &mut Vec<Violation>) {
    for step in &case.plan.steps {
        match step {
            Step::SetAside { ordinal, generation } => {
                let Some(view) = case.observed.slots.get(ordinal) else {
                    refuse(found, 6, format!("{step} unseen"));
                    continue;
                };
                if *generation >= case.after.slot(*ordinal).generation {
                    refuse(found, 6, format!("{step}, its present volume"));
                }
                let on_it = match view.process {
                    Process::Running {
                        generation: running, ..
                    } => running == *generation,
                    Process::Stopping => true,
                    Process::Stopped { .. } => false,
                };
                if on_it {
                    refuse(found, 6, format!("{step} from under its process"));
                }
                if view.asides >= 4 {
                    refuse(found, 6, format!("{step} beside {} others", view.asides));
                }
                if case.observed.quorum.is_none() {
                    refuse(found, 6, format!("{step} while no quorum answers"));
                }
            }
            Step::DropAside { ordinal, .. } if !may_go(case, *ordinal) => {
                refuse(found, 6, format!("{step} although nothing serves in its place"));
            }
            _ => {}
        }
    }
}

fn may_go(case: Case<'_>, ordinal: Ordinal) -> bool {
    let Some(view) = case.observed.slots.get(&ordinal) else {
        return false;
    };
    let Some(quorum) = &case.observed.quorum else {
        return false;
    };
    let member = case.after.slot(ordinal).member;
    match member.and_then(|id| quorum.members.iter().find(|m| m.id == id)) {
        Some(m) => {
            !m.learner
                && view
                    .status
                    .as_ref()
                    .is_some_and(|s| s.member == m.id && s.healthy)
        }
        None => !case.spec.wants(ordinal),
    }
}
