//! Rules 1 to 3: one change at a time, asked of a quorum in this very look, a healthy majority before and after.

use super::{Case, Violation, majority, recent, refuse, voters_but};
use crate::memory::ChangeKind;
use crate::model::{Basis, Listed, MemberId, Volume};
use crate::plan::{Step, WriteBefore};

pub(super) fn judge(case: Case<'_>, found: &mut Vec<Violation>) {
    let changes: Vec<&Step> = case
        .plan
        .steps
        .iter()
        .filter(|s| s.changes_membership())
        .collect();
    if changes.len() > 1 {
        refuse(found, 1, format!("{} membership changes at once", changes.len()));
    }
    let Some(&step) = changes.first() else { return };
    let Some(quorum) = &case.observed.quorum else {
        return refuse(
            found,
            1,
            format!("{step} without a member list from this observation"),
        );
    };
    if case.after.cluster != Some(quorum.cluster) {
        refuse(
            found,
            1,
            format!("{step} in cluster {}, which is not ours", quorum.cluster),
        );
    }
    if !recent(case) {
        let (at, now) = (case.observed.at, case.now);
        refuse(found, 1, format!("{step} on a look of {at}, and it is {now}"));
    }
    let (all, healthy) = voters_but(case.observed, None);
    if !majority(healthy, all) {
        refuse(
            found,
            1,
            format!("{step} while only {healthy} of {all} voters are healthy"),
        );
    }
    let listed = |id: MemberId| quorum.members.iter().find(|m| m.id == id);
    let (basis, intent) = match step {
        Step::AddLearner { peer_url, basis, .. } => {
            if quorum.members.iter().any(|m| m.learner) {
                refuse(found, 1, format!("{step} beside another learner"));
            }
            if quorum.members.iter().any(|m| m.peer_urls.contains(peer_url)) {
                refuse(found, 3, format!("{step}, which is a member already"));
            }
            (basis, ChangeKind::AddLearner(peer_url.clone()))
        }
        Step::Promote { member, basis, .. } => {
            if !listed(*member).is_some_and(|m| m.learner) {
                refuse(found, 1, format!("{step}, which is no learner"));
            }
            // The learner may be gone the moment it votes. A sole voter can never do without it.
            if all > 1 && !majority(healthy, all + 1) {
                refuse(
                    found,
                    1,
                    format!("{step} would make {healthy} healthy voters no majority"),
                );
            }
            (basis, ChangeKind::Promote(*member))
        }
        Step::Remove { member, basis } => {
            match listed(*member) {
                Some(gone) => removal(case, step, gone, found),
                None => refuse(found, 3, format!("{step}, which is no member")),
            }
            (basis, ChangeKind::Remove(*member))
        }
        _ => return,
    };
    if *basis != Basis::of(&quorum.members) {
        refuse(
            found,
            1,
            format!("{step} names another member list than the one it was planned on"),
        );
    }
    if case.after.change.as_ref().map(|c| &c.kind) != Some(&intent) {
        refuse(found, 1, format!("{step} is not written down as the intent"));
    }
}

fn removal(case: Case<'_>, step: &Step, gone: &Listed, found: &mut Vec<Violation>) {
    if gone.learner {
        return;
    }
    let (all, healthy) = voters_but(case.observed, Some(gone.id));
    // Whoever leads must stay, or those that stay must be able to find out without it that it is gone.
    let leader = case.observed.quorum.as_ref().and_then(|q| q.leader);
    let stays = |m: &Listed| !m.learner && m.id != gone.id && Some(m.id) == leader;
    let led = case.observed.quorum.iter().flat_map(|q| &q.members).any(stays);
    if !led && !majority(healthy, all + 1) {
        refuse(found, 2, format!("{step} before one that stays leads"));
    }
    if all == 0 {
        refuse(found, 2, format!("{step}, the last voter"));
    }
    // Killed before its next entry, the survivor of two would wait for the vote of the one that is gone.
    let writes = |s: &Step| {
        matches!(
            s,
            Step::Write {
                before: WriteBefore::Outage,
                ..
            }
        )
    };
    if all == 1 && !case.plan.steps.iter().skip_while(|s| *s != step).any(writes) {
        refuse(
            found,
            2,
            format!("{step}, and the last voter does not write that down"),
        );
    }
    if !majority(healthy, all) {
        refuse(
            found,
            2,
            format!("{step} would leave {healthy} healthy of {all} voters"),
        );
    }
    let slot = case
        .after
        .slots
        .iter()
        .find(|(_, s)| s.member == Some(gone.id))
        .map(|(o, _)| *o);
    let Some(ordinal) = slot else {
        return refuse(found, 3, format!("{step}, whose place is not known"));
    };
    let Some(view) = case.observed.slots.get(&ordinal) else {
        return;
    };
    let well = view
        .status
        .as_ref()
        .is_some_and(|s| s.member == gone.id && s.healthy);
    let sound = matches!(view.volume, Volume::Data { .. } | Volume::Unknown) && !view.deletion_pending;
    if case.spec.wants(ordinal) {
        if well && sound {
            refuse(found, 2, format!("{step}, which is wanted, healthy and sound"));
        }
        return;
    }
    // Going for good: a healthy one goes only if no healthy one of a higher number is to go too.
    let higher = case.after.slots.iter().any(|(o, s)| {
        *o > ordinal && s.member.is_some_and(|id| is_healthy_voter(case, id)) && !case.spec.wants(*o)
    });
    if well && sound && higher {
        refuse(found, 2, format!("{step} out of order"));
    }
}

fn is_healthy_voter(case: Case<'_>, id: MemberId) -> bool {
    let voter = case
        .observed
        .quorum
        .iter()
        .flat_map(|q| &q.members)
        .any(|m| m.id == id && !m.learner);
    voter
        && case
            .observed
            .slots
            .values()
            .filter_map(|s| s.status.as_ref())
            .any(|s| s.member == id && s.healthy)
}
