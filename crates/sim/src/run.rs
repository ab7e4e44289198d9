//! Many seeds, on two threads; one seed, with its log.
//!
//! In: a range of seeds. Out: failures in the order of their seeds, and what all of them reached together.
//! Never: a result that depends on which thread ran which seed.

use std::sync::atomic::{AtomicU64, Ordering};

use quorate_core::guard::Guards;

use crate::checkers::Break;
use crate::coverage::Coverage;
use crate::world::{Options, World};

/// What one seed came to.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub seed: u64,
    pub broke: Option<Break>,
    pub coverage: Coverage,
    pub ticks: u64,
    /// The log, if it was wanted.
    pub log: String,
}

/// Runs one world to its end.
pub fn one(options: Options) -> Verdict {
    let mut world = World::new(options);
    world.run();
    world.coverage.snapshots(world.ground.etcd.snapshots_sent);
    Verdict {
        seed: options.seed,
        broke: world.breaks.first().cloned(),
        ticks: world.ground.etcd.now,
        log: world.log.text(),
        coverage: world.coverage,
    }
}

/// All guards on, no log.
pub fn plain(seed: u64) -> Options {
    Options {
        seed,
        guards: Guards::all(),
        check: true,
        also: &[],
        // Every other world is one of pods.
        pods: seed % 2 == 1,
        log: false,
    }
}

/// What many seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub seeds: u64,
    pub ticks: u64,
    /// What all reached together.
    pub coverage: Coverage,
    /// Those that broke, by seed.
    pub failures: Vec<(u64, Break)>,
}

impl Summary {
    fn take(&mut self, verdict: Verdict) {
        self.seeds += 1;
        self.ticks += verdict.ticks;
        self.coverage.add(&verdict.coverage);
        if let Some(broke) = verdict.broke {
            self.failures.push((verdict.seed, broke));
        }
    }
}

/// Runs `count` seeds from `from`, on two threads.
pub fn many(from: u64, count: u64) -> Summary {
    let next = AtomicU64::new(from);
    let end = from + count;
    let work = || {
        let mut summary = Summary::default();
        for _ in 0..count {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            summary.take(one(plain(seed)));
        }
        summary
    };
    let parts = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.map(|t| t.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)))
    });
    let mut all = Summary::default();
    for part in parts {
        all.seeds += part.seeds;
        all.ticks += part.ticks;
        all.coverage.add(&part.coverage);
        all.failures.extend(part.failures);
    }
    all.failures.sort_by_key(|(seed, _)| *seed);
    all
}

/// The text that a failing seed leaves: what, how to see it again, and its course.
pub fn report(seed: u64, broke: &Break) -> String {
    let log = one(Options {
        log: true,
        ..plain(seed)
    })
    .log;
    format!(
        "seed {seed} broke at tick {}: {:?}: {}\nreplay: cargo run --profile sim -p quorate-sim --bin qsim -- replay {seed}\n{log}\n",
        broke.tick, broke.kind, broke.detail
    )
}
