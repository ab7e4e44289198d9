//! Rule 5: one member at a time is stopped on purpose, and only if the rest are a healthy majority without it.

use super::{Case, Violation, majority, recent, refuse, voters_but};
use crate::memory::Mark;
use crate::model::{MemberId, Ordinal, Process, Resize, SlotView, Volume};
use crate::plan::{Step, WriteBefore, pace};

pub(super) fn judge(case: Case<'_>, found: &mut Vec<Violation>) {
    let stopped: Vec<(Ordinal, MemberId)> = case
        .plan
        .steps
        .iter()
        .filter_map(|s| {
            // With too little memory a member ends, as if it were stopped.
            if let Step::Stop { ordinal, .. } | Step::Resize { ordinal, .. } = s {
                Some(*ordinal)
            } else {
                None
            }
        })
        .filter_map(|o| voter_in(case, o).map(|id| (o, id)))
        .collect();
    if stopped.len() > 1 {
        refuse(found, 5, format!("{} voters stopped at once", stopped.len()));
    }
    if case.observed.quorum.is_none() {
        without_quorum(case, found);
    }
    growth(case, found);
    resizes(case, found);
    for (ordinal, id) in stopped {
        let status = case
            .observed
            .slots
            .get(&ordinal)
            .and_then(|view| view.status.as_ref());
        let leaves = status.is_some_and(|s| s.healthy && s.version.minor == 4) && case.spec.version.minor > 4;
        let written = Step::Write {
            ordinal,
            before: WriteBefore::LeavingMinor4,
        };
        if leaves && case.spec.wants(ordinal) && !case.plan.steps.contains(&written) {
            let what = format!("member {ordinal} leaves etcd 3.4 without a write before it is stopped");
            refuse(found, 15, what);
        }
        if !recent(case) {
            refuse(
                found,
                5,
                format!("member {ordinal} stopped on a stale observation"),
            );
        }
        if case
            .before
            .disturbance
            .as_ref()
            .is_some_and(|d| d.ordinal != ordinal)
        {
            let still = case
                .after
                .disturbance
                .as_ref()
                .is_some_and(|d| d.ordinal != ordinal);
            if still {
                refuse(
                    found,
                    5,
                    format!("member {ordinal} stopped while another is disturbed"),
                );
            }
        }
        let (others, mut healthy) = voters_but(case.observed, Some(id));
        // Who trusts only a lost CA cannot be heard, though a quorum answers.
        if trusts_lost_ca(case, ordinal) && case.observed.quorum.is_some() {
            let unheard =
                |o: &&Ordinal| **o != ordinal && trusts_lost_ca(case, **o) && voter_in(case, **o).is_some();
            healthy += case.observed.lost_ca.iter().filter(unheard).count();
        }
        // One or two members that are all there should be cannot do without any; a third one that is missing can be waited for.
        let few = others <= 1 && healthy == others && case.spec.replicas <= 2;
        if !few && !majority(healthy, others + 1) {
            refuse(
                found,
                5,
                format!("member {ordinal} stopped; {healthy} of the other {others} voters are healthy"),
            );
        } else if healthy < others && status.is_some_and(|s| s.healthy) {
            refuse(
                found,
                5,
                format!("member {ordinal}, which serves, stopped while another voter does not"),
            );
        }
    }
}

/// Resources change while a process runs that lacks nothing else, remembered before, and only while a quorum answers.
fn resizes(case: Case<'_>, found: &mut Vec<Violation>) {
    for step in &case.plan.steps {
        let Step::Resize { ordinal, config } = step else {
            continue;
        };
        let view = case.observed.slots.get(ordinal);
        let possible = view.is_some_and(|view| view.resize == Resize::Possible);
        if !possible || *config != case.spec.config_of(*ordinal) {
            refuse(found, 5, format!("{step}, which nobody asked for"));
        }
        let disturbance = case.after.disturbance.as_ref();
        let remembered = disturbance.is_some_and(|d| d.ordinal == *ordinal && !d.settle && !d.again);
        if !remembered || case.observed.quorum.is_none() {
            refuse(found, 5, format!("{step}, not in its turn"));
        }
    }
}

/// Storage may need its member to be restarted for it: one at a time, and not while another still grows.
fn growth(case: Case<'_>, found: &mut Vec<Violation>) {
    let grows = |s: &&Step| matches!(s, Step::Grow { .. });
    let mut steps = case.plan.steps.iter().filter(grows);
    let Some(step) = steps.next() else { return };
    let Step::Grow { ordinal, storage, to } = step else {
        return;
    };
    let wanted = case.observed.slots.iter().filter(|(o, _)| case.spec.wants(**o));
    let mut storages = wanted.filter_map(|(_, view)| view.storage.as_ref());
    if steps.next().is_some() || storages.any(|s| s.size.grows()) {
        refuse(found, 5, format!("{step} beside that of another"));
    }
    if !recent(case) {
        refuse(found, 6, format!("{step} on a stale observation"));
    }
    let seen = case.observed.slots.get(ordinal).and_then(|v| v.storage.as_ref());
    let smaller = seen.filter(|s| s.id == *storage && s.size.asked.is_some_and(|asked| asked < *to));
    if smaller.is_none() || case.spec.storage != Some(*to) {
        refuse(found, 6, format!("{step}, which nobody asked for"));
    }
}

/// Without a quorum only a member is stopped that cannot be part of one: it trusts nothing but a lost CA, and is to be
/// given another. More than one only after one has shown that it starts with that, and has had the time to hear them.
fn without_quorum(case: Case<'_>, found: &mut Vec<Violation>) {
    let stops = case.plan.steps.iter().filter_map(|step| match step {
        Step::Stop { ordinal, .. } => Some(*ordinal),
        _ => None,
    });
    let stops: Vec<Ordinal> = stops.collect();
    if let [ordinal] = stops[..]
        && never_served(case, ordinal)
    {
        return;
    }
    if stops.iter().any(|ordinal| !trusts_lost_ca(case, *ordinal)) {
        return refuse(found, 5, "a member stopped while no quorum answers");
    }
    let shown = |(ordinal, view): (&Ordinal, &SlotView)| match &view.process {
        Process::Running { config, since, .. } => {
            !case.observed.lost_ca.contains(ordinal)
                && config == case.spec.config_of(*ordinal)
                && (*since > case.now || case.now - *since >= pace::HEARS_OTHERS)
        }
        _ => false,
    };
    if stops.len() > 1 && !case.observed.slots.iter().any(shown) {
        let what = format!(
            "{} members restarted for a lost CA before one has started and heard nobody",
            stops.len()
        );
        refuse(found, 17, what);
    }
}

/// Does its process trust only CAs that are lost, and does not answer?
fn trusts_lost_ca(case: Case<'_>, ordinal: Ordinal) -> bool {
    let view = case.observed.slots.get(&ordinal);
    let unheard = view.filter(|view| view.status.is_none() && case.observed.lost_ca.contains(&ordinal));
    unheard.is_some_and(
        |view| matches!(&view.process, Process::Running { config, .. } if *config != case.spec.config_of(ordinal)),
    )
}

/// Does it not serve, as what it never served as? Then it may stop if it cannot be part of a quorum that is not seen: it is
/// alone, or has been silent for long and too few others may have one.
fn never_served(case: Case<'_>, ordinal: Ordinal) -> bool {
    let slot = case.before.slot(ordinal);
    let Some(view) = case.observed.slots.get(&ordinal) else {
        return false;
    };
    let Process::Running { version, config, .. } = &view.process else {
        return false;
    };
    let served = slot.served_as.as_ref();
    let as_another = served.is_none_or(|s| s.config != *config || s.version != *version);
    let forming = case
        .before
        .bootstrap
        .as_ref()
        .filter(|_| case.before.cluster.is_none());
    let may_vote = |o: &Ordinal, slot: &crate::memory::Slot| match forming {
        Some(bootstrap) => bootstrap.members.contains_key(o),
        // Nobody may have noted its id yet.
        None => slot.member.is_some() || slot.mark != Mark::Never,
    };
    let lost = slot.mark == Mark::Started && !matches!(view.volume, Volume::Data { .. } | Volume::Unknown);
    if lost || !as_another || !may_vote(&ordinal, &slot) || view.status.is_some() {
        return false;
    }
    let members = case.before.slots.iter().filter(|(o, s)| may_vote(o, s));
    let members: Vec<Ordinal> = members.map(|(o, _)| *o).collect();
    let votes = |o: &&Ordinal| forming.is_some() || case.before.slot(**o).voter;
    let voters = members.iter().filter(votes).count();
    let may_serve = members.iter().filter(|o| match case.observed.slots.get(o) {
        None => true,
        Some(view) if matches!(view.process, Process::Stopped { .. }) => false,
        Some(view) => match &view.status {
            Some(_) => case.after.slot(**o).leaderless.0 < 10,
            None => case.after.slot(**o).unanswered.0 < 10,
        },
    });
    let silent = case.after.slot(ordinal).unanswered.0 >= 10;
    members == [ordinal] || (silent && !majority(may_serve.count(), voters))
}

/// The voter whose present process a stop of `ordinal` would end.
pub(super) fn voter_in(case: Case<'_>, ordinal: Ordinal) -> Option<MemberId> {
    let view = case.observed.slots.get(&ordinal)?;
    let slot = case.after.slot(ordinal);
    let present =
        matches!(view.process, Process::Running { generation, .. } if generation == slot.generation);
    let here = |id| slot.member == Some(id) || view.status.as_ref().is_some_and(|s| s.member == id);
    let mut voters = case
        .observed
        .quorum
        .iter()
        .flat_map(|q| &q.members)
        .filter(|m| present && !m.learner);
    voters
        .find(|m| here(m.id) || m.peer_urls.contains(&view.peer_url))
        .map(|m| m.id)
}
