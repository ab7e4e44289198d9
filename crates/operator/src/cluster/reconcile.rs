//! One pass over one cluster: look, plan, check, remember, do, show.
//!
//! In: the watches' view of it, and its members' answers. Out: requests to the API server and to etcd; when to look again.
//! Never: an effect before the memory it came with is stored under the resourceVersion that it was read with; an
//! effect without a Lease that outlives it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use quorate_api::Cluster;
use quorate_api::crd::{ClusterStatus, EtcdCluster, EtcdPeer, PeerStatus};
use quorate_client::Members;
use quorate_core::guard::Guards;
use quorate_core::model::{
    Frozen, Observed, Ordinal, Outcome, Process, Refused, Spec, StepResult, Time, Token,
};
use quorate_core::plan::{BlockReason, Wait, WaitReason};
use quorate_core::reason::StatusReason;
use quorate_core::{Decision, Memory, Plan, Step, decide};
use serde_json::json;

use crate::cluster::build::{BuildContext, Images};
use crate::cluster::execute::{Executor, Requests};
use crate::cluster::observe::{Look, Objects};
use crate::cluster::pass::{asked, recalled, stored, wanted};
use crate::cluster::record::speaks_tls;
use crate::cluster::status::{Seen, held, ownerless, refused};
use crate::cluster::upkeep::{growth, release, upkeep};
use crate::names::Names;
use crate::requests::apply::{FIELD_MANAGER, is, plain};
use crate::requests::effect::News;
use crate::requests::events::{Reporter, come_to_block, done_by_etcd};
pub use crate::requests::trouble::Failed;
pub(crate) use crate::requests::trouble::in_time;
use crate::requests::trouble::{EFFECT_LIMIT, Trouble};
use crate::runtime::figures::Figures;
use crate::runtime::lease::Tenure;
use crate::runtime::schedule::SOONEST;
use crate::runtime::watch::Watches;
use crate::tls::secure::{self, Secured};

/// The time between two looks at a cluster at rest. Its members are asked, not the API server.
const AT_REST: Duration = Duration::from_secs(5);

/// What all passes share.
#[derive(Clone)]
pub struct Shared {
    pub client: Client,
    pub watches: Watches,
    /// Where images come from.
    pub images: Arc<Images>,
    /// Whether it may act.
    pub tenure: Tenure,
    pub reporter: Reporter,
    pub figures: Arc<Figures>,
    /// What certificates are made with.
    pub certificates: Arc<secure::Settings>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

/// What is kept of one cluster between passes, in this process only. Nothing in it is needed to go on.
#[derive(Debug, Default)]
pub struct Kept {
    members: Members,
    last: Option<Outcome>,
    /// The resourceVersion that a status was written over: a view that still has it is older than that.
    replaced: Option<String>,
    /// The memory was taken up by this process.
    taken_up: bool,
    certificates: secure::Kept,
    trouble: Trouble,
    /// What stops the plan, as far as it was told.
    blocked: BTreeSet<(BlockReason, Option<Ordinal>)>,
}

/// Now, in milliseconds since 1970.
pub fn now() -> Time {
    Time(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
}

/// What one pass works on.
struct Pass<'a> {
    shared: &'a Shared,
    names: &'a Names,
    resource: &'a EtcdCluster,
    cluster: &'a Cluster,
    warnings: Vec<String>,
    manifest: Option<String>,
    spec: Spec,
    context: BuildContext<'a>,
    objects: Objects,
    /// For the certificates; asked for first.
    first: Requests,
}

impl Shared {
    /// One pass over `names`. `None`: the cluster is gone. What fails is told to people, here and in the next status.
    pub async fn pass(&self, names: &Names, kept: &mut Kept) -> Result<Option<Duration>, Failed> {
        let result = self.look_after(names, kept).await;
        if let Err(failed) = &result {
            let news = kept.trouble.add(failed, &names.cluster);
            if let (Some(news), Some(resource)) = (news, self.watches.cluster(names)) {
                self.reporter.tell(&resource, &news).await;
            }
        }
        result
    }

    async fn look_after(&self, names: &Names, kept: &mut Kept) -> Result<Option<Duration>, Failed> {
        let Some(resource) = self.watches.cluster(names) else {
            return self.finish(names, None).await;
        };
        if resource.metadata.deletion_timestamp.is_some() {
            return self.finish(names, Some(&resource)).await;
        }
        if kept.replaced.is_some() && kept.replaced == resource.resource_version() {
            return Ok(Some(SOONEST)); // The watch has yet to show what was written.
        }
        kept.replaced = None;
        let stored = match stored(&resource) {
            Ok(stored) => stored,
            Err(why) => {
                let reason = StatusReason::UnreadableMemory.name();
                return self.hold(&resource, reason, &why, kept).await;
            }
        };
        let asked = match asked(&resource, stored.as_ref()) {
            Ok(asked) => asked,
            Err(why) => {
                return self
                    .hold(&resource, BlockReason::Invalid.name(), &why, kept)
                    .await;
            }
        };
        let cluster = asked.cluster;
        let mut frozen = asked.frozen;
        let Some(owner) = owner(&resource) else {
            return Ok(Some(AT_REST));
        };
        let context = BuildContext {
            names,
            cluster: &cluster,
            owner: &owner,
            images: &self.images,
            trusted: None,
        };
        let mut objects = self.watches.members(names, &resource.uid().unwrap_or_default());
        let before = stored.unwrap_or_else(|| recalled(&cluster, names, &objects));
        let before = if kept.taken_up { before } else { before.taken_up() };
        if speaks_tls(&before).is_some_and(|was| was != cluster.tls) {
            let why = "spec.tls: the claims of this cluster are those of members that spoke otherwise; write spec.tls as it \
                       was, or leave it out";
            return self.hold(&resource, BlockReason::Invalid.name(), why, kept).await;
        }
        let mut material = None;
        let mut first = Requests::default();
        if cluster.tls {
            let secured = self
                .secure(&context, &objects, &before, &mut kept.certificates)
                .await?;
            match secured {
                Secured::Ready(ready, requests) => {
                    kept.members.renew(Some(ready.tls.clone()));
                    objects.lost_ca = ready.lost_ca;
                    (material, first) = (Some(ready), requests);
                }
                Secured::Coming(requests) => {
                    self.show_trouble(&resource, kept).await?;
                    if !cluster.paused {
                        self.ask(Some(&resource), names, requests).await?;
                    }
                    kept.trouble = Trouble::default();
                    return Ok(Some(SOONEST));
                }
                Secured::Frozen(ready, why) => {
                    kept.members.renew(Some(ready.tls.clone()));
                    material = Some(ready);
                    frozen = frozen.or(Some(Frozen {
                        reason: BlockReason::Certificates,
                        detail: why,
                    }));
                }
                Secured::Held(why) => {
                    let reason = BlockReason::Certificates.name();
                    return self.hold(&resource, reason, &why, kept).await;
                }
            }
        }
        let context = BuildContext {
            trusted: material.as_ref().map(|m| m.trusted.as_str()),
            ..context
        };
        let spec = Spec {
            frozen,
            ..wanted(&context)
        };
        let pass = Pass {
            shared: self,
            names,
            resource: &resource,
            cluster: &cluster,
            warnings: (asked.warnings.into_iter())
                .chain(material.as_ref().and_then(|m| m.advice.clone()))
                .collect(),
            manifest: asked.manifest,
            spec,
            context,
            objects,
            first,
        };
        pass.run(before, kept).await.map(Some)
    }

    /// The EtcdCluster is gone, or going: Kubernetes takes along what it owns, and claims are nobody's.
    async fn finish(
        &self,
        names: &Names,
        resource: Option<&EtcdCluster>,
    ) -> Result<Option<Duration>, Failed> {
        let uid = resource.and_then(ResourceExt::uid).unwrap_or_default();
        let objects = self.watches.members(names, &uid);
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
        self.ask(resource, names, requests).await?;
        if resource.is_none() {
            self.tell_ownerless(names).await?;
        }
        Ok(waits.then_some(AT_REST))
    }

    /// Something that only people can mend: said in the status, and nothing is done.
    async fn hold(
        &self,
        resource: &EtcdCluster,
        reason: &'static str,
        why: &str,
        kept: &mut Kept,
    ) -> Result<Option<Duration>, Failed> {
        let names = Names::of(&resource.namespace().unwrap_or_default(), &resource.name_any());
        self.figures.held(&names, reason);
        let last = resource.status.clone().unwrap_or_default();
        let generation = resource.metadata.generation;
        let next = held(&last, (reason, why), generation, jiff::Timestamp::now());
        if next != last && self.tenure.covers(EFFECT_LIMIT) {
            self.store(resource, next, kept).await?;
        }
        Ok(Some(AT_REST))
    }

    /// Says what the API server does not do, while nothing else can be said.
    async fn show_trouble(&self, resource: &EtcdCluster, kept: &mut Kept) -> Result<(), Failed> {
        let Some(trouble) = kept.trouble.shown() else {
            return Ok(());
        };
        let last = resource.status.clone().unwrap_or_default();
        let generation = resource.metadata.generation;
        let next = refused(&last, trouble, generation, jiff::Timestamp::now());
        if next != last && self.tenure.covers(EFFECT_LIMIT) {
            self.store(resource, next, kept).await?;
        }
        Ok(())
    }

    /// Writes a status over the one that was seen.
    pub(crate) async fn store(
        &self,
        resource: &EtcdCluster,
        status: ClusterStatus,
        kept: &mut Kept,
    ) -> Result<(), Failed> {
        let namespace = resource.namespace().unwrap_or_default();
        let clusters: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &namespace,
            &ApiResource::erase::<EtcdCluster>(&()),
        );
        let mut next = resource.clone();
        next.status = Some(status);
        let (name, params) = (resource.name_any(), PostParams::default());
        let written = async { clusters.replace_status(&name, &params, &plain(&next)?).await };
        let written = in_time("store the status of the EtcdCluster", written).await?;
        // One that says the same as before stays the same version, and no watch tells of it.
        let before = resource.resource_version();
        kept.replaced = before.filter(|before| written.resource_version().as_ref() != Some(before));
        Ok(())
    }
}

impl Shared {
    /// Writes the status of an EtcdPeer.
    async fn store_peer(&self, peer: &EtcdPeer, next: PeerStatus) -> Result<(), Failed> {
        let namespace = peer.namespace().unwrap_or_default();
        let peers: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            &namespace,
            &ApiResource::erase::<EtcdPeer>(&()),
        );
        let patch = Patch::Merge(json!({"metadata": {"uid": peer.uid()}, "status": next}));
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let name = peer.name_any();
        let written = async {
            match peers.patch_status(&name, &params, &patch).await {
                // It is gone, or another is there.
                Err(error) if is(&error, 404) || is(&error, 409) => Ok(()),
                other => other.map(drop),
            }
        };
        in_time("store the status of an EtcdPeer", written).await
    }

    /// Says on EtcdPeers that nobody owns that there is no EtcdCluster which would look after them.
    async fn tell_ownerless(&self, names: &Names) -> Result<(), Failed> {
        for peer in self.watches.peers(names) {
            let controlled = peer.owner_references().iter().any(|o| o.controller == Some(true));
            if controlled || peer.metadata.deletion_timestamp.is_some() || !self.tenure.covers(EFFECT_LIMIT) {
                continue;
            }
            let last = peer.status.clone().unwrap_or_default();
            let next = ownerless(&last, names, peer.metadata.generation, jiff::Timestamp::now());
            if next != last {
                self.store_peer(&peer, next).await?;
            }
        }
        Ok(())
    }
}

impl Pass<'_> {
    async fn run(&self, before: Memory, kept: &mut Kept) -> Result<Duration, Failed> {
        let objects = &self.objects;
        kept.taken_up = true;
        let observed = self.look(objects, &before, kept).await;
        let Decision { plan, mut memory } = decide(&self.spec, &observed, &before, now());
        memory.manifest = self.manifest.clone();
        self.shared.figures.seen(self.names, &self.spec, &observed, &plan);
        if !self.shared.tenure.covers(EFFECT_LIMIT) {
            return Ok(SOONEST);
        }
        let trouble = kept.trouble.clone();
        let seen = Seen {
            names: self.names,
            spec: &self.spec,
            observed: &observed,
            plan: &plan,
            memory: &memory,
            peers: self.shared.watches.peers(self.names).len(),
            generation: self.resource.metadata.generation,
            warnings: &self.warnings,
            trouble: trouble.shown(),
            now: jiff::Timestamp::now(),
        };
        // A cluster that says it is ready has members that do. While there is something to do they come last, for what was
        // seen must not get old meanwhile.
        let mut failures = Vec::new();
        if plan.steps.is_empty() {
            failures.extend(self.show_peers(&seen).await.err());
        }
        let [first, upkeep, grown] = self.besides_steps(&memory, &observed);
        let idle = [&first, &upkeep, &grown]
            .iter()
            .all(|requests| requests.effects.is_empty());
        self.show(&seen, !idle || !plan.steps.is_empty(), kept).await?;
        self.tell(come_to_block(self.names, &plan, &mut kept.blocked))
            .await;
        // Before anything is restarted for them: what a pod finds is then what it was restarted for.
        self.ask(first).await?;
        failures.extend(self.shared.ask_each(self.resource, self.names, upkeep).await);
        let steps = self.carry_out(&plan, &observed, objects, &memory, kept).await;
        failures.extend(steps.err());
        failures.extend(self.shared.ask_each(self.resource, self.names, grown).await);
        if !plan.steps.is_empty() {
            failures.extend(self.show_peers(&seen).await.err());
        }
        if !failures.is_empty() {
            return Err(Failed::Some(failures));
        }
        kept.trouble = Trouble::default();
        if trouble.shown().is_some() {
            return Ok(SOONEST); // The status still says that something is wrong.
        }
        // What is waited for of Kubernetes shows in the watches, which wake the cluster; of etcd it does not.
        let woken = |w: &Wait| matches!(w.reason, WaitReason::Paused | WaitReason::Preparing);
        let at_rest = plan.steps.is_empty() && plan.waits.iter().all(woken);
        Ok(if at_rest {
            AT_REST
        } else {
            plan.next_look.max(SOONEST)
        })
    }

    async fn look(&self, objects: &Objects, memory: &Memory, kept: &mut Kept) -> Observed {
        let at = now();
        let addresses = objects.addresses(self.names, self.cluster.tls);
        kept.members.keep_only(|ordinal| addresses.contains_key(&ordinal));
        let answers = kept.members.look(&addresses).await;
        let look = Look {
            names: self.names,
            spec: &self.spec,
            memory,
            tls: self.cluster.tls,
            at,
            last: kept.last.take(),
            token: fresh_token(self.names),
        };
        look.observed(objects, answers)
    }

    /// Stores the memory, and shows what is known with it. Nothing is done if that fails. Before something is done, what is
    /// stored already is stored again: that fails if it is not what was read any more.
    async fn show(&self, seen: &Seen<'_>, acts: bool, kept: &mut Kept) -> Result<(), Failed> {
        let last = self.resource.status.clone().unwrap_or_default();
        let next = seen.cluster(&last);
        if acts || next != last {
            self.shared.store(self.resource, next, kept).await?;
        }
        Ok(())
    }

    /// The same for each EtcdPeer. Nothing depends on it.
    async fn show_peers(&self, seen: &Seen<'_>) -> Result<(), Failed> {
        if !self.shared.tenure.covers(EFFECT_LIMIT) {
            return Ok(());
        }
        for peer in self.shared.watches.peers(self.names) {
            let Some(ordinal) = self.names.ordinal(&peer.name_any()) else {
                continue;
            };
            let last = peer.status.clone().unwrap_or_default();
            let next = seen.peer(ordinal, &last, peer.metadata.generation);
            if next == last || peer.metadata.deletion_timestamp.is_some() {
                continue;
            }
            self.shared.store_peer(&peer, next).await?;
        }
        Ok(())
    }

    /// What is done besides the plan's steps: for certificates, for the objects of the cluster, for storage that is to grow.
    fn besides_steps(&self, memory: &Memory, observed: &Observed) -> [Requests; 3] {
        if self.spec.paused {
            return Default::default();
        }
        let voters = observed
            .quorum
            .as_ref()
            .map(|q| q.members.iter().filter(|m| !m.learner).count());
        let whole = self.shared.watches.whole(self.names);
        [
            self.first.clone(),
            upkeep(&self.context, memory, &self.objects, &whole, voters),
            growth(&self.context, &self.objects),
        ]
    }

    async fn carry_out(
        &self,
        plan: &Plan,
        observed: &Observed,
        objects: &Objects,
        memory: &Memory,
        kept: &mut Kept,
    ) -> Result<(), Failed> {
        let executor = Executor {
            context: &self.context,
            memory,
            objects,
            config: &self.spec.config,
        };
        for step in &plan.steps {
            if !self.shared.tenure.covers(EFFECT_LIMIT) || is_stale(step, observed, now()) {
                return Ok(()); // The next pass looks again.
            }
            let result = match kept.members.execute(step, observed).await {
                Some(result) => {
                    if result == StepResult::Done {
                        self.tell(done_by_etcd(self.names, step, memory)).await;
                    }
                    result
                }
                None => {
                    if let Step::Stop { ordinal, .. } = step {
                        self.settle(*ordinal, observed, &kept.members).await;
                    }
                    match executor.effects(step) {
                        Ok(requests) => {
                            self.ask(requests).await?;
                            StepResult::Done
                        }
                        Err(why) => StepResult::Refused(Refused::Other(why)),
                    }
                }
            };
            if step.changes_membership() || matches!(step, Step::MoveLeader { .. } | Step::Start { .. }) {
                kept.last = Some(Outcome {
                    step: step.kind(),
                    result,
                    at: now(),
                });
            }
        }
        Ok(())
    }

    /// etcd 3.4 records how far it has applied its log only with a write; without one, newer versions go wrong on it.
    async fn settle(&self, ordinal: Ordinal, observed: &Observed, members: &Members) {
        let runs = observed.slots.get(&ordinal).map(|v| &v.process);
        let leaves_34 = matches!(runs, Some(Process::Running { version, .. }) if version.minor == 4)
            && self.spec.version.minor > 4;
        if leaves_34 {
            // One that cannot be written to has been: it is full, or asks for a password.
            let _ = members.settle(ordinal).await;
        }
    }

    async fn ask(&self, requests: Requests) -> Result<(), Failed> {
        self.shared.ask(Some(self.resource), self.names, requests).await
    }

    async fn tell(&self, all: impl IntoIterator<Item = News>) {
        for news in all {
            self.shared.reporter.tell(self.resource, &news).await;
        }
    }
}

/// Must a step wait for another look? What was done since the last one may have taken long, and what disturbs members
/// relies on the others being well.
fn is_stale(step: &Step, observed: &Observed, now: Time) -> bool {
    let disturbs = step.changes_membership()
        || matches!(
            step,
            Step::Stop { .. } | Step::SetAside { .. } | Step::MoveLeader { .. }
        );
    disturbs && !Guards::all().view(observed, now)
}

/// Whom the objects of a cluster belong to; none while it has no uid.
fn owner(resource: &EtcdCluster) -> Option<OwnerReference> {
    resource.controller_owner_ref(&())
}

/// A token that no other bootstrap has had.
fn fresh_token(names: &Names) -> Token {
    Token(format!(
        "{}-{}-{:016x}",
        names.namespace,
        names.cluster,
        fastrand::u64(..)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::model::MemberId;

    #[test]
    fn what_disturbs_members_is_not_done_on_an_old_view() {
        let observed = Observed {
            at: Time(1_000),
            fresh_token: Token(String::new()),
            slots: Default::default(),
            quorum: None,
            last: None,
            lost_ca: Default::default(),
        };
        let moves = Step::MoveLeader {
            from: MemberId(1),
            to: MemberId(2),
        };
        assert!(!is_stale(&moves, &observed, Time(6_000)));
        assert!(is_stale(&moves, &observed, Time(6_001)));
        let harmless = Step::DropAside {
            ordinal: Ordinal(0),
            keep: 2,
        };
        assert!(!is_stale(&harmless, &observed, Time(60_000)));
    }
}
