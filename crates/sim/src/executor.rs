//! quorate itself, as the world runs it: look, plan, check, store, then the steps one by one; and all the ways in
//! which that goes wrong half way.
//!
//! In: the ground, the stored memory, the spec. Out: effects on the ground. Never: a step before its plan's memory
//! is stored, a membership change on a list that has moved.

use std::collections::VecDeque;
use std::time::Duration;

use quorate_core::model::{Observed, Ordinal, Outcome, StepKind, StepResult};
use quorate_core::plan::{BlockReason, Plan, StartHow, Step};
use quorate_core::{Decision, Memory, decide_with};

use crate::checkers::BreakKind;
use crate::etcd::{Asked, Operation, Place};
use crate::ground::FirstRecord;
use crate::user::settings_in;
use crate::world::World;

mod bad_plan;
mod steps;

/// Where a quorate that dies does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiesAt {
    /// It planned, and nothing was stored.
    BeforeStore,
    /// The memory is stored, no step was done.
    AfterStore,
    /// Some steps were done.
    BetweenSteps,
    /// A step was done; nobody knows.
    AfterEffect,
    /// The record of a first start says "fired", and it was not.
    Fired,
}

/// A step not begun after so many ticks is not begun any more.
const STEP_TICKS_MAX: u64 = 20;

/// The memory as stored, with the number that makes a store conditional.
#[derive(Clone, Debug, Default)]
pub struct Store {
    pub memory: Memory,
    pub number: u64,
}

impl Store {
    /// A quorate that has read the memory.
    pub fn load(&self, id: u8, starts: u64, until: Option<u64>) -> Executor {
        Executor {
            id,
            memory: self.memory.clone().taken_up(),
            number: self.number,
            queue: VecDeque::new(),
            waiting: None,
            asking: None,
            last: None,
            requeue_after: starts,
            until,
            dies: None,
            loses_steps: 0,
            doubles_steps: 0,
            loses_answers: 0,
            bad_plans: 0,
            slow_look_ticks: 0,
            slow_view: None,
            plan: None,
        }
    }
}

/// A step on its way.
#[derive(Clone, Debug)]
pub struct Queued {
    step: Step,
    /// The store's number of the plan it belongs to.
    number: u64,
    /// When it was planned.
    planned: u64,
    /// Not before this tick.
    not_before: u64,
    /// A duplicate, or one delayed: what it disturbs is not held against the plan.
    late: bool,
}

#[derive(Clone, Debug)]
pub struct Executor {
    pub id: u8,
    pub(crate) memory: Memory,
    number: u64,
    queue: VecDeque<Queued>,
    waiting: Option<Waiting>,
    asking: Option<Asking>,
    last: Option<Outcome>,
    requeue_after: u64,
    /// When a second one goes away.
    pub until: Option<u64>,
    /// Where it dies next.
    pub dies: Option<DiesAt>,
    pub loses_steps: u32,
    /// Steps to do twice.
    pub doubles_steps: u32,
    pub loses_answers: u32,
    pub bad_plans: u32,
    slow_look_ticks: u64,
    slow_view: Option<SlowView>,
    /// The last plan that was made, and when.
    pub plan: Option<(u64, Plan)>,
}

/// A look that takes long.
#[derive(Clone, Debug)]
struct SlowView {
    began: u64,
    ready: u64,
    observed: Observed,
    /// What it was made for.
    memory: Memory,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    asked: Asked,
    kind: StepKind,
    until: u64,
}

/// The list was read again and is as planned; the request goes out in a moment.
#[derive(Clone, Copy, Debug)]
struct Asking {
    via: Place,
    kind: StepKind,
    operation: Operation,
}

impl Executor {
    /// The next step whose time has come. One whose deadline has passed is dropped, as a ground does that must not
    /// act on a lease it may have lost; a late duplicate is the exception that proves the steps.
    fn take_due(&mut self, now: u64) -> Option<Queued> {
        self.queue.retain(|q| q.late || now - q.planned <= STEP_TICKS_MAX);
        let index = self.queue.iter().position(|q| q.not_before <= now)?;
        self.queue.remove(index)
    }

    /// Has it read the list, and not asked yet?
    pub fn about_to_ask(&self) -> bool {
        self.asking.is_some()
    }

    /// The next look takes this long.
    pub fn slow_look(&mut self, ticks: u64) {
        self.slow_look_ticks = ticks;
    }

    /// Is a membership change on its way?
    pub fn changing(&self) -> bool {
        self.waiting.is_some()
            || self.asking.is_some()
            || self.queue.iter().any(|q| q.step.changes_membership())
    }

    /// Is a start of this slot on its way? What lies in the volume is only known to the plan.
    pub fn starting(&self, ordinal: Ordinal) -> bool {
        self.queue
            .iter()
            .any(|q| matches!(&q.step, Step::Start { ordinal: o, .. } if *o == ordinal))
    }

    /// Nothing bad is going to happen to it any more; what was under way is finished.
    pub fn calm(&mut self) {
        self.dies = None;
        (
            self.loses_steps,
            self.doubles_steps,
            self.loses_answers,
            self.bad_plans,
        ) = (0, 0, 0, 0);
        self.slow_look_ticks = 0;
        self.slow_view = None;
        self.queue.retain(|q| !q.late);
    }
}

impl World {
    /// One tick of one quorate.
    pub fn quorate(&mut self, index: usize) {
        let mut me = std::mem::replace(&mut self.executors[index], self.store.load(0, u64::MAX, None));
        let now = self.ground.etcd.now;
        self.poll(&mut me);
        let mut done = 0;
        if let Some(asking) = me.asking.take() {
            done += 1;
            self.ask(&mut me, asking);
        }
        while me.waiting.is_none() && me.asking.is_none() && done < 8 {
            let Some(queued) = me.take_due(now) else { break };
            done += 1;
            if !self.step(&mut me, queued) {
                break;
            }
            // Mostly a plan is done in one go; sometimes the world turns between two steps.
            if self.rng.u8(..) < 60 {
                break;
            }
        }
        let free = me.waiting.is_none() && me.asking.is_none() && me.queue.iter().all(|q| q.late);
        if done == 0 && free && me.requeue_after <= now {
            self.pass(&mut me);
        }
        self.executors[index] = me;
    }

    /// It dies and comes back: what was only in its head is gone.
    fn die(&mut self, me: &mut Executor) {
        let back = self.ground.etcd.now + self.rng.u64(2..12);
        self.log
            .event("quorate", format_args!("#{} dies ({:?})", me.id, me.dies));
        let plan = me.plan.take();
        *me = self.store.load(me.id, back, me.until);
        me.plan = plan;
    }

    fn poll(&mut self, me: &mut Executor) {
        let Some(waiting) = me.waiting else { return };
        let now = self.ground.etcd.now;
        let reachable = self.ground.etcd.linked(Place::SITE, waiting.asked.via);
        let answer = if reachable {
            self.ground.etcd.answer(waiting.asked)
        } else {
            None
        };
        let result = match answer {
            Some(Ok(())) => StepResult::Done,
            Some(Err(error)) => error
                .refused()
                .map_or(StepResult::Unclear("timeout".into()), StepResult::Refused),
            None if now >= waiting.until => StepResult::Unclear("timeout".into()),
            None => return,
        };
        me.waiting = None;
        self.outcome(me, waiting.kind, result);
    }

    fn outcome(&mut self, me: &mut Executor, step: StepKind, result: StepResult) {
        if let StepResult::Refused(refused) = &result {
            self.coverage.refused(refused);
        }
        self.log
            .event("quorate", format_args!("#{} {step:?}: {result:?}", me.id));
        me.last = Some(Outcome {
            step,
            result,
            at: self.ground.now(),
        });
    }

    /// Looks (perhaps slowly), plans, checks, stores.
    fn pass(&mut self, me: &mut Executor) {
        let now = self.ground.etcd.now;
        let Some((observed, age)) = self.look(me) else {
            return;
        };
        // As the host does: a look is as old as it took, whatever became of the clock meanwhile.
        let time = self.ground.now().max(observed.at + age);
        let served = me.memory.served_with(self.spec.manifest.as_deref());
        (self.spec.fallback, self.spec.own_fallbacks) = served.map(settings_in).unwrap_or_default();
        let mut decision = decide_with(&self.spec, &observed, &me.memory, time, self.guards);
        if me.bad_plans > 0 && self.spoil(&mut decision.plan, &observed) {
            me.bad_plans -= 1;
            self.refuse_spoilt(me, (&observed, time), decision);
            me.requeue_after = now + 2;
            return;
        }
        let Decision { plan, memory } = decision;
        let mut blocks = plan.blocks.iter();
        if let Some(refused) = blocks.find(|block| block.reason == BlockReason::CheckRefused) {
            self.broke(BreakKind::CheckDisagrees, refused.detail.clone());
        }
        self.coverage.plan(&plan);
        self.judge_rolled_back(&plan, &me.memory);
        self.log_plan(me, &plan);
        self.judge_alarms(&observed, &plan);
        if plan.steps.iter().filter(|s| s.changes_membership()).count() > 1 {
            self.broke(BreakKind::TwoChanges, format!("{:?}", plan.steps));
        }
        if me.dies == Some(DiesAt::BeforeStore) {
            return self.die(me);
        }
        let look = (plan.requeue_after.as_millis() as u64)
            .div_ceil(crate::TICK_MS)
            .clamp(1, 20);
        me.requeue_after = now + look;
        if !self.keep(me, &plan, memory) {
            return;
        }
        let queued = |step: &Step| Queued {
            step: step.clone(),
            number: me.number,
            planned: now,
            not_before: now,
            late: false,
        };
        me.queue.extend(plan.steps.iter().map(queued));
        me.plan = Some((now, plan));
        if me.dies == Some(DiesAt::AfterStore) {
            self.die(me);
        }
    }

    /// A look that is slow gives what it saw when it began, and how long ago that was.
    fn look(&mut self, me: &mut Executor) -> Option<(Observed, Duration)> {
        let now = self.ground.etcd.now;
        if let Some(slow) = me.slow_view.take() {
            if slow.ready > now {
                me.slow_view = Some(slow);
                return None;
            }
            let age = Duration::from_millis((now - slow.began) * crate::TICK_MS);
            return (slow.memory == me.memory).then_some((slow.observed, age));
        }
        self.tokens += 1;
        let observed = self
            .ground
            .observe(&self.spec, &me.memory, self.tokens, me.last.take());
        if me.slow_look_ticks > 0 {
            self.log.event(
                "quorate",
                format_args!("#{} looks for {} ticks", me.id, me.slow_look_ticks),
            );
            me.slow_view = Some(SlowView {
                began: now,
                ready: now + me.slow_look_ticks,
                observed,
                memory: me.memory.clone(),
            });
            me.slow_look_ticks = 0;
            return None;
        }
        Some((observed, Duration::ZERO))
    }

    /// Stores the memory if nobody else has; arms first starts in the same write.
    fn keep(&mut self, me: &mut Executor, plan: &Plan, memory: Memory) -> bool {
        if self.store.number != me.number {
            self.log.event(
                "quorate",
                format_args!("#{} read the memory too long ago, reads it again", me.id),
            );
            me.memory = self.store.memory.clone();
            me.number = self.store.number;
            return false;
        }
        if plan.steps.is_empty() && memory == me.memory {
            return true;
        }
        self.store.number += 1;
        self.store.memory = memory.clone();
        me.number = self.store.number;
        me.memory = memory;
        for step in &plan.steps {
            if let Step::Start {
                ordinal,
                generation,
                how: StartHow::New { .. } | StartHow::Join { .. },
                ..
            } = step
            {
                self.ground
                    .slot(*ordinal)
                    .first
                    .insert(*generation, FirstRecord::Armed(me.number));
            }
        }
        true
    }

    fn log_plan(&mut self, me: &Executor, plan: &Plan) {
        let same = me
            .plan
            .as_ref()
            .is_some_and(|(_, p)| p.steps == plan.steps && p.waits == plan.waits && p.blocks == plan.blocks);
        if !self.log.on() || same {
            return;
        }
        for step in &plan.steps {
            self.log.event("plan", format_args!("#{} step  {step}", me.id));
        }
        for wait in &plan.waits {
            self.log.event(
                "plan",
                format_args!(
                    "#{} wait  {} {:?}: {}",
                    me.id, wait.reason, wait.member, wait.detail
                ),
            );
        }
        for block in &plan.blocks {
            self.log.event(
                "plan",
                format_args!(
                    "#{} block {} {:?}: {}",
                    me.id, block.reason, block.member, block.detail
                ),
            );
        }
        if plan.steps.is_empty() && plan.waits.is_empty() && plan.blocks.is_empty() {
            self.log.event("plan", format_args!("#{} as wanted", me.id));
        }
    }

    /// Does one step; false if quorate did not survive it.
    fn step(&mut self, me: &mut Executor, queued: Queued) -> bool {
        if me.dies == Some(DiesAt::BetweenSteps) {
            self.die(me);
            return false;
        }
        if me.loses_steps > 0 {
            me.loses_steps -= 1;
            self.log
                .event("fault", format_args!("lost step: {}", queued.step));
            return true;
        }
        if me.doubles_steps > 0 && !queued.late {
            me.doubles_steps -= 1;
            let not_before = self.ground.etcd.now + self.rng.u64(0..20);
            me.queue.push_back(Queued {
                not_before,
                late: true,
                ..queued.clone()
            });
        }
        let late = if queued.late { " (late duplicate)" } else { "" };
        self.log
            .event("step", format_args!("#{} {}{late}", me.id, queued.step));
        self.coverage.step(&queued.step);
        self.effect(me, &queued);
        if me.dies == Some(DiesAt::AfterEffect) {
            self.die(me);
            return false;
        }
        true
    }
}
