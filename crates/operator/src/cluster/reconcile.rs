//! One pass over one cluster: look, decide, remember, do, show. Code without IO: whatever it needs from the world it asks
//! a [`Driver`] for.
//!
//! In: the watches' view of the cluster, and the answers to its requests. Out: requests, in the order that matters; when to
//! look again. Never: an effect before the memory it came with is stored under the resourceVersion that it was read with;
//! an effect without a Lease that outlives it.

use std::sync::Arc;
use std::time::Duration;

use kube::{Resource, ResourceExt};
use quorate_api::Cluster;
use quorate_api::crd::{EtcdCluster, EtcdPeer, PeerStatus};
use quorate_client::{Answers, Port};
use quorate_core::guard::Guards;
use quorate_core::model::{Frozen, Observed, Outcome, Refused, Spec, StepResult, Time};
use quorate_core::plan::{BlockReason, Wait, WaitReason};
use quorate_core::reason::StatusReason;
use quorate_core::transitions::Transitions;
use quorate_core::{Decision, Memory, Plan, Step, decide_with};

use super::build::{BuildContext, Images};
use super::driver::{Driver, View};
use super::execute::{Executor, Requests};
use super::log;
use super::memory_text::MemoryText;
use super::observe::{Look, Objects};
use super::pass::{
    as_they_were_made, asked, fallback, recalled, stored_as, unreadable_claim, wanted, with_own_generations,
};
use super::peers;
use super::record::speaks_tls;
use super::status::{StatusInput, is_due};
use super::unplanned::{hold, show_pending, store};
use super::upkeep::{release, upkeep};
use crate::names::Names;
use crate::requests::api_errors::{ApiFailures, RequestError};
use crate::requests::ask::{ask, ask_each};
use crate::requests::events::{done_by_etcd, new_warnings};
use crate::runtime::schedule::SOONEST;
use crate::tls::secure::TlsState;

/// The time between two looks at a cluster at rest. Its members are asked, not the API server.
pub(crate) const AT_REST: Duration = Duration::from_secs(5);

/// What follows for a cluster without any certificates to ask its members with.
const UNASKED: &str = "; until then nothing is changed and nobody knows how the members are: those that run go on, and \
                       those that end are started again, if their pods find the Secrets that they mount";

/// What is kept of one cluster between passes, in this process only. Nothing in it is needed to go on.
#[derive(Debug, Default)]
pub struct PassCache {
    last: Option<Outcome>,
    /// The resourceVersion that a status was written over: a view that still has it is older than that.
    replaced: Option<String>,
    /// The memory was taken up by this process.
    taken_up: bool,
    /// The last pass has asked the members, and made a plan.
    decided: bool,
    /// The last pass has shown what it found.
    shown: bool,
    pub(super) trouble: ApiFailures,
    /// Why Secrets with certificates could not be written.
    unwritten: ApiFailures,
    /// What stops the plan and what it waits for, as far as it was reported.
    standing: Transitions,
    memory_text: MemoryText,
}

impl PassCache {
    /// Those who read an older view than what was just written over `resource` wait for a newer one.
    pub(crate) fn wrote_over(&mut self, resource: &EtcdCluster, written: Option<String>) {
        // One that says the same as before stays the same version, and no watch reports it.
        let before = resource.resource_version();
        self.replaced = before.filter(|before| written.as_ref() != Some(before));
    }

    /// Has the last pass come as far as a plan? If not, nobody was asked how the members are.
    pub(crate) fn has_decided(&self) -> bool {
        self.decided
    }

    /// Does the status say what the last pass found? Then nothing that failed afterwards makes it untrue.
    pub(crate) fn has_shown(&self) -> bool {
        self.shown
    }

    /// What the API server did not do as asked, as far as people should see it.
    pub(crate) fn shown_trouble(&self) -> Option<(&'static str, &str)> {
        self.trouble.shown()
    }

    /// While these Secrets are refused again and again, nobody is restarted for what they would have to hold; members are
    /// healed.
    fn until_written(&mut self, wanted: &Requests) -> Option<Frozen> {
        if wanted.effects.is_empty() {
            self.unwritten = ApiFailures::default();
        }
        let (_, why) = self.unwritten.shown()?;
        Some(Frozen {
            reason: BlockReason::Certificates,
            detail: format!(
                "Secrets of this cluster cannot be written, so nothing is changed until they can: {why}"
            ),
        })
    }

    /// Secrets with certificates could not be written. They have been once none is wanted any more; that nothing could be
    /// asked for in a pass says nothing.
    fn could_not_write_secrets(&mut self, failed: &RequestError, cluster: &str) {
        // The event is that of the whole pass.
        drop(self.unwritten.add(failed, cluster));
    }
}

/// One pass over `names`. `None`: the cluster is gone. What fails is reported, in an event and in the next status.
pub async fn pass(
    driver: &mut dyn Driver,
    (names, images): (&Names, &Images),
    view: View,
    kept: &mut PassCache,
) -> Result<Option<Duration>, RequestError> {
    (kept.decided, kept.shown) = (false, false);
    let resource = view.resource.clone();
    let result = look_after(driver, (names, images), view, kept).await;
    if let Err(failed) = &result {
        let news = kept.trouble.add(failed, &names.cluster);
        if let (Some(news), Some(resource)) = (news, resource) {
            driver.record_event(&resource, &news).await;
        }
    }
    result
}

async fn look_after(
    driver: &mut dyn Driver,
    (names, images): (&Names, &Images),
    view: View,
    kept: &mut PassCache,
) -> Result<Option<Duration>, RequestError> {
    let Some(resource) = view.resource.clone() else {
        return finish(driver, names, view).await;
    };
    if resource.metadata.deletion_timestamp.is_some() {
        return finish(driver, names, view).await;
    }
    if kept.replaced.is_some() && kept.replaced == resource.resource_version() {
        return Ok(Some(SOONEST)); // The watch has yet to show what was written.
    }
    kept.replaced = None;
    let unreadable = StatusReason::UnreadableMemory.name();
    let stored = match stored_as(&resource, &mut kept.memory_text) {
        Ok(stored) => stored,
        Err(why) => return hold(driver, (&resource, &view.seen.peers), (unreadable, &why), kept).await,
    };
    let invalid = BlockReason::Invalid.name();
    let asked = match asked(&resource, stored.as_ref()) {
        Ok(asked) => asked,
        Err(why) => return hold(driver, (&resource, &view.seen.peers), (invalid, &why), kept).await,
    };
    let cluster = asked.cluster;
    let mut frozen = asked.frozen;
    // None while it has no uid.
    let Some(owner) = resource.controller_owner_ref(&()) else {
        return Ok(Some(AT_REST));
    };
    let context = BuildContext {
        names,
        cluster: &cluster,
        owner: &owner,
        images,
        trusted: None,
        fallback: None,
    };
    let mut objects = view.seen.objects(names, &resource.uid().unwrap_or_default());
    objects.resources = cluster.pod.resources.clone();
    for (ordinal, slot) in &mut objects.slots {
        let owner = slot.foreign(names, *ordinal);
        slot.owner_exists = owner.and_then(|owner| driver.cluster_exists(&owner.namespace, &owner.cluster));
    }
    if let Some(why) = unreadable_claim(names, &objects) {
        return hold(driver, (&resource, &view.seen.peers), (unreadable, &why), kept).await;
    }
    let before = stored.filter(|memory| memory.bootstrap.is_some());
    let before = before.unwrap_or_else(|| recalled(&cluster, names, &objects));
    let before = with_own_generations(before, names, &objects);
    let before = if kept.taken_up { before } else { before.taken_up() };
    if speaks_tls(&before).is_some_and(|was| was != cluster.tls) {
        let why = "spec.tls: the claims of this cluster are those of members that spoke otherwise; write spec.tls as it \
                   was, or leave it out";
        return hold(driver, (&resource, &view.seen.peers), (invalid, why), kept).await;
    }
    let mut material = None;
    let mut first = Requests::default();
    let mut unasked = false;
    if cluster.tls {
        match driver.secure(&context, &objects, &before).await {
            TlsState::Ready(ready, requests) => {
                objects.lost_ca = ready.lost_ca;
                frozen = frozen.or_else(|| kept.until_written(&requests));
                (material, first) = (Some(ready), requests);
            }
            TlsState::Pending(requests)
                if before.bootstrap.is_some()
                    && let Some(refused) = kept.until_written(&requests) =>
            {
                (first, unasked) = (requests, true);
                frozen = Some(certificates_wrong(refused.detail + UNASKED, frozen));
            }
            TlsState::Pending(requests) => {
                let asks = !cluster.paused && !requests.effects.is_empty();
                if !show_pending(driver, &resource, (cluster.paused, asks), kept).await? {
                    return Ok(Some(SOONEST));
                }
                if asks {
                    let asked = ask(driver, Some(&resource), requests).await;
                    asked.inspect_err(|failed| kept.could_not_write_secrets(failed, &names.cluster))?;
                }
                kept.trouble = ApiFailures::default();
                return Ok(Some(if cluster.paused { AT_REST } else { SOONEST }));
            }
            TlsState::Frozen(ready, why) => {
                material = Some(ready);
                frozen = Some(certificates_wrong(why, frozen));
            }
            TlsState::Blocked(why) => {
                let reason = BlockReason::Certificates;
                if before.bootstrap.is_none() {
                    let (reason, peers) = (reason.name(), &view.seen.peers);
                    return hold(driver, (&resource, peers), (reason, &why), kept).await;
                }
                unasked = true;
                frozen = Some(certificates_wrong(why + UNASKED, frozen));
            }
        }
    }
    let no_login = driver.log_in(cluster.root_secret.as_deref()).await;
    let context = BuildContext {
        trusted: material.as_ref().map(|m| m.trusted.as_str()),
        ..context
    };
    let fallback = fallback(&context, &before, asked.manifest.as_deref()).filter(|_| !unasked);
    let context = BuildContext {
        fallback: fallback.as_ref(),
        ..context
    };
    let mut spec = Spec {
        frozen,
        manifest: asked.manifest.clone(),
        fallback: fallback.as_ref().map(|fallback| fallback.config.clone()),
        ..wanted(&context)
    };
    if unasked {
        as_they_were_made(&mut spec, &objects);
    }
    let pass = Pass {
        names,
        resource: &resource,
        cluster: &cluster,
        warnings: (asked.warnings.into_iter())
            .chain(material.as_ref().and_then(|m| m.advice.clone()))
            .chain(no_login)
            .collect(),
        manifest: asked.manifest,
        spec,
        context,
        objects,
        view: &view,
        first,
        unasked,
    };
    pass.run(driver, before, kept).await.map(Some)
}

/// Certificates come first: what ends while they are wrong may end for that alone.
fn certificates_wrong(detail: String, besides: Option<Frozen>) -> Frozen {
    let reason = BlockReason::Certificates;
    Frozen { reason, detail }.besides(besides)
}

/// The EtcdCluster is gone, or going: Kubernetes takes along what it owns, and claims are nobody's.
async fn finish(
    driver: &mut dyn Driver,
    names: &Names,
    view: View,
) -> Result<Option<Duration>, RequestError> {
    let resource = view.resource.as_deref();
    let uid = resource.and_then(ResourceExt::uid).unwrap_or_default();
    let objects = view.seen.objects(names, &uid);
    let peers = objects
        .slots
        .iter()
        .filter_map(|(o, slot)| Some((o, slot.peer.as_ref()?)));
    let released = peers.filter_map(|(o, peer)| release(names.member(*o).as_str(), peer));
    let requests = Requests {
        effects: released.collect(),
        ..Requests::default()
    };
    let waits = resource.is_some() || !requests.effects.is_empty();
    ask(driver, resource, requests).await?;
    if resource.is_none() {
        peers::report_ownerless(driver, names, &view).await?;
    }
    Ok(waits.then_some(AT_REST))
}

/// What one pass works on.
struct Pass<'a> {
    names: &'a Names,
    resource: &'a Arc<EtcdCluster>,
    cluster: &'a Cluster,
    warnings: Vec<String>,
    manifest: Option<String>,
    spec: Spec,
    context: BuildContext<'a>,
    objects: Objects,
    view: &'a View,
    /// For the certificates; asked for first.
    first: Requests,
    /// There is nothing to ask the members with.
    unasked: bool,
}

impl Pass<'_> {
    async fn run(
        &self,
        driver: &mut dyn Driver,
        before: Memory,
        kept: &mut PassCache,
    ) -> Result<Duration, RequestError> {
        kept.taken_up = true;
        let observed = self.look(driver, &before, kept).await;
        let (now, guards) = (time(driver.now()), driver.guards());
        let Decision { plan, mut memory } = decide_with(&self.spec, &observed, &before, now, guards);
        memory.manifest = self.manifest.clone();
        driver.decided(&self.spec, &observed, &plan);
        kept.decided = true;
        if !driver.covers() {
            return Ok(SOONEST);
        }
        let trouble = kept.trouble.clone();
        let slots = self.objects.slots.iter();
        let asides = slots.filter_map(|(o, slot)| Some((*o, slot.asides()?))).collect();
        let seen = StatusInput {
            names: self.names,
            spec: &self.spec,
            observed: &observed,
            plan: &plan,
            memory: &memory,
            asides: &asides,
            peers: self.view.seen.peers.len(),
            generation: self.resource.metadata.generation,
            warnings: &self.warnings,
            trouble: trouble.shown(),
            now: driver.now(),
        };
        // A cluster that says it is ready has members that do. While there is something to do they come last, for what was
        // seen must not get old meanwhile.
        let mut failures = Vec::new();
        if plan.steps.is_empty() {
            failures.extend(self.show_peers(driver, &seen).await.err());
        }
        let [first, upkeep] = self.besides_steps(&memory, &observed);
        let idle = plan.steps.is_empty() && first.effects.is_empty() && upkeep.effects.is_empty();
        self.show(driver, &seen, !idle, kept).await?;
        for news in new_warnings(self.names, &plan, &mut kept.standing) {
            driver.record_event(self.resource, &news).await;
        }
        // Before anything is restarted for them: what a pod finds is then what it was restarted for.
        let unwritten = ask_each(driver, self.resource, first).await;
        let unwritten = (!unwritten.is_empty()).then_some(RequestError::Some(unwritten));
        if let Some(failed) = &unwritten {
            kept.could_not_write_secrets(failed, &self.names.cluster);
        }
        failures.extend(ask_each(driver, self.resource, upkeep).await);
        // The plan of a frozen cluster restarts nobody but to heal.
        let only_heal = unwritten.is_some() && self.spec.frozen.is_none();
        failures.extend(unwritten);
        let steps = self.carry_out(driver, &plan, (&observed, &memory), only_heal, kept);
        failures.extend(steps.await.err());
        if !plan.steps.is_empty() {
            failures.extend(self.show_peers(driver, &seen).await.err());
        }
        if !failures.is_empty() {
            return Err(RequestError::Some(failures));
        }
        kept.trouble = ApiFailures::default();
        if trouble.shown().is_some() {
            return Ok(SOONEST); // The status still says that something is wrong.
        }
        // What is waited for of Kubernetes shows in the watches, which wake the cluster; of etcd it does not.
        let woken = |w: &Wait| {
            matches!(
                w.reason,
                WaitReason::Paused
                    | WaitReason::Preparing
                    | WaitReason::StorageGrowing
                    | WaitReason::ResourcesChanging
            )
        };
        let at_rest = plan.steps.is_empty() && plan.waits.iter().all(woken);
        Ok(if at_rest {
            AT_REST
        } else {
            plan.requeue_after.max(SOONEST)
        })
    }

    async fn look(&self, driver: &mut dyn Driver, memory: &Memory, kept: &mut PassCache) -> Observed {
        let at = time(driver.now());
        let addresses = self.objects.addresses(self.names, Port::Client, self.cluster.tls);
        let answers = match self.unasked {
            true => Answers::default(),
            false => driver.look(&addresses).await,
        };
        let look = Look {
            names: self.names,
            spec: &self.spec,
            memory,
            tls: self.cluster.tls,
            at,
            last: kept.last.take(),
            token: driver.fresh_token(),
            unasked: self.unasked,
        };
        look.observed(&self.objects, answers)
    }

    /// Stores the memory, and shows what is known with it. Nothing is done if that fails. Before something is done, what is
    /// stored already is stored again: that fails if it is not what was read any more.
    async fn show(
        &self,
        driver: &mut dyn Driver,
        seen: &StatusInput<'_>,
        acts: bool,
        kept: &mut PassCache,
    ) -> Result<(), RequestError> {
        let last = self.resource.status.clone().unwrap_or_default();
        let next = seen.cluster(&last, &mut kept.memory_text);
        if acts || is_due(&next, &last, driver.now()) {
            store(driver, self.resource, next, kept).await?;
        }
        kept.shown = true;
        Ok(())
    }

    /// The same for each EtcdPeer.
    async fn show_peers(&self, driver: &mut dyn Driver, seen: &StatusInput<'_>) -> Result<(), RequestError> {
        let next = |peer: &EtcdPeer, last: &PeerStatus| match self.names.ordinal(&peer.name_any()) {
            Some(ordinal) => seen.peer(ordinal, last, peer.metadata.generation),
            None => last.clone(),
        };
        peers::show(driver, &self.view.seen.peers, next).await
    }

    /// What is done besides the plan's steps: for certificates, for the objects of the cluster.
    fn besides_steps(&self, memory: &Memory, observed: &Observed) -> [Requests; 2] {
        if self.spec.paused {
            return Default::default();
        }
        let voters = observed
            .quorum
            .as_ref()
            .map(|q| q.members.iter().filter(|m| !m.learner).count());
        [
            self.first.clone(),
            upkeep(&self.context, memory, &self.objects, &self.view.whole, voters),
        ]
    }

    async fn carry_out(
        &self,
        driver: &mut dyn Driver,
        plan: &Plan,
        (observed, memory): (&Observed, &Memory),
        only_heal: bool,
        kept: &mut PassCache,
    ) -> Result<(), RequestError> {
        let executor = Executor {
            context: &self.context,
            memory,
            objects: &self.objects,
        };
        for step in &plan.steps {
            if !driver.covers() || is_stale(step, observed, time(driver.now())) {
                return Ok(()); // The next pass looks again.
            }
            if only_heal && disturbs_one_that_runs(step) {
                return Ok(()); // Certificates could not be written, and the next pass knows that when it plans.
            }
            let result = match driver.change(step, observed).await {
                Some(result) => {
                    if result == StepResult::Done
                        && let Some(news) = done_by_etcd(self.names, step, (&self.spec, plan), memory)
                    {
                        driver.record_event(self.resource, &news).await;
                    }
                    result
                }
                None => match executor.effects(step) {
                    Ok(requests) => {
                        ask(driver, Some(self.resource), requests).await?;
                        StepResult::Done
                    }
                    Err(why) => StepResult::Refused(Refused::Other(why)),
                },
            };
            log::step(
                self.names,
                (step, &result),
                &self.spec,
                memory,
                &mut kept.standing,
            );
            if step.changes_membership() || matches!(step, Step::MoveLeader { .. } | Step::Start { .. }) {
                kept.last = Some(Outcome {
                    step: step.kind(),
                    result,
                    at: time(driver.now()),
                });
            }
        }
        Ok(())
    }
}

/// Must a step wait for another look? What was done since the last one may have taken long, and what disturbs members
/// relies on the others being well.
fn is_stale(step: &Step, observed: &Observed, now: Time) -> bool {
    let disturbs = step.changes_membership()
        || matches!(
            step,
            Step::Stop { .. }
                | Step::SetAside { .. }
                | Step::Withdraw { .. }
                | Step::Discard { .. }
                | Step::Grow { .. }
                | Step::MoveLeader { .. }
                | Step::Resize { .. }
        );
    disturbs && !Guards::all().view(observed, now)
}

/// Does a step take leadership or its process from a member that may serve?
fn disturbs_one_that_runs(step: &Step) -> bool {
    matches!(
        step,
        Step::Stop { .. } | Step::Resize { .. } | Step::MoveLeader { .. }
    )
}

fn time(now: jiff::Timestamp) -> Time {
    Time(u64::try_from(now.as_millisecond()).unwrap_or(0))
}

#[cfg(test)]
mod tests;
