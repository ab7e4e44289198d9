//! A clock that is set back or ahead: nothing is acted on too soon, and nothing waits for a time that never comes.

use std::time::Duration;

use super::fixture::{Fixture, id, o, reasons, url};
use crate::check::check;
use crate::memory::{Change, ChangeKind};
use crate::model::{Basis, Time};
use crate::plan::{Plan, Step, pace};

const HOUR: Duration = Duration::from_secs(3600);

impl Fixture {
    /// The clock is set back, and the cluster is looked at again.
    fn set_back(&mut self, by: Duration) -> &mut Self {
        self.now = Time(self.now.0.saturating_sub(by.as_millis() as u64));
        self.observed.at = self.now;
        self
    }
}

/// A cluster that has been looked at for some hours.
fn aged(replicas: u32) -> Fixture {
    let mut f = Fixture::healthy(replicas);
    f.later(HOUR * 5).plan();
    f
}

#[test]
fn a_look_from_before_the_clock_was_set_back_is_not_acted_on() {
    let mut f = aged(3);
    f.spec.replicas = 2;
    f.now = Time(f.now.0 - 60_000);
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["OldView"]));
    f.observed.at = f.now;
    assert!(!f.plan().steps.is_empty(), "a look by the clock as it is now is");
}

#[test]
fn the_check_refuses_what_is_done_on_a_look_from_the_future() {
    let mut f = aged(3);
    let old = f.observed.at + Duration::from_secs(60);
    for step in [
        Step::Stop {
            ordinal: o(2),
            since: Time(0),
        },
        Step::AddLearner {
            ordinal: o(3),
            peer_url: url(3),
            basis: Basis::of(&f.observed.quorum.as_ref().unwrap().members),
        },
    ] {
        let mut after = f.memory.clone();
        after.change = Some(Change {
            kind: ChangeKind::AddLearner(url(3)),
            since: f.now,
        });
        let plan = Plan {
            steps: vec![step.clone()],
            ..Plan::default()
        };
        let refused = |f: &Fixture| check(&f.spec, &f.observed, &f.memory, &after, &plan, f.now);
        assert_eq!(refused(&f), vec![], "{step} on a look of now");
        let at = std::mem::replace(&mut f.observed.at, old);
        assert_eq!(refused(&f).len(), 1, "{step} on a look of a minute ahead");
        f.observed.at = at;
    }
}

#[test]
fn a_member_recovers_although_the_clock_was_set_back() {
    let mut f = aged(3);
    let slot = f.memory.slots.get_mut(&o(1)).unwrap();
    (slot.starts, slot.replacements) = (5, pace::REPLACEMENTS_MAX);
    slot.healthy_since = Some(f.now);
    f.set_back(HOUR).plan();
    f.later(pace::STABLE).plan();
    let slot = f.memory.slot(o(1));
    assert_eq!(
        (slot.starts, slot.replacements),
        (0, 0),
        "healthy for as long as it takes, by the clock as it is now"
    );
}

#[test]
fn the_only_voter_is_not_stopped_sooner_because_the_clock_was_set_back() {
    let mut f = aged(1);
    f.memory.list = f.memory.list.map(|(basis, _)| (basis, f.now));
    f.spec.config = "other".into();
    f.set_back(HOUR);
    assert_eq!(f.steps(), Vec::<String>::new());
    f.later(pace::STABLE);
    assert!(!f.plan().steps.is_empty(), "and not later than it would be");
}

#[test]
fn a_change_that_may_be_under_way_is_not_forgotten_because_the_clock_was_set_back() {
    let mut f = aged(3);
    f.spec.replicas = 2;
    f.memory.change = Some(Change {
        kind: ChangeKind::Remove(id(2)),
        since: f.now,
    });
    f.set_back(HOUR);
    let plan = f.plan();
    assert_eq!((plan.steps.len(), reasons(&plan)), (0, vec!["ChangeInFlight"]));
    f.later(pace::CHANGE_DEADLINE + Duration::from_millis(1));
    assert!(!f.plan().steps.is_empty(), "it is given up in the end");
}

/// Every time in the memory lies years ahead: what is lost is replaced, and what is down is started, all the same.
#[test]
fn times_in_the_future_stop_no_healing() {
    let ahead = Time(u64::MAX / 2);
    let far = |f: &mut Fixture| {
        for slot in f.memory.slots.values_mut() {
            slot.last_start = ahead;
            slot.withdrawn = (9, ahead);
            slot.healthy_since = slot.healthy_since.map(|_| ahead);
            slot.unhealthy_since = slot.unhealthy_since.map(|_| ahead);
            slot.starts = 9;
        }
        f.memory.list = f.memory.list.map(|(basis, _)| (basis, ahead));
        f.memory.change_not_before = ahead;
        f.memory.looked = ahead;
    };
    let mut f = aged(3);
    f.kill(1);
    far(&mut f);
    assert_eq!(f.steps(), ["start member 1 (g0) from its data, etcd 3.6.1"]);
    let mut f = aged(3);
    f.wipe(2);
    far(&mut f);
    assert_eq!(f.steps(), [format!("remove member {} from the cluster", id(2))]);
    let mut f = aged(3);
    f.spec.replicas = 4;
    f.observed.slots.insert(o(3), Fixture::vacant(3));
    f.memory.slots.entry(o(3)).or_default();
    far(&mut f);
    assert_eq!(f.steps().len(), 1, "a member is added");
}
