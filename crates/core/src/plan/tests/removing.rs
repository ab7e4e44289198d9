//! A removal that etcd never answered for.

use super::fixture::*;
use crate::memory::{Change, ChangeKind};
use crate::model::*;
use crate::plan::{Step, WriteBefore};

/// Member 1 of two was asked to be removed and is, with this answer.
fn removed(answer: Option<StepResult>) -> Fixture {
    let mut f = Fixture::healthy(2);
    f.spec.replicas = 1;
    f.memory.change = Some(Change {
        kind: ChangeKind::Remove(id(1)),
        since: f.now,
    });
    f.leave(1);
    f.observed.last = answer.map(|result| Outcome {
        step: StepKind::Remove,
        result,
        at: f.now,
    });
    f
}

/// Were the survivor to crash before its next entry, it would need the vote of the one that it removed.
#[test]
fn a_removal_that_was_not_answered_is_written_down_before_the_removed_one_is_stopped() {
    let stop = Step::Stop {
        ordinal: o(1),
        since: Time(0),
    };
    let write = Step::Write {
        ordinal: o(0),
        before: WriteBefore::Outage,
    };
    for answer in [None, Some(StepResult::Unclear("reset".to_owned()))] {
        let mut f = removed(answer);
        assert_eq!(f.plan().steps, std::slice::from_ref(&write));
        assert_eq!(f.plan().steps, std::slice::from_ref(&stop));
    }
    assert_eq!(removed(Some(StepResult::Done)).plan().steps, [stop]);
}
