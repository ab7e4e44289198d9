//! What a pass decides, without the requests in between: for [`crate::reconcile`], and for the simulator.
//!
//! In: the EtcdCluster, its objects, what was seen. Out: what is wanted, what is remembered, and a plan that the safety
//! check has agreed to. Never: a step of a plan that was refused; the memory of such a plan.

use quorate_api::Cluster;
use quorate_api::crd::EtcdCluster;
use quorate_core::model::{Observed, Spec, Time};
use quorate_core::plan::{Block, BlockReason};
use quorate_core::{Memory, Plan, check, plan};

use crate::build::{Plot, etcd};
use crate::names::Names;
use crate::observe::Objects;
use crate::record::recall;

/// What is wanted, as the planner understands it.
pub fn wanted(plot: &Plot<'_>) -> Spec {
    let cluster = plot.cluster;
    Spec {
        name: plot.names.cluster.clone(),
        replicas: cluster.replicas,
        version: quorate_core::model::Version::new(
            cluster.version.major as u32,
            cluster.version.minor as u32,
            cluster.version.patch as u32,
        ),
        config: etcd::digest(plot),
        paused: cluster.paused,
    }
}

/// What is remembered with the resource.
pub fn stored(resource: &EtcdCluster) -> Option<Memory> {
    let stored = resource.status.as_ref()?.memory.as_ref()?;
    serde_json::from_str(stored).ok()
}

/// What is remembered: with the resource, or on the claims that a former resource of that name left.
pub fn remembered(resource: &EtcdCluster, cluster: &Cluster, names: &Names, objects: &Objects) -> Memory {
    stored(resource).unwrap_or_else(|| {
        let claims = objects
            .slots
            .iter()
            .filter_map(|(o, s)| Some((*o, s.claim.as_ref()?.record.clone())));
        let url = |o, tls: Option<bool>| names.peer_url(o, tls.unwrap_or(cluster.tls));
        recall(&claims.collect(), url).unwrap_or_default()
    })
}

/// The plan, and the memory to store before any of it is done. A plan that the safety check refuses has no steps left,
/// says so, and changes no memory.
pub fn decide(spec: &Spec, observed: &Observed, before: Memory, now: Time) -> (Plan, Memory) {
    let (mut plan, after) = plan(spec, observed, &before, now);
    let violations = check(spec, observed, &before, &after, &plan, now);
    let memory = if violations.is_empty() { after } else { before };
    for violation in violations {
        plan.steps.clear();
        plan.blocks.push(Block {
            reason: BlockReason::CheckRefused,
            member: None,
            detail: format!("a plan was refused by the safety check and not carried out: {violation}"),
        });
    }
    (plan, memory)
}
