//! The simulator's model of etcd against real etcd: random scripts of member operations and faults on both.
//!
//! `QUORATE_SCRIPTS` scripts (8 unless told), from seed `QUORATE_SEED` (1) on, `QUORATE_CLUSTERS` clusters at a time
//! (4). `QUORATE_SCRIPT="members 3; kill 1; ..."` runs one script, `QUORATE_ETCD=3.4.23` takes that etcd for all,
//! `QUORATE_KEEP_LOGS=dir` keeps the logs of scripts that differ. Needs root and iproute2.

use std::time::Instant;

use quorate_sim::etcd::EtcdError;
use quorate_tests::conformance::script::Script;
use quorate_tests::conformance::suite::{self, Case};
use quorate_tests::conformance::trace::Answer;
use quorate_tests::etcd;

/// From so many scripts on, every kind of answer must have been seen.
const ENOUGH: usize = 100;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |n| {
        n.parse().unwrap_or_else(|_| panic!("{name} is no number: {n}"))
    })
}

/// Mostly the newest 3.6; every eighth script runs on another minor.
fn version(seed: u64) -> String {
    std::env::var("QUORATE_ETCD").unwrap_or_else(|_| {
        etcd::newest(match seed % 24 {
            7 => "3.4",
            15 => "3.5",
            23 => "3.7",
            _ => "3.6",
        })
    })
}

fn cases() -> Vec<Case> {
    let first = number("QUORATE_SEED", 1);
    if let Ok(text) = std::env::var("QUORATE_SCRIPT") {
        let script: Script = text.parse().expect("QUORATE_SCRIPT is a script");
        return vec![Case {
            seed: first,
            version: version(first),
            script,
        }];
    }
    let seeds = first..first + number("QUORATE_SCRIPTS", 8);
    seeds
        .map(|seed| Case {
            seed,
            version: version(seed),
            script: Script::random(seed),
        })
        .collect()
}

#[test]
fn the_model_answers_as_etcd_does() {
    let began = Instant::now();
    let cases = cases();
    let outcome = suite::run(&cases, number("QUORATE_CLUSTERS", 4) as usize);
    println!(
        "{}figures: scripts={}; differ={}; repeated={}; seconds={:.0}",
        outcome.tally,
        cases.len(),
        outcome.wrong.len(),
        outcome.raced,
        began.elapsed().as_secs_f64()
    );
    let most = suite::most_repetitions(cases.len());
    assert!(
        outcome.raced <= most,
        "scripts were run again {} times because etcd took a peer in reach for lost; at most {most} are taken for chance",
        outcome.raced
    );
    assert!(
        outcome.wrong.is_empty(),
        "{} of {} scripts differ:\n{}",
        outcome.wrong.len(),
        cases.len(),
        outcome.wrong.join("\n")
    );
    assert_eq!(outcome.tally.scripts, cases.len(), "every script was compared");
    if cases.len() >= ENOUGH {
        let refusals = [
            EtcdError::UnhealthyCluster,
            EtcdError::NotEnoughStarted,
            EtcdError::LearnerNotReady,
            EtcdError::TooManyLearners,
            EtcdError::PeerUrlExists,
            EtcdError::MemberNotFound,
            EtcdError::MemberNotLearner,
            EtcdError::NotSupportedForLearner,
            EtcdError::Timeout,
            EtcdError::Unreachable,
        ];
        for answer in std::iter::once(Answer::Accepted).chain(refusals.map(Answer::Refused)) {
            assert!(
                outcome.tally.answers.contains_key(&answer),
                "no script reached: {answer}"
            );
        }
    }
}
