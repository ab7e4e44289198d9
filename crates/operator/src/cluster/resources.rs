//! The CPU and memory of etcd's container: what is wanted against what its pod was made with, and has by now.
//!
//! In: the manifest's resources, the member's ReplicaSet and pod. Out: what the member runs with, and whether Kubernetes changes
//! that while the pod runs. What the API server or a LimitRange added is no difference: what counts is what the template of
//! the ReplicaSet asks for, and the digest on the pod.
//!
//! Never: a pod changed because somebody else gave it more or less.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, PodCondition, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use kube::ResourceExt;
use quorate_api::Quantity;
use quorate_core::model::Resize;
use quorate_pod::contract::ETCD_CONTAINER;

use crate::cluster::build::etcd::settings_of;
use crate::names::{CONFIG_ANNOTATION, RESIZE_REFUSED_ANNOTATION};

type Amounts = BTreeMap<String, Amount>;

/// The only kinds that Kubernetes changes while a pod runs.
const MUTABLE: [&str; 2] = ["cpu", "memory"];

/// What the template of a ReplicaSet says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateResources {
    /// What its pods are made with; none if it has no etcd container.
    pub asked: Option<ResourceRequirements>,
    /// The digest of what its pods are made for.
    pub config: Option<String>,
}

impl TemplateResources {
    pub fn read(set: &ReplicaSet) -> TemplateResources {
        let template = set.spec.as_ref().and_then(|s| s.template.as_ref());
        let containers = template
            .and_then(|t| t.spec.as_ref())
            .into_iter()
            .flat_map(|s| &s.containers);
        let etcd = { containers }.find(|c| c.name == ETCD_CONTAINER);
        let notes = template.and_then(|t| t.metadata.as_ref()?.annotations.as_ref());
        TemplateResources {
            asked: etcd.map(|c| c.resources.clone().unwrap_or_default()),
            config: notes.and_then(|notes| notes.get(CONFIG_ANNOTATION).cloned()),
        }
    }
}

/// What a pod says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodResources {
    /// What it is to have.
    pub asked: Option<ResourceRequirements>,
    /// What it has, if its node says so.
    has: Option<ResourceRequirements>,
    /// What its node makes of the last change; the reason and the words.
    changing: Option<(String, String)>,
    /// The digest of what the API server did not give it while it runs.
    refused: Option<String>,
}

impl PodResources {
    pub fn read(pod: &Pod) -> PodResources {
        let containers = pod.spec.iter().flat_map(|s| &s.containers);
        let asked = { containers }.find(|c| c.name == ETCD_CONTAINER);
        let status = pod.status.as_ref();
        let mut statuses = status.iter().flat_map(|s| s.container_statuses.iter().flatten());
        let has = statuses.find(|c| c.name == ETCD_CONTAINER);
        PodResources {
            asked: asked.map(|c| c.resources.clone().unwrap_or_default()),
            has: has.and_then(|c| c.resources.clone()),
            changing: changing(pod),
            refused: pod.annotations().get(RESIZE_REFUSED_ANNOTATION).cloned(),
        }
    }
}

impl PodResources {
    /// Does its node say that it has other limits than it is to have?
    fn lacks_limits(&self) -> bool {
        let (Some(has), Some(asked)) = (&self.has, &self.asked) else {
            return false;
        };
        !differing(has.limits.as_ref(), asked.limits.as_ref(), true).is_empty()
    }
}

/// What the node of a pod makes of the last change of it, while that is not over.
fn changing(pod: &Pod) -> Option<(String, String)> {
    let status = pod.status.as_ref()?;
    let resizes = |c: &&PodCondition| c.type_.starts_with("PodResize") && c.status == "True";
    let conditions = status.conditions.iter().flatten();
    // What is pending matters more than what is under way.
    if let Some(condition) = conditions.filter(resizes).max_by_key(|c| c.type_.clone()) {
        let reason = condition.reason.clone().unwrap_or_default();
        let message = condition.message.as_deref().unwrap_or_default();
        let words = [condition.type_.as_str(), &reason, message];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let words = words.join(": ").chars().take(300).collect();
        return Some((reason, words));
    }
    let unseen = status
        .observed_generation
        .is_some_and(|seen| pod.metadata.generation > Some(seen));
    unseen.then(|| (String::new(), "its node has yet to see it".to_owned()))
}

/// What is wanted, in words; the same for the same manifest.
pub fn as_text(wanted: Option<&ResourceRequirements>) -> String {
    let amounts = |what: &str, of: Option<&Amounts>| {
        let of = of.filter(|of| !of.is_empty())?;
        let each: Vec<String> = of
            .iter()
            .map(|(kind, amount)| format!("{kind} {}", amount.0))
            .collect();
        Some(format!("{what} {}", each.join(", ")))
    };
    let limits = wanted.and_then(|w| amounts("limits", w.limits.as_ref()));
    let requests = wanted.and_then(|w| amounts("requests", w.requests.as_ref()));
    let both: Vec<String> = requests.into_iter().chain(limits).collect();
    if both.is_empty() {
        return "none".to_owned();
    }
    both.join("; ")
}

/// What the API server makes of it: where only a limit is set, that is requested, too.
pub fn effective(resources: &ResourceRequirements) -> ResourceRequirements {
    let mut all = resources.clone();
    for (kind, limit) in all.limits.clone().unwrap_or_default() {
        all.requests.get_or_insert_default().entry(kind).or_insert(limit);
    }
    all
}

fn same(one: &Amount, other: &Amount) -> bool {
    let (a, b) = (Quantity::new(&one.0), Quantity::new(&other.0));
    match (a.thousandths(), b.thousandths()) {
        (Ok(a), Ok(b)) => a == b,
        _ => matches!((a.units(), b.units()), (Ok(a), Ok(b)) if a == b) || one == other,
    }
}

/// The kinds whose amounts differ. `only`: of those that the second names.
fn differing(one: Option<&Amounts>, other: Option<&Amounts>, only: bool) -> BTreeSet<String> {
    let none = Amounts::new();
    let (one, other) = (one.unwrap_or(&none), other.unwrap_or(&none));
    let kinds = other.keys().chain(one.keys().filter(|_| !only));
    let differs = |kind: &&String| match (one.get(*kind), other.get(*kind)) {
        (Some(a), Some(b)) => !same(a, b),
        _ => true,
    };
    kinds.filter(differs).cloned().collect()
}

/// The kinds that differ in a request or a limit.
fn difference(one: &ResourceRequirements, other: &ResourceRequirements, only: bool) -> BTreeSet<String> {
    let mut kinds = differing(one.limits.as_ref(), other.limits.as_ref(), only);
    kinds.extend(differing(one.requests.as_ref(), other.requests.as_ref(), only));
    kinds
}

#[derive(Debug, PartialEq, Eq)]
enum Class {
    BestEffort,
    Burstable,
    Guaranteed,
}

/// The quality of service that a container with these has.
fn class(resources: &ResourceRequirements) -> Class {
    let amount = |of: &Option<Amounts>, kind: &str| of.as_ref().and_then(|all| all.get(kind).cloned());
    let pairs = MUTABLE.map(|kind| (amount(&resources.limits, kind), amount(&resources.requests, kind)));
    if pairs.iter().all(|pair| *pair == (None, None)) {
        Class::BestEffort
    } else if pairs
        .iter()
        .all(|pair| matches!(pair, (Some(l), Some(r)) if same(l, r)))
    {
        Class::Guaranteed
    } else {
        Class::Burstable
    }
}

/// Why Kubernetes does not change the one into the other while a pod runs, as far as is known before it is asked.
pub fn can_resize_in_place(from: &ResourceRequirements, to: &ResourceRequirements) -> Result<(), String> {
    let (from, to) = (effective(from), effective(to));
    let removed = |from: &Option<Amounts>, to: &Option<Amounts>| {
        let kept = |kind: &&String| to.as_ref().is_some_and(|to| to.contains_key(*kind));
        from.iter()
            .flat_map(|all| all.keys())
            .find(|kind| !kept(kind))
            .cloned()
    };
    if let Some(kind) = removed(&from.limits, &to.limits).or(removed(&from.requests, &to.requests)) {
        return Err(format!("a limit or request of {kind} is taken away"));
    }
    let kinds = difference(&from, &to, false);
    if let Some(kind) = kinds.iter().find(|kind| !MUTABLE.contains(&kind.as_str())) {
        return Err(format!("{kind} does not change while a pod runs"));
    }
    if from.claims != to.claims {
        return Err("claims do not change while a pod runs".to_owned());
    }
    if class(&from) != class(&to) {
        return Err(format!(
            "the quality of service becomes {:?} instead of {:?}",
            class(&to),
            class(&from)
        ));
    }
    Ok(())
}

/// What a pod that runs with `config` runs with as the planner sees it, and whether it can be given `wanted` meanwhile.
pub fn seen(
    config: &str,
    (wanted_config, wanted): (&str, Option<&ResourceRequirements>),
    set: &TemplateResources,
    pod: &PodResources,
) -> (String, Resize) {
    let same = || config.to_owned();
    if config != wanted_config {
        let nothing = ResourceRequirements::default();
        let from = set.asked.as_ref().or(pod.asked.as_ref()).unwrap_or(&nothing);
        let possible = settings_of(config) == settings_of(wanted_config)
            && pod.refused.as_deref() != Some(wanted_config)
            && can_resize_in_place(from, wanted.unwrap_or(&nothing)).is_ok();
        return (same(), if possible { Resize::Possible } else { Resize::No });
    }
    match &pod.changing {
        // It has what it had before, and gets no other while it runs.
        Some((reason, _)) if reason == "Infeasible" => {
            (format!("{}+before", settings_of(config)), Resize::No)
        }
        Some((_, why)) => (same(), Resize::UnderWay { why: why.clone() }),
        // Requests are reported as their share of the node, which is rounded.
        None if pod.lacks_limits() => {
            let why = "its node has yet to put them into effect".to_owned();
            (same(), Resize::UnderWay { why })
        }
        None => (same(), Resize::No),
    }
}

#[cfg(test)]
mod tests;
