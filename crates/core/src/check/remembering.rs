//! What was latched stays latched: the bootstrap, the cluster's id, the mark that a volume was started.

use super::{Case, Violation, refuse};
use crate::memory::Mark;
use crate::model::{Ordinal, Process, Progress};

pub(super) fn judge(case: Case<'_>, found: &mut Vec<Violation>) {
    let Case { before, after, .. } = case;
    if before.bootstrap.is_some() && before.bootstrap != after.bootstrap {
        refuse(found, 4, "the bootstrap on record changed");
    }
    if before.cluster.is_some() && before.cluster != after.cluster {
        refuse(found, 4, "the cluster on record changed");
    }
    if after.epoch < before.epoch {
        refuse(found, 4, "the cluster went back to an earlier epoch");
    }
    for (ordinal, was) in &before.slots {
        let Some(is) = after.slots.get(ordinal) else {
            refuse(found, 4, format!("member {ordinal} was forgotten"));
            continue;
        };
        if is.generation < was.generation {
            refuse(found, 4, format!("member {ordinal} went back to an older volume"));
        }
        if is.generation == was.generation && rank(is.mark) < rank(was.mark) {
            refuse(found, 4, format!("the mark of member {ordinal} was taken back"));
        }
        let less = is.reached.run < was.reached.run || is.reached.index < was.reached.index;
        let forgotten = less && !agreed(case, *ordinal, is.reached);
        if is.generation == was.generation && (forgotten || is.run < was.run) {
            refuse(
                found,
                4,
                format!("how far the volume of member {ordinal} had come was forgotten"),
            );
        }
        // A volume is given up only when a quorum says, in this very look, that its member is gone.
        let given_up = is.generation > was.generation && was.member.is_some();
        let listed = case
            .observed
            .quorum
            .as_ref()
            .is_some_and(|q| was.member.is_some_and(|id| q.members.iter().any(|m| m.id == id)));
        if given_up && (case.observed.quorum.is_none() || listed) {
            refuse(
                found,
                4,
                format!("the volume of member {ordinal} was given up while it is a member"),
            );
        }
    }
}

/// Did the user agree to go on from what was found, knowing what was there? Only where no other member could be contradicted,
/// and nothing runs.
fn agreed(case: Case<'_>, ordinal: Ordinal, left: Progress) -> bool {
    let (was, others) = (case.before.slot(ordinal), case.before.slots.iter());
    let alone = others
        .filter(|(o, _)| **o != ordinal)
        .all(|(_, s)| s.member.is_none());
    let view = case.observed.slots.get(&ordinal);
    let view = view.filter(|v| matches!(v.process, Process::Stopped { .. }));
    let Some(marks) = view.and_then(|v| v.marks) else {
        return false;
    };
    let text = marks.consent(&case.spec.member_name(ordinal), was.reached);
    alone && case.spec.accept_rolled_back == Some(text) && left == marks.accepted(was.reached)
}

fn rank(mark: Mark) -> u8 {
    match mark {
        Mark::Never => 0,
        Mark::Intended => 1,
        Mark::Started => 2,
    }
}
