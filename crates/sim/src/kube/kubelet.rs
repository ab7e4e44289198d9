//! One pod on its node: from its image over the look and the gate to etcd, its ends and its back-offs.
//!
//! In: ticks, its volume, the go-ahead as the downward API shows it. Out: the pod's status, and processes of the model.
//! Never: a container before the one in front of it has ended well; etcd without the lock of its volume.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use quorate_core::model::Ordinal;
use quorate_pod::contract::{ETCD_CONTAINER, GateResult, LOOK_CONTAINER, PREPARE_CONTAINER, Report};
use serde_json::{Value, json};

use super::api::time;
use super::resources::{Memory, STARVED};
use super::tls::Trusts;
use super::volume::{Purpose, Through};
use crate::user::Settings;

/// How far a pod has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not on a node yet, or its image is being fetched.
    Coming,
    /// It looks, and gives up waiting for the volume at this tick.
    Looking {
        gives_up: u64,
    },
    Gate,
    /// The gate said no, and is asked again at this tick.
    Refused {
        again: u64,
        why: String,
    },
    /// The launcher waits for the volume until this tick.
    Launching {
        /// When it gives up.
        gives_up: u64,
    },
    Running {
        since: u64,
    },
    /// With its settings etcd runs, and never answers.
    Hanging {
        since: u64,
        /// It is a first start.
        first: bool,
    },
    /// etcd ended; it is started again at this tick.
    Ended {
        again: u64,
        at: u64,
        why: String,
        /// The pause is long enough to be called a back-off.
        backs_off: bool,
    },
}

/// A pod on its node.
#[derive(Clone, Debug)]
pub struct Running {
    pub name: String,
    pub ordinal: Ordinal,
    /// Which claim's volume, once that is bound.
    pub claim: Option<String>,
    /// What it was made for.
    pub purpose: Purpose,
    /// What etcd makes of its settings.
    pub settings: Settings,
    pub phase: Phase,
    /// Nothing happens before this tick.
    pub due: u64,
    /// What it said of its volume.
    pub report: Option<Report>,
    /// The go-ahead, and from when on the pod sees it.
    pub go: Option<(u64, String)>,
    /// What was let through.
    pub through: Option<Through>,
    /// etcd was executed in it.
    pub executed: bool,
    /// How often etcd ended.
    pub ends: u32,
    /// Told to go; its process ends at this tick.
    pub going: Option<u64>,
    /// The API server has forgotten it; its process has not ended.
    pub ghost: bool,
    /// Its node is dead until this tick: the process is gone, and nobody tells the API server.
    pub dead_until: Option<u64>,
    /// Its Secret, as kubelet last brought it.
    pub files: Option<Arc<Secret>>,
    /// What its process trusts.
    pub trusts: Option<Trusts>,
    pub memory: Memory,
    /// What the API server was last told of.
    pub reported: Option<(Phase, Option<Report>, Memory)>,
}

fn container(name: &str, state: Value, last: Option<Value>) -> Value {
    json!({"name": name, "state": state, "lastState": last, "image": "", "imageID": "", "ready": false,
           "restartCount": 0})
}

impl Running {
    pub fn ip(&self) -> String {
        format!("ip-{}", self.purpose.pod)
    }

    /// Is its process on its volume?
    pub fn holds_volume(&self) -> bool {
        self.runs() || matches!(self.phase, Phase::Hanging { .. })
    }

    /// Does etcd run in it?
    pub fn runs(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// etcd in it has ended.
    pub fn ended(&mut self, now: u64, why: &str) {
        let pause = match self.ends {
            0 => 1,
            n => 20 << n.min(5),
        };
        self.ends += 1;
        self.phase = Phase::Ended {
            again: now + pause.min(600),
            at: now,
            why: why.to_owned(),
            backs_off: pause > 1,
        };
    }

    /// Its status, as kubelet tells it.
    pub fn status(&self) -> Value {
        let ended = |code: i32, message: &str| json!({"terminated": {"exitCode": code, "message": message}});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let looked = self
            .report
            .as_ref()
            .map(|report| container(LOOK_CONTAINER, ended(0, &report.to_message()), None));
        let mut inits: Vec<Value> = looked.into_iter().collect();
        let mut etcd = waiting("PodInitializing");
        let mut last = None;
        match &self.phase {
            Phase::Coming => {
                let state = json!({"containerStatuses": [container(ETCD_CONTAINER, etcd, None)]});
                return json!({"phase": "Pending", "containerStatuses": state["containerStatuses"]});
            }
            Phase::Looking { .. } => inits = vec![container(LOOK_CONTAINER, json!({"running": {}}), None)],
            Phase::Gate => inits.push(container(PREPARE_CONTAINER, json!({"running": {}}), None)),
            Phase::Refused { why, .. } => {
                let state = waiting("CrashLoopBackOff");
                inits.push(container(PREPARE_CONTAINER, state, Some(ended(1, why))));
            }
            _ => {
                let run = self.through.as_ref().and_then(|through| through.launch.run);
                let passed = GateResult { run }.to_message();
                inits.push(container(PREPARE_CONTAINER, ended(0, &passed), None));
            }
        }
        match &self.phase {
            Phase::Launching { .. } => etcd = json!({"running": {"startedAt": time(self.due)}}),
            Phase::Running { since } | Phase::Hanging { since, .. } => {
                etcd = json!({"running": {"startedAt": time(*since)}})
            }
            Phase::Ended {
                at, why, backs_off, ..
            } => {
                let reason = if why == STARVED { STARVED } else { "Error" };
                let end = json!({"terminated": {"exitCode": 1, "message": why, "reason": reason, "finishedAt": time(*at)}});
                if *backs_off {
                    etcd = waiting("CrashLoopBackOff");
                    last = Some(end);
                } else {
                    etcd = end;
                }
            }
            _ => {}
        }
        let up = matches!(
            self.phase,
            Phase::Launching { .. } | Phase::Running { .. } | Phase::Hanging { .. } | Phase::Ended { .. }
        );
        let mut etcd = container(ETCD_CONTAINER, etcd, last);
        let (resources, mut conditions) = self.memory.status();
        etcd["resources"] = resources;
        conditions.push(json!({"type": "Ready", "status": if self.runs() { "True" } else { "False" }}));
        json!({
            "phase": if up { "Running" } else { "Pending" },
            "podIP": self.ip(),
            "initContainerStatuses": inits,
            "containerStatuses": [etcd],
            "conditions": conditions,
        })
    }
}
