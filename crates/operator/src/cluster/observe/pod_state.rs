//! What one pod of a member says: how far it has got, from the first look at its volume to etcd running in it.
//!
//! In: a Pod as the API server has it. Out: a [`Stage`]. Never: "it runs" from anything but a running container, "it is
//! let through" from anything but the same rule that the gate in the pod goes by.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::ResourceExt;
use quorate_core::model::{Exit, Generation, Time, Version};
use quorate_pod::contract::{
    CLUSTER_LABEL, ETCD_CONTAINER, Found, GateResult, GoAhead, IDENTITY_GONE, KnownProgress, LOOK_CONTAINER,
    MemberRef, PEER_LABEL, PREPARE_CONTAINER, REACHED_ANNOTATION, Report, START_ANNOTATION,
};

use crate::cluster::build::etcd::settings_of;
use crate::cluster::resources::PodResources;
use crate::names::{
    CONFIG_ANNOTATION, GENERATION_ANNOTATION, LEFT_BEHIND_LABEL, ROLE_LABEL, VERSION_ANNOTATION, lacking,
};

/// How it begins when no node was found for a pod.
pub const UNSCHEDULED: &str = "its pod cannot be scheduled";

/// A pod whose time is over by this much is one that its node does not end.
const LINGERS_MS: u64 = 60_000;

/// Kubelet's word for a container that needed more memory than it may have.
const STARVED: &str = "OOMKilled";

#[derive(Clone, Debug, PartialEq)]
pub struct PodState {
    pub name: String,
    pub uid: String,
    /// Its resourceVersion: a request that deletes it for what was seen of it says so.
    pub version: String,
    /// When it was made.
    pub created: Time,
    /// It is being deleted.
    pub terminating: bool,
    /// When it should be gone, if it is being deleted.
    pub gone_by: Option<Time>,
    pub node: Option<String>,
    /// What it was made for: the volume, the version, the configuration.
    pub made_for: Option<MadeFor>,
    /// Its member's role, as its labels have it.
    pub role: Option<String>,
    /// No Service leads to it any more.
    pub left_behind: bool,
    /// Labels that it should carry and does not.
    pub lacks: BTreeMap<String, String>,
    /// Its address, once it has one.
    pub ip: Option<String>,
    pub stage: Stage,
    /// Kubernetes counts it as ready and sends clients to it.
    pub ready: bool,
    /// What was last seen of its volume, before etcd was started on it; nothing if the gate found that outdated.
    pub report: Option<Report>,
    /// The number of the last start on its volume, as the gate has written it.
    pub run: Option<u64>,
    pub resources: PodResources,
}

/// What a pod was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeFor {
    /// Which volume of its slot.
    pub generation: Generation,
    pub version: Version,
    /// The digest of its configuration.
    pub config: String,
}

/// How far a pod has got.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// On its way to the look at its volume; what keeps it.
    Starting(String),
    /// Its volume was looked at; it waits for the go-ahead.
    AwaitingGoAhead,
    /// It was let through; etcd is about to run.
    Admitted,
    Running {
        since: Time,
    },
    /// etcd ends again and again.
    Crashing(Exit),
    /// It could not look, or was not let through.
    Refused(String),
    /// It has ended for good; another is made in its place.
    Finished,
}

impl PodState {
    pub fn of(pod: &Pod) -> PodState {
        let meta = &pod.metadata;
        let annotation = |name: &str| meta.annotations.as_ref().and_then(|all| all.get(name)).cloned();
        let made_for = (|| {
            Some(MadeFor {
                generation: Generation(annotation(GENERATION_ANNOTATION)?.parse().ok()?),
                version: annotation(VERSION_ANNOTATION)?.parse().ok()?,
                config: annotation(CONFIG_ANNOTATION)?,
            })
        })();
        let uid = meta.uid.clone().unwrap_or_default();
        let report = report(pod);
        let go = annotation(START_ANNOTATION).and_then(|text| GoAhead::read(text.as_bytes()).ok());
        let reported = go.is_some_and(|go| go.pod == uid);
        let floor = annotation(REACHED_ANNOTATION).unwrap_or_default();
        let floor = KnownProgress::read(floor.as_bytes()).ok();
        let alone = match (&report, &made_for, &floor) {
            (Some(Ok(report)), Some(made), Some(floor)) => {
                report.passes_alone(&member_of(pod), made.version, settings_of(&made.config), floor)
            }
            _ => false,
        };
        let stage = stage(pod, &report, reported || alone);
        // It looks once in its life; what was put on the volume after a wipe is for another to see.
        let outdated = matches!(&stage, Stage::Refused(why) if why.contains(IDENTITY_GONE));
        PodState {
            name: meta.name.clone().unwrap_or_default(),
            uid,
            version: meta.resource_version.clone().unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map_or(Time(0), time),
            terminating: meta.deletion_timestamp.is_some(),
            gone_by: meta.deletion_timestamp.as_ref().map(time),
            node: pod.spec.as_ref().and_then(|s| s.node_name.clone()),
            made_for,
            role: pod.labels().get(ROLE_LABEL).cloned(),
            left_behind: pod.labels().get(LEFT_BEHIND_LABEL.0).map(String::as_str)
                == Some(LEFT_BEHIND_LABEL.1),
            lacks: lacking(meta.labels.as_ref()),
            ip: pod.status.as_ref().and_then(|s| s.pod_ip.clone()),
            stage,
            ready: ready(pod),
            report: report.and_then(Result::ok).filter(|_| !outdated),
            run: passed(pod).and_then(|passed| passed.run),
            resources: PodResources::read(pod),
        }
    }
}

impl PodState {
    /// Should it have been gone for long? Its node does not answer then, or is gone for good.
    pub fn lingers(&self, now: Time) -> bool {
        self.gone_by
            .is_some_and(|by| now.0.saturating_sub(by.0) > LINGERS_MS)
    }

    /// May etcd run in it?
    pub fn is_alive(&self) -> bool {
        matches!(self.stage, Stage::Running { .. } | Stage::Admitted)
    }

    /// Has it seen its volume? Only one pod at a time can.
    pub fn has_looked(&self) -> bool {
        !matches!(
            self.stage,
            Stage::Starting(_) | Stage::Refused(_) | Stage::Finished
        )
    }

    /// Which pod it is, and on which node, for people. The API server keeps names short.
    pub fn located(&self) -> String {
        match &self.node {
            Some(node) => format!("pod {} on node {node}", self.name),
            None => format!("pod {}", self.name),
        }
    }

    /// What is waited for while it goes.
    pub fn going(&self, now: Time) -> String {
        let located = self.located();
        if self.lingers(now) {
            return format!(
                "{located} should have been gone for a minute: the node does not answer; bring it back, or delete the \
                 pod with --force once nothing runs there any more"
            );
        }
        format!("{located} is being ended")
    }
}

/// Whose pod it is, by its labels.
fn member_of(pod: &Pod) -> MemberRef {
    let labels = pod.metadata.labels.as_ref();
    let label = |name: &str| labels.and_then(|all| all.get(name)).cloned().unwrap_or_default();
    MemberRef {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        cluster: label(CLUSTER_LABEL),
        name: label(PEER_LABEL),
    }
}

/// A Kubernetes time in milliseconds.
pub fn time(time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time) -> Time {
    Time(u64::try_from(time.0.as_millisecond()).unwrap_or(0))
}

fn ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    let mut ready = conditions.into_iter().flatten().filter(|c| c.type_ == "Ready");
    ready.any(|c| c.status == "True")
}

fn init<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let all = pod.status.as_ref()?.init_container_statuses.as_ref()?;
    all.iter().find(|c| c.name == name)
}

fn report(pod: &Pod) -> Option<Result<Report, String>> {
    let look = init(pod, LOOK_CONTAINER)?.state.as_ref()?.terminated.as_ref()?;
    let message = look.message.as_deref().unwrap_or_default();
    if look.exit_code != 0 {
        return Some(Err(format!("its volume could not be looked at: {message}")));
    }
    let read = Report::read(message.as_bytes());
    Some(read.map_err(|error| format!("what was seen of its volume cannot be read: {error}")))
}

/// What the gate said when it let the pod through.
fn passed(pod: &Pod) -> Option<GateResult> {
    let gate = init(pod, PREPARE_CONTAINER)?
        .state
        .as_ref()?
        .terminated
        .as_ref()?;
    let message = gate.message.as_deref().filter(|_| gate.exit_code == 0)?;
    GateResult::read(message)
}

fn stage(pod: &Pod, report: &Option<Result<Report, String>>, may_pass: bool) -> Stage {
    let Some(status) = &pod.status else {
        return Stage::Starting("the pod was just made".to_owned());
    };
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return Stage::Finished;
    }
    let etcd = status
        .container_statuses
        .iter()
        .flatten()
        .find(|c| c.name == ETCD_CONTAINER);
    if let Some(stage) = etcd.and_then(etcd_stage) {
        return stage;
    }
    if let Some(why) = failing(init(pod, PREPARE_CONTAINER)) {
        return Stage::Refused(why);
    }
    let prepared = init(pod, PREPARE_CONTAINER).and_then(|c| c.state.as_ref()?.terminated.as_ref());
    match report {
        Some(Err(why)) => Stage::Refused(why.clone()),
        Some(Ok(_)) if may_pass || prepared.is_some() => Stage::Admitted,
        // It looks once in its life, and what it has not seen nobody can decide on: another has to look.
        Some(Ok(Report {
            volume: Found::Unknown { why },
            ..
        })) => Stage::Refused(format!("its volume could not be looked at: {why}")),
        Some(Ok(_)) => Stage::AwaitingGoAhead,
        None => Stage::Starting(keeps(pod)),
    }
}

/// What the container of etcd says, once it has got that far.
fn etcd_stage(container: &ContainerStatus) -> Option<Stage> {
    let state = container.state.as_ref()?;
    if let Some(running) = &state.running {
        let since = running.started_at.as_ref().map_or(Time(0), time);
        return Some(Stage::Running { since });
    }
    if state.terminated.is_some() {
        return Some(Stage::Admitted); // kubelet starts it again at once.
    }
    let waiting = state.waiting.as_ref()?;
    let last = container.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    match (waiting.reason.as_deref(), last) {
        (Some("CrashLoopBackOff"), Some(end)) => {
            let at = end.finished_at.as_ref().map_or(Time(0), time);
            Some(Stage::Crashing(Exit {
                at,
                asked: false,
                how: ended(end),
            }))
        }
        (Some("PodInitializing" | "ContainerCreating") | None, _) => None,
        (Some(reason), _) => Some(Stage::Starting(worded(reason, waiting.message.as_deref()))),
    }
}

fn ended(end: &k8s_openapi::api::core::v1::ContainerStateTerminated) -> String {
    let mut how = match end.reason.as_deref() {
        Some(reason) if reason != "Error" => format!("{reason}, exit code {}", end.exit_code),
        _ => format!("exit code {}", end.exit_code),
    };
    if let Some(line) = end.message.as_deref().and_then(quorate_core::last_words) {
        how.push_str(": ");
        how.push_str(&line);
    }
    how
}

/// Did etcd end because its volume is full?
pub fn is_full(exit: &Exit) -> bool {
    exit.how.contains("no space left on device")
}

/// Was it killed for lack of memory?
pub fn is_starved(exit: &Exit) -> bool {
    exit.how.starts_with(STARVED)
}

/// Why an init container fails, if it does.
fn failing(container: Option<&ContainerStatus>) -> Option<String> {
    let container = container?;
    let failed = |state: &Option<ContainerState>| {
        let end = state.as_ref()?.terminated.as_ref()?;
        (end.exit_code != 0).then(|| ended(end))
    };
    failed(&container.state).or_else(|| {
        let waiting = container.state.as_ref()?.waiting.is_some();
        waiting.then(|| failed(&container.last_state))?
    })
}

/// What keeps a pod that has not looked yet.
fn keeps(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let unscheduled = status.and_then(|s| s.conditions.as_ref()).into_iter().flatten();
    let mut unscheduled = unscheduled.filter(|c| c.type_ == "PodScheduled" && c.status == "False");
    if let Some(condition) = unscheduled.next() {
        let message = condition.message.as_deref().unwrap_or("no node was found for it");
        return format!("{UNSCHEDULED}: {message}");
    }
    for container in status
        .and_then(|s| s.init_container_statuses.as_ref())
        .into_iter()
        .flatten()
    {
        if let Some(why) = failing(Some(container)) {
            return format!("{}: {why}", container.name);
        }
        let waiting = container.state.as_ref().and_then(|s| s.waiting.as_ref());
        if let Some(reason) = waiting.and_then(|w| w.reason.as_deref())
            && !matches!(reason, "PodInitializing" | "ContainerCreating")
        {
            return worded(reason, waiting.and_then(|w| w.message.as_deref()));
        }
    }
    "its pod is being made".to_owned()
}

fn worded(reason: &str, message: Option<&str>) -> String {
    match message {
        Some(message) => format!("{reason}: {}", message.chars().take(300).collect::<String>()),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
