//! The simulator's model of etcd against real etcd: random scripts of member operations and faults on both.
//!
//! `QUORATE_SCRIPTS` scripts (8 unless told), from seed `QUORATE_SEED` (1) on, `QUORATE_CLUSTERS` clusters at a time
//! (4), never more than the machine's `QUORATE_TEST_CLUSTERS` (4). `QUORATE_SCRIPT="members 3; kill 1; ..."` runs one
//! script, `QUORATE_ETCD=3.4.23` takes that etcd for all, `QUORATE_KEEP_LOGS=dir` keeps the logs of scripts that differ.
//! Needs root and iproute2.

use std::time::Instant;

use quorate_core::model::Version;
use quorate_sim::etcd::{EtcdError, add_needs_only_quorum};
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

/// Mostly the newest 3.6; every eighth script runs on another minor, and some on the oldest patch of one.
fn version(seed: u64) -> String {
    std::env::var("QUORATE_ETCD").unwrap_or_else(|_| match seed % 24 {
        7 => etcd::newest("3.4"),
        11 => oldest("3.5"),
        15 => etcd::newest("3.5"),
        19 => oldest("3.6"),
        23 => etcd::newest("3.7"),
        _ => etcd::newest("3.6"),
    })
}

fn oldest(minor: &str) -> String {
    let of_it = |version: &String| version.starts_with(&format!("{minor}."));
    let found = etcd::patches().into_iter().find(of_it);
    found.unwrap_or_else(|| panic!("no etcd {minor} in the cache: run `make tools`"))
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
        "{}figures: scripts={}; differ={}; repeated={}; disturbed={}; seconds={:.0}",
        outcome.tally,
        cases.len(),
        outcome.wrong.len(),
        outcome.raced,
        outcome.disturbed,
        began.elapsed().as_secs_f64()
    );
    outcome.assert_few_repetitions(cases.len());
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

/// etcd 3.5.30 and 3.6.11 are the first that add a member while a voter is down: three of four are a quorum of five.
#[test]
fn the_model_adds_members_while_a_voter_is_down_as_each_patch_does() {
    let parsed = |version: &str| -> Version { version.parse().expect("a cached version") };
    let versions = etcd::patches();
    for minor in [5, 6] {
        let patches = || versions.iter().map(|v| parsed(v)).filter(|v| v.minor == minor);
        assert!(
            patches().any(add_needs_only_quorum) && !patches().all(add_needs_only_quorum),
            "a patch of 3.{minor} is missing on one side of the rule: run `make tools`"
        );
    }
    let cases: Vec<Case> = versions
        .iter()
        .map(|version| Case {
            seed: 1,
            version: version.clone(),
            script: "members 4; kill 4; ask 1 add-learner 5"
                .parse()
                .expect("a script"),
        })
        .collect();
    let outcome = suite::run(&cases, 2);
    outcome.assert_few_repetitions(cases.len());
    assert!(outcome.wrong.is_empty(), "{}", outcome.wrong.join("\n"));
    let adding = versions
        .iter()
        .filter(|v| add_needs_only_quorum(parsed(v)))
        .count();
    let count = |answer| outcome.tally.answers.get(&answer).copied().unwrap_or(0);
    assert_eq!(
        (
            count(Answer::Accepted),
            count(Answer::Refused(EtcdError::UnhealthyCluster))
        ),
        (adding, cases.len() - adding),
        "{}",
        outcome.tally
    );
}
