//! What goes wrong in a simulated Kubernetes, and what the user does meanwhile: each seed has its own mixture.
//!
//! In: chance. Out: faults done to the world. Never: a loss that by itself destroys a quorum's data, unless this seed is one
//! that does so on purpose; after it has healed, a wish that cannot be had.

pub mod eviction;
pub mod exchange;
pub mod loss;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use quorate_api::crd::{EtcdCluster, EtcdPeer};
use quorate_core::model::{AlarmKind, Ordinal, Version, VersionPath};
use quorate_operator::cluster::pass::stored;
use quorate_operator::requests::effect::{Effect, Kind};

use super::kubelet::Phase;
use super::operator::release::Release;
use super::operator::{KINDS, Operator};
use super::resources::LIMITS;
use super::world::KubeWorld;
use crate::etcd::{Data, Place};
use crate::fault::change_pending;
use crate::user::Settings;

/// The versions a user may ask for.
pub const VERSIONS: [Version; 4] = [
    Version::new(3, 4, 23),
    Version::new(3, 5, 33),
    Version::new(3, 6, 1),
    Version::new(3, 6, 14),
];

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum KubeFault { $($(#[$doc])* $name,)* }
        impl KubeFault {
            pub const ALL: &'static [KubeFault] = &[$(KubeFault::$name),*];
        }
    };
}

kinds! {
    /// etcd is killed in its container; kubelet starts it again without the init containers.
    KillEtcd,
    /// A pod is deleted.
    DeletePod,
    /// Somebody drains the node of a pod, as far as the budget allows it.
    Evict,
    /// A pod is deleted by force: the API server forgets it, its process goes on for a while.
    ForceDelete,
    /// The node restarts: all pods at once, from their first container.
    Reboot,
    /// A node dies for long, and with it a process. Its pod is told to go, and stays until the node is back.
    DeadNode,
    /// All of a volume is gone.
    WipeVolume,
    /// The data is gone, and what is written about the volume is not.
    WipeData,
    /// What is written about the volume is gone, and the data is not.
    WipeRecord,
    /// The data cannot be read.
    DamageData,
    /// So many volumes are wiped at once that no quorum is left.
    QuorumLoss,
    /// Somebody deletes a claim that is in use: it goes when its pod does.
    DeleteClaim,
    /// Somebody takes what is written on a claim away.
    StripClaim,
    /// A volume is put back to a snapshot of it.
    RollBack,
    /// A volume is put in the place of another, as a copy.
    CloneVolume,
    /// Two volumes are swapped.
    SwapVolumes,
    /// The next claim that is made is bound to a volume that was retained when its claim went, whosever it was.
    BindRetained,
    /// etcd ends at once for a while.
    CrashLoop,
    /// A member is cut off from the others.
    CutOne,
    /// The operator dies, somewhere in its pass.
    KillOperator,
    /// The operator stands still, and then goes on where it was.
    StallOperator,
    /// An operator's clock jumps ahead of that of the API server.
    ClockAhead,
    /// An operator's clock is set back.
    ClockBack,
    /// A member's database has reached its quota.
    NoSpaceAlarm,
    /// A member's data differs from the others'.
    CorruptAlarm,
    /// A member applies what is committed with delay.
    ApplyLag,
    SecondOperator,
    /// Some of its views are old.
    Lag,
    /// The API server does not answer.
    ApiAway,
    /// The API server does what it is asked to, and its answer is lost.
    LostAnswer,
    /// Somebody asks for other CAs.
    RotateCa,
    DeleteSecret,
    /// Secrets cannot be written for a while, and perhaps one is missing.
    RefuseSecrets,
    /// Somebody deletes an EtcdPeer.
    DeletePeer,
    /// Somebody deletes the EtcdCluster, and creates it again some time later.
    DeleteCluster,
}

/// What may be under way when something goes wrong, and the faults that must be met then.
pub const DURING: [&str; 2] = ["changing", "rolling"];
pub const FAULTS_DURING: [KubeFault; 12] = [
    KubeFault::KillEtcd,
    KubeFault::DeletePod,
    KubeFault::ForceDelete,
    KubeFault::Reboot,
    KubeFault::DeadNode,
    KubeFault::WipeVolume,
    KubeFault::DamageData,
    KubeFault::CutOne,
    KubeFault::KillOperator,
    KubeFault::ClockBack,
    KubeFault::ApplyLag,
    KubeFault::ApiAway,
];

#[derive(Clone, Debug)]
pub struct FaultRates {
    /// Chance per tick, in 1/65536.
    pub rates: BTreeMap<KubeFault, u16>,
    /// Chance of an edit per tick, in 1/65536.
    pub edits: u16,
    pub ticks: u64,
}

impl FaultRates {
    pub fn none() -> FaultRates {
        FaultRates {
            rates: BTreeMap::new(),
            edits: 0,
            ticks: 0,
        }
    }

    /// The mixture of a seed.
    pub fn of(rng: &mut fastrand::Rng) -> FaultRates {
        let calm = rng.u8(..) < 25;
        let hopeless = rng.u8(..) < 16;
        let mut rates = BTreeMap::new();
        for kind in KubeFault::ALL {
            let (on, rate) = (rng.u8(..) < 90, rng.u16(60..500));
            let on = match kind {
                KubeFault::QuorumLoss => hopeless,
                _ => on && !calm,
            };
            if on {
                rates.insert(*kind, rate);
            }
        }
        FaultRates {
            rates,
            edits: rng.u16(50..700),
            ticks: rng.u64(100..700),
        }
    }
}

impl KubeWorld {
    /// Perhaps something goes wrong, or the user wants something else.
    pub(super) fn make_trouble(&mut self) {
        for (kind, rate) in self.trouble.rates.clone() {
            if self.rng.u16(..) >= rate {
                continue;
            }
            let under_way = self.under_way();
            if self.inject(kind) {
                let groups = ["fault"].into_iter().chain(under_way);
                groups.for_each(|group| self.reached(group, &format!("{kind:?}")));
                self.log.event("fault", format_args!("{kind:?}"));
            }
        }
        if self.rng.u16(..) < self.trouble.edits {
            self.edit();
        }
        if self.rng.u8(..) < 4 {
            self.etcd.heal();
        }
        if self.rng.u8(..) < 4 {
            self.put_right();
        }
    }

    /// Is the member list being changed, or a member restarted on purpose?
    fn under_way(&self) -> Vec<&'static str> {
        let resource = self.api.clusters.live.get(&self.names.cluster);
        let memory = resource.and_then(|resource| stored(resource).ok()?);
        let changing = change_pending(&self.etcd) || memory.as_ref().is_some_and(|m| m.change.is_some());
        let rolling = memory.is_some_and(|m| m.disturbance.is_some());
        DURING
            .into_iter()
            .zip([changing, rolling])
            .filter_map(|(group, now)| now.then_some(group))
            .collect()
    }

    /// The operator dies between taking the place of a member that is not wanted away and deleting its claim, and the member
    /// is perhaps wanted again.
    pub(super) fn change_of_mind(&mut self, me: &mut Operator, effect: &Effect) {
        let Effect::Delete {
            kind: Kind::Peer,
            name,
            ..
        } = effect
        else {
            return;
        };
        let kills = self.trouble.rates.contains_key(&KubeFault::KillOperator);
        let wanted = self
            .names
            .ordinal(name)
            .is_some_and(|o| o.0 < self.wants.replicas);
        if !kills || wanted || self.rng.u8(..3) == 0 {
            return;
        }
        me.dies_in = Some(1); // This request is counted, too.
        self.reached("stage", "KilledBeforeDiscard");
        if self.rng.bool() {
            self.wants.replicas = self.rng.u32(1..=5);
            self.apply_wants();
        }
    }

    fn edit(&mut self) {
        match self.rng.u8(..17) {
            16 => self.wants.invalid = !self.wants.invalid,
            13..16 => self.wants.memory = LIMITS[self.rng.usize(..LIMITS.len())],
            11..13 => {
                let all = [Settings::Good, Settings::End, Settings::Hang];
                self.wants.settings = all[self.rng.usize(..all.len())];
            }
            0..5 => self.wants.replicas = self.rng.u32(1..=5),
            5..7 => {
                let next = VERSIONS[self.rng.usize(..VERSIONS.len())];
                if self.can_run(next) {
                    self.wants.version = next;
                }
            }
            7..9 => self.wants.reason = self.rng.u8(..4),
            9 => self.wants.storage += 1,
            _ => self.wants.paused = !self.wants.paused,
        }
        self.apply_wants();
    }

    /// Can all data there is go on with this version?
    fn can_run(&self, version: Version) -> bool {
        let volumes = self.etcd.nodes.values().flat_map(|n| n.volumes.values());
        let mut data = volumes.filter_map(Data::wal).map(|w| w.version);
        data.all(|from| from.path_to(version) == VersionPath::Allowed)
            && self.wants.version.path_to(version) == VersionPath::Allowed
    }

    pub(super) fn some_pod(&mut self, which: impl Fn(&super::kubelet::Running) -> bool) -> Option<String> {
        let all: Vec<String> = self
            .pods
            .iter()
            .filter(|(_, p)| !p.ghost && p.dead_until.is_none() && which(p))
            .map(|(uid, _)| uid.clone())
            .collect();
        (!all.is_empty()).then(|| all[self.rng.usize(..all.len())].clone())
    }

    fn inject(&mut self, kind: KubeFault) -> bool {
        let now = self.api.now;
        match kind {
            KubeFault::KillEtcd => {
                let Some(uid) = self.some_pod(|p| p.runs()) else {
                    return false;
                };
                self.etcd.kill(Place(self.pods[&uid].ordinal.0));
            }
            KubeFault::DeletePod => {
                let Some(uid) = self.some_pod(|p| p.going.is_none()) else {
                    return false;
                };
                let name = self.pods[&uid].name.clone();
                let _ = self.api.delete::<Pod>(&name, Some(&uid));
            }
            KubeFault::Evict => return self.evict(),
            KubeFault::ForceDelete => {
                let Some(uid) = self.some_pod(|_| true) else {
                    return false;
                };
                let ends = now + self.rng.u64(1..120);
                let Some(pod) = self.pods.get_mut(&uid) else {
                    return false;
                };
                (pod.ghost, pod.going) = (true, Some(ends));
                let name = pod.name.clone();
                self.api.remove::<Pod>(&name);
            }
            KubeFault::Reboot => return self.reboot(),
            KubeFault::DeadNode => return self.lose_node(),
            KubeFault::WipeVolume | KubeFault::WipeData | KubeFault::DamageData | KubeFault::WipeRecord => {
                return self.lose(kind);
            }
            KubeFault::QuorumLoss => return self.lose_quorum(),
            KubeFault::RollBack => return self.roll_back(),
            KubeFault::CloneVolume => return self.exchange(false),
            KubeFault::SwapVolumes => return self.exchange(true),
            KubeFault::BindRetained => self.binds_retained = true,
            KubeFault::DeleteClaim => return self.delete_claim(),
            KubeFault::StripClaim => return self.strip_claim(),
            KubeFault::CrashLoop => {
                let ordinal = Ordinal(self.rng.u32(..self.wants.replicas));
                let until = now + self.rng.u64(5..120);
                self.crashing.insert(ordinal, until);
            }
            KubeFault::CutOne => {
                let place = Place(self.rng.u32(..self.wants.replicas));
                self.etcd.cut(place, 1);
            }
            KubeFault::KillOperator => {
                let index = self.rng.usize(..self.operators.len());
                self.operators[index].dies_in = Some(self.rng.u32(0..8));
            }
            KubeFault::StallOperator => {
                let index = self.rng.usize(..self.operators.len());
                self.operators[index].asleep_until = now + self.rng.u64(5..80);
            }
            KubeFault::ClockAhead | KubeFault::ClockBack => self.set_clock(kind == KubeFault::ClockBack),
            KubeFault::NoSpaceAlarm => return self.raise(AlarmKind::NoSpace),
            KubeFault::CorruptAlarm => return self.raise(AlarmKind::Corrupt),
            KubeFault::ApplyLag => {
                let Some(uid) = self.some_pod(|p| p.runs()) else {
                    return false;
                };
                let until = now + self.rng.u64(5..80);
                self.etcd.node(Place(self.pods[&uid].ordinal.0)).lags_until = until;
            }
            KubeFault::SecondOperator => {
                if self.operators.len() > 1 {
                    return false;
                }
                let until = now + self.rng.u64(30..200);
                let mut second = Operator::new(2, now + 1, Some(until));
                let releases = [Release::Present, Release::Later, Release::LaterFormat];
                second.release = releases[self.rng.usize(..releases.len())];
                self.operators.push(second);
            }
            KubeFault::Lag => {
                let index = self.rng.usize(..self.operators.len());
                let lag = &mut self.operators[index].lag;
                for kind in lag.iter_mut() {
                    *kind = if self.rng.bool() { 0 } else { self.rng.u64(0..40) };
                }
            }
            KubeFault::ApiAway => self.away_until = now + self.rng.u64(2..80),
            KubeFault::LostAnswer => {
                let index = self.rng.usize(..self.operators.len());
                self.operators[index].loses_answers += 1;
            }
            KubeFault::RotateCa => return self.request_rotation(),
            KubeFault::DeleteSecret => return self.delete_secret(),
            KubeFault::RefuseSecrets => {
                if !self.wants.tls {
                    return false;
                }
                self.api.secrets_refused_until = now + self.rng.u64(10..160);
                if self.rng.bool() {
                    self.delete_secret();
                }
            }
            KubeFault::DeletePeer => {
                let all: Vec<String> = self.api.peers.live.keys().cloned().collect();
                if all.is_empty() {
                    return false;
                }
                let name = all[self.rng.usize(..all.len())].clone();
                let _ = self.api.delete::<EtcdPeer>(&name, None);
            }
            KubeFault::DeleteCluster => {
                if self.recreate_at.is_some() {
                    return false;
                }
                let name = self.names.cluster.clone();
                let _ = self.api.delete::<EtcdCluster>(&name, None);
                if self.rng.u8(..4) == 0 {
                    self.leave_orphans();
                }
                self.recreate_at = Some(now + self.rng.u64(1..120));
            }
        }
        true
    }

    fn set_clock(&mut self, back: bool) {
        // Mostly minutes, as a time server corrects; now and then a battery is dead. Certificates would not outlive that.
        let dead = self.rng.u8(..) < 40 && !self.wants.tls;
        let by = self.rng.i64(1_000..if dead { 20_000_000 } else { 600_000 });
        let by = if back { -by } else { by };
        let index = self.rng.usize(..self.operators.len());
        self.operators[index].clock_off_ms += by;
        self.log.event("fault", format_args!("clock jumps by {by} ms"));
    }

    fn raise(&mut self, kind: AlarmKind) -> bool {
        let Some(uid) = self.some_pod(|p| p.runs()) else {
            return false;
        };
        let raised = self.etcd.raise(Place(self.pods[&uid].ordinal.0), kind);
        if raised {
            self.alarms_until = self.api.now + self.rng.u64(5..80);
        }
        raised
    }

    /// The cluster was deleted without what it had made.
    fn leave_orphans(&mut self) {
        self.reached("stage", "Orphaned");
        for name in self.api.peers.live.keys().cloned().collect::<Vec<_>>() {
            let _ = self
                .api
                .change::<EtcdPeer>(&name, None, |p| p.metadata.owner_references = None);
        }
        for name in self.api.services.live.keys().cloned().collect::<Vec<_>>() {
            let _ = self
                .api
                .change::<Service>(&name, None, |s| s.metadata.owner_references = None);
        }
        for name in self.api.budgets.live.keys().cloned().collect::<Vec<_>>() {
            let _ = self.api.change::<PodDisruptionBudget>(&name, None, |b| {
                b.metadata.owner_references = None;
            });
        }
    }

    fn lose_node(&mut self) -> bool {
        // Longer, now and then, than a pod that should be gone is waited for.
        let until = self.api.now + self.rng.u64(20..600);
        let Some(uid) = self.some_pod(|p| p.runs() && p.going.is_none()) else {
            return false;
        };
        let Some(pod) = self.pods.get_mut(&uid) else {
            return false;
        };
        pod.dead_until = Some(until);
        self.etcd.kill(Place(pod.ordinal.0));
        let name = pod.name.clone();
        if let Some(volume) = pod.claim.as_ref().and_then(|c| self.volumes.get_mut(c)) {
            volume.lock = None;
        }
        self.log.event(
            "fault",
            format_args!("the node of {name} is dead until {}", until / 2),
        );
        let _ = self.api.delete::<Pod>(&name, Some(&uid));
        true
    }

    fn reboot(&mut self) -> bool {
        let now = self.api.now;
        let delay = self.rng.u64(4..60);
        let mut uids: Vec<String> = self.pods.keys().cloned().collect();
        uids.sort();
        for uid in uids {
            let later = self.rng.u64(0..10);
            let Some(pod) = self.pods.get_mut(&uid).filter(|p| p.dead_until.is_none()) else {
                continue;
            };
            if pod.runs() {
                self.etcd.kill(Place(pod.ordinal.0));
            }
            // Nobody saw its end.
            self.stranded |= matches!(pod.phase, Phase::Hanging { first: true, .. });
            if let Some(volume) = pod.claim.as_ref().and_then(|c| self.volumes.get_mut(c)) {
                volume.lock = None;
            }
            pod.phase = Phase::Coming;
            pod.report = None;
            pod.due = now + delay + later;
        }
        self.pods.retain(|_, p| !p.ghost);
        true
    }

    pub(super) fn heal(&mut self) {
        self.log.event("world", format_args!("everything heals"));
        self.etcd.heal();
        self.etcd.alarms.clear();
        for node in self.etcd.nodes.values_mut() {
            node.lags_until = 0;
        }
        self.put_right();
        self.binds_retained = false;
        self.trouble.rates.clear();
        self.crashing.clear();
        for pod in self.pods.values_mut() {
            pod.dead_until = pod.dead_until.map(|_| self.api.now);
        }
        (self.away_until, self.api.secrets_refused_until) = (0, 0);
        self.operators.truncate(1);
        let later = self.memory_is_later();
        for operator in &mut self.operators {
            if later {
                // A person brings it up to the release that wrote the memory.
                operator.release = Release::LaterFormat;
            }
            operator.lag = [0; KINDS];
            operator.dies_in = None;
            operator.loses_answers = 0;
        }
        (self.wants.paused, self.wants.invalid) = (false, false);
        self.wants.settings = Settings::Good;
        self.wants.memory = self.wants.memory.max(256);
        self.apply_wants();
    }
}
