//! Rules 4, 7 and 15: what may be started on which volume, as what, in which version.

use std::collections::BTreeSet;

use super::{Case, Violation, refuse};
use crate::memory::Mark;
use crate::model::{FirstStart, Generation, Ordinal, Place, Process, SlotView, Version, Volume};
use crate::plan::{StartHow, Step};

pub(super) fn judge(case: Case<'_>, found: &mut Vec<Violation>) {
    let mut seen = BTreeSet::new();
    for step in &case.plan.steps {
        if let Step::Provide {
            ordinal, generation, ..
        } = step
        {
            let idle = case.observed.slots.get(ordinal);
            let idle = idle.is_some_and(|v| matches!(v.process, Process::Stopped { .. }));
            if !idle || *generation != case.after.slot(*ordinal).generation || !seen.insert(*ordinal) {
                refuse(found, 7, format!("{step} where one may be in use"));
            }
        }
        if let Step::Withdraw { ordinal } = step {
            let idle = case.observed.slots.get(ordinal);
            let idle = idle.is_some_and(|v| matches!(v.process, Process::Stopped { .. }));
            if !idle || !seen.insert(*ordinal) {
                refuse(found, 7, format!("{step} while it may be in use"));
            }
        }
        let Step::Start {
            ordinal,
            generation,
            how,
            version,
            config,
        } = step
        else {
            continue;
        };
        if !seen.insert(*ordinal) {
            refuse(found, 4, format!("{step} twice in one plan"));
        }
        let Some(view) = case.observed.slots.get(ordinal) else {
            refuse(found, 4, format!("{step} unseen"));
            continue;
        };
        let own = case.before.slot(*ordinal).member;
        let status = view.status.as_ref();
        let serves = status.is_some_and(|s| s.healthy && Some(s.member) == own);
        if serves || !matches!(view.process, Process::Stopped { .. }) {
            refuse(found, 7, format!("{step} while its process runs"));
        }
        let made_for = view.made_for.as_ref();
        let for_another = made_for.is_some_and(|m| m.version != *version || m.config != *config);
        if view.place != Place::Ready || for_another {
            refuse(found, 4, format!("{step} where there is no place for it"));
        }
        volume(case, step, *ordinal, *generation, view, found);
        newness(case, step, *ordinal, how, view, found);
        if view.replay_limit.is_some_and(|newest| version.minor > newest) {
            refuse(found, 7, format!("{step}, which cannot replay its log"));
        }
        if !matches!(how, StartHow::Join { .. }) {
            versions(case, step, *ordinal, *version, found);
        }
    }
}

fn volume(
    case: Case<'_>,
    step: &Step,
    ordinal: Ordinal,
    generation: Generation,
    view: &SlotView,
    found: &mut Vec<Violation>,
) {
    let slot = case.after.slot(ordinal);
    // What was looked at is the volume the memory named before; a start on any other was not looked at.
    if generation != slot.generation || generation != case.before.slot(ordinal).generation {
        refuse(
            found,
            4,
            format!("{step} on a volume that is not its present one"),
        );
    }
    if slot.mark == Mark::Never {
        refuse(found, 4, format!("{step} without the mark that it was started"));
    }
    if let (Volume::Data { cluster, .. }, Some(ours)) = (&view.volume, case.after.cluster)
        && *cluster != ours
    {
        refuse(found, 4, format!("{step} on data of cluster {cluster}"));
    }
    if let (Volume::Data { member, .. }, Some(own)) = (&view.volume, case.before.slot(ordinal).member)
        && *member != own
    {
        refuse(found, 4, format!("{step} on data of member {member}"));
    }
    presence(case, step, ordinal, view, found);
}

/// What lies there is as it was left: of this epoch, and nothing that was known to be on it is missing.
fn presence(case: Case<'_>, step: &Step, ordinal: Ordinal, view: &SlotView, found: &mut Vec<Violation>) {
    match &view.volume {
        Volume::Foreign { belongs_to, .. } => {
            refuse(found, 4, format!("{step} on a volume of {belongs_to}"));
        }
        Volume::RolledBack { why } => refuse(found, 4, format!("{step}, which was rolled back: {why}")),
        Volume::OtherEpoch { epoch } => refuse(found, 4, format!("{step} on a volume of epoch {epoch}")),
        Volume::Data { .. } | Volume::Empty | Volume::Damaged { .. } | Volume::Unknown => {}
    }
    let (Volume::Data { .. }, Some(marks)) = (&view.volume, view.marks) else {
        return;
    };
    // As it is to be remembered: nothing of it is forgotten without the user's word (see `remembering`).
    let known = case.after.slot(ordinal).reached;
    if marks.epoch != case.after.epoch {
        refuse(found, 4, format!("{step} on a volume of epoch {}", marks.epoch));
    }
    let forgot_a_start = marks.run.is_some_and(|run| run < known.run);
    let lacks_entries = marks.last_index.is_some_and(|last| last < known.index);
    if forgot_a_start || lacks_entries {
        refuse(found, 4, format!("{step}, which was rolled back"));
    }
}

fn newness(
    case: Case<'_>,
    step: &Step,
    ordinal: Ordinal,
    how: &StartHow,
    view: &SlotView,
    found: &mut Vec<Violation>,
) {
    if matches!(how, StartHow::Resume | StartHow::Settle) {
        if !matches!(view.volume, Volume::Data { .. }) {
            refuse(found, 4, format!("{step}, which has none"));
        }
        return;
    }
    let proven = matches!(view.first_start, FirstStart::NotRun | FirstStart::RanWithoutData);
    let never_ran = match case.before.slot(ordinal).mark {
        Mark::Never => true,
        // What a volume proves that lacks a start which was made on it was true before it was put back.
        Mark::Intended => {
            let run = view.marks.and_then(|m| m.run).unwrap_or(0);
            proven && run >= case.before.slot(ordinal).reached.run
        }
        Mark::Started => false,
    };
    if view.volume != Volume::Empty || !never_ran {
        refuse(found, 4, format!("{step} on a volume that may have run before"));
    }
    match how {
        StartHow::New { token, initial } => {
            let Some(bootstrap) = &case.after.bootstrap else {
                return refuse(found, 4, format!("{step} without a bootstrap on record"));
            };
            if case.before.cluster.is_some() || case.after.cluster.is_some() {
                refuse(found, 4, format!("{step} although the cluster exists"));
            }
            let same = bootstrap.members.len() == initial.len()
                && initial
                    .iter()
                    .all(|(_, url)| bootstrap.members.values().any(|u| u == url));
            if bootstrap.token != *token || !same {
                refuse(
                    found,
                    4,
                    format!("{step} with another bootstrap than the one on record"),
                );
            }
        }
        StartHow::Join { initial } => {
            let members = case.observed.quorum.iter().flat_map(|q| &q.members);
            let here = members.clone().find(|m| m.peer_urls.contains(&view.peer_url));
            if !here.is_some_and(|m| m.learner) {
                refuse(
                    found,
                    4,
                    format!("{step}, which the list does not have as a learner"),
                );
            }
            let urls = members.flat_map(|m| &m.peer_urls).collect::<BTreeSet<_>>();
            if urls != initial.iter().map(|(_, u)| u).collect() {
                refuse(found, 4, format!("{step} with another list than the present one"));
            }
        }
        StartHow::Resume | StartHow::Settle => {}
    }
}

fn versions(case: Case<'_>, step: &Step, ordinal: Ordinal, version: Version, found: &mut Vec<Violation>) {
    let slot = case.before.slot(ordinal);
    if slot.generation != case.after.slot(ordinal).generation {
        return;
    }
    if slot.version.is_some_and(|v| v.minor > version.minor) || slot.served.is_some_and(|v| v > version) {
        refuse(found, 7, format!("{step} on data of a newer etcd"));
    }
    if let Some(served) = slot.served {
        if version.minor > served.minor.saturating_add(1) {
            refuse(found, 15, format!("{step} skips a minor after {served}"));
        }
        if version != served && version.minor == 5 && version.patch < 3 {
            refuse(found, 15, format!("{step}, which is known to corrupt data"));
        }
        if served.minor == 5 && version.minor == 6 && served.patch < 26 {
            refuse(found, 15, format!("{step} straight from {served}"));
        }
    }
}
