//! The terms of leases, which no watch tells.
//!
//! In: the lease ids of rows. Out: which of them to ask for, each once, and what to write into the record of a delta. A
//! lease that could not be asked for in time is written without its term; should that be learned later, a later record
//! has it. A restore looks only at records behind its full copy, and an id may be granted anew: while a full copy is being
//! taken, nothing that was told before counts as told.
//! Never: the watch held up by a lease; memory without a limit; more in a record than there is room for.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::format::record::Lease;

/// Ids that are remembered so as not to be asked for again. Beyond that all are forgotten, and asked for anew.
const KNOWN_MAX: usize = 200_000;
/// Ids that wait to be asked for, and for their answer.
const ASKED_MAX: usize = 20_000;
/// No record has more of them, so that with all its samples it is not too long. What is left waits for the next.
const TOLD_MAX: usize = 80_000;

#[derive(Debug, Default)]
pub struct Leases {
    known: HashSet<i64>,
    /// To be asked for, in order.
    queue: VecDeque<i64>,
    /// Without an answer yet; whether a record has named it already.
    open: HashMap<i64, bool>,
    /// How many of those no record has named.
    unnamed: usize,
    /// For the next record.
    told: Vec<Lease>,
    /// Each record is to tell of all its leases.
    forgetful: bool,
}

impl Leases {
    /// A row refers to this lease.
    pub fn met(&mut self, id: i64) {
        if id == 0 || self.known.contains(&id) {
            return;
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(id);
        if self.open.len() >= ASKED_MAX {
            self.told.push(Lease { id, ttl: None });
            return;
        }
        // One that was forgotten and met again may still be open; the next record names it again.
        match self.open.insert(id, false) {
            None => self.queue.push_back(id),
            Some(true) => {}
            Some(false) => return,
        }
        self.unnamed += 1;
    }

    /// The next to ask for.
    pub fn ask(&mut self) -> Option<i64> {
        self.queue.pop_front()
    }

    /// It could not be asked for now.
    pub fn ask_again(&mut self, id: i64) {
        if self.open.contains_key(&id) {
            self.queue.push_front(id);
        }
    }

    /// What the cluster says of one: its term, or that there is no such lease.
    pub fn answered(&mut self, id: i64, ttl: Option<i64>) {
        let Some(named) = self.open.remove(&id) else {
            return;
        };
        if !named {
            self.unnamed -= 1;
        }
        if ttl.is_some() || !named {
            self.told.push(Lease { id, ttl });
        }
    }

    /// How many new ones have no answer yet, and no record.
    pub fn unanswered(&self) -> usize {
        self.unnamed
    }

    /// How many the next record would have, were there room for all.
    pub fn untold(&self) -> usize {
        self.told.len() + self.unnamed
    }

    /// Whether what comes may be behind a full copy that is being taken, and whose revision is not known until its end:
    /// meanwhile each record tells of all the leases of its rows.
    pub fn full_under_way(&mut self, so: bool) {
        if so && !self.forgetful {
            self.known.clear();
        }
        self.forgetful = so;
    }

    /// What the next record says.
    pub fn tell(&mut self) -> Vec<Lease> {
        if self.forgetful {
            self.known.clear();
        }
        for (id, named) in &mut self.open {
            if !std::mem::replace(named, true) {
                self.told.push(Lease { id: *id, ttl: None });
            }
        }
        self.unnamed = 0;
        let later = self.told.split_off(self.told.len().min(TOLD_MAX));
        let mut told = std::mem::replace(&mut self.told, later);
        told.sort_unstable_by_key(|lease| lease.id);
        told
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::agent::ask::sample::SAMPLES_MAX;
    use crate::format::record::{RECORD_BYTES_MAX, Sample};

    fn lease(id: i64, ttl: Option<i64>) -> Lease {
        Lease { id, ttl }
    }

    #[test]
    fn each_lease_is_asked_for_once_and_told_of() {
        let mut leases = Leases::default();
        for id in [5, 0, 5, -7, 5, 9] {
            leases.met(id);
        }
        let asked: Vec<i64> = std::iter::from_fn(|| leases.ask()).collect();
        assert_eq!(asked, [5, -7, 9]);
        assert_eq!(leases.unanswered(), 3);
        leases.answered(5, Some(60));
        leases.answered(9, None);
        assert_eq!(leases.unanswered(), 1);
        assert_eq!(
            leases.tell(),
            [lease(-7, None), lease(5, Some(60)), lease(9, None)]
        );
        assert_eq!((leases.unanswered(), leases.tell()), (0, vec![]));
        // Learned late, it is told late.
        leases.answered(-7, Some(30));
        assert_eq!(leases.tell(), [lease(-7, Some(30))]);
        leases.met(5);
        assert_eq!(leases.ask(), None);
    }

    #[test]
    fn what_could_not_be_asked_is_asked_again() {
        let mut leases = Leases::default();
        leases.met(1);
        leases.met(2);
        let first = leases.ask().unwrap();
        leases.ask_again(first);
        assert_eq!((leases.ask(), leases.ask()), (Some(1), Some(2)));
    }

    #[test]
    fn more_than_can_be_asked_for_are_named_at_least() {
        let mut leases = Leases::default();
        for id in 1..=ASKED_MAX as i64 + 5 {
            leases.met(id);
        }
        assert_eq!(leases.open.len(), ASKED_MAX);
        assert_eq!(leases.tell().len(), ASKED_MAX + 5);
    }

    #[test]
    fn a_record_has_room_for_its_leases_and_samples() {
        let mut leases = Leases::default();
        for id in 0..3 * TOLD_MAX as i64 / 2 {
            leases.met(i64::MIN + id);
        }
        assert_eq!(leases.untold(), 3 * TOLD_MAX / 2);
        let told = leases.tell();
        assert_eq!((told.len(), leases.untold()), (TOLD_MAX, TOLD_MAX / 2));
        assert_eq!(leases.tell().len(), TOLD_MAX / 2);
        // The longest that they can be.
        let lease = serde_json::to_vec(&lease(i64::MIN, Some(i64::MAX))).unwrap();
        let sample = Sample::from((
            Timestamp::MAX.as_millisecond(),
            i64::MAX,
            Timestamp::MAX.as_millisecond(),
        ));
        let sample = serde_json::to_vec(&sample).unwrap();
        let most = TOLD_MAX * (lease.len() + 1) + SAMPLES_MAX * (sample.len() + 1);
        assert!(most + (64 << 10) < RECORD_BYTES_MAX, "{most}");
    }

    /// Granted anew under an id that was told of before the full copy, it is told of behind it.
    #[test]
    fn what_was_told_before_a_full_copy_is_told_again() {
        let mut leases = Leases::default();
        let meet = |leases: &mut Leases, ttl| {
            leases.met(5);
            let asked = leases.ask();
            if let Some(id) = asked {
                leases.answered(id, Some(ttl));
            }
            leases.tell()
        };
        assert_eq!(meet(&mut leases, 60), [lease(5, Some(60))]);
        assert_eq!(meet(&mut leases, 60), []);
        // Any record may turn out to be the first behind it.
        leases.full_under_way(true);
        for ttl in [30, 20, 10] {
            assert_eq!(meet(&mut leases, ttl), [lease(5, Some(ttl))]);
            leases.full_under_way(true);
        }
        // Also one that nobody could be asked for.
        for _ in 0..2 {
            leases.met(6);
            leases.met(6);
            assert_eq!((leases.unanswered(), leases.tell()), (1, vec![lease(6, None)]));
        }
        assert_eq!((leases.ask(), leases.ask()), (Some(6), None));
        leases.answered(6, None);
        leases.full_under_way(false);
        assert_eq!(meet(&mut leases, 70), [lease(5, Some(70))]);
        assert_eq!(meet(&mut leases, 70), []);
    }
}
