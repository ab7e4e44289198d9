//! One simulated Kubernetes with one cluster: trouble, then peace, in which everything must come right.
//!
//! In: a seed. Out: what broke, what was reached, the log. Never: a tick without every checker having looked.

use std::collections::{BTreeMap, BTreeSet};

use quorate_api::crd::EtcdCluster;
use quorate_core::guard::Guards;
use quorate_core::model::{Ordinal, Version};
use quorate_operator::names::Names;
use quorate_operator::requests::effect::Effect;
use serde_json::json;

use super::api::Api;
use super::fault::FaultRates;
use super::fault::exchange::Saved;
use super::kubelet::Running;
use super::operator::{Lease, Operator};
use super::tls::{Certificates, Connects};
use super::volume::Volume;
use crate::checkers::{Clusters, Writes};
use crate::etcd::{EtcdModel, Note, Place};
use crate::log::EventLog;
use crate::user::Settings;

/// So many ticks the healed world has to come right.
const HEALED_TICKS_MAX: u64 = 4000;

/// So many ticks a deleted cluster has to go.
const LEAVING_TICKS_MAX: u64 = 600;

/// How it can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeBreak {
    /// An acknowledged write is gone.
    WriteLost,
    /// A second cluster of that name has a leader.
    TwoClusters,
    /// Two etcd on one volume.
    TwoOnOneVolume,
    /// A first start where etcd had promised something.
    FirstOnUsed,
    /// A claim went with the data of a member.
    ClaimLost,
    /// An eviction that the budget allowed took the quorum away.
    EvictionCostQuorum,
    /// A voter was stopped on purpose, and the others were known to be no quorum.
    PlannedOutage,
    /// Two members, or one and the operator, do not talk to each other although no CA was lost.
    Refused,
    /// An operator acted although it cannot read what a later one remembers.
    ActedOnLater,
    /// Settings that one voter does not serve with reached another.
    SettingsSpread,
    /// A volume was started that was put back to an earlier state, which could be known.
    RolledBackStarted,
    /// A volume was called rolled back that was not, or a quorum lost that was not.
    FalseAlarm,
    /// An alarm of etcd's was not reported, or members were changed although their data differ.
    AlarmIgnored,
    /// A member was started from another's volume, or under an id that runs already.
    OneIdTwice,
    /// In peace it did not become what is wanted.
    NoConvergence,
    /// The safety check refused what the planner planned.
    CheckDisagrees,
}

/// What the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wants {
    pub replicas: u32,
    pub version: Version,
    pub reason: u8,
    /// How large the volumes are, in GiB.
    pub storage: u32,
    /// The memory limit, in MiB; none if 0.
    pub memory: u32,
    pub settings: Settings,
    /// Members speak TLS, with certificates that quorate makes.
    pub tls: bool,
    /// Nothing is to be done.
    pub paused: bool,
    /// What cannot be done: no member at all.
    pub invalid: bool,
}

/// Counts by group and name.
pub type Reached = BTreeMap<(&'static str, String), u64>;

#[derive(Debug)]
pub struct KubeWorld {
    pub api: Api,
    pub etcd: EtcdModel,
    pub names: Names,
    /// Volumes by the uid of their claim.
    pub volumes: BTreeMap<String, Volume>,
    /// Pods on nodes, by uid.
    pub pods: BTreeMap<String, Running>,
    pub operators: Vec<Operator>,
    /// Those that the operators go by.
    pub guards: Guards,
    /// Who of them may act.
    pub lease: Lease,
    pub wants: Wants,
    /// When a cluster that was deleted is created again.
    pub recreate_at: Option<u64>,
    pub trouble: FaultRates,
    pub rng: fastrand::Rng,
    pub log: EventLog,
    pub(super) certificates: Certificates,
    /// What the operator connects with.
    pub(super) connects: Option<Connects>,
    /// Members may trust a CA that nobody has any more.
    pub(super) ca_lost: bool,
    /// The manifest was one that cannot be followed; a watch may be late.
    pub(super) was_invalid: bool,
    /// The operator can do nothing for want of certificates, and has said so.
    pub(super) held_for_certificates: bool,
    pub reached: Reached,
    pub breaks: Vec<(KubeBreak, u64, String)>,
    /// When controllers get to things.
    pub(super) dues: BTreeMap<String, u64>,
    /// Why processes ended by themselves.
    pub(super) exits: BTreeMap<Place, &'static str>,
    /// Since when each member serves, and when it last did.
    pub(super) served: BTreeMap<Place, (u64, u64)>,
    /// Voters that served and were to be stopped on purpose: when, and by what.
    pub(super) stopped: BTreeMap<Place, (u64, Effect)>,
    /// Whose etcd crashes until when.
    pub(super) crashing: BTreeMap<Ordinal, u64>,
    /// The API server answers nothing until then.
    pub(super) away_until: u64,
    /// Alarms are disarmed then.
    pub(super) alarms_until: u64,
    pub(super) ids: u64,
    /// A first start of a new cluster ended without data, and nobody saw it end: it cannot be proven that it promised
    /// nothing, so that a small cluster which loses its quorum by it is left to people.
    pub(super) stranded: bool,
    /// Claims that somebody deleted behind the operator's back, by uid, and when.
    pub(super) deleted_by_others: BTreeMap<String, u64>,
    /// Snapshots of volumes, as storage takes them.
    pub(super) snapshots: BTreeMap<Ordinal, Saved>,
    /// Members whose volumes were ever put back to one.
    pub(super) rolled_back: BTreeSet<Ordinal>,
    /// What was in places whose volumes were exchanged.
    pub(super) exchanged: Vec<Saved>,
    /// The volume of the last claim of each member that went, kept by storage whose policy is to retain.
    pub(super) retained: BTreeMap<Ordinal, Saved>,
    /// The next claim that is made is bound to one of these.
    pub(super) binds_retained: bool,
    /// The claims that were bound to what their own member had left.
    pub(super) bound_again: BTreeSet<String>,
    writes: Writes,
    clusters: Clusters,
    values: u64,
}

impl KubeWorld {
    /// A world before its first tick.
    pub fn new(seed: u64, log: bool) -> KubeWorld {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x006b_7562_6500);
        let etcd = EtcdModel::new(rng.u64(..));
        let sizes = [1, 2, 3, 3, 3, 3, 5];
        let versions = super::fault::VERSIONS;
        let wants = Wants {
            replicas: sizes[rng.usize(..sizes.len())],
            version: versions[rng.usize(..versions.len())],
            reason: 0,
            storage: 1,
            memory: [0, 256, 512][rng.usize(..3)],
            settings: Settings::Good,
            tls: seed.is_multiple_of(6),
            paused: false,
            invalid: false,
        };
        let trouble = FaultRates::of(&mut rng);
        let mut world = KubeWorld::of(etcd, rng, wants, trouble, log);
        world.api.refuses_resize = world.rng.u8(..4) == 0;
        world.log.event(
            "world",
            format_args!("seed {seed}: {:?}, {:?}", world.wants, world.trouble),
        );
        if world.wants.tls && seed.is_multiple_of(12) {
            world.make_common_ca();
        }
        world.create_cluster();
        world
    }

    /// A world in which nothing goes wrong by itself, before its first tick.
    pub fn calm(seed: u64, wants: Wants, log: bool) -> KubeWorld {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x6361_6c6d);
        let etcd = EtcdModel::new(rng.u64(..));
        let mut world = KubeWorld::of(etcd, rng, wants, FaultRates::none(), log);
        world.create_cluster();
        world
    }

    fn of(etcd: EtcdModel, rng: fastrand::Rng, wants: Wants, trouble: FaultRates, log: bool) -> KubeWorld {
        KubeWorld {
            api: Api::default(),
            etcd,
            names: Names::of("n", "c"),
            volumes: BTreeMap::new(),
            pods: BTreeMap::new(),
            operators: vec![Operator::new(1, 1, None)],
            guards: Guards::all(),
            lease: Lease::default(),
            wants,
            recreate_at: None,
            trouble,
            rng,
            log: EventLog::new(log),
            certificates: Certificates::default(),
            connects: None,
            ca_lost: false,
            was_invalid: false,
            held_for_certificates: false,
            reached: super::run::all_to_reach(),
            breaks: Vec::new(),
            dues: BTreeMap::new(),
            exits: BTreeMap::new(),
            served: BTreeMap::new(),
            crashing: BTreeMap::new(),
            away_until: 0,
            alarms_until: 0,
            ids: 0,
            stranded: false,
            deleted_by_others: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            rolled_back: BTreeSet::new(),
            exchanged: Vec::new(),
            retained: BTreeMap::new(),
            stopped: BTreeMap::new(),
            binds_retained: false,
            bound_again: BTreeSet::new(),
            writes: Writes::default(),
            clusters: Clusters::default(),
            values: 0,
        }
    }

    pub fn reached(&mut self, group: &'static str, name: &str) {
        *self.reached.entry((group, name.to_owned())).or_default() += 1;
    }

    pub fn broke(&mut self, kind: KubeBreak, detail: String) {
        self.log.event("BROKEN", format_args!("{kind:?}: {detail}"));
        self.breaks.push((kind, self.api.now, detail));
    }

    /// Does the API server not answer now?
    pub(super) fn api_away(&self) -> bool {
        self.away_until > self.api.now
    }

    fn manifest(&mut self) -> Option<EtcdCluster> {
        self.was_invalid |= self.wants.invalid;
        let tls = self.wants.tls.then(|| json!({}));
        serde_json::from_value(json!({
            "apiVersion": "etcd.improbable.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {"name": self.names.cluster, "namespace": self.names.namespace},
            "spec": {
                "replicas": if self.wants.invalid { 0 } else { self.wants.replicas },
                "version": self.wants.version.to_string(),
                "storage": {"volumeClaimTemplate": {"storageClassName": "s", "resources": {"requests": {"storage": format!("{}Gi", self.wants.storage)}}}},
                "forceRedeploymentReason": format!("r{}", self.wants.reason),
                "options": {"snapshotCount": self.wants.settings.snapshot_count()},
                "podTemplate": super::resources::pod_template(self.wants.memory),
                "paused": self.wants.paused,
                "tls": tls,
            },
        }))
        .ok()
    }

    /// The user creates the cluster.
    pub(super) fn create_cluster(&mut self) {
        let Some(manifest) = self.manifest() else {
            return self.broke(KubeBreak::NoConvergence, "the manifest is none".to_owned());
        };
        let _ = self.api.create(manifest);
        self.log.event("user", format_args!("creates {:?}", self.wants));
        self.forget_without_volumes();
    }

    /// The user applies what is wanted now.
    pub(super) fn apply_wants(&mut self) {
        self.log.event("user", format_args!("wants {:?}", self.wants));
        if let Some(manifest) = self.manifest() {
            let name = self.names.cluster.clone();
            let _ = self.api.change::<EtcdCluster>(&name, None, |c| {
                c.spec = manifest.spec;
                c.metadata.generation = c.metadata.generation.map(|g| g + 1);
            });
        }
    }

    /// The whole course; stops at the first break.
    pub fn run(&mut self) {
        for _ in 0..self.trouble.ticks {
            self.make_trouble();
            self.tick();
            if !self.breaks.is_empty() {
                return;
            }
        }
        self.heal();
        let mut quiet = 0;
        for tick in 0..HEALED_TICKS_MAX {
            self.delete_foreign_storage();
            self.bind_empty_volumes();
            self.change_what_fails();
            self.give_company();
            self.delete_all_secrets();
            self.tick();
            if !self.breaks.is_empty() {
                return;
            }
            // What is reported by then is of the healed world.
            if tick >= 60 && self.left_to_people() {
                self.judge_lost();
                return self.reached("stage", "LeftToPeople");
            }
            quiet = if self.missing().is_none() { quiet + 1 } else { 0 };
            if quiet >= 30 {
                self.reached("stage", "Converged");
                self.log.event(
                    "world",
                    format_args!("as wanted, {} writes acknowledged", self.writes.count()),
                );
                return self.leave();
            }
        }
        if self.waits_for_people() {
            return self.reached("stage", "LeftToPeople");
        }
        let missing = self.missing().unwrap_or_default();
        self.broke(KubeBreak::NoConvergence, missing);
    }

    /// The user scales it down and deletes it for good: everything goes but the claims of its members.
    fn leave(&mut self) {
        self.wants.replicas = self.rng.u32(1..=self.wants.replicas);
        self.apply_wants();
        // Mostly while what was scaled away is still going.
        for _ in 0..self.rng.u64(1..400) {
            let clears_away = self.api.claims.live.len() > self.wants.replicas as usize;
            if clears_away && self.rng.u8(..4) == 0 {
                break;
            }
            self.tick();
        }
        if self.rng.bool() {
            self.operators[0].dies_in = Some(self.rng.u32(0..4));
        }
        let name = self.names.cluster.clone();
        let _ = self.api.delete::<EtcdCluster>(&name, None);
        self.log.event("user", format_args!("deletes it for good"));
        for _ in 0..LEAVING_TICKS_MAX {
            self.tick();
            let api = &self.api;
            if !self.breaks.is_empty() {
                return;
            }
            if api.peers.live.is_empty() && api.sets.live.is_empty() && api.pods.live.is_empty() {
                return self.reached("stage", "Gone");
            }
        }
        let left: Vec<&String> = self.api.peers.live.keys().collect();
        let what = format!("deleted, and the EtcdPeers {left:?} are still there");
        self.broke(KubeBreak::NoConvergence, what);
    }

    pub(super) fn tick(&mut self) {
        self.clients();
        self.mount_secrets();
        self.handshakes();
        self.etcd.advance();
        self.api.now = self.etcd.now;
        if self.alarms_until == self.api.now {
            self.etcd.alarms.clear();
        }
        self.note_who_serves();
        self.log.at(self.etcd.now);
        self.notes();
        if self.recreate_at.is_some_and(|at| at <= self.api.now) && !self.api_away() {
            self.recreate_at = None;
            self.forget_without_claims();
            self.create_cluster();
        }
        self.controllers();
        self.kubelets();
        let now = self.api.now;
        self.operators.retain(|o| o.until.is_none_or(|until| until > now));
        for index in 0..self.operators.len() {
            self.operate(index);
        }
        self.api.end_tick();
        self.watch();
    }

    /// Somebody deleted the EtcdCluster, and all of its claims before: what is made now is another cluster.
    fn forget_without_claims(&mut self) {
        let mut claims = self.api.claims.live.values();
        if claims.all(|c| c.metadata.deletion_timestamp.is_some()) {
            self.was_recreated();
        }
    }

    /// What is made now is another cluster.
    pub(super) fn was_recreated(&mut self) {
        self.reached("stage", "MadeAnew");
        (self.writes, self.clusters) = (Writes::default(), Clusters::default());
    }

    fn clients(&mut self) {
        let places: Vec<Place> = self.etcd.nodes.keys().copied().collect();
        for _ in 0..self.rng.u8(0..3).min(places.len() as u8) {
            let via = places[self.rng.usize(..places.len())];
            self.values += 1;
            self.etcd.write(via, self.values);
        }
    }

    fn note_who_serves(&mut self) {
        let now = self.api.now;
        for place in self.etcd.nodes.keys().filter(|place| self.etcd.serves(**place)) {
            let (since, last) = self.served.entry(*place).or_insert((now, now));
            *since = if *last + 1 < now { now } else { *since };
            *last = now;
        }
    }

    fn notes(&mut self) {
        for note in std::mem::take(&mut self.etcd.notes) {
            let (lost, second) = match note {
                Note::Elected { place, cluster, term } => {
                    self.log
                        .event("etcd", format_args!("{} leads {cluster} in term {term}", place.0));
                    (
                        self.writes.elected(&self.etcd, place),
                        self.clusters.elected(cluster),
                    )
                }
                Note::Acknowledged { value, term, .. } => {
                    (self.writes.acknowledge(&self.etcd, value, term), None)
                }
                Note::Exited { place, why } => {
                    self.exits.insert(place, why);
                    (None, None)
                }
            };
            lost.into_iter().for_each(|l| self.broke(KubeBreak::WriteLost, l));
            second
                .into_iter()
                .for_each(|s| self.broke(KubeBreak::TwoClusters, s));
        }
    }

    fn watch(&mut self) {
        let leader = self
            .etcd
            .serving_leader()
            .filter(|_| self.api.now.is_multiple_of(16));
        if let Some(lost) = leader.and_then(|leader| self.writes.read(&self.etcd, leader)) {
            self.broke(KubeBreak::WriteLost, lost);
        }
    }
}
