//! The operator, as it is: its own pass decides what is asked for and in which order; here is who answers, and all the
//! ways in which a pass is cut short.
//!
//! In: views that lag, each kind for itself; the requests of [`reconcile::pass`]. Out: answers, perhaps some ticks later,
//! or never. Never: a decision of the operator's made here.

pub mod answers;
pub mod driver;
pub mod release;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use quorate_core::guard::Guard;
use quorate_core::model::{Basis, Refused, StepKind, StepResult, Time};
use quorate_core::plan::Block;
use quorate_core::reason::{BlockReason, StatusReason};
use quorate_core::{Plan, Step};
use quorate_operator::cluster::driver::View;
use quorate_operator::cluster::observe::gather::MemberObjects;
use quorate_operator::cluster::reconcile::{self, PassCache};
use quorate_operator::cluster::upkeep::ClusterObjects;
use quorate_operator::requests::api_errors::RequestError;
use quorate_operator::requests::apply::Applied;
use quorate_operator::requests::effect::Effect;
use quorate_operator::tls::secure;

use super::api::ApiError;
use super::operator::driver::{Answer, Request, RequestQueue, SimDriver, failed};
use super::operator::release::Release;
use super::tls::Connects;
use super::world::KubeWorld;
use crate::etcd::{Asked, Operation, Place};

/// How long a Lease holds, in ticks.
const LEASE: u64 = 30;
/// How often it is renewed.
const RENEW: u64 = 8;
/// How long one effect may take: the Lease must hold for that long.
const EFFECT: u64 = 16;
/// The longest that it leaves a cluster alone.
const AT_REST: u64 = 10;
/// So many requests of a pass in one tick.
const REQUESTS_MAX: usize = 100;
/// EtcdCluster, EtcdPeer, claim, ReplicaSet, pod, Service, budget, Secret.
pub const KINDS: usize = 8;

type Pass = BoxFuture<'static, (Result<Option<std::time::Duration>, RequestError>, Both)>;

/// What an operator keeps of the cluster between passes.
#[derive(Debug, Default)]
struct Both {
    pass: PassCache,
    certificates: secure::TlsCache,
}

/// A pass under way.
struct Work {
    pass: Pass,
    desk: RequestQueue,
    /// What it waits for, and since when.
    request: Option<(Request, u64)>,
    /// What etcd was asked, and until when its answer is waited for.
    asked: Option<(Asked, u64)>,
}

pub struct Operator {
    pub id: u8,
    pub release: Release,
    /// It does nothing before this tick.
    pub asleep_until: u64,
    /// How far its clock is ahead of the API server's, or behind it.
    pub clock_off_ms: i64,
    /// When it goes away for good.
    pub until: Option<u64>,
    /// How far each kind's view is behind.
    pub lag: [u64; KINDS],
    seen: [u64; KINDS],
    tenure: u64,
    renew_at: u64,
    due: u64,
    failures: u32,
    kept: Both,
    work: Option<Work>,
    /// It dies after so many requests.
    pub dies_in: Option<u32>,
    /// So many answers of the API server are lost.
    pub loses_answers: u32,
    /// The plan it made last.
    pub plan: Option<Plan>,
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Operator {}", self.id)
    }
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
            release: Release::Present,
            asleep_until: from,
            clock_off_ms: 0,
            until,
            lag: [0; KINDS],
            seen: [from; KINDS],
            tenure: 0,
            renew_at: from,
            due: from,
            failures: 0,
            kept: Both::default(),
            work: None,
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

    pub(super) fn sees_pods_now(&self) -> bool {
        self.lag[4] == 0
    }

    /// Is it in the middle of a pass, which may be about to change something by what it saw?
    pub(super) fn is_busy(&self) -> bool {
        self.work.is_some()
    }

    fn covers(&self, now: u64) -> bool {
        now + EFFECT < self.tenure
    }

    /// A request that may have an effect is made.
    fn counted(&mut self) {
        self.dies_in = self.dies_in.map(|n| n.saturating_sub(1));
    }
}

impl KubeWorld {
    pub(super) fn operate(&mut self, index: usize) {
        let away = Operator::new(0, u64::MAX, None);
        let mut me = std::mem::replace(&mut self.operators[index], away);
        if me.asleep_until <= self.api.now {
            self.renew(&mut me);
            self.go_on(&mut me);
            if me.dies_in == Some(0) {
                self.log.event("operator", format_args!("#{} dies", me.id));
                let back = self.api.now + self.rng.u64(2..30);
                let mut restarted = Operator::new(me.id, back, me.until);
                (restarted.plan, restarted.release) = (me.plan.take(), me.release);
                restarted.clock_off_ms = me.clock_off_ms;
                me = restarted;
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

    fn go_on(&mut self, me: &mut Operator) {
        let now = self.api.now;
        if me.work.is_none() && me.due <= now && me.tenure > now {
            me.due = now + 1;
            self.begin(me);
        }
        for _ in 0..REQUESTS_MAX {
            let Some(mut work) = me.work.take().filter(|_| me.dies_in != Some(0)) else {
                return;
            };
            if let Some((request, since)) = work.request.take() {
                let Some(answer) = self.answer(me, &mut work, &request, since) else {
                    work.request = Some((request, since));
                    me.work = Some(work);
                    return;
                };
                work.desk.answer(answer);
            }
            work.desk.turn(self.now(me), me.covers(now));
            let polled = work.pass.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            self.hear(me, &work.desk);
            match polled {
                Poll::Ready((result, kept)) => return self.end(me, result, kept),
                Poll::Pending => work.request = work.desk.request().map(|request| (request, now)),
            }
            me.work = Some(work);
            // Mostly all in one go; sometimes the world turns in between.
            if self.rng.u8(..) < 30 {
                return;
            }
        }
    }

    fn end(
        &mut self,
        me: &mut Operator,
        result: Result<Option<std::time::Duration>, RequestError>,
        kept: Both,
    ) {
        let now = self.api.now;
        me.kept = kept;
        match result {
            Ok(pause) => {
                me.failures = 0;
                if pause.is_none() {
                    // It is gone, and with it what was kept of it.
                    me.kept = Both::default();
                }
                let pause = pause.map_or(0, |pause| pause.as_millis() as u64);
                me.due = now + pause.div_ceil(crate::TICK_MS).clamp(1, AT_REST);
            }
            Err(failed) => {
                me.failures += 1;
                // What could be done is looked at again soon.
                let most = match failed {
                    RequestError::Some(_) => AT_REST,
                    _ => 64,
                };
                me.due = now + (1u64 << me.failures.min(6)).min(most);
                let reported = failed.message();
                self.log
                    .event("operator", format_args!("#{} fails: {reported}", me.id));
            }
        }
    }

    /// Looks: from here on the pass asks.
    fn begin(&mut self, me: &mut Operator) {
        let now = self.api.now;
        let names = self.names.clone();
        let clusters = self.api.clusters.view(me.sees(0, now));
        let services = self.api.services.view(me.sees(5, now));
        let budgets = self.api.budgets.view(me.sees(6, now));
        let mut resource = clusters.get(&names.cluster).cloned();
        if let Some(resource) = resource.as_mut() {
            me.release.reads(Arc::make_mut(resource));
        }
        let mut claims: Vec<_> = self.api.claims.view(me.sees(2, now)).into_values().collect();
        claims.iter_mut().for_each(|claim| me.release.reads_claim(claim));
        let view = View {
            resource,
            seen: MemberObjects {
                peers: self.api.peers.view(me.sees(1, now)).into_values().collect(),
                claims,
                sets: self.api.sets.view(me.sees(3, now)).into_values().collect(),
                pods: self.api.pods.view(me.sees(4, now)).into_values().collect(),
            },
            whole: ClusterObjects {
                services: services.into_iter().map(|(n, s)| (n, (*s).clone())).collect(),
                budget: budgets.get(&names.cluster).map(|b| (**b).clone()),
            },
        };
        self.ids += 1;
        let desk = RequestQueue::new(self.ids);
        let Both { pass, certificates } = std::mem::take(&mut me.kept);
        let mut kept = pass;
        let secrets = self.api.secrets.view(me.sees(7, now));
        let mut driven = SimDriver::new(&desk, secrets, certificates);
        driven.guards = self.guards;
        let images = me.release.images();
        let pass = Box::pin(async move {
            let result = reconcile::pass(&mut driven, (&names, &images), view, &mut kept).await;
            let kept = Both {
                pass: kept,
                certificates: driven.certificates,
            };
            (result, kept)
        });
        me.work = Some(Work {
            pass,
            desk,
            request: None,
            asked: None,
        });
    }

    /// What the pass tells besides its requests.
    fn hear(&mut self, me: &mut Operator, desk: &RequestQueue) {
        if let Some(reason) = desk.held() {
            if me.release != Release::LaterFormat && reason == StatusReason::UnreadableMemory.name() {
                self.reached("stage", "LaterMemory");
            } else if reason == BlockReason::Certificates.name() {
                // A CA was deleted, and then all certificates of it: whoever still runs is waited for, or a person acts.
                self.reached("stage", "HeldForCertificates");
                self.held_for_certificates = true;
            } else if reason == StatusReason::RequestRefused.name() || reason == StatusReason::NoAnswer.name()
            {
                // Its first Secrets cannot be written.
                self.reached("stage", "HeldForSecrets");
            } else if reason == BlockReason::Invalid.name() && self.was_invalid {
                // Made with a manifest that cannot be followed, before there was another.
                self.reached("stage", "HeldAsInvalid");
            } else {
                self.broke(super::world::KubeBreak::NoConvergence, reason.to_owned());
            }
        }
        if let Some((plan, ignored)) = desk.decided() {
            if let Some(what) = ignored {
                self.broke(super::world::KubeBreak::AlarmIgnored, what);
            }
            // Nobody can sign, and no member has a certificate left.
            let asks = |b: &Block| {
                b.reason == BlockReason::Certificates && b.detail.contains("kubectl delete secret")
            };
            self.held_for_certificates |= plan.blocks.iter().any(asks);
            self.log_plan(me, &plan);
            me.plan = Some(plan);
        }
    }

    /// Answers a request; `None` while the answer is waited for.
    fn answer(
        &mut self,
        me: &mut Operator,
        work: &mut Work,
        request: &Request,
        since: u64,
    ) -> Option<Answer> {
        let late = self.api.now.saturating_sub(since) > EFFECT;
        Some(match request {
            Request::Connect(bundle, shows) => {
                self.connects = Some(Connects {
                    trusts: self.certificates.bundle(bundle),
                    shows: self.certificates.signer_of(shows),
                });
                Answer::Connected
            }
            Request::Prove(open, tests) => Answer::Proven(self.proven(open, tests)),
            Request::Look(addresses) => Answer::Look(self.answers(addresses)),
            // It takes no longer than the Lease was made sure of: see `trouble::in_time`.
            Request::Status(_) if late => Answer::Status(Err(failed(ApiError::Away))),
            Request::Peer(_) if late => Answer::Peer(Err(failed(ApiError::Away))),
            Request::Effect(_) if late => Answer::Effect(Err(failed(ApiError::Away))),
            Request::Status(next) => {
                let mut next = (**next).clone();
                me.release.writes(&mut next);
                let result = self.request(me, |api| api.replace_status(&next));
                Answer::Status(result.map_err(failed))
            }
            Request::Peer(next) => {
                let result = self.request(me, |api| api.replace_peer_status(next));
                Answer::Peer(result.map_err(failed))
            }
            Request::Effect(effect) => {
                self.log_effect(me, effect);
                self.judge_effect(me, effect);
                self.judge_release(me, effect);
                self.change_of_mind(me, effect);
                let asked = me.release.asks(effect);
                // What stands in for the guard at the last moment would hide that it is needed.
                let unguarded =
                    matches!(**effect, Effect::ConfirmClaim { .. }) && !self.guards.on(Guard::LeavingVolume);
                let result = match unguarded {
                    true => Ok(Applied::Unchanged),
                    false => self.request(me, |api| api.apply(&asked)),
                };
                if let Some(secret) = self.api.secrets.live.get(&self.names.ca_secret()) {
                    self.certificates.learn(secret);
                }
                Answer::Effect(result.map_err(failed))
            }
            Request::Change(step, observed) => {
                let result = match work.asked {
                    Some((asked, until)) => self.heard(asked, until)?,
                    None if late => StepResult::Refused(Refused::Other("it is late".to_owned())),
                    None => {
                        self.reached("step", &format!("{:?}", step.kind()));
                        self.log.event("step", format_args!("#{} {step}", me.id));
                        me.counted();
                        match self.ask_etcd(observed, step) {
                            Sent::Here(result) => result,
                            Sent::ToKubernetes => return Some(Answer::Change(None)),
                            Sent::Asked(asked) => {
                                work.asked = Some((asked, self.api.now + 8));
                                return None;
                            }
                        }
                    }
                };
                work.asked = None;
                self.log_result(me, step.kind(), &result);
                Answer::Change(Some(result))
            }
        })
    }

    /// Sends a request whose answer may be lost.
    fn request<T>(
        &mut self,
        me: &mut Operator,
        how: impl FnOnce(&mut super::api::Api) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        if self.api_away() {
            return Err(ApiError::Away);
        }
        me.counted();
        let result = how(&mut self.api);
        if me.loses_answers > 0 {
            me.loses_answers -= 1;
            return Err(ApiError::Away);
        }
        result
    }

    fn log_result(&mut self, me: &Operator, step: StepKind, result: &StepResult) {
        if *result != StepResult::Done {
            self.log
                .event("operator", format_args!("#{} {step:?}: {result:?}", me.id));
        }
    }

    fn log_effect(&mut self, me: &Operator, effect: &Effect) {
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

    /// A step that etcd is asked for.
    fn ask_etcd(&mut self, observed: &quorate_core::Observed, step: &Step) -> Sent {
        let result = |error: crate::etcd::EtcdError| {
            let refused = error.refused();
            Sent::Here(refused.map_or(StepResult::Unclear("timeout".to_owned()), StepResult::Refused))
        };
        let refused = |why: &str| Sent::Here(StepResult::Refused(Refused::Other(why.to_owned())));
        let (operation, basis, except) = match step {
            Step::MoveLeader { from, to } => {
                let at = self.etcd.nodes.iter().find(|(_, n)| n.member() == Some(*from));
                let at = at.map(|(p, _)| *p).filter(|p| self.etcd.linked(Place::SITE, *p));
                return match at.map(|via| self.etcd.move_leader(via, *to)) {
                    None => refused("the leader does not answer"),
                    Some(Ok(())) => Sent::Here(StepResult::Done),
                    Some(Err(error)) => result(error),
                };
            }
            Step::Write { ordinal, .. } => {
                let via = Place(ordinal.0);
                if !self.etcd.linked(Place::SITE, via) {
                    return refused("it does not answer");
                }
                self.etcd.write_nothing(via);
                return Sent::Here(StepResult::Done);
            }
            Step::AddLearner { ordinal, basis, .. } => (Operation::AddLearner(Place(ordinal.0)), basis, None),
            Step::Promote { member, basis, .. } => (Operation::Promote(*member), basis, None),
            Step::Remove { member, basis } => (Operation::Remove(*member), basis, Some(*member)),
            _ => return Sent::ToKubernetes,
        };
        let Some((via, view)) = self.quorum_view(observed, except) else {
            return refused("no healthy member to ask");
        };
        let is_done = match step {
            Step::AddLearner { peer_url, .. } => view.members.iter().any(|m| m.peer_urls.contains(peer_url)),
            Step::Promote { member, .. } => view.members.iter().any(|m| m.id == *member && !m.learner),
            Step::Remove { member, .. } => view.members.iter().all(|m| m.id != *member),
            _ => false,
        };
        if is_done {
            return Sent::Here(StepResult::Done);
        }
        if Basis::of(&view.members) != *basis {
            return Sent::Here(StepResult::Refused(Refused::Moved));
        }
        match self.etcd.ask(via, operation) {
            Ok(asked) => Sent::Asked(asked),
            Err(error) => result(error),
        }
    }

    /// etcd's answer; `None` while there is none.
    fn heard(&mut self, asked: Asked, until: u64) -> Option<StepResult> {
        let linked = self.etcd.linked(Place::SITE, asked.via);
        match self.etcd.answer(asked).filter(|_| linked) {
            Some(Ok(())) => Some(StepResult::Done),
            Some(Err(error)) => {
                let refused = error.refused();
                Some(refused.map_or(StepResult::Unclear("timeout".to_owned()), StepResult::Refused))
            }
            None => (self.api.now >= until).then(|| StepResult::Unclear("timeout".to_owned())),
        }
    }

    fn log_plan(&mut self, me: &Operator, plan: &Plan) {
        self.judge_rolled_back(plan);
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

    /// The time as an operator's clock has it.
    fn now(&self, me: &Operator) -> Time {
        let ticked = super::EPOCH_MS + self.api.now * crate::TICK_MS;
        Time(ticked.saturating_add_signed(me.clock_off_ms))
    }
}

/// What asking for a step came to.
enum Sent {
    Here(StepResult),
    /// Its answer comes later.
    Asked(Asked),
    /// etcd is not asked for this.
    ToKubernetes,
}
