//! `qsim`: the simulator's command line.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use quorate_core::guard::{Guard, Guards};
use quorate_sim::world::Options;
use quorate_sim::{exhaustive, guards, kube, run};

/// Runs quorate's planner against a simulated world.
#[derive(Parser)]
#[command(name = "qsim")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run many seeds and say what broke and what was reached.
    Run {
        /// How many seeds to run.
        #[arg(long, default_value_t = 2000)]
        seeds: u64,
        /// The first seed to run.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Print the logs of at most this many failing seeds.
        #[arg(long, default_value_t = 1)]
        logs: usize,
    },
    /// Run one seed and print its log.
    Replay {
        /// The seed to replay.
        seed: u64,
        /// With this guard off, by its number in `qsim guards`.
        #[arg(long)]
        without: Option<usize>,
    },
    /// Switch each guard off in turn and find a seed that breaks the world.
    Guards {
        /// Try at most so many seeds for each.
        #[arg(long, default_value_t = 20000)]
        seeds: u64,
        /// The first seed to run.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Run them all and count the kinds of breaks.
        #[arg(long)]
        count: bool,
    },
    /// Run the operator against a simulated Kubernetes.
    Kube {
        /// How many seeds to run.
        #[arg(long, default_value_t = 500)]
        seeds: u64,
        /// The first seed to run.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Run only this one, and print its log.
        #[arg(long)]
        replay: Option<u64>,
        /// With this guard off, by its number in `qsim guards`.
        #[arg(long, requires = "replay")]
        without: Option<usize>,
    },
    /// Plan for every small cluster.
    Exhaustive {
        /// Take every so manieth case of three slots.
        #[arg(long, default_value_t = 1)]
        stride: u64,
    },
}

fn main() -> ExitCode {
    let ok = match Args::parse().verb {
        Verb::Run { seeds, from, logs } => run_seeds(seeds, from, logs),
        Verb::Replay { seed, without } => replay(seed, without),
        Verb::Guards {
            seeds,
            from,
            count: false,
        } => all_guards(seeds, from),
        Verb::Guards {
            seeds,
            from,
            count: true,
        } => {
            for guard in Guard::ALL {
                println!("{guard:?}: {:?}", guards::histogram(guard, from, seeds));
            }
            true
        }
        Verb::Kube {
            replay: Some(seed),
            without,
            ..
        } => replay_kube(seed, without),
        Verb::Kube { seeds, from, .. } => run_kube(seeds, from),
        Verb::Exhaustive { stride } => every_small_cluster(stride),
    };
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_seeds(seeds: u64, from: u64, logs: usize) -> bool {
    let began = Instant::now();
    let summary = run::many(from, seeds);
    for (seed, broke) in summary.failures.iter().take(logs) {
        println!("{}", run::report(*seed, broke));
    }
    for (seed, broke) in &summary.failures {
        println!(
            "FAILED seed {seed} tick {}: {:?}: {}",
            broke.tick, broke.kind, broke.detail
        );
    }
    print!("{}", summary.coverage.table());
    let never = summary.coverage.never();
    if !never.is_empty() {
        println!("never reached: {}", never.join(", "));
    }
    println!(
        "figures: seeds={}; failed={}; virtual_hours={}; seconds={:.1}",
        summary.seeds,
        summary.failures.len(),
        summary.ticks * quorate_sim::TICK_MS / 3_600_000,
        began.elapsed().as_secs_f64()
    );
    summary.failures.is_empty() && (seeds < 2000 || never.is_empty())
}

fn replay(seed: u64, without: Option<usize>) -> bool {
    let off = without.and_then(|n| Guard::ALL.get(n).copied());
    let guards = off.map_or(Guards::all(), Guards::without);
    let verdict = run::one(Options {
        seed,
        guards,
        check: off.is_none(),
        also: off.map_or(&[], guards::shows),
        // As `guards` looks, or as `run` does.
        pods: off.is_none() && run::plain(seed).pods,
        log: true,
    });
    println!("{}", verdict.log);
    match &verdict.broke {
        Some(broke) => println!(
            "seed {seed} broke at tick {}: {:?}: {}",
            broke.tick, broke.kind, broke.detail
        ),
        None => println!("seed {seed} is sound after {} ticks", verdict.ticks),
    }
    verdict.broke.is_none()
}

fn replay_kube(seed: u64, without: Option<usize>) -> bool {
    let off = without.and_then(|n| Guard::ALL.get(n).copied());
    let verdict = kube::run::with(seed, off.map_or(Guards::all(), Guards::without), true);
    println!("{}", verdict.log);
    match &verdict.broke {
        Some((kind, tick, detail)) => println!("seed {seed} broke at tick {tick}: {kind:?}: {detail}"),
        None => println!("seed {seed} is sound after {} ticks", verdict.ticks),
    }
    verdict.broke.is_none()
}

fn run_kube(seeds: u64, from: u64) -> bool {
    let began = Instant::now();
    let summary = kube::run::many(from, seeds);
    for (seed, kind, detail) in &summary.failures {
        println!("FAILED seed {seed}: {kind:?}: {detail}; its log: qsim kube --replay {seed}");
    }
    for ((group, name), count) in &summary.reached {
        println!("  {group:<8} {name:<20} {count:>9}");
    }
    let never = summary.never();
    if !never.is_empty() {
        println!("never reached: {}", never.join(", "));
    }
    println!(
        "figures: seeds={}; failed={}; virtual_hours={}; seconds={:.1}",
        summary.seeds,
        summary.failures.len(),
        summary.ticks * quorate_sim::TICK_MS / 3_600_000,
        began.elapsed().as_secs_f64()
    );
    summary.failures.is_empty() && (seeds < 500 || never.is_empty())
}

fn every_small_cluster(stride: u64) -> bool {
    let began = Instant::now();
    let (fine, coarse) = (exhaustive::fine(), exhaustive::coarse());
    let runs = [(1, &fine, 1), (2, &fine, 1), (3, &fine, stride), (5, &coarse, 1)];
    let (mut cases, mut wrong) = (0, 0);
    for (slots, states, stride) in runs {
        let report = exhaustive::all(slots, states, stride);
        println!(
            "{slots} slots of {} states: {} cases, {} wrong",
            states.len(),
            report.cases,
            report.wrong.len()
        );
        report
            .wrong
            .iter()
            .take(12)
            .for_each(|wrong| println!("  {wrong}"));
        cases += report.cases;
        wrong += report.wrong.len();
    }
    println!(
        "figures: cases={cases}; wrong={wrong}; seconds={:.1}",
        began.elapsed().as_secs_f64()
    );
    wrong == 0
}

fn all_guards(seeds: u64, from: u64) -> bool {
    let mut not_shown = 0;
    for (number, guard) in Guard::ALL.into_iter().enumerate() {
        let found = guards::find(guard, from, seeds);
        match &found.broke {
            Some((_, broke)) => println!(
                "{number} {:<22} {broke} ({} tried)",
                format!("{guard:?}"),
                found.tried
            ),
            None => {
                not_shown += 1;
                println!(
                    "{number} {:<22} NOT SHOWN to be needed in {} seeds",
                    format!("{guard:?}"),
                    found.tried
                );
            }
        }
    }
    println!("figures: guards={}; not_shown={not_shown}", Guard::ALL.len());
    not_shown == 0
}
