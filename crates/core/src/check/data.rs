//! Rule 6: data is moved aside, never from under a member, and deleted only when what replaced it serves.

use super::{Case, Violation, refuse};
use crate::model::{Listed, Ordinal, Process, Volume};
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
                if let Volume::Foreign { belongs_to } = &view.volume {
                    refuse(found, 6, format!("{step} where a volume of {belongs_to} is"));
                }
                if view.asides >= 4 {
                    refuse(found, 6, format!("{step} beside {} others", view.asides));
                }
                if case.observed.quorum.is_none() {
                    refuse(found, 6, format!("{step} while no quorum answers"));
                }
            }
            Step::Stop { ordinal, .. } if takes_volume_along(case, *ordinal) => {
                refuse(found, 6, format!("{step}, with which its volume would go"));
            }
            Step::DropAside { ordinal, .. } if !may_go(case, *ordinal) => {
                refuse(found, 6, format!("{step} although nothing serves in its place"));
            }
            _ => {}
        }
    }
}

/// Is somebody waiting for the process to end so that the volume can be deleted, while the member is in the list?
fn takes_volume_along(case: Case<'_>, ordinal: Ordinal) -> bool {
    let Some(view) = case.observed.slots.get(&ordinal) else {
        return false;
    };
    let member = case.after.slot(ordinal).member;
    let listed = case.observed.quorum.as_ref().is_none_or(|q| {
        let here = |m: &Listed| Some(m.id) == member || m.peer_urls.contains(&view.peer_url);
        q.members.iter().any(here)
    });
    view.deletion_pending && listed
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
