//! Many seeds of a simulated Kubernetes, on two threads; one, with its log.

use std::sync::atomic::{AtomicU64, Ordering};

use quorate_core::guard::Guards;
use quorate_core::model::StepKind;
use quorate_core::plan::BlockReason;

use super::fault::{DURING, FAULTS_DURING, KubeFault};
use super::world::{KubeBreak, KubeWorld, Reached};

/// What can be reached, at zero.
const STAGES: &[&str] = &[
    "Parked",
    "PassedAlone",
    "PassedWithGoAhead",
    "RefusedAtGate",
    "RefusedAtLaunch",
    "LookedInVain",
    "FirstStart",
    "FromData",
    "CameToNothing",
    "ClaimDeleted",
    "Hangs",
    "Starved",
    "Resized",
    "ResizeUnsafe",
    "ResizeInfeasible",
    "ClaimDeletedByOthers",
    "ClaimOfFewDeleted",
    "GivenCompany",
    "KilledBeforeDiscard",
    "Orphaned",
    "Converged",
    "Gone",
    "LeftToPeople",
    "LaterMemory",
    "CaLost",
    "EvictionRefused",
    "OwnVolumeRetained",
    "ForeignVolumeRetained",
];

/// What no world of this kind comes to: recoveries, disks that fill up, etcd's authentication and strangers who add members are
/// not in it, and the check refuses nothing.
const NO_BLOCKS: [BlockReason; 7] = [
    BlockReason::OlderEpoch,
    BlockReason::NewerEpoch,
    BlockReason::UnknownMember,
    BlockReason::NoRoomAside,
    BlockReason::DiskFull,
    BlockReason::CheckRefused,
    BlockReason::LoginRefused,
];

/// Everything that a run must reach.
pub fn all_to_reach() -> Reached {
    let faults = KubeFault::ALL.iter().map(|k| (("fault", format!("{k:?}")), 0));
    let during = DURING
        .into_iter()
        .flat_map(|group| FAULTS_DURING.iter().map(move |k| ((group, format!("{k:?}")), 0)));
    let stages = STAGES.iter().map(|s| (("stage", (*s).to_owned()), 0));
    // Old data lies aside on the volume, and is thinned out there.
    let on_volume = [StepKind::SetAside, StepKind::DropAside];
    let steps = StepKind::ALL.iter().filter(|k| !on_volume.contains(k));
    let steps = steps.map(|k| (("step", format!("{k:?}")), 0));
    let blocks = BlockReason::ALL.iter().filter(|b| !NO_BLOCKS.contains(b));
    let blocks = blocks.map(|b| (("block", format!("{b:?}")), 0));
    let all = faults.chain(during).chain(stages).chain(steps);
    all.chain(blocks).collect()
}

/// What one seed came to.
#[derive(Clone, Debug)]
pub struct KubeVerdict {
    pub broke: Option<(KubeBreak, u64, String)>,
    pub reached: Reached,
    pub ticks: u64,
    /// The log, if it was wanted.
    pub log: String,
}

pub fn one(seed: u64, log: bool) -> KubeVerdict {
    with(seed, Guards::all(), log)
}

/// The same world with these guards.
pub fn with(seed: u64, guards: Guards, log: bool) -> KubeVerdict {
    let mut world = KubeWorld::new(seed, log);
    world.guards = guards;
    world.run();
    KubeVerdict {
        broke: world.breaks.first().cloned(),
        ticks: world.api.now,
        log: world.log.text(),
        reached: world.reached,
    }
}

/// What many seeds came to.
#[derive(Clone, Debug, Default)]
pub struct KubeSummary {
    pub seeds: u64,
    pub ticks: u64,
    /// What all reached together.
    pub reached: Reached,
    /// Those that broke, by seed.
    pub failures: Vec<(u64, KubeBreak, String)>,
}

impl KubeSummary {
    /// What was never reached.
    pub fn never(&self) -> Vec<String> {
        let zero = self.reached.iter().filter(|(_, count)| **count == 0);
        zero.map(|((group, name), _)| format!("{group} {name}")).collect()
    }
}

/// Runs `count` seeds from `from`, on two threads.
pub fn many(from: u64, count: u64) -> KubeSummary {
    let next = AtomicU64::new(from);
    let work = || {
        let mut summary = KubeSummary::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + count {
                return summary;
            }
            let verdict = one(seed, false);
            summary.seeds += 1;
            summary.ticks += verdict.ticks;
            for (key, count) in verdict.reached {
                *summary.reached.entry(key).or_default() += count;
            }
            let broke = verdict.broke.map(|(kind, _, detail)| (seed, kind, detail));
            summary.failures.extend(broke);
        }
    };
    let parts = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.map(|t| t.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)))
    });
    let mut all = KubeSummary::default();
    for part in parts {
        all.seeds += part.seeds;
        all.ticks += part.ticks;
        all.failures.extend(part.failures);
        for (key, count) in part.reached {
            *all.reached.entry(key).or_default() += count;
        }
    }
    all.failures.sort_by_key(|(seed, ..)| *seed);
    all
}
