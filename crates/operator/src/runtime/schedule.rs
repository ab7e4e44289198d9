//! Which object is looked at when: those that wait, those under way, and how long each must be left alone.
//!
//! In: objects that were woken, passes that ended, the time. Out: the next one to look at. Never: two passes over one
//! object at once; an object that others keep from its turn; a pass before the pause after the last one is over, however
//! often its object is woken.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::reconcile::AT_REST;
use crate::runtime::work::WorkKey;

/// Looks a second at objects at rest, all together. With more objects than that allows every [`AT_REST`], each is looked
/// at less often; what its watches report wakes it all the same.
const LOOKS_AT_REST: usize = 100;
/// The shortest time between two looks at one object.
pub const SOONEST: Duration = Duration::from_millis(200);
/// The pause after a first failure.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// The longest pause after failures in a row.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The same if only a part failed: the other members must not wait that long for their repair.
const BACKOFF_PARTLY: Duration = Duration::from_secs(5);

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The object is gone.
    Gone,
    /// Well; to be looked at again after this.
    Well(Duration),
    /// Not all of it could be done; what could be is worth another look soon.
    Partly,
    /// It came to nothing.
    Failed,
}

/// All objects that are worked on.
#[derive(Debug, Default)]
pub struct Schedule {
    waiting: BTreeMap<WorkKey, Waiting>,
    under_way: BTreeMap<WorkKey, UnderWay>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    due: Instant,
    /// Woken or not: not sooner.
    not_before: Instant,
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    failures: u32,
    again: bool,
}

impl Schedule {
    /// Something happened to an object, or it is new.
    pub fn wake(&mut self, key: WorkKey, now: Instant) {
        if let Some(pass) = self.under_way.get_mut(&key) {
            pass.again = true;
            return;
        }
        let waiting = self.waiting.entry(key).or_insert(Waiting {
            due: now,
            not_before: now,
            failures: 0,
        });
        waiting.due = waiting.due.min(now.max(waiting.not_before));
    }

    /// When the next one is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.waiting.values().map(|w| w.due).min()
    }

    /// Takes the object that has been due for longest: it is under way from now on.
    pub fn begin(&mut self, now: Instant) -> Option<WorkKey> {
        let due = self.waiting.iter().filter(|(_, w)| w.due <= now);
        let key = due.min_by_key(|(_, w)| w.due)?.0.clone();
        let failures = self.waiting.remove(&key)?.failures;
        let again = false;
        self.under_way.insert(key.clone(), UnderWay { failures, again });
        Some(key)
    }

    pub fn end(&mut self, key: WorkKey, ending: Ending, now: Instant) {
        let pass = self.under_way.remove(&key);
        let (before, again) = pass.map_or((0, false), |p| (p.failures, p.again));
        let (pause, at_least, failures) = match ending {
            Ending::Gone if !again => return,
            Ending::Gone => (SOONEST, SOONEST, 0),
            Ending::Well(pause) if pause >= AT_REST => (pause.max(self.all_at_rest()), SOONEST, 0),
            Ending::Well(pause) => (pause.max(SOONEST), SOONEST, 0),
            Ending::Partly | Ending::Failed => {
                let most = if ending == Ending::Failed {
                    BACKOFF_MAX
                } else {
                    BACKOFF_PARTLY
                };
                let pause = BACKOFF_FIRST.saturating_mul(2u32.saturating_pow(before.min(8)));
                let pause = pause.min(most);
                (pause, pause, before.saturating_add(1))
            }
        };
        let due = now + if again { at_least } else { pause };
        let not_before = now + at_least;
        self.waiting.insert(
            key,
            Waiting {
                due,
                not_before,
                failures,
            },
        );
    }

    /// How long a look at each object takes if none is looked at out of its turn.
    fn all_at_rest(&self) -> Duration {
        let objects = self.waiting.len() + self.under_way.len() + 1;
        Duration::from_millis((objects * 1000 / LOOKS_AT_REST) as u64)
    }

    /// Nothing is due before `at`.
    pub fn put_off(&mut self, at: Instant) {
        self.waiting.values_mut().for_each(|w| w.due = w.due.max(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> WorkKey {
        WorkKey::cluster("n", name)
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_one_that_waits_longest_is_next_whatever_its_name() {
        let (mut all, start) = (Schedule::default(), Instant::now());
        all.wake(cluster("z"), start);
        all.wake(cluster("a"), start + seconds(1));
        // The first of the alphabet is woken all the time; the last has its turn.
        all.wake(cluster("a"), start + seconds(2));
        assert_eq!(all.begin(start + seconds(2)), Some(cluster("z")));
        assert_eq!(all.begin(start + seconds(2)), Some(cluster("a")));
        assert_eq!(all.begin(start + seconds(2)), None, "both are under way");
    }

    #[test]
    fn one_that_is_woken_under_way_is_looked_at_again_soon_but_not_at_once() {
        let (mut all, now) = (Schedule::default(), Instant::now());
        all.wake(cluster("c"), now);
        assert_eq!(all.begin(now), Some(cluster("c")));
        all.wake(cluster("c"), now);
        assert_eq!(all.begin(now), None);
        all.end(cluster("c"), Ending::Well(seconds(5)), now);
        assert_eq!(all.begin(now), None, "its own write may have woken it");
        assert_eq!(all.next_due(), Some(now + SOONEST));
        assert_eq!(all.begin(now + SOONEST), Some(cluster("c")));
        all.end(cluster("c"), Ending::Well(seconds(5)), now);
        all.wake(cluster("c"), now);
        assert_eq!(all.next_due(), Some(now + SOONEST), "woken after its end");
    }

    #[test]
    fn after_failures_nobody_wakes_a_cluster_before_its_pause_is_over() {
        let (mut all, mut now) = (Schedule::default(), Instant::now());
        all.wake(cluster("c"), now);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert_eq!(all.begin(now), Some(cluster("c")));
            all.wake(cluster("c"), now);
            all.end(cluster("c"), Ending::Failed, now);
            all.wake(cluster("c"), now);
            let due = all.next_due().unwrap();
            pauses.push(due - now);
            now = due;
        }
        assert_eq!(pauses[..3], [BACKOFF_FIRST, BACKOFF_FIRST * 2, BACKOFF_FIRST * 4]);
        assert_eq!(pauses.last(), Some(&BACKOFF_MAX));
        assert_eq!(all.begin(now), Some(cluster("c")));
        all.end(cluster("c"), Ending::Partly, now);
        assert_eq!(all.next_due(), Some(now + BACKOFF_PARTLY));
        now += BACKOFF_PARTLY;
        assert_eq!(all.begin(now), Some(cluster("c")));
        all.end(cluster("c"), Ending::Well(seconds(5)), now);
        assert_eq!(all.begin(now + seconds(5)), Some(cluster("c")));
        all.end(cluster("c"), Ending::Failed, now);
        assert_eq!(
            all.next_due(),
            Some(now + BACKOFF_FIRST),
            "failures are in a row or forgotten"
        );
    }

    #[test]
    fn one_that_is_gone_is_forgotten_unless_it_came_back() {
        let (mut all, now) = (Schedule::default(), Instant::now());
        all.wake(cluster("c"), now);
        all.begin(now);
        all.end(cluster("c"), Ending::Gone, now);
        assert_eq!(all.next_due(), None);
        all.wake(cluster("c"), now);
        all.begin(now);
        all.wake(cluster("c"), now);
        all.end(cluster("c"), Ending::Gone, now);
        assert_eq!(all.next_due(), Some(now + SOONEST));
    }

    #[test]
    fn many_clusters_at_rest_share_the_looks_of_a_second() {
        let (mut all, now) = (Schedule::default(), Instant::now());
        let looked_at = |all: &mut Schedule, pause| {
            assert_eq!(all.begin(now), Some(cluster("c")));
            all.end(cluster("c"), Ending::Well(pause), now);
            let due = all.waiting[&cluster("c")].due - now;
            all.waiting.get_mut(&cluster("c")).unwrap().due = now;
            due
        };
        all.wake(cluster("c"), now);
        assert_eq!(looked_at(&mut all, AT_REST), AT_REST, "it is alone");
        for n in 1..1000 {
            all.wake(cluster(&n.to_string()), now + seconds(1));
        }
        assert_eq!(looked_at(&mut all, AT_REST), seconds(10));
        assert_eq!(looked_at(&mut all, seconds(30)), seconds(30));
        assert_eq!(
            looked_at(&mut all, seconds(1)),
            seconds(1),
            "it has something to do"
        );
    }

    #[test]
    fn what_is_put_off_is_due_no_sooner() {
        let (mut all, now) = (Schedule::default(), Instant::now());
        all.wake(cluster("c"), now);
        all.put_off(now + seconds(1));
        assert_eq!(all.begin(now), None);
        assert_eq!(all.begin(now + seconds(1)), Some(cluster("c")));
    }
}
