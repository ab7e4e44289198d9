//! The terms of leases, which no watch tells.
//!
//! In: the lease ids of rows. Out: which of them to ask for, each once, and what to write into the record of a delta. A
//! lease that could not be asked for in time is written without its term; should that be learned later, a later record
//! has it.
//! Never: the watch held up by a lease; memory without a limit.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::record::Lease;

/// Ids that are remembered so as not to be asked for again. Beyond that all are forgotten, and asked for anew.
const KNOWN_MAX: usize = 200_000;
/// Ids that wait to be asked for, and for their answer.
const ASKED_MAX: usize = 20_000;

/// Leases of rows.
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
        // One that was forgotten and met again may still be open.
        if let std::collections::hash_map::Entry::Vacant(place) = self.open.entry(id) {
            place.insert(false);
            self.unnamed += 1;
            self.queue.push_back(id);
        }
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

    /// What the next record says.
    pub fn tell(&mut self) -> Vec<Lease> {
        for (id, named) in &mut self.open {
            if !std::mem::replace(named, true) {
                self.told.push(Lease { id: *id, ttl: None });
            }
        }
        self.unnamed = 0;
        let mut told = std::mem::take(&mut self.told);
        told.sort_unstable_by_key(|lease| lease.id);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
