//! Runs tests side by side, each a process of its own with its output in a file of its own.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::arguments::Options;
use super::{Test, processes};
use crate::Result;

const LOOK: Duration = Duration::from_millis(10);

pub struct Outcome {
    pub title: String,
    pub took: Duration,
    pub end: End,
    pub log: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Passed,
    Failed(String),
}

struct Turn {
    test: Test,
    round: u32,
}

pub fn run(tests: &[Test], options: &Options, logs: &Path) -> Result<Vec<Outcome>> {
    // What an earlier run left would be taken for this one's.
    match std::fs::remove_dir_all(logs) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("empty {}: {e}", logs.display()));
        }
        _ => {}
    }
    std::fs::create_dir_all(logs).map_err(|e| format!("create {}: {e}", logs.display()))?;
    let turns: VecDeque<Turn> = (1..=options.rounds)
        .flat_map(|round| {
            tests.iter().map(move |test| Turn {
                test: test.clone(),
                round,
            })
        })
        .collect();
    let all = turns.len();
    println!("{all} tests, {} at a time", options.jobs);
    let waiting = Mutex::new(turns);
    let outcomes: Mutex<Vec<Outcome>> = Mutex::new(Vec::new());
    let failure: Mutex<Option<String>> = Mutex::new(None);
    let limit = Duration::from_secs(60 * options.minutes);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                // The lock is let go of before the test runs.
                let next = || lock(&waiting).pop_front();
                while let Some(turn) = next() {
                    match run_one(&turn, logs, limit) {
                        Ok(outcome) => {
                            let mut outcomes = lock(&outcomes);
                            outcomes.push(outcome);
                            announce(outcomes.last(), outcomes.len(), all);
                        }
                        Err(why) => {
                            *lock(&failure) = Some(why);
                            lock(&waiting).clear();
                        }
                    }
                }
            });
        }
    });
    match lock(&failure).take() {
        Some(why) => Err(why),
        None => Ok(std::mem::take(&mut *lock(&outcomes))),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn announce(outcome: Option<&Outcome>, done: usize, all: usize) {
    let Some(outcome) = outcome else { return };
    let end = match &outcome.end {
        End::Passed => "ok",
        End::Failed(_) => "FAILED",
    };
    let mut out = std::io::stdout().lock();
    // Output that nobody takes is no reason to fail a test.
    let _ = writeln!(
        out,
        "[{done:>4}/{all}] {:>7.2} s  {end:<6}  {}",
        outcome.took.as_secs_f64(),
        outcome.title
    );
    let _ = out.flush();
}

/// Properties are tried with the same values each time, unless the caller asks for others.
fn property_seed() -> String {
    std::env::var("PROPTEST_RNG_SEED").unwrap_or_else(|_| "1".to_owned())
}

fn run_one(turn: &Turn, logs: &Path, limit: Duration) -> Result<Outcome> {
    let title = turn.test.title();
    let log = logs.join(format!("{}.{}.log", title.replace("::", "."), turn.round));
    let file = File::create(&log).map_err(|e| format!("create {}: {e}", log.display()))?;
    let errors = file
        .try_clone()
        .map_err(|e| format!("open {}: {e}", log.display()))?;
    let began = Instant::now();
    let mut child = Command::new(&turn.test.program.executable)
        .args(["--exact", &turn.test.name, "--nocapture", "--test-threads=1"])
        .current_dir(&turn.test.program.directory)
        .env("CARGO_MANIFEST_DIR", &turn.test.program.directory)
        .env("PROPTEST_RNG_SEED", property_seed())
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn()
        .map_err(|e| format!("start {title}: {e}"))?;
    let end = loop {
        match child.try_wait().map_err(|e| format!("await {title}: {e}"))? {
            Some(status) if status.success() => break End::Passed,
            Some(status) => break End::Failed(status.to_string()),
            None if began.elapsed() > limit => {
                processes::end_with_children(child.id());
                child.wait().map_err(|e| format!("await {title}: {e}"))?;
                break End::Failed(format!("ended after {} s: it hangs", limit.as_secs()));
            }
            None => std::thread::sleep(LOOK),
        }
    };
    Ok(Outcome {
        title,
        took: began.elapsed(),
        end,
        log,
    })
}
