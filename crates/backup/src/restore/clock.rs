//! What revision a cluster was at, at a time.
//!
//! ```text
//! sample (before, revision, after):  revision existed by `after`; nothing later existed at `before`
//! ─────┬───────T────┬────▶  time       the last revision known by T, and how long before T it was known
//!    r known      at most r+9
//! ```
//!
//! In: samples of an archive's log. Out: the last revision known to be committed by a time, and a bracket: how much older
//! than the time the state may be. If the next sample says the same revision, it is exact.
//! Never: a revision that may have come after the time.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use jiff::Timestamp;

use crate::format::record::Entry;
use crate::log::History;

/// A bracket wider than this is asked about.
pub const WIDE_MS: i64 = 2000;

/// What is known of revisions and times, in milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clock {
    /// This revision existed by then; both ascend.
    known: Vec<(i64, i64)>,
    /// Nothing later than this revision existed then; both ascend.
    bounds: Vec<(i64, i64)>,
}

/// A revision for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bracket {
    /// The time asked for.
    pub wanted: Timestamp,
    /// The last revision known to be committed by then.
    pub revision: i64,
    /// It was known by then.
    pub known: Timestamp,
    /// At the time, or later, this was the last revision at most; `None` if nothing says so.
    pub at_most: Option<i64>,
}

impl Bracket {
    /// How much older than the time the state may be, in milliseconds.
    pub fn width_ms(&self) -> i64 {
        if self.at_most == Some(self.revision) {
            return 0;
        }
        self.wanted
            .as_millisecond()
            .saturating_sub(self.known.as_millisecond())
    }

    /// Is it so wide that one should be asked?
    pub fn is_wide(&self) -> bool {
        self.width_ms() > WIDE_MS
    }
}

impl Clock {
    /// From pairs in any order: a revision existed by a time; nothing later existed at a time.
    pub fn new(mut known: Vec<(i64, i64)>, mut bounds: Vec<(i64, i64)>) -> Clock {
        known.sort_unstable();
        // What existed once exists later: clocks of several agents may differ.
        let mut highest = i64::MIN;
        known.retain(|(_, revision)| {
            let higher = *revision > highest;
            highest = highest.max(*revision);
            higher
        });
        bounds.sort_unstable();
        let mut lowest = i64::MAX;
        bounds.reverse();
        // Of those with the same revision the latest says it all.
        bounds.retain(|(_, revision)| {
            let lower = *revision < lowest;
            lowest = lowest.min(*revision);
            lower
        });
        bounds.reverse();
        known.shrink_to_fit();
        bounds.shrink_to_fit();
        Clock { known, bounds }
    }

    /// Of a timeline's log.
    pub fn of(history: &History) -> Clock {
        let (mut known, mut bounds) = (Vec::new(), Vec::new());
        for signed in &history.records {
            let written = signed.record.at.as_millisecond();
            match &signed.record.entry {
                Entry::Full(full) => known.push((full.taken.as_millisecond(), full.revision)),
                Entry::Delta(delta) => {
                    known.push((written, delta.to));
                    for sample in &delta.samples {
                        known.push((sample.after, sample.revision));
                        bounds.push((sample.before, sample.revision));
                    }
                }
                _ => {}
            }
        }
        // While nothing changes there are no records, and only the agent's sign of life says so.
        if let Some(sample) = history.head.as_ref().and_then(|head| head.sample) {
            bounds.push((sample.before, sample.revision));
            if known.iter().any(|(_, revision)| *revision >= sample.revision) {
                known.push((sample.after, sample.revision));
            }
        }
        Clock::new(known, bounds)
    }

    /// The first time that anything is known of, and the last.
    pub fn range(&self) -> Option<(Timestamp, Timestamp)> {
        let (first, last) = (self.known.first()?, self.known.last()?);
        let last = self.bounds.last().map_or(last.0, |bound| bound.0.max(last.0));
        Some((time(first.0), time(last)))
    }

    /// The last revision known to be committed by `wanted`; `None` if none is.
    pub fn at(&self, wanted: Timestamp) -> Option<Bracket> {
        let now = wanted.as_millisecond();
        let begun = self.known.partition_point(|(by, _)| *by <= now);
        let (by, revision) = *self.known.get(begun.checked_sub(1)?)?;
        let later = self.bounds.partition_point(|(at, _)| *at < now);
        Some(Bracket {
            wanted,
            revision,
            known: time(by),
            at_most: self.bounds.get(later).map(|(_, at_most)| *at_most),
        })
    }

    /// When a revision was known to exist.
    pub fn known_by(&self, revision: i64) -> Option<Timestamp> {
        let at = self.known.partition_point(|(_, known)| *known < revision);
        self.known.get(at).map(|(by, _)| time(*by))
    }
}

fn time(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(milliseconds: i64) -> Timestamp {
        time(milliseconds)
    }

    #[test]
    fn a_sign_of_life_says_that_nothing_changed() {
        use crate::Sha256Hex;
        use crate::format::record::{self, Record, Sample, Signed};
        use crate::log::Head;
        let full = record::Full {
            facts: crate::format::object::Facts {
                object: "full".to_owned(),
                stored_bytes: 1,
                plain_bytes: 1,
                sha256: Sha256Hex::default(),
                index_sha256: Sha256Hex::default(),
                key: None,
            },
            revision: 7,
            compact_revision: -1,
            made: record::Made::Snapshot,
            taken: at(1000),
            etcd_version: String::new(),
            auth_revision: 1,
            auth_from: None,
            hash: None,
        };
        let record = Record {
            number: 1,
            previous: Sha256Hex::default(),
            epoch: 1,
            at: at(1000),
            writer: String::new(),
            entry: Entry::Full(full),
        };
        let mut head = Head {
            number: 1,
            hash: Sha256Hex::default(),
            epoch: 1,
            writer: String::new(),
            at: at(90_000),
            every: 10,
            sample: None,
            instance: None,
        };
        let wide = |head: &Head| {
            let hash = Sha256Hex::default();
            let history = History {
                records: vec![Signed {
                    record: record.clone(),
                    hash,
                }],
                head: Some(head.clone()),
                ..History::default()
            };
            let found = Clock::of(&history).at(at(80_000)).unwrap();
            (found.revision, found.is_wide())
        };
        assert_eq!(wide(&head), (7, true));
        head.sample = Some(Sample::from((88_000, 7, 88_003)));
        assert_eq!(wide(&head), (7, false));
        // One that knows of more than the archive has does not make it reachable.
        head.sample = Some(Sample::from((70_000, 9, 70_003)));
        assert_eq!(wide(&head), (7, true));
    }

    #[test]
    fn brackets() {
        let samples = [
            (1000, 5, 1003),
            (2000, 9, 2004),
            (3000, 9, 3001),
            (60_000, 50, 60_005),
        ];
        let known = samples.iter().map(|(_, revision, after)| (*after, *revision));
        let bounds = samples.iter().map(|(before, revision, _)| (*before, *revision));
        let clock = Clock::new(known.collect(), bounds.collect());
        let told = |ms| {
            let found = clock.at(at(ms)).unwrap();
            (found.revision, found.width_ms())
        };
        assert_eq!(clock.at(at(1002)), None);
        assert_eq!(told(1003), (5, 0));
        assert_eq!(told(1500), (5, 497));
        assert_eq!(told(2003), (5, 1000));
        // Nothing changed until the next one.
        assert_eq!(told(2900), (9, 0));
        assert_eq!(told(30_000), (9, 27_996));
        assert!(clock.at(at(30_000)).unwrap().is_wide());
        assert_eq!(told(60_005), (50, 0));
        assert_eq!(told(70_005), (50, 10_000));
        assert_eq!(clock.known_by(6), Some(at(2004)));
        assert_eq!(clock.known_by(51), None);
        assert_eq!(clock.range(), Some((at(1003), at(60_005))));
    }

    proptest! {
        /// A cluster whose revision rises at known times, sampled: what is told is never later than the time, and all
        /// between it and the time is within the bracket.
        #[test]
        fn nothing_later_is_told(
            rises in prop::collection::vec(0i64..3000, 1..40),
            mut asked in prop::collection::vec((0i64..3000, 0i64..20), 1..20),
            wanted in 0i64..3500,
        ) {
            let mut rises = rises;
            rises.sort_unstable();
            asked.sort_unstable();
            let revision_at = |ms: i64| 1 + rises.iter().filter(|rise| **rise <= ms).count() as i64;
            let (mut known, mut bounds) = (Vec::new(), Vec::new());
            for (before, took) in &asked {
                // The answer is of any moment between.
                let revision = revision_at(before + took / 2);
                known.push((before + took, revision));
                bounds.push((*before, revision));
            }
            let clock = Clock::new(known, bounds);
            if let Some(found) = clock.at(at(wanted)) {
                let truth = revision_at(wanted);
                prop_assert!(found.revision <= truth);
                if found.width_ms() == 0 && found.known.as_millisecond() < wanted {
                    prop_assert_eq!(found.revision, truth);
                }
                // Whatever was there when the bracket began is in it.
                prop_assert!(found.revision >= asked.iter().filter(|(b, t)| b + t <= found.known.as_millisecond())
                    .map(|(b, t)| revision_at(b + t / 2)).max().unwrap_or(0));
            } else {
                prop_assert!(asked.iter().all(|(before, took)| before + took > wanted));
            }
        }
    }
}
