//! What time it was at which revision.
//!
//! In: each second the clock before a linearizable read, the revision it told, the clock after. Out: samples for the
//! records of deltas. While nothing changes only the first and the last of a revision are kept; in a long outage every
//! second one is given up before memory grows.
//! Never: recorded time that runs backwards.

use std::collections::VecDeque;

use crate::format::record::Sample;

/// A day of changes in every second.
pub(super) const SAMPLES_MAX: usize = 86_400;

/// Samples that no record has yet.
#[derive(Debug, Clone)]
pub struct Samples {
    kept: VecDeque<Sample>,
    newest: Option<Sample>,
    /// Recorded time has come to this, in milliseconds.
    clock: i64,
}

impl Samples {
    /// Behind what was recorded before.
    pub fn new(clock: i64) -> Samples {
        Samples {
            kept: VecDeque::new(),
            newest: None,
            clock,
        }
    }

    /// Takes a sample. A clock that was set back stands still until it is past where it was.
    pub fn take(&mut self, sample: Sample) {
        let before = sample.before.max(self.clock);
        let after = sample.after.max(before);
        self.clock = before;
        let revision = match self.newest {
            // Reads of different members may overtake each other; the later answer then says less.
            Some(newest) => sample.revision.max(newest.revision),
            None => sample.revision,
        };
        let sample = Sample {
            before,
            revision,
            after,
        };
        self.newest = Some(sample);
        let place = self.kept.len();
        if place >= 2
            && self.kept[place - 1].revision == revision
            && self.kept[place - 2].revision == revision
        {
            self.kept[place - 1] = sample;
        } else {
            self.kept.push_back(sample);
        }
        if self.kept.len() > SAMPLES_MAX {
            let mut odd = false;
            self.kept.retain(|_| {
                odd = !odd;
                odd
            });
        }
    }

    pub fn newest(&self) -> Option<Sample> {
        self.newest
    }

    /// The end of the oldest that knew of a later revision than this: since when it has been waiting, at most.
    pub fn known_beyond(&self, revision: i64) -> Option<i64> {
        let later = self.kept.iter().find(|sample| sample.revision > revision)?;
        Some(later.after)
    }

    /// Those that belong into the record of a delta up to this revision.
    pub fn until(&self, revision: i64) -> Vec<Sample> {
        let belong = self.kept.iter().take_while(|sample| sample.revision <= revision);
        belong.copied().collect()
    }

    /// Forgets those, once the record is made. The newest stays: it may be the first of what comes.
    pub fn forget_until(&mut self, revision: i64) {
        while self.kept.front().is_some_and(|first| first.revision <= revision) {
            self.kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(before: i64, revision: i64, after: i64) -> Sample {
        Sample {
            before,
            revision,
            after,
        }
    }

    #[test]
    fn quiet_times_keep_their_ends() {
        let mut samples = Samples::new(0);
        for second in 1..=100 {
            samples.take(sample(second * 1000, 7, second * 1000 + 5));
        }
        samples.take(sample(101_000, 8, 101_005));
        let expected = [
            sample(1000, 7, 1005),
            sample(100_000, 7, 100_005),
            sample(101_000, 8, 101_005),
        ];
        assert_eq!(samples.until(8), expected);
        assert_eq!(samples.until(7), expected[..2]);
        assert_eq!(samples.known_beyond(7), Some(101_005));
        assert_eq!(samples.known_beyond(8), None);
        samples.forget_until(7);
        assert_eq!(samples.until(9), expected[2..]);
        assert_eq!(samples.newest(), Some(expected[2]));
    }

    #[test]
    fn time_and_revisions_never_run_backwards() {
        let mut samples = Samples::new(5000);
        for (before, revision, after) in [(1000, 3, 1001), (6000, 5, 6001), (2000, 4, 2001), (6500, 6, 6400)]
        {
            samples.take(sample(before, revision, after));
        }
        let taken = samples.until(i64::MAX);
        assert_eq!(
            taken,
            [
                sample(5000, 3, 5000),
                sample(6000, 5, 6001),
                sample(6000, 5, 6000),
                sample(6500, 6, 6500)
            ]
        );
    }

    #[test]
    fn a_long_outage_costs_detail_and_not_memory() {
        let mut samples = Samples::new(0);
        for second in 0..3 * SAMPLES_MAX as i64 {
            samples.take(sample(second * 1000, second, second * 1000 + 1));
        }
        let kept = samples.until(i64::MAX);
        assert!(kept.len() <= SAMPLES_MAX && kept.len() > SAMPLES_MAX / 4);
        assert!(kept.is_sorted_by_key(|sample| (sample.before, sample.revision)));
    }
}
