//! Rule 6: data is moved aside, never from under a member, and deleted only when what replaced it serves or when nobody
//! wants it.

use super::{Case, Violation, recent, refuse, voters_but};
use crate::memory::{ChangeKind, Mark};
use crate::model::{Listed, Ordinal, Process, StorageId, Volume};
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
                if let Volume::Foreign { belongs_to, .. } = &view.volume {
                    refuse(found, 6, format!("{step} where a volume of {belongs_to} is"));
                }
                if view.asides >= 4 {
                    refuse(found, 6, format!("{step} beside {} others", view.asides));
                }
                if case.observed.quorum.is_none() {
                    refuse(found, 6, format!("{step} while no quorum answers"));
                }
                if !recent(case) {
                    refuse(found, 6, format!("{step} on a stale observation"));
                }
            }
            Step::Stop { ordinal, .. } | Step::Withdraw { ordinal } if takes_volume_along(case, *ordinal) => {
                refuse(found, 6, format!("{step}, with which its volume would go"));
            }
            Step::DropAside { ordinal, .. } if !may_go(case, *ordinal) => {
                refuse(found, 6, format!("{step} although nothing serves in its place"));
            }
            Step::Discard { ordinal, storage } => {
                if let Some(why) = must_stay(case, *ordinal, storage) {
                    refuse(found, 6, format!("{step}, {why}"));
                }
            }
            _ => {}
        }
    }
}

/// Why the storage of a slot may not be deleted, if so.
fn must_stay(case: Case<'_>, ordinal: Ordinal, storage: &StorageId) -> Option<&'static str> {
    let slot = case.after.slot(ordinal);
    let seen = case.observed.slots.get(&ordinal);
    let Some((view, there)) = seen.and_then(|view| Some((view, view.storage.as_ref()?))) else {
        return Some("which nobody saw");
    };
    let Some(quorum) = &case.observed.quorum else {
        return Some("while no quorum answers");
    };
    let listed = quorum
        .members
        .iter()
        .any(|m| m.peer_urls.contains(&view.peer_url));
    let change = case.after.change.as_ref().map(|change| &change.kind);
    let joins = matches!(change, Some(ChangeKind::AddLearner(url)) if *url == view.peer_url);
    let recorded = match there.record {
        Some((generation, started)) => {
            generation > slot.generation || (generation == slot.generation && started)
        }
        None => slot.generation.0 == 0,
    };
    let idle = matches!(view.process, Process::Stopped { .. });
    let (voters, healthy) = voters_but(case.observed, None);
    [
        (!recent(case), "as it was seen a while ago"),
        (there.id != *storage, "which is not the one that was seen"),
        (
            case.after.cluster != Some(quorum.cluster),
            "while another cluster answers",
        ),
        (case.spec.wants(ordinal), "which is wanted"),
        (
            listed || slot.member.is_some() || slot.mark != Mark::Never,
            "which is a member's",
        ),
        (joins, "which a member is about to use"),
        (there.in_use || !idle, "which is in use"),
        (
            healthy < voters,
            "while a voter does not serve, whose data it may be",
        ),
        (recorded, "which may hold a member's data"),
        (
            matches!(view.volume, Volume::Foreign { .. }) || slot.belongs_to.is_some(),
            "which holds another member's data",
        ),
        (
            view.marks.is_some_and(|marks| marks.epoch > case.after.epoch),
            "which is of a later epoch",
        ),
    ]
    .into_iter()
    .find_map(|(stays, why)| stays.then_some(why))
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
