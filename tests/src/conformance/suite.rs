//! Many scripts at once, each on both sides.
//!
//! In: seeds or one script, a version for each, how many clusters at a time. Out: a tally and a report for each
//! difference. Never: more clusters than asked for, and never a script that is dropped without a word.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::model;
use super::real::Real;
use super::script::Script;
use super::standing::{Disturbed, Raced};
use super::trace::{Tally, differences, report};
use crate::etcd::ClusterSlot;

/// How often scripts are run again in all because their cluster lost a race that is etcd's own: in 200 scripts that was seen
/// once.
pub fn most_repetitions(scripts: usize) -> usize {
    2.max(scripts / 20)
}

/// The same because the machine disturbed their cluster: in 200 scripts that was seen once.
pub fn most_disturbed(scripts: usize) -> usize {
    8.max(scripts / 10)
}

/// One script to run.
#[derive(Clone, Debug)]
pub struct Case {
    /// Where it comes from; also the model's chance.
    pub seed: u64,
    pub version: String,
    pub script: Script,
}

/// What came of all.
#[derive(Debug, Default)]
pub struct Outcome {
    pub tally: Tally,
    /// Where model and etcd differ, or where etcd did not settle.
    pub wrong: Vec<String>,
    /// How often a script was run again, see [`Raced`].
    pub raced: usize,
    /// How often a script was run again, see [`Disturbed`].
    pub disturbed: usize,
}

impl Outcome {
    /// Counts a run that showed nothing. False if there were too many, or if it did show something.
    fn allows_another_run(&mut self, error: &anyhow::Error, scripts: usize) -> bool {
        if error.is::<Raced>() {
            self.raced += 1;
            self.raced <= most_repetitions(scripts)
        } else if error.is::<Disturbed>() {
            self.disturbed += 1;
            self.disturbed <= most_disturbed(scripts)
        } else {
            false
        }
    }

    /// Fails if more scripts were run again than chance explains.
    pub fn assert_few_repetitions(&self, scripts: usize) {
        let most = most_repetitions(scripts);
        assert!(
            self.raced <= most,
            "scripts were run again {} times because etcd took a peer in reach for lost; at most {most} are taken for chance",
            self.raced
        );
        // A pause of the machine hits every cluster that runs.
        let most = most_disturbed(scripts);
        assert!(
            self.disturbed <= most,
            "{scripts} scripts were run again {} times because leaders or connections changed by themselves; at most {most} \
             are taken for chance",
            self.disturbed
        );
    }
}

/// Runs all cases, `at_once` at a time, and no more than the machine has cluster slots.
pub fn run(cases: &[Case], at_once: usize) -> Outcome {
    let next = AtomicUsize::new(0);
    let outcome = Mutex::new(Outcome::default());
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(cases.len()) {
            scope.spawn(|| {
                // Kept to the end: given back between two scripts, it would be taken again before others saw it free.
                let _slot = ClusterSlot::acquire();
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let began = Instant::now();
                    let wrong = one(case, cases.len(), &outcome);
                    let word = if wrong.is_some() { "DIFFERS" } else { "same" };
                    println!(
                        "seed {:>4} etcd {} {word} after {:.0?}: {}",
                        case.seed,
                        case.version,
                        began.elapsed(),
                        case.script
                    );
                    if let Some(wrong) = wrong {
                        println!("{wrong}");
                        lock(&outcome).wrong.push(wrong);
                    }
                }
            });
        }
    });
    outcome
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn lock(outcome: &Mutex<Outcome>) -> std::sync::MutexGuard<'_, Outcome> {
    outcome.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn one(case: &Case, scripts: usize, outcome: &Mutex<Outcome>) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Some(format!("no runtime: {error}")),
    };
    let (real, settled, members) = loop {
        let ran = runtime.block_on(Real::run(&case.script, &case.version));
        let Err(error) = &ran.1 else { break ran };
        if !lock(outcome).allows_another_run(error, scripts) {
            break ran;
        }
        println!(
            "seed {:>4} etcd {} runs again: {error:#}",
            case.seed, case.version
        );
    };
    let model = match model::run(&case.script, &case.version, case.seed, &real) {
        Ok(model) => model,
        Err(error) => return Some(format!("{error:#}")),
    };
    let mut found = differences(&real, &model);
    if let Err(error) = settled {
        found.push(format!("real etcd: {error:#}"));
    }
    if found.is_empty() {
        lock(outcome).tally.add(&real);
        return None;
    }
    if let (Some(members), Some(to)) = (members, std::env::var_os("QUORATE_KEEP_LOGS").map(PathBuf::from))
        && let Err(error) = members.keep_logs(&to.join(format!("seed-{}", case.seed)))
    {
        found.push(format!("cannot keep the logs: {error:#}"));
    }
    Some(report(
        case.seed,
        &case.version,
        &case.script,
        &found,
        &real,
        &model,
    ))
}
