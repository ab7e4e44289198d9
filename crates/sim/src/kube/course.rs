//! One course of changes in which nothing else goes wrong: the operator dies after a given request, between any two.
//!
//! In: a seed, and the number of the request. Out: what broke, and how many requests there were. Never: another fault.

use quorate_core::model::Version;

use super::world::{KubeBreak, KubeWorld, Wants};

/// So many ticks each change has.
const TICKS_MAX: u64 = 3000;
/// So long all must be as wanted.
const QUIET: u64 = 30;
/// Counted down from, where nobody is to die.
const NEVER: u32 = u32::MAX;

/// Made as one member, grown to three, upgraded, shrunk to one: how many, and which etcd.
const CHANGES: [(u32, Version); 4] = [
    (1, Version::new(3, 5, 33)),
    (3, Version::new(3, 5, 33)),
    (3, Version::new(3, 6, 14)),
    (1, Version::new(3, 6, 14)),
];

/// What a course came to.
#[derive(Clone, Debug)]
pub struct Course {
    pub broke: Option<(KubeBreak, u64, String)>,
    /// How many requests the operator had made at the end of each change: to the API server and to etcd.
    pub requests: Vec<u32>,
    pub died: bool,
    /// The log, if it was wanted.
    pub log: String,
}

/// Runs the course; the operator dies after `dies_after` requests, if it makes so many, and the change in which it did is
/// the last.
pub fn run(seed: u64, dies_after: Option<u32>, log: bool) -> Course {
    let mut changes = CHANGES.into_iter().map(|(replicas, version)| Wants {
        replicas,
        version,
        reason: 0,
        settings: crate::user::Settings::Good,
        tls: false,
        paused: false,
        invalid: false,
        storage: 1,
        memory: 256,
    });
    let first = changes
        .next()
        .unwrap_or_else(|| unreachable!("there are changes"));
    let mut world = KubeWorld::calm(seed, first, log);
    let counted_from = dies_after.unwrap_or(NEVER);
    world.operators[0].dies_in = Some(counted_from);
    let mut requests = Vec::new();
    loop {
        world.come_right();
        let left = world.operators[0].dies_in;
        requests.push(left.map_or(counted_from, |left| counted_from - left));
        // What follows on a change that was finished all the same is another course.
        if !world.breaks.is_empty() || left.is_none() {
            break;
        }
        let Some(next) = changes.next() else { break };
        world.wants = next;
        world.apply_wants();
    }
    Course {
        broke: world.breaks.first().cloned(),
        requests,
        died: world.operators[0].dies_in.is_none(),
        log: world.log.text(),
    }
}

impl KubeWorld {
    pub(super) fn come_right(&mut self) {
        let mut quiet = 0;
        for _ in 0..TICKS_MAX {
            self.tick();
            if !self.breaks.is_empty() {
                return;
            }
            quiet = if self.missing().is_none() { quiet + 1 } else { 0 };
            if quiet >= QUIET {
                return;
            }
        }
        let missing = self.missing().unwrap_or_default();
        self.broke(KubeBreak::NoConvergence, missing);
    }
}
