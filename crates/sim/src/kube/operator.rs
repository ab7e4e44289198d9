//! The operator, as it is: its own code decides on objects of the real types; here are only its requests, and all the
//! ways in which a pass is cut short.
//!
//! In: views that lag, each kind for itself; the members' answers. Out: requests, one after the other, perhaps over
//! several ticks. Never: an effect before the memory is stored; a step without a Lease that covers it.

use std::collections::VecDeque;
use std::sync::Arc;

use kube::{Resource, ResourceExt};
use quorate_api::Cluster;
use quorate_api::crd::{ClusterStatus, EtcdCluster};
use quorate_core::model::{Basis, Observed, Outcome, Refused, Spec, StepKind, StepResult, Time, Token};
use quorate_core::{Decision, Memory, Plan, Step, decide};
use quorate_operator::cluster::build::{BuildContext, Images};
use quorate_operator::cluster::execute::Executor;
use quorate_operator::cluster::gather::Seen;
use quorate_operator::cluster::observe::{Look, Objects};
use quorate_operator::cluster::pass::{asked, recalled, stored, wanted};
use quorate_operator::cluster::upkeep::{Whole, growth, upkeep};
use quorate_operator::requests::effect::Effect;

use super::api::{ApiError, time};
use super::world::KubeWorld;
use crate::etcd::{Asked, Operation, Place};

/// How long a Lease holds, in ticks.
const LEASE: u64 = 30;
/// How often it is renewed.
const RENEW: u64 = 8;
/// How long one effect may take: the Lease must hold for that long.
const EFFECT: u64 = 16;
const AT_REST: u64 = 10;
/// EtcdCluster, EtcdPeer, claim, ReplicaSet, pod, Service, budget.
pub const KINDS: usize = 7;

/// Something that is left to do of a pass.
#[derive(Clone, Debug)]
enum Act {
    Status(Box<ClusterStatus>),
    Effect(Effect),
    Step(Step),
    Ran(StepKind),
}

/// A pass under way.
#[derive(Clone, Debug)]
struct Work {
    resource: Arc<EtcdCluster>,
    cluster: Cluster,
    spec: Spec,
    memory: Memory,
    objects: Objects,
    observed: Observed,
    acts: VecDeque<Act>,
}

#[derive(Clone, Debug)]
pub struct Operator {
    pub id: u8,
    /// It does nothing before this tick.
    pub asleep_until: u64,
    /// When it goes away for good.
    pub until: Option<u64>,
    /// How far each kind's view is behind.
    pub lag: [u64; KINDS],
    seen: [u64; KINDS],
    tenure: u64,
    renew_at: u64,
    due: u64,
    failures: u32,
    replaced: Option<String>,
    taken_up: bool,
    last: Option<Outcome>,
    work: Option<Work>,
    waiting: Option<(Asked, StepKind, u64)>,
    /// It dies after so many requests.
    pub dies_in: Option<u32>,
    /// So many answers of the API server are lost.
    pub loses_answers: u32,
    /// The plan it made last.
    pub plan: Option<Plan>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Lease {
    holder: Option<u8>,
    renewed: u64,
}

impl Operator {
    /// One that starts at tick `from`, and lists everything then.
    pub fn new(id: u8, from: u64, until: Option<u64>) -> Operator {
        Operator {
            id,
            asleep_until: from,
            until,
            lag: [0; KINDS],
            seen: [from; KINDS],
            tenure: 0,
            renew_at: from,
            due: from,
            failures: 0,
            replaced: None,
            taken_up: false,
            last: None,
            work: None,
            waiting: None,
            dies_in: None,
            loses_answers: 0,
            plan: None,
        }
    }

    fn sees(&mut self, kind: usize, now: u64) -> u64 {
        let at = now.saturating_sub(self.lag[kind]);
        self.seen[kind] = self.seen[kind].max(at);
        self.seen[kind]
    }

    pub(super) fn sees_claims_now(&self) -> bool {
        self.lag[2] == 0
    }

    fn covers(&self, now: u64) -> bool {
        now + EFFECT < self.tenure
    }
}

impl KubeWorld {
    pub(super) fn operate(&mut self, index: usize) {
        let mut me = self.operators[index].clone();
        if me.asleep_until <= self.api.now {
            self.renew(&mut me);
            if let Err(error) = self.go_on(&mut me) {
                me.work = None;
                me.failures += 1;
                me.due = self.api.now + (1 << me.failures.min(6));
                self.log
                    .event("operator", format_args!("#{} fails: {error:?}", me.id));
            }
            if me.dies_in == Some(0) {
                self.log.event("operator", format_args!("#{} dies", me.id));
                let back = self.api.now + self.rng.u64(2..30);
                let plan = me.plan.take();
                me = Operator::new(me.id, back, me.until);
                me.plan = plan;
            }
        }
        self.operators[index] = me;
    }

    fn renew(&mut self, me: &mut Operator) {
        let now = self.api.now;
        if me.renew_at > now || self.api_away() {
            return;
        }
        let free = self.lease.holder.is_none() || self.lease.renewed + LEASE <= now;
        if self.lease.holder == Some(me.id) || free {
            self.lease = Lease {
                holder: Some(me.id),
                renewed: now,
            };
            me.tenure = now + LEASE;
            me.renew_at = now + RENEW;
        } else {
            me.renew_at = now + 4;
        }
    }

    fn go_on(&mut self, me: &mut Operator) -> Result<(), ApiError> {
        let now = self.api.now;
        if !self.poll(me) {
            return Ok(());
        }
        if me.work.is_none() && me.due <= now && me.tenure > now {
            me.due = now + 1;
            self.begin(me);
        }
        while let Some(mut work) = me.work.take() {
            if me.dies_in == Some(0) {
                return Ok(());
            }
            let Some(act) = work.acts.pop_front() else {
                me.failures = 0;
                return Ok(());
            };
            let stops = self.act(me, &mut work, act)?;
            me.dies_in = me.dies_in.map(|n| n.saturating_sub(1));
            me.work = (!stops).then_some(work);
            // Mostly all in one go; sometimes the world turns in between.
            if me.waiting.is_some() || self.rng.u8(..) < 30 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends a request whose answer may be lost.
    fn request(
        &mut self,
        me: &mut Operator,
        how: impl FnOnce(&mut super::api::Api) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        if self.api_away() {
            return Err(ApiError::Away);
        }
        let result = how(&mut self.api);
        if me.loses_answers > 0 {
            me.loses_answers -= 1;
            return Err(ApiError::Away);
        }
        result
    }

    /// Does one thing of a pass; true if the pass ends here.
    fn act(&mut self, me: &mut Operator, work: &mut Work, act: Act) -> Result<bool, ApiError> {
        let now = self.api.now;
        match act {
            Act::Status(status) => {
                if !me.covers(now) {
                    return Ok(true);
                }
                let mut next = (*work.resource).clone();
                next.status = Some(*status);
                let changes = next.status != work.resource.status;
                self.request(me, |api| api.replace_status(&next))?;
                me.replaced = work.resource.resource_version().filter(|_| changes);
            }
            Act::Effect(effect) => {
                self.say(me, &effect);
                self.judge_effect(me, &effect);
                self.request(me, |api| api.apply(&effect))?;
                self.change_of_mind(me, &effect);
            }
            Act::Step(step) => {
                if !me.covers(now) {
                    return Ok(true);
                }
                self.reached("step", &format!("{:?}", step.kind()));
                self.log.event("step", format_args!("#{} {step}", me.id));
                if let Some(result) = self.ask_etcd(me, work, &step) {
                    self.outcome(me, step.kind(), result);
                } else if me.waiting.is_none() {
                    self.ask_kubernetes(me, work, &step);
                }
            }
            Act::Ran(kind) => {
                if kind == StepKind::Start {
                    self.outcome(me, kind, StepResult::Done);
                }
            }
        }
        Ok(false)
    }

    fn say(&mut self, me: &Operator, effect: &Effect) {
        if self.log.on() {
            let text = match effect {
                Effect::Create(object) => {
                    let text = format!("{object:?}");
                    format!("create {}", text.split('(').next().unwrap_or_default())
                }
                Effect::Apply(_) => "apply".to_owned(),
                other => format!("{other:?}"),
            };
            self.log.event("effect", format_args!("#{} {text}", me.id));
        }
    }

    fn outcome(&mut self, me: &mut Operator, step: StepKind, result: StepResult) {
        if result != StepResult::Done {
            self.log
                .event("operator", format_args!("#{} {step:?}: {result:?}", me.id));
        }
        me.last = Some(Outcome {
            step,
            result,
            at: self.now(),
        });
    }

    fn ask_kubernetes(&mut self, me: &mut Operator, work: &mut Work, step: &Step) {
        let (images, names) = (Images::default(), self.names.clone());
        let Some(owner) = work.resource.controller_owner_ref(&()) else {
            return;
        };
        let context = BuildContext {
            names: &names,
            cluster: &work.cluster,
            owner: &owner,
            images: &images,
            trusted: None,
        };
        let executor = Executor {
            context: &context,
            memory: &work.memory,
            objects: &work.objects,
            config: &work.spec.config,
        };
        match executor.effects(step) {
            Ok(done) => {
                work.acts.push_front(Act::Ran(step.kind()));
                for effect in done.effects.into_iter().rev() {
                    work.acts.push_front(Act::Effect(effect));
                }
            }
            Err(why) => self.outcome(me, step.kind(), StepResult::Refused(Refused::Other(why))),
        }
    }

    /// A step that etcd is asked for; `None` if it is not, or if its answer is waited for.
    fn ask_etcd(&mut self, me: &mut Operator, work: &Work, step: &Step) -> Option<StepResult> {
        let (kind, basis) = (step.kind(), step_basis(step));
        if let Step::MoveLeader { from, to } = step {
            let at = self.etcd.nodes.iter().find(|(_, n)| n.member() == Some(*from));
            let at = at.map(|(p, _)| *p).filter(|p| self.etcd.linked(Place::SITE, *p));
            return Some(match at.map(|via| self.etcd.move_leader(via, *to)) {
                None => StepResult::Refused(Refused::Other("the leader does not answer".to_owned())),
                Some(Ok(())) => StepResult::Done,
                Some(Err(error)) => error
                    .refused()
                    .map_or(StepResult::Unclear("timeout".to_owned()), StepResult::Refused),
            });
        }
        let basis = basis?;
        let except = match step {
            Step::Remove { member, .. } => Some(*member),
            _ => None,
        };
        let Some((via, view)) = self.quorum_view(&work.observed, except) else {
            return Some(StepResult::Refused(Refused::Other(
                "no healthy member to ask".to_owned(),
            )));
        };
        let (operation, is_done) = match step {
            Step::AddLearner {
                ordinal, peer_url, ..
            } => (
                Operation::AddLearner(Place(ordinal.0)),
                view.members.iter().any(|m| m.peer_urls.contains(peer_url)),
            ),
            Step::Promote { member, .. } => (
                Operation::Promote(*member),
                view.members.iter().any(|m| m.id == *member && !m.learner),
            ),
            Step::Remove { member, .. } => (
                Operation::Remove(*member),
                view.members.iter().all(|m| m.id != *member),
            ),
            _ => return None,
        };
        if is_done {
            return Some(StepResult::Done);
        }
        if Basis::of(&view.members) != basis {
            return Some(StepResult::Refused(Refused::Moved));
        }
        match self.etcd.ask(via, operation) {
            Ok(asked) => {
                me.waiting = Some((asked, kind, self.api.now + 8));
                None
            }
            Err(error) => Some(
                error
                    .refused()
                    .map_or(StepResult::Unclear("timeout".to_owned()), StepResult::Refused),
            ),
        }
    }

    /// Waits for etcd's answer; true when there is none to wait for.
    fn poll(&mut self, me: &mut Operator) -> bool {
        let Some((asked, kind, until)) = me.waiting else {
            return true;
        };
        let linked = self.etcd.linked(Place::SITE, asked.via);
        let result = match self.etcd.answer(asked).filter(|_| linked) {
            Some(Ok(())) => StepResult::Done,
            Some(Err(error)) => error
                .refused()
                .map_or(StepResult::Unclear("timeout".to_owned()), StepResult::Refused),
            None if self.api.now >= until => StepResult::Unclear("timeout".to_owned()),
            None => return false,
        };
        me.waiting = None;
        if kind == StepKind::Remove && result == StepResult::Done {
            self.etcd.write_nothing(asked.via);
        }
        self.outcome(me, kind, result);
        true
    }

    /// Looks and plans: from here on the pass is a list of things to do.
    fn begin(&mut self, me: &mut Operator) {
        let now = self.api.now;
        let clusters = self.api.clusters.view(me.sees(0, now));
        let Some(resource) = clusters.get(&self.names.cluster).cloned() else {
            // It is gone, and with it what was kept of it.
            (me.replaced, me.taken_up, me.last) = (None, false, None);
            return;
        };
        if me.replaced.is_some() && me.replaced == resource.resource_version() {
            return;
        }
        me.replaced = None;
        let names = self.names.clone();
        let seen = self.seen(me);
        let services = self.api.services.view(me.sees(5, now));
        let whole = Whole {
            services: services.into_iter().map(|(n, s)| (n, (*s).clone())).collect(),
            budget: self
                .api
                .budgets
                .view(me.sees(6, now))
                .get(&names.cluster)
                .map(|b| (**b).clone()),
        };
        let stored = match stored(&resource) {
            Ok(stored) => stored,
            Err(why) => return self.broke(super::world::KubeBreak::NoConvergence, why),
        };
        let asked = match asked(&resource, stored.as_ref()) {
            Ok(asked) => asked,
            Err(why) => return self.broke(super::world::KubeBreak::NoConvergence, why),
        };
        let cluster = asked.cluster;
        let Some(owner) = resource.controller_owner_ref(&()) else {
            return;
        };
        let images = Images::default();
        let context = BuildContext {
            names: &names,
            cluster: &cluster,
            owner: &owner,
            images: &images,
            trusted: None,
        };
        let spec = Spec {
            frozen: asked.frozen,
            ..wanted(&context)
        };
        let objects = seen.objects(&names, &resource.uid().unwrap_or_default());
        let mut before = stored.unwrap_or_else(|| recalled(&cluster, &names, &objects));
        if !me.taken_up {
            me.taken_up = true;
            before = before.taken_up();
        }
        self.ids += 1;
        let look = Look {
            names: &names,
            spec: &spec,
            memory: &before,
            tls: cluster.tls,
            at: self.now(),
            last: me.last.take(),
            token: Token(format!("token-{}", self.ids)),
        };
        let observed = look.observed(&objects, self.answers(&objects));
        let Decision { plan, mut memory } = decide(&spec, &observed, &before, self.now());
        memory.manifest = asked.manifest;
        self.tell(me, &plan);
        let show = quorate_operator::cluster::status::Seen {
            names: &names,
            spec: &spec,
            observed: &observed,
            plan: &plan,
            memory: &memory,
            peers: seen.peers.len(),
            generation: resource.metadata.generation,
            warnings: &[],
            trouble: None,
            now: time(now).0,
        };
        let last = resource.status.clone().unwrap_or_default();
        let next = show.cluster(&last);
        if !me.covers(now) {
            return;
        }
        let mut acts = VecDeque::new();
        if !spec.paused {
            let quorum = observed.quorum.as_ref();
            let voters = quorum.map(|q| q.members.iter().filter(|m| !m.learner).count());
            let done = upkeep(&context, &memory, &objects, &whole, voters);
            acts.extend(done.effects.into_iter().map(Act::Effect));
        }
        acts.extend(plan.steps.iter().cloned().map(Act::Step));
        if !spec.paused {
            acts.extend(growth(&context, &objects).effects.into_iter().map(Act::Effect));
        }
        // Also when it says what is there already: that fails if it is not what was read any more.
        if next != last || !acts.is_empty() {
            acts.push_front(Act::Status(Box::new(next)));
        }
        let rest = plan.steps.is_empty() && plan.waits.is_empty();
        let pause = (plan.next_look.as_millis() as u64).div_ceil(crate::TICK_MS);
        me.due = now + if rest { AT_REST } else { pause.clamp(1, AT_REST) };
        me.plan = Some(plan);
        me.work = Some(Work {
            resource,
            cluster,
            spec,
            memory,
            objects,
            observed,
            acts,
        });
    }

    fn seen(&self, me: &mut Operator) -> Seen {
        let now = self.api.now;
        Seen {
            peers: self.api.peers.view(me.sees(1, now)).into_values().collect(),
            claims: self.api.claims.view(me.sees(2, now)).into_values().collect(),
            sets: self.api.sets.view(me.sees(3, now)).into_values().collect(),
            pods: self.api.pods.view(me.sees(4, now)).into_values().collect(),
        }
    }

    fn tell(&mut self, me: &Operator, plan: &Plan) {
        plan.waits
            .iter()
            .for_each(|w| self.reached("wait", &w.reason.to_string()));
        plan.blocks
            .iter()
            .for_each(|b| self.reached("block", &b.reason.to_string()));
        if plan
            .blocks
            .iter()
            .any(|b| b.reason == quorate_core::plan::BlockReason::CheckRefused)
        {
            let what = format!("{:?}", plan.blocks);
            self.broke(super::world::KubeBreak::CheckDisagrees, what);
        }
        let same = me
            .plan
            .as_ref()
            .is_some_and(|p| p.waits == plan.waits && p.blocks == plan.blocks);
        if !self.log.on() || same {
            return;
        }
        for wait in &plan.waits {
            let (reason, member, detail) = (&wait.reason, &wait.member, &wait.detail);
            self.log.event(
                "plan",
                format_args!("#{} wait {reason} {member:?}: {detail}", me.id),
            );
        }
        for block in &plan.blocks {
            let (reason, member, detail) = (&block.reason, &block.member, &block.detail);
            self.log.event(
                "plan",
                format_args!("#{} block {reason} {member:?}: {detail}", me.id),
            );
        }
    }

    /// The time as the operator's clock has it.
    pub(super) fn now(&self) -> Time {
        Time(super::EPOCH_MS + self.api.now * crate::TICK_MS)
    }
}

fn step_basis(step: &Step) -> Option<Basis> {
    match step {
        Step::AddLearner { basis, .. } | Step::Promote { basis, .. } | Step::Remove { basis, .. } => {
            Some(*basis)
        }
        _ => None,
    }
}
