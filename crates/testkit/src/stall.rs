//! How long the machine stood still, for tests that judge how long something took.
//!
//! A test that allows five seconds without a write cannot tell a cluster that paused from a machine that did: other tests
//! take its processors, and a disk may take seconds for one sync. A [`StallWitness`] does next to nothing over and over,
//! beside what is judged; the longest time that took is what the machine added.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the witness sleeps between two laps.
const INTERVAL: Duration = Duration::from_millis(10);

/// A machine that stood still for longer shows nothing of what ran on it.
const LONGEST: Duration = Duration::from_secs(30);

/// A thread of its own that sleeps and syncs a few bytes, from when it is made until it is asked.
#[derive(Debug)]
pub struct StallWitness {
    stop: Sender<()>,
    thread: JoinHandle<Laps>,
}

impl StallWitness {
    /// Begins to watch. `dir` is on the disk of what is judged; nothing is to be seen in it.
    pub fn watch(dir: &Path) -> StallWitness {
        let opened = tempfile::tempfile_in(dir);
        let mut file = opened.unwrap_or_else(|error| panic!("no file in {}: {error}", dir.display()));
        StallWitness::watching(move || sync(&mut file))
    }

    fn watching(work: impl FnMut() + Send + 'static) -> StallWitness {
        let (stop, stopped) = channel();
        let laps = Laps::begin(Instant::now());
        StallWitness {
            stop,
            thread: std::thread::spawn(move || run(laps, work, &stopped)),
        }
    }

    /// Ends it, and fails if something took longer than it may, besides what the machine stood still.
    pub fn judge(self, what: &str, took: Duration, may: Duration) {
        let stall = self.longest();
        println!("{what}: longest stall of the machine {stall:.2?}");
        if took <= may {
            return;
        }
        assert!(
            stall <= LONGEST,
            "{what}: the machine stood still for {stall:?}, which shows nothing: run it again on one that runs"
        );
        assert!(
            took <= may + stall,
            "{what}: no write was acknowledged for {took:?}; at most {may:?} and the {stall:?} for which the machine stood \
             still are right for a planned change"
        );
    }

    /// Ends it. Out: how long the machine stood still at most, at a stretch; one that still does is waited for.
    pub fn longest(self) -> Duration {
        drop(self.stop);
        let laps = self.thread.join();
        laps.unwrap_or_else(|cause| std::panic::resume_unwind(cause))
            .longest
    }
}

fn run(mut laps: Laps, mut work: impl FnMut(), stopped: &Receiver<()>) -> Laps {
    loop {
        let ended = stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Disconnected);
        work();
        laps.lap(Instant::now());
        if ended {
            return laps;
        }
    }
}

fn sync(file: &mut File) {
    let synced = file
        .rewind()
        .and_then(|()| file.write_all(b"lap"))
        .and_then(|()| file.sync_data());
    synced.unwrap_or_else(|error| panic!("the witness of stalls cannot write: {error}"));
}

/// What a lap took beyond its sleep is the machine's.
#[derive(Debug)]
struct Laps {
    last: Instant,
    longest: Duration,
}

impl Laps {
    fn begin(now: Instant) -> Laps {
        Laps {
            last: now,
            longest: Duration::ZERO,
        }
    }

    fn lap(&mut self, now: Instant) {
        let beyond = now.duration_since(self.last).saturating_sub(INTERVAL);
        self.longest = self.longest.max(beyond);
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_lap_takes_beyond_its_sleep_counts() {
        let begin = Instant::now();
        let mut laps = Laps::begin(begin);
        let mut at = begin;
        for (takes, longest) in [(10, 0), (4, 0), (35, 25), (12, 25), (510, 500), (10, 500)] {
            at += Duration::from_millis(takes);
            laps.lap(at);
            assert_eq!(laps.longest, Duration::from_millis(longest), "after {takes} ms");
        }
    }

    #[test]
    fn a_stall_counts_whether_it_is_over_or_not() {
        let stall = Duration::from_millis(150);
        // Over long before it is asked.
        let (over, is_over) = channel();
        let mut stalled = false;
        let witness = StallWitness::watching(move || {
            if stalled {
                let _ = over.send(());
            } else {
                std::thread::sleep(stall);
                stalled = true;
            }
        });
        is_over.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(witness.longest() >= stall);
        // Not over when it is asked.
        let (begun, has_begun) = channel();
        let witness = StallWitness::watching(move || {
            let _ = begun.send(());
            std::thread::sleep(stall);
        });
        has_begun.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(witness.longest() >= stall);
    }

    #[test]
    fn a_gap_that_the_machine_does_not_explain_is_judged() {
        let judged = |took| {
            let judge = || StallWitness::watching(|| ()).judge("x", took, Duration::from_secs(5));
            std::panic::catch_unwind(judge).is_ok()
        };
        assert!(judged(Duration::from_secs(5)));
        assert!(!judged(Duration::from_secs(40)));
    }

    #[test]
    fn nothing_is_to_be_seen_in_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let witness = StallWitness::watch(dir.path());
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        witness.longest();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}
