//! What Kubernetes does by itself: ReplicaSets make pods, owners take along what they own, claims wait for their pods, and
//! each node's kubelet takes its pods forward.
//!
//! In: the API server's objects, volumes, the model of etcd. Out: the same, a tick later. Never: a pod of a claim that is
//! not there; a claim that goes while a pod uses it.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use quorate_api::crd::EtcdPeer;
use quorate_core::model::Generation;
use quorate_operator::cluster::build::etcd;
use quorate_operator::names::{CONFIG_ANNOTATION, GENERATION_ANNOTATION, VERSION_ANNOTATION};
use quorate_pod::contract::{FORMAT, Found, How, PEER_LABEL, REACHED_ANNOTATION, Report, START_ANNOTATION};
use quorate_pod::rules::LaunchMode;

use super::kubelet::{Phase, Running};
use super::resources::{Memory, STARVED};
use super::volume::{AtGate, Purpose, Volume, is_blank};
use super::world::{KubeBreak, KubeWorld};
use crate::etcd::{As, Place};
use crate::user::Settings;

/// How long a look waits for the volume.
const LOOK_PATIENCE: u64 = 70;
/// How long the launcher does.
const LAUNCH_PATIENCE: u64 = 120;

impl KubeWorld {
    pub(super) fn controllers(&mut self) {
        if self.api_away() {
            return;
        }
        self.make_pods();
        self.collect();
        self.release_claims();
        self.grow_volumes();
        self.notice_pods();
    }

    /// Every ReplicaSet has a pod; one that is told to go does not count.
    fn make_pods(&mut self) {
        let sets: Vec<std::sync::Arc<ReplicaSet>> = self.api.sets.live.values().cloned().collect();
        for set in sets {
            let uid = set.uid().unwrap_or_default();
            let owned = |p: &Pod| p.owner_references().iter().any(|o| o.uid == uid);
            let active = self.api.pods.live.values().filter(|p| owned(p));
            if active.filter(|p| p.metadata.deletion_timestamp.is_none()).count() > 0 {
                self.dues.remove(&uid);
                continue;
            }
            let now = self.api.now;
            let delay = self.rng.u64(0..4);
            if *self.dues.entry(uid.clone()).or_insert(now + delay) > now {
                continue;
            }
            self.dues.remove(&uid);
            let Some(template) = set.spec.as_ref().and_then(|s| s.template.as_ref()) else {
                continue;
            };
            let meta = template.metadata.clone().unwrap_or_default();
            self.ids += 1;
            let name = format!(
                "{}-{:05}",
                set.metadata.name.clone().unwrap_or_default(),
                self.ids
            );
            let pod = Pod {
                metadata: ObjectMeta {
                    name: Some(name),
                    namespace: set.metadata.namespace.clone(),
                    labels: meta.labels,
                    annotations: meta.annotations,
                    owner_references: Some(vec![OwnerReference {
                        uid,
                        name: set.metadata.name.clone().unwrap_or_default(),
                        ..OwnerReference::default()
                    }]),
                    ..ObjectMeta::default()
                },
                // What is in it is what this model plays, but for its settings and resources.
                spec: template.spec.clone(),
                status: None,
            };
            let _ = self.api.create(pod);
        }
    }

    /// What has lost its owner goes, after a while.
    fn collect(&mut self) {
        let clusters = self.api.clusters.live.values().filter_map(|o| o.uid());
        let peers = self.api.peers.live.values().filter_map(|o| o.uid());
        let sets = self.api.sets.live.values().filter_map(|o| o.uid());
        let there: std::collections::BTreeSet<String> = clusters.chain(peers).chain(sets).collect();
        let orphan = |meta: &ObjectMeta| {
            let owners = meta.owner_references.as_deref().unwrap_or_default();
            let lost = !owners.is_empty() && owners.iter().all(|o| !there.contains(&o.uid));
            (lost && meta.deletion_timestamp.is_none()).then(|| {
                (
                    meta.uid.clone().unwrap_or_default(),
                    meta.name.clone().unwrap_or_default(),
                )
            })
        };
        let peers: Vec<_> = self
            .api
            .peers
            .live
            .values()
            .filter_map(|o| orphan(o.meta()))
            .collect();
        let sets: Vec<_> = self
            .api
            .sets
            .live
            .values()
            .filter_map(|o| orphan(o.meta()))
            .collect();
        let pods: Vec<_> = self
            .api
            .pods
            .live
            .values()
            .filter_map(|o| orphan(o.meta()))
            .collect();
        for (uid, name) in peers {
            if self.is_due(&uid) {
                let _ = self.api.delete::<EtcdPeer>(&name, Some(&uid));
            }
        }
        for (uid, name) in sets {
            if self.is_due(&uid) {
                let _ = self.api.delete::<ReplicaSet>(&name, Some(&uid));
            }
        }
        for (uid, name) in pods {
            if self.is_due(&uid) {
                let _ = self.api.delete::<Pod>(&name, Some(&uid));
            }
        }
        let secrets = self.api.secrets.live.values().filter_map(|o| orphan(o.meta()));
        for (_, name) in secrets.collect::<Vec<_>>() {
            self.api.remove::<k8s_openapi::api::core::v1::Secret>(&name);
        }
        let services = self.api.services.live.values().filter_map(|o| orphan(o.meta()));
        for (_, name) in services.collect::<Vec<_>>() {
            self.api.remove::<k8s_openapi::api::core::v1::Service>(&name);
        }
        let budgets = self.api.budgets.live.values().filter_map(|o| orphan(o.meta()));
        for (_, name) in budgets.collect::<Vec<_>>() {
            self.api
                .remove::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(&name);
        }
    }

    fn is_due(&mut self, uid: &str) -> bool {
        let now = self.api.now;
        let delay = self.rng.u64(1..12);
        let uid = format!("orphan {uid}");
        let due = *self.dues.entry(uid.clone()).or_insert(now + delay) <= now;
        if due {
            self.dues.remove(&uid);
        }
        due
    }

    /// A claim that is told to go does when no pod uses it; with it goes its volume, unless storage retains it.
    fn release_claims(&mut self) {
        let going = self.api.claims.live.values();
        let going = going.filter(|c| c.metadata.deletion_timestamp.is_some());
        let going: Vec<(String, String)> = going
            .map(|c| (c.name_any(), c.uid().unwrap_or_default()))
            .collect();
        for (name, uid) in going {
            let uses = |p: &Running| p.claim.as_deref() == Some(&uid) && !p.ghost;
            if self.pods.values().any(uses) || self.rng.u8(..) < 100 {
                continue;
            }
            self.judge_claim(&name, &uid);
            let _ = self
                .api
                .change::<PersistentVolumeClaim>(&name, Some(&uid), |c| c.metadata.finalizers = None);
            let Some(ordinal) = self.names.ordinal(&name) else {
                continue;
            };
            self.retain_volume(ordinal, &uid);
            self.volumes.remove(&uid);
            self.pods.retain(|_, p| p.claim.as_deref() != Some(&uid));
            self.etcd.kill(Place(ordinal.0));
            self.etcd.node(Place(ordinal.0)).volumes.clear();
        }
    }

    /// Volumes become as large as their claims ask for, in their own time.
    fn grow_volumes(&mut self) {
        let asks = |c: &PersistentVolumeClaim| {
            let resources = c.spec.as_ref()?.resources.as_ref()?;
            resources.requests.clone()
        };
        let has = |c: &PersistentVolumeClaim| c.status.as_ref().and_then(|s| s.capacity.clone());
        let smaller = self.api.claims.live.values().filter(|c| has(c) != asks(c));
        let smaller: Vec<String> = smaller.map(|c| c.name_any()).collect();
        for name in smaller {
            if self.rng.u8(..) < 60 {
                let _ = self.api.change::<PersistentVolumeClaim>(&name, None, |c| {
                    c.status.get_or_insert_default().capacity = asks(c);
                });
            }
        }
    }

    /// New pods come to a node; the kubelets of changed ones see it.
    fn notice_pods(&mut self) {
        let now = self.api.now;
        let live: Vec<std::sync::Arc<Pod>> = self.api.pods.live.values().cloned().collect();
        for pod in live {
            let uid = pod.uid().unwrap_or_default();
            let note = |name: &str| pod.annotations().get(name).cloned().unwrap_or_default();
            if !self.pods.contains_key(&uid) {
                let ordinal = pod.labels().get(PEER_LABEL).and_then(|n| self.names.ordinal(n));
                let (Some(ordinal), Ok(version)) = (ordinal, note(VERSION_ANNOTATION).parse()) else {
                    continue;
                };
                let running = Running {
                    name: pod.name_any(),
                    ordinal,
                    claim: None,
                    purpose: Purpose {
                        pod: uid.clone(),
                        member: self.names.member_ref(ordinal),
                        generation: Generation(note(GENERATION_ANNOTATION).parse().unwrap_or(0)),
                        version,
                        config: etcd::settings_of(&note(CONFIG_ANNOTATION)).to_owned(),
                        reached: note(REACHED_ANNOTATION),
                        guards: self.guards,
                    },
                    settings: settings_of(&pod),
                    phase: Phase::Coming,
                    due: now + self.rng.u64(1..10),
                    report: None,
                    go: None,
                    through: None,
                    executed: false,
                    ends: 0,
                    going: None,
                    ghost: false,
                    dead_until: None,
                    files: None,
                    trusts: None,
                    memory: Memory::of(&pod),
                    reported: None,
                };
                self.pods.insert(uid.clone(), running);
            }
            self.notice_resize(&uid, &pod);
            let (shown, ends) = (now + self.rng.u64(1..20), now + self.rng.u64(1..6));
            let Some(running) = self.pods.get_mut(&uid) else {
                continue;
            };
            if let Some(go) = pod.annotations().get(START_ANNOTATION)
                && running.go.as_ref().is_none_or(|(_, text)| text != go)
            {
                running.go = Some((shown, go.clone()));
            }
            if pod.metadata.deletion_timestamp.is_some() && running.going.is_none() {
                running.going = Some(ends);
            }
        }
    }

    /// Every kubelet, once; then each reports to the API server.
    pub(super) fn kubelets(&mut self) {
        for uid in self.pods.keys().cloned().collect::<Vec<_>>() {
            let Some(mut pod) = self.pods.remove(&uid) else {
                continue;
            };
            if self.kubelet(&mut pod) {
                self.pods.insert(uid, pod);
            }
        }
        if self.api_away() {
            return;
        }
        for (uid, pod) in &mut self.pods {
            let reported = Some((pod.phase.clone(), pod.report.clone(), pod.memory.clone()));
            if pod.ghost || pod.dead_until.is_some() || pod.reported == reported {
                continue;
            }
            pod.reported = reported;
            let status = serde_json::from_value(pod.status()).ok();
            let live = self.api.pods.live.get(&pod.name);
            if live.is_some_and(|p| p.status != status) {
                let _ = self
                    .api
                    .change::<Pod>(&pod.name, Some(uid), |p| p.status = status);
            }
        }
    }

    fn unlock(&mut self, pod: &Running) {
        let volume = pod.claim.as_ref().and_then(|c| self.volumes.get_mut(c));
        if let Some(volume) = volume
            && volume.lock.as_deref() == Some(&pod.purpose.pod)
        {
            volume.lock = None;
        }
    }

    /// One pod's tick; false when it is gone.
    fn kubelet(&mut self, pod: &mut Running) -> bool {
        let (now, place) = (self.api.now, Place(pod.ordinal.0));
        match pod.dead_until {
            Some(until) if until > now => return true,
            Some(_) => {
                pod.dead_until = None;
                pod.ended(now, "its node was dead");
                self.log
                    .event("kubelet", format_args!("the node of {} is back", pod.name));
            }
            None => {}
        }
        if pod.runs() && self.etcd.nodes.get(&place).is_none_or(|n| n.running.is_none()) {
            let why = self.exits.remove(&place).unwrap_or("signal: killed");
            self.unlock(pod);
            pod.ended(now, why);
            self.log
                .event("kubelet", format_args!("{} ended: {why}", pod.name));
        }
        if let Some(end) = pod.going {
            let away = self.api_away() && !pod.ghost;
            if end <= now && !away {
                if pod.runs() {
                    self.etcd.stop(place);
                }
                if let Phase::Hanging { first: true, .. } = pod.phase
                    && let Some(volume) = pod.claim.as_ref().and_then(|c| self.volumes.get_mut(c))
                {
                    volume.came_to_nothing(pod.purpose.generation);
                }
                self.unlock(pod);
                if !pod.ghost {
                    self.api.remove::<Pod>(&pod.name);
                }
                self.log.event("kubelet", format_args!("{} is gone", pod.name));
                return false;
            }
            return true;
        }
        self.resize_pod(pod);
        if pod.due > now {
            return true;
        }
        self.advance(pod);
        true
    }

    fn advance(&mut self, pod: &mut Running) {
        let (now, place) = (self.api.now, Place(pod.ordinal.0));
        if let Phase::Coming = pod.phase {
            let claim = self
                .api
                .claims
                .live
                .get(&self.names.member(pod.ordinal).to_string());
            let bound = claim.filter(|c| c.metadata.deletion_timestamp.is_none());
            let bound = bound.and_then(|c| c.uid());
            pod.claim = pod.claim.take().or(bound);
            // No container runs before its Secret is there.
            if let Some(claim) = pod
                .claim
                .as_ref()
                .filter(|_| pod.files.is_some() || !self.wants.tls)
            {
                self.bind_volume(pod.ordinal, claim);
                pod.phase = Phase::Looking {
                    gives_up: now + LOOK_PATIENCE,
                };
            }
            return;
        }
        let Some(mut volume) = pod.claim.as_ref().and_then(|c| self.volumes.remove(c)) else {
            return;
        };
        self.on_volume(pod, &mut volume);
        if !pod.holds_volume() && volume.lock.as_deref() == Some(&pod.purpose.pod) {
            volume.lock = None;
        }
        if pod.runs() && self.etcd.nodes[&place].wal().is_some_and(|w| !w.log.is_empty()) {
            volume.ran.insert(pod.purpose.generation);
        }
        self.volumes.extend(pod.claim.clone().map(|c| (c, volume)));
    }

    fn on_volume(&mut self, pod: &mut Running, volume: &mut Volume) {
        let (now, place) = (self.api.now, Place(pod.ordinal.0));
        let free = volume.lock.is_none();
        let generation = pod.purpose.generation;
        match pod.phase.clone() {
            Phase::Looking { .. } if free => {
                self.ids += 1;
                let fresh = format!("{:032x}", self.ids);
                let report = volume.look(self.etcd.node(place), generation, &fresh);
                self.log
                    .event("look", format_args!("{}: {}", pod.name, report.to_message()));
                pod.report = Some(report);
                pod.phase = Phase::Gate;
            }
            Phase::Looking { gives_up } if gives_up <= now => {
                let entry = volume.record.as_ref().map(|r| r.entry(generation));
                pod.report = Some(Report {
                    format: FORMAT,
                    volume_id: volume.record.as_ref().map(|r| r.id.clone()).unwrap_or_default(),
                    fresh_id: false,
                    generation,
                    volume: Found::Unknown {
                        why: "it is still in use".to_owned(),
                    },
                    fired: entry.as_ref().is_none_or(|e| e.fired),
                    blank: false,
                    epoch: entry.as_ref().map(|e| e.epoch).unwrap_or_default(),
                    run: entry.as_ref().and_then(|e| e.run),
                    last_index: None,
                    started: entry.and_then(|e| e.started),
                    replay_limit: None,
                    asides: volume.asides as u32,
                    aside_bytes: 0,
                    belongs_to: volume.record.as_ref().and_then(|r| r.belongs_to.clone()),
                    newest: volume.record.as_ref().and_then(|r| r.newest()),
                });
                self.reached("stage", "LookedInVain");
                pod.phase = Phase::Gate;
            }
            Phase::Gate if free => self.at_gate(pod, volume),
            Phase::Refused { again, .. } if again <= now => pod.phase = Phase::Gate,
            Phase::Launching { .. } if free => self.launch(pod, volume),
            Phase::Launching { gives_up } if gives_up <= now => pod.ended(now, "the volume is still in use"),
            Phase::Ended { again, .. } if again <= now => {
                pod.due = now;
                pod.phase = Phase::Launching {
                    gives_up: now + LAUNCH_PATIENCE,
                };
            }
            Phase::Running { since } if now - since > 1200 => pod.ends = 0,
            _ => {}
        }
    }

    fn at_gate(&mut self, pod: &mut Running, volume: &mut Volume) {
        let now = self.api.now;
        let go = pod.go.as_ref().filter(|(shown, _)| *shown <= now);
        let go = go.map(|(_, text)| text.clone());
        match volume.pass(self.etcd.node(Place(pod.ordinal.0)), &pod.purpose, go.as_deref()) {
            AtGate::Through(through) => {
                let alone = go.is_none();
                self.reached("stage", if alone { "PassedAlone" } else { "PassedWithGoAhead" });
                self.log
                    .event("gate", format_args!("{} passes as {:?}", pod.name, through.how));
                pod.through = Some(*through);
                pod.due = now + self.rng.u64(1..4);
                pod.phase = Phase::Launching {
                    gives_up: now + LAUNCH_PATIENCE,
                };
            }
            AtGate::Wait => self.reached("stage", "Parked"),
            AtGate::Refused(why) => {
                self.reached("stage", "RefusedAtGate");
                self.log
                    .event("gate", format_args!("{} is refused: {why}", pod.name));
                pod.phase = Phase::Refused { again: now + 20, why };
            }
        }
    }

    fn launch(&mut self, pod: &mut Running, volume: &mut Volume) {
        let (now, place) = (self.api.now, Place(pod.ordinal.0));
        let Some(through) = pod.through.clone() else {
            return;
        };
        let generation = through.launch.generation;
        let crashes = self.crashing.get(&pod.ordinal).is_some_and(|until| *until > now);
        if self.etcd.nodes.get(&place).is_some_and(|n| n.running.is_some()) {
            self.broke(
                KubeBreak::TwoOnOneVolume,
                format!("{} is started beside another", pod.name),
            );
        }
        let way = match volume.launch(self.etcd.node(place), &through, &mut pod.executed) {
            Ok(way) => way,
            Err(why) => {
                self.reached("stage", "RefusedAtLaunch");
                self.log
                    .event("launch", format_args!("{} is refused: {why}", pod.name));
                return pod.ended(now, &why);
            }
        };
        let flags = match (&through.how, way) {
            (How::New { token, initial }, LaunchMode::FirstStart) => As::New {
                token: token.0.clone(),
                initial: initial
                    .iter()
                    .filter_map(|(n, _)| self.place(n.as_str()))
                    .collect(),
            },
            (How::Join { initial }, LaunchMode::FirstStart) => As::Join {
                initial: initial
                    .iter()
                    .filter_map(|(n, _)| self.place(n.as_str()))
                    .collect(),
            },
            _ => As::Resume,
        };
        match way {
            LaunchMode::FirstStart => self.judge_first(pod, volume),
            LaunchMode::Resume => self.judge_data(pod, volume),
        }
        self.reached(
            "stage",
            if way == LaunchMode::FirstStart {
                "FirstStart"
            } else {
                "FromData"
            },
        );
        self.judge_settings(pod);
        if pod.settings == Settings::Hang {
            self.reached("stage", "Hangs");
            self.log.event("etcd", format_args!("{} hangs", pod.name));
            volume.lock = Some(pod.purpose.pod.clone());
            let first = way == LaunchMode::FirstStart;
            pod.phase = Phase::Hanging { since: now, first };
            return;
        }
        let started = if self.starves(pod) {
            Err(STARVED)
        } else if crashes || pod.settings == Settings::End {
            Err("exit 2")
        } else {
            self.etcd.start(place, generation, &flags, pod.purpose.version)
        };
        match started {
            Ok(()) => {
                self.log
                    .event("etcd", format_args!("{} starts: {flags:?}", pod.name));
                volume.lock = Some(pod.purpose.pod.clone());
                volume.remains.remove(&generation);
                pod.trusts = pod.files.clone().map(|files| self.trusts_of(&files));
                pod.phase = Phase::Running { since: now };
            }
            Err(why) => {
                self.log
                    .event("etcd", format_args!("{} ends at once: {why}", pod.name));
                if way == LaunchMode::FirstStart {
                    if self.rng.bool() {
                        volume.remains.insert(generation);
                    }
                    if self.rng.u8(..8) > 0 {
                        self.reached("stage", "CameToNothing");
                        volume.came_to_nothing(generation);
                    } else {
                        // The launcher was killed with it, and nobody saw the end.
                        self.stranded |= matches!(through.how, How::New { .. });
                    }
                }
                pod.ended(now, why);
            }
        }
    }

    /// The place of a member by its name.
    pub(super) fn place(&self, name: &str) -> Option<Place> {
        self.names.ordinal(name).map(|o| Place(o.0))
    }

    fn judge_first(&mut self, pod: &Running, volume: &Volume) {
        let generation = pod.purpose.generation;
        let node = self.etcd.nodes.get(&Place(pod.ordinal.0));
        let data = node.and_then(|n| n.volumes.get(&generation));
        let used =
            volume.ran.contains(&generation) || data.is_some_and(|d| d.wal().is_some() && !is_blank(d));
        if used {
            let what = format!("{} starts as at first on {generation}, which ran", pod.name);
            self.broke(KubeBreak::FirstOnUsed, what);
        }
    }
}

/// What etcd makes of the settings of a pod: of those that the user tries, some are not good for it.
fn settings_of(pod: &Pod) -> Settings {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut options = containers.flat_map(|c| c.args.iter().flatten().chain(c.command.iter().flatten()));
    let flag = |s: &Settings| format!("--snapshot-count={}", s.snapshot_count());
    let bad = [Settings::End, Settings::Hang];
    let found = options.find_map(|o| bad.into_iter().find(|s| *o == flag(s)));
    found.unwrap_or(Settings::Good)
}
