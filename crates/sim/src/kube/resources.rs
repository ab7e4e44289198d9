//! Memory limits of pods, changed while they run: in the node's own time, or never.
//!
//! In: what pods are to have. Out: what they have, and members that end for lack of it. Never: a limit below what etcd needs
//! given to a voter in place while another already suffers from it.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Container, Pod, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use quorate_operator::names::{CONFIG_ANNOTATION, RESIZE_REFUSED_ANNOTATION};
use quorate_operator::requests::effect::Effect;
use quorate_pod::contract::ETCD_CONTAINER;
use serde_json::{Value, json};

use super::api::{Api, ApiError};
use super::kubelet::Running;
use super::operator::Operator;
use super::world::{KubeBreak, KubeWorld};
use crate::etcd::Place;
use crate::fault::newest_conf;

/// In MiB, those that a user asks for: none, too little for etcd, and enough.
pub const LIMITS: [u32; 4] = [0, TOO_LITTLE, 256, 512];
const TOO_LITTLE: u32 = 8;
/// A pass that was under way did not see what began this recently.
const GRACE_TICKS: u64 = 24;
/// How kubelet calls it.
pub const STARVED: &str = "OOMKilled";

/// What is under way with a pod's resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resizing {
    /// The node does it at this tick.
    Due(u64),
    /// The node can never do it.
    Infeasible,
    /// etcd uses more than it is to have.
    Unsafe,
}

/// What a pod has of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    asked: u32,
    pub has: u32,
    pub resizing: Option<Resizing>,
    /// Since when etcd ends for lack of it.
    pub starved_since: Option<u64>,
}

/// The part of a manifest that asks for this limit.
pub fn pod_template(limit: u32) -> Value {
    if limit == 0 {
        return json!({});
    }
    json!({"resources": {"requests": {"memory": "4Mi"}, "limits": {"memory": format!("{limit}Mi")}}})
}

fn limit_of(containers: &[Container]) -> u32 {
    let etcd = containers.iter().find(|c| c.name == ETCD_CONTAINER);
    let limits = etcd.and_then(|c| c.resources.as_ref()?.limits.as_ref());
    let memory = limits.and_then(|limits| limits.get("memory"));
    let bytes = memory.map(|q| quorate_api::Quantity::new(&q.0).units().unwrap_or(0));
    bytes.map_or(0, |bytes| (bytes >> 20) as u32)
}

fn limit_in(pod: &Pod) -> u32 {
    pod.spec.as_ref().map_or(0, |spec| limit_of(&spec.containers))
}

impl Memory {
    pub fn of(pod: &Pod) -> Memory {
        Memory {
            asked: limit_in(pod),
            has: limit_in(pod),
            resizing: None,
            starved_since: None,
        }
    }

    /// What is in a pod's status, as resources and as conditions.
    pub fn status(&self) -> (Value, Vec<Value>) {
        let limits = match self.has {
            0 => json!({}),
            has => json!({"limits": {"memory": format!("{has}Mi")}}),
        };
        let (kind, reason) = match self.resizing {
            Some(Resizing::Infeasible) => ("PodResizePending", "Infeasible"),
            Some(Resizing::Unsafe) => ("PodResizeInProgress", "Error"),
            Some(Resizing::Due(_)) | None => return (limits, Vec::new()),
        };
        (
            limits,
            vec![json!({"type": kind, "status": "True", "reason": reason})],
        )
    }
}

fn give(containers: &mut [Container], resources: &ResourceRequirements) {
    let merge = |into: &mut Option<std::collections::BTreeMap<String, Quantity>>,
                 from: &Option<std::collections::BTreeMap<String, Quantity>>| {
        into.get_or_insert_default()
            .extend(from.clone().unwrap_or_default());
    };
    for container in containers {
        let present = container.resources.get_or_insert_default();
        merge(&mut present.limits, &resources.limits);
        merge(&mut present.requests, &resources.requests);
    }
}

impl Api {
    /// Changes what a pod has while it runs; an older API server does not, and that is written on the pod. True if it did.
    pub(super) fn resize(
        &mut self,
        (name, uid): (&str, &str),
        resources: &ResourceRequirements,
        config: &str,
    ) -> Result<bool, ApiError> {
        let refuses = self.refuses_resize;
        let result = self.change::<Pod>(name, Some(uid), |pod| {
            let annotation = if refuses {
                RESIZE_REFUSED_ANNOTATION
            } else {
                CONFIG_ANNOTATION
            };
            let annotations = pod.annotations_mut();
            annotations.insert(annotation.to_owned(), config.to_owned());
            if let Some(spec) = pod.spec.as_mut().filter(|_| !refuses) {
                give(&mut spec.containers, resources);
            }
        });
        match result {
            Err(ApiError::NotFound | ApiError::Conflict) if refuses => Ok(false),
            other => other.map(|()| !refuses),
        }
    }

    /// Changes what the pods of a ReplicaSet are made from.
    pub(super) fn change_template(
        &mut self,
        (name, uid): (&str, &str),
        template: &PodTemplateSpec,
    ) -> Result<(), ApiError> {
        self.change::<ReplicaSet>(name, Some(uid), |set| {
            set.spec.get_or_insert_default().template = Some(template.clone());
        })
    }
}

impl KubeWorld {
    /// The node of a pod sees what it is to have.
    pub(super) fn notice_resize(&mut self, uid: &str, pod: &Pod) {
        let (asked, chance, delay) = (limit_in(pod), self.rng.u8(..), self.rng.u64(1..20));
        let Some(running) = self.pods.get_mut(uid).filter(|r| r.memory.asked != asked) else {
            return;
        };
        running.memory.asked = asked;
        running.memory.resizing = Some(match chance {
            0..40 if asked != running.memory.has => Resizing::Infeasible,
            40..200 if asked == TOO_LITTLE && running.runs() => Resizing::Unsafe,
            _ => Resizing::Due(self.api.now + delay),
        });
        match running.memory.resizing {
            Some(Resizing::Infeasible) => self.reached("stage", "ResizeInfeasible"),
            Some(Resizing::Unsafe) => self.reached("stage", "ResizeUnsafe"),
            _ => {}
        }
    }

    /// The node of a pod does what is due.
    pub(super) fn resize_pod(&mut self, pod: &mut Running) {
        if !matches!(pod.memory.resizing, Some(Resizing::Due(at)) if at <= self.api.now) {
            return;
        }
        pod.memory.resizing = None;
        pod.memory.has = pod.memory.asked;
        self.reached("stage", "Resized");
        self.log
            .event("kubelet", format_args!("{} has {} MiB", pod.name, pod.memory.has));
        if pod.memory.has == TOO_LITTLE && pod.runs() {
            self.etcd.kill(Place(pod.ordinal.0));
            self.exits.insert(Place(pod.ordinal.0), STARVED);
        }
    }

    /// etcd is about to start: has it too little memory? If so, since when.
    pub(super) fn starves(&mut self, pod: &mut Running) -> bool {
        let starves = pod.memory.has == TOO_LITTLE;
        let since = pod.memory.starved_since.unwrap_or(self.api.now);
        pod.memory.starved_since = starves.then_some(since);
        if starves {
            self.reached("stage", "Starved");
        }
        starves
    }

    /// Nobody gives a voter too little while another voter already ends for it.
    pub(super) fn judge_resize(&mut self, me: &Operator, effect: &Effect) {
        let Effect::Resize { uid, resources, .. } = effect else {
            return;
        };
        let limit = resources.limits.as_ref().and_then(|limits| limits.get("memory"));
        let little = limit.is_some_and(|q| q.0 == format!("{TOO_LITTLE}Mi"));
        let conf = newest_conf(&self.etcd);
        let (Some(conf), true) = (conf, little && me.sees_pods_now()) else {
            return;
        };
        let now = self.api.now;
        let long = |p: &Running| (p.memory.starved_since).is_some_and(|since| now - since > GRACE_TICKS);
        let votes = |p: &Running| conf.voters().any(|(_, m)| m.place == Place(p.ordinal.0));
        let suffers = |(other, p): (&String, &Running)| other != uid && !p.ghost && votes(p) && long(p);
        if self.pods.iter().any(suffers) {
            let what = format!("{effect}, although another ends for lack of memory");
            self.broke(KubeBreak::SettingsSpread, what);
        }
    }

    /// Which object has another memory limit than is wanted.
    pub(super) fn other_limit(&self) -> Option<String> {
        let wanted = self.wants.memory;
        let pods = self.api.pods.live.values();
        let pod = { pods }.find(|p| limit_in(p) != wanted).map(|p| p.name_any());
        let has = self.pods.values().find(|p| p.memory.has != wanted);
        let sets = self.api.sets.live.values();
        let containers = |s: &ReplicaSet| Some(s.spec.clone()?.template?.spec?.containers);
        let of_set = |s: &ReplicaSet| containers(s).map_or(0, |c| limit_of(&c));
        let set = { sets }.find(|s| of_set(s) != wanted).map(|s| s.name_any());
        let found = pod.or(has.map(|p| p.name.clone())).or(set)?;
        Some(format!("{found} has not {wanted} MiB"))
    }
}
