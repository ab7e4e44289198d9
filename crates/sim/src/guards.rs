//! Every guard is needed: with it off, some seed breaks the world.
//!
//! In: a guard, how many seeds may be tried. Out: the first seed that breaks, and how. Never: a break that is only
//! a rule's: a cluster must really be harmed.

use std::collections::BTreeMap;

use quorate_core::guard::{Guard, Guards};

use crate::checkers::{Break, BreakKind};
use crate::run::{one, plain};
use crate::world::Options;

/// What was found for a guard.
#[derive(Clone, Debug)]
pub struct Found {
    pub guard: Guard,
    /// How many seeds were tried.
    pub tried: u64,
    /// The seed that broke, and how.
    pub broke: Option<(u64, Break)>,
}

/// A world without pods, every guard on: what a guard is for shows sooner where nothing has to be made first.
fn on_a_machine(seed: u64) -> Options {
    Options {
        pods: false,
        ..plain(seed)
    }
}

/// Does it guard that writes go on, rather than that nothing is lost for good? Then an outage that was planned shows it.
pub fn keeps_writes_going(guard: Guard) -> bool {
    matches!(guard, Guard::QuorumWhileDisturbed | Guard::FreshView)
}

/// The same world with one guard off.
fn without(guard: Guard, seed: u64) -> Options {
    Options {
        guards: Guards::without(guard),
        check: false,
        outages: keeps_writes_going(guard),
        ..on_a_machine(seed)
    }
}

/// Looks for a broken world with one guard off, seed by seed.
pub fn find(guard: Guard, from: u64, seeds_max: u64) -> Found {
    for tried in 0..seeds_max {
        let seed = from + tried;
        let broke = one(without(guard, seed)).broke;
        // The same seed must be sound with the guard on: only then is it the guard that mattered.
        let sound = |seed| one(on_a_machine(seed)).broke.is_none();
        if let Some(broke) = broke.filter(|_| sound(seed)) {
            return Found {
                guard,
                tried: tried + 1,
                broke: Some((seed, broke)),
            };
        }
    }
    Found {
        guard,
        tried: seeds_max,
        broke: None,
    }
}

/// How worlds break with one guard off: each kind, how often, and the first seed of it.
pub fn histogram(guard: Guard, from: u64, seeds: u64) -> BTreeMap<BreakKind, (u64, u64)> {
    let mut kinds: BTreeMap<BreakKind, (u64, u64)> = BTreeMap::new();
    for seed in from..from + seeds {
        let broke = one(without(guard, seed)).broke;
        if let Some(broke) = broke.filter(|_| one(on_a_machine(seed)).broke.is_none()) {
            kinds.entry(broke.kind).or_insert((0, seed)).0 += 1;
        }
    }
    kinds
}
