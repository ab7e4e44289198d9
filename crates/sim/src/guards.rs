//! Every guard is needed: with it off, some seed breaks the world.
//!
//! In: a guard, how many seeds may be tried. Out: the first seed that breaks, and how. Never: a break that is only
//! a rule's: a cluster must really be harmed.

use std::collections::BTreeMap;

use quorate_core::guard::{Guard, Guards};

use crate::checkers::BreakKind;
use crate::kube::{self, world::KubeBreak};
use crate::run::{one, plain};
use crate::world::Options;

/// What was found for a guard.
#[derive(Clone, Debug)]
pub struct Found {
    pub guard: Guard,
    /// How many seeds were tried.
    pub tried: u64,
    /// The seed that broke, and how.
    pub broke: Option<(u64, String)>,
}

/// A world without pods, every guard on: what a guard is for shows sooner where nothing has to be made first.
fn on_a_machine(seed: u64) -> Options {
    Options {
        pods: false,
        ..plain(seed)
    }
}

/// What shows that a guard is needed, besides a broken cluster: some guard that writes go on, or that others are spared.
pub fn shows(guard: Guard) -> &'static [BreakKind] {
    match guard {
        Guard::QuorumWhileDisturbed | Guard::FreshView => &[BreakKind::PlannedOutage],
        Guard::ServedSettings => &[BreakKind::SettingsSpread],
        _ => &[],
    }
}

/// The same world with one guard off.
fn without(guard: Guard, seed: u64) -> Options {
    Options {
        guards: Guards::without(guard),
        check: false,
        also: shows(guard),
        ..on_a_machine(seed)
    }
}

/// How it shows on Kubernetes that a guard is needed, if it shows only there: volumes go with their claims, and have gates.
fn shows_on_kubernetes(guard: Guard) -> Option<KubeBreak> {
    match guard {
        Guard::LeavingVolume | Guard::NeededStorage => Some(KubeBreak::ClaimLost),
        Guard::OwnVolume => Some(KubeBreak::OneIdTwice),
        _ => None,
    }
}

/// How a world breaks with one guard off, if it is sound with it: only then is it the guard that mattered.
fn broken(guard: Guard, seed: u64) -> Option<String> {
    if let Some(expected) = shows_on_kubernetes(guard) {
        let off = kube::run::with(seed, Guards::without(guard), false).broke;
        let (kind, _, detail) = off.filter(|(kind, ..)| *kind == expected)?;
        let sound = kube::run::one(seed, false).broke.is_none();
        return sound.then(|| format!("{kind:?} at seed {seed}: {detail}"));
    }
    let broke = one(without(guard, seed)).broke?;
    let sound = one(on_a_machine(seed)).broke.is_none();
    sound.then(|| format!("{:?} at seed {seed}: {}", broke.kind, broke.detail))
}

/// Looks for a broken world with one guard off, seed by seed.
pub fn find(guard: Guard, from: u64, seeds_max: u64) -> Found {
    let found = (from..from + seeds_max).find_map(|seed| Some((seed, broken(guard, seed)?)));
    Found {
        guard,
        tried: found.as_ref().map_or(seeds_max, |(seed, _)| seed - from + 1),
        broke: found,
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
