//! What a run reached: each kind of step, start, wait, block, fault and refusal, counted.
//!
//! In: plans, steps, faults. Out: a table, and what was never reached. Never: a kind that is left out silently.

use std::collections::BTreeMap;

use quorate_core::model::{Refused, StepKind};
use quorate_core::plan::{BlockReason, Plan, StartHow, Step, WaitReason};

use crate::etcd::Snapshots;
use crate::fault::FaultKind;

/// Counters by group and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<(&'static str, String), u64>,
}

const STARTS: [&str; 4] = ["New", "Join", "Resume", "Settle"];
const REFUSALS: [&str; 6] = [
    "UnhealthyCluster",
    "NotEnoughStarted",
    "LearnerNotReady",
    "TooManyLearners",
    "Moved",
    "Other",
];

/// Faults that must be met in the middle of a change of the member list, and of a restart on purpose.
const FAULTS_DURING: [FaultKind; 9] = [
    FaultKind::KillMember,
    FaultKind::KillExecutor,
    FaultKind::CutOne,
    FaultKind::Split,
    FaultKind::StalledDisk,
    FaultKind::WipeVolume,
    FaultKind::DamageVolume,
    FaultKind::ApplyLag,
    FaultKind::ClockBack,
];
const DURING: [&str; 2] = ["changing", "rolling"];
const SNAPSHOTS: [&str; 2] = ["ToVoter", "ToLearner"];

/// Kinds that a run of the real planner need not reach, each with its reason.
pub const UNREACHABLE: &[(&str, &str, &str)] = &[
    (
        "refused",
        "NotEnoughStarted",
        "etcd says it of voters that never told their name; a learner answers only after it has, and is promoted only \
         when it answers. A few worlds in ten thousand meet it, through a member that lags. etcd/tests.rs reaches it",
    ),
    ("block", "OlderEpoch", "nothing raises the epoch of a cluster yet"),
    ("block", "NewerEpoch", "nothing raises the epoch of a cluster yet"),
    (
        "step",
        "Discard",
        "a machine keeps what it holds. The worlds of Kubernetes reach it",
    ),
    (
        "step",
        "Grow",
        "a machine has no storage that grows. The worlds of Kubernetes reach it",
    ),
    (
        "wait",
        "StorageGrowing",
        "a machine has no storage that grows. The worlds of Kubernetes reach it",
    ),
    (
        "step",
        "Resize",
        "a machine gives members all it has. The worlds of Kubernetes reach it",
    ),
    (
        "wait",
        "ResourcesChanging",
        "a machine gives members all it has. The worlds of Kubernetes reach it",
    ),
    ("wait", "CaLost", "the model's members speak plain text"),
    ("block", "LoginRefused", "the model's etcd has no users"),
    (
        "block",
        "DiskFull",
        "who reads the status looks at the disk, not the planner",
    ),
    (
        "block",
        "VolumeDeletionPending",
        "a directory is deleted at once; only Kubernetes waits for the last pod. The worlds of pods reach it",
    ),
];

impl Default for Coverage {
    fn default() -> Self {
        let mut counts = BTreeMap::new();
        let mut zero = |group: &'static str, name: String| {
            counts.insert((group, name), 0);
        };
        StepKind::ALL.iter().for_each(|k| zero("step", format!("{k:?}")));
        STARTS.iter().for_each(|k| zero("start", (*k).to_owned()));
        WaitReason::ALL.iter().for_each(|k| zero("wait", k.to_string()));
        BlockReason::ALL.iter().for_each(|k| zero("block", k.to_string()));
        FaultKind::ALL
            .iter()
            .for_each(|k| zero("fault", format!("{k:?}")));
        for during in DURING {
            FAULTS_DURING.iter().for_each(|k| zero(during, format!("{k:?}")));
        }
        SNAPSHOTS.iter().for_each(|k| zero("snapshot", (*k).to_owned()));
        REFUSALS.iter().for_each(|k| zero("refused", (*k).to_owned()));
        Self { counts }
    }
}

impl Coverage {
    fn hit(&mut self, group: &'static str, name: String) {
        *self.counts.entry((group, name)).or_default() += 1;
    }

    /// A plan was made.
    pub fn plan(&mut self, plan: &Plan) {
        plan.waits
            .iter()
            .for_each(|w| self.hit("wait", w.reason.to_string()));
        plan.blocks
            .iter()
            .for_each(|b| self.hit("block", b.reason.to_string()));
    }

    /// A step is done.
    pub fn step(&mut self, step: &Step) {
        self.hit("step", format!("{:?}", step.kind()));
        if let Step::Start { how, .. } = step {
            let how = match how {
                StartHow::New { .. } => "New",
                StartHow::Join { .. } => "Join",
                StartHow::Resume => "Resume",
                StartHow::Settle => "Settle",
            };
            self.hit("start", how.to_owned());
        }
    }

    /// A fault was done; perhaps while the member list was being changed, or a member restarted on purpose.
    pub fn fault(&mut self, kind: FaultKind, changing: bool, rolling: bool) {
        self.hit("fault", format!("{kind:?}"));
        for (during, now) in DURING.into_iter().zip([changing, rolling]) {
            if now && FAULTS_DURING.contains(&kind) {
                self.hit(during, format!("{kind:?}"));
            }
        }
    }

    /// Raft snapshots were sent.
    pub fn snapshots(&mut self, sent: Snapshots) {
        for (to, count) in SNAPSHOTS.into_iter().zip([sent.voters, sent.learners]) {
            *self.counts.entry(("snapshot", to.to_owned())).or_default() += count;
        }
    }

    /// A step was refused.
    pub fn refused(&mut self, refused: &Refused) {
        let name = match refused {
            Refused::UnhealthyCluster => "UnhealthyCluster",
            Refused::NotEnoughStarted => "NotEnoughStarted",
            Refused::LearnerNotReady => "LearnerNotReady",
            Refused::TooManyLearners => "TooManyLearners",
            Refused::Moved => "Moved",
            Refused::Other(_) => "Other",
        };
        self.hit("refused", name.to_owned());
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Coverage) {
        for (key, count) in &other.counts {
            *self.counts.entry(key.clone()).or_default() += count;
        }
    }

    /// What was never reached and is not excused.
    pub fn never(&self) -> Vec<String> {
        let excused = |group: &str, name: &str| UNREACHABLE.iter().any(|(g, n, _)| *g == group && *n == name);
        let zero = self
            .counts
            .iter()
            .filter(|((group, name), count)| **count == 0 && !excused(group, name));
        zero.map(|((group, name), _)| format!("{group} {name}")).collect()
    }

    /// The table, for people.
    pub fn table(&self) -> String {
        let row =
            |((group, name), count): (&(&str, String), &u64)| format!("  {group:<8} {name:<20} {count:>9}\n");
        self.counts.iter().map(row).collect()
    }
}
