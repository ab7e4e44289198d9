//! quorate itself, as the world runs it: look, plan, check, store, then the steps one by one; and all the ways in
//! which that goes wrong half way.
//!
//! In: the ground, the stored memory, the spec. Out: effects on the ground. Never: a step before its plan's memory
//! is stored, a membership change on a list that has moved.

use std::collections::VecDeque;

use quorate_core::Memory;
use quorate_core::model::{
    Exit, Generation, MemberId, Observed, Ordinal, Outcome, Process, Refused, StepKind, StepResult, Version,
};
use quorate_core::plan::{Basis, Block, BlockReason, Plan, StartHow, Step, plan_with};

use crate::checkers::BreakKind;
use crate::etcd::{As, Asked, Data, Operation, Place};
use crate::ground::{Aside, FirstRecord, Proc, place};
use crate::world::World;

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

/// The memory as stored, with the number that makes a store conditional.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// What.
    pub memory: Memory,
    /// Which.
    pub number: u64,
}

impl Store {
    /// A quorate that has read the memory.
    pub fn load(&self, id: u8, starts: u64, until: Option<u64>) -> Executor {
        Executor {
            id,
            memory: self.memory.clone(),
            number: self.number,
            queue: VecDeque::new(),
            waiting: None,
            asking: None,
            last: None,
            next_look: starts,
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
    /// The digest the plan was made with.
    config: String,
    /// Not before this tick.
    not_before: u64,
    /// A duplicate, or one delayed: what it disturbs is not held against the plan.
    late: bool,
}

/// One quorate.
#[derive(Clone, Debug)]
pub struct Executor {
    /// Which.
    pub id: u8,
    memory: Memory,
    number: u64,
    queue: VecDeque<Queued>,
    waiting: Option<Waiting>,
    asking: Option<Asking>,
    last: Option<Outcome>,
    next_look: u64,
    /// When a second one goes away.
    pub until: Option<u64>,
    /// Where it dies next.
    pub dies: Option<DiesAt>,
    /// Steps to lose.
    pub loses_steps: u32,
    /// Steps to do twice.
    pub doubles_steps: u32,
    /// Answers to lose.
    pub loses_answers: u32,
    /// Plans to spoil.
    pub bad_plans: u32,
    slow_look_ticks: u64,
    slow_view: Option<(u64, Observed, Memory)>,
    /// The last plan that was made, and when.
    pub plan: Option<(u64, Plan)>,
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
            let Some(queued) = me.queue.front().filter(|q| q.not_before <= now).cloned() else {
                break;
            };
            me.queue.pop_front();
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
        if done == 0 && free && me.next_look <= now {
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

    /// Looks (perhaps slowly), plans, asks for the second opinion, stores.
    fn pass(&mut self, me: &mut Executor) {
        let now = self.ground.etcd.now;
        let Some(observed) = self.look(me) else { return };
        let (mut plan, memory) = plan_with(&self.spec, &observed, &me.memory, self.ground.now(), self.guards);
        if me.bad_plans > 0 && self.spoil(&mut plan, &observed) {
            me.bad_plans -= 1;
            self.refuse_spoilt(me, &plan, &observed, &memory);
            me.next_look = now + 2;
            return;
        }
        let violations = quorate_core::check(
            &self.spec,
            &observed,
            &me.memory,
            &memory,
            &plan,
            self.ground.now(),
        );
        if self.check_on && !violations.is_empty() {
            let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
            self.broke(
                BreakKind::CheckDisagrees,
                format!("{} - steps {:?}", all.join("; "), plan.steps),
            );
        }
        self.coverage.plan(&plan);
        self.say(me, &plan);
        if plan.steps.iter().filter(|s| s.changes_membership()).count() > 1 {
            self.broke(BreakKind::TwoChanges, format!("{:?}", plan.steps));
        }
        if me.dies == Some(DiesAt::BeforeStore) {
            return self.die(me);
        }
        let look = (plan.next_look.as_millis() as u64)
            .div_ceil(crate::TICK_MS)
            .clamp(1, 20);
        me.next_look = now + look;
        if !self.keep(me, &plan, memory) {
            return;
        }
        let config = self.spec.config.clone();
        let queued = |step: &Step| Queued {
            step: step.clone(),
            number: me.number,
            config: config.clone(),
            not_before: now,
            late: false,
        };
        me.queue.extend(plan.steps.iter().map(queued));
        me.plan = Some((now, plan));
        if me.dies == Some(DiesAt::AfterStore) {
            self.die(me);
        }
    }

    /// A look that is slow gives what it saw when it began.
    fn look(&mut self, me: &mut Executor) -> Option<Observed> {
        let now = self.ground.etcd.now;
        if let Some((ready, observed, for_memory)) = me.slow_view.take() {
            if ready > now {
                me.slow_view = Some((ready, observed, for_memory));
                return None;
            }
            return (for_memory == me.memory).then_some(observed);
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
            me.slow_view = Some((now + me.slow_look_ticks, observed, me.memory.clone()));
            me.slow_look_ticks = 0;
            return None;
        }
        Some(observed)
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

    fn say(&mut self, me: &Executor, plan: &Plan) {
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

    /// A test double's bad idea: stop the two highest voters at once.
    fn spoil(&mut self, plan: &mut Plan, observed: &Observed) -> bool {
        let Some(quorum) = observed
            .quorum
            .as_ref()
            .filter(|q| q.members.iter().filter(|m| !m.learner).count() >= 3)
        else {
            return false;
        };
        let places = quorum
            .members
            .iter()
            .filter(|m| !m.learner)
            .filter_map(|m| Place::of(m.peer_urls.first()?));
        let well = |o: &Ordinal| {
            let slot = observed.slots.get(o);
            slot.is_some_and(|s| s.status.is_some() && matches!(s.process, Process::Running { .. }))
        };
        let ours: Vec<Ordinal> = places.map(|p| Ordinal(p.0)).filter(well).collect();
        if ours.len() < 2 {
            return false;
        }
        plan.steps = ours
            .iter()
            .rev()
            .take(2)
            .map(|o| Step::Stop { ordinal: *o })
            .collect();
        true
    }

    /// The second opinion must refuse it, and the refusal is shown as a block.
    fn refuse_spoilt(&mut self, me: &mut Executor, plan: &Plan, observed: &Observed, memory: &Memory) {
        let violations =
            quorate_core::check(&self.spec, observed, &me.memory, memory, plan, self.ground.now());
        if violations.is_empty() {
            return self.broke(BreakKind::CheckBlind, format!("not refused: {:?}", plan.steps));
        }
        let detail = violations
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        let block = Block {
            reason: BlockReason::CheckRefused,
            member: None,
            detail,
        };
        let refused = Plan {
            blocks: vec![block],
            ..Plan::default()
        };
        self.coverage.plan(&refused);
        self.say(me, &refused);
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

    fn effect(&mut self, me: &mut Executor, queued: &Queued) {
        match &queued.step {
            Step::Start {
                ordinal,
                generation,
                how,
                version,
            } => {
                let result = self.start(me, queued, (*ordinal, *generation), how, *version);
                self.outcome(me, StepKind::Start, result);
            }
            Step::Stop { ordinal } => self.stop(*ordinal, queued.late || me.id != 1),
            Step::AddLearner { peer_url, basis, .. } => {
                let Some(at) = Place::of(peer_url) else { return };
                self.change(me, StepKind::AddLearner, Operation::AddLearner(at), *basis);
            }
            Step::Promote { member, basis, .. } => {
                self.change(me, StepKind::Promote, Operation::Promote(*member), *basis);
            }
            Step::Remove { member, basis } => {
                self.change(me, StepKind::Remove, Operation::Remove(*member), *basis);
            }
            Step::MoveLeader { from, to } => self.hand_over(me, *from, *to),
            Step::SetAside { ordinal, generation } => self.set_aside(*ordinal, *generation),
            Step::DropAside { ordinal } => self.drop_aside(*ordinal, queued.late),
        }
    }

    fn start(
        &mut self,
        me: &mut Executor,
        queued: &Queued,
        (ordinal, generation): (Ordinal, Generation),
        how: &StartHow,
        version: Version,
    ) -> StepResult {
        let now = self.ground.etcd.now;
        let slot = self.ground.slot(ordinal);
        if !matches!(slot.process, Proc::Stopped { .. }) {
            return StepResult::Done;
        }
        if slot.taken_until > now {
            return StepResult::Refused(Refused::Other("port 2380 is taken".into()));
        }
        let first = matches!(how, StartHow::New { .. } | StartHow::Join { .. });
        if first
            && self
                .ground
                .etcd
                .nodes
                .get(&place(ordinal))
                .is_some_and(|n| holds_something(n, generation))
        {
            return StepResult::Refused(Refused::Other("the volume is not empty".into()));
        }
        let slot = self.ground.slot(ordinal);
        if first {
            match slot.first.get(&generation) {
                Some(FirstRecord::Armed(number)) if *number == queued.number => {
                    slot.first.insert(generation, FirstRecord::Fired(queued.number));
                }
                _ => return StepResult::Refused(Refused::Other("this first start is not armed".into())),
            }
            if me.dies == Some(DiesAt::Fired) && self.may_lose(ordinal) {
                me.dies = Some(DiesAt::AfterEffect);
                return StepResult::Unclear("died".into());
            }
        }
        self.judge_start(ordinal, generation, how);
        let (flags, at) = (flags(how), place(ordinal));
        let crashes = self.ground.slot(ordinal).crashes_until > now;
        let started = if crashes {
            self.ground.etcd.node(at).volumes.entry(generation).or_default();
            Ok(())
        } else {
            self.ground.etcd.start(at, generation, &flags, version)
        };
        let since = self.ground.now();
        match started {
            Ok(()) => {
                let dies_at = crashes.then(|| now + self.rng.u64(1..4));
                let config = queued.config.clone();
                let slot = self.ground.slot(ordinal);
                slot.process = Proc::Running {
                    since,
                    version,
                    config,
                    generation,
                    dies_at,
                };
                if !crashes {
                    slot.ever_ran.insert(generation);
                }
            }
            Err(why) => {
                let exit = Exit {
                    at: since,
                    asked: false,
                    how: why.to_owned(),
                };
                self.ground.slot(ordinal).process = Proc::Stopped { last: Some(exit) };
                self.log
                    .event("etcd", format_args!("member {ordinal} ends at once: {why}"));
                self.ended_without_data(ordinal, generation);
            }
        }
        StepResult::Done
    }

    /// Records the end of a first start that made no log.
    pub fn ended_without_data(&mut self, ordinal: Ordinal, generation: Generation) {
        let empty = matches!(
            self.ground
                .etcd
                .nodes
                .get(&place(ordinal))
                .and_then(|n| n.volumes.get(&generation)),
            None | Some(Data::Empty)
        );
        let slot = self.ground.slot(ordinal);
        if empty
            && !slot.ever_ran.contains(&generation)
            && let Some(FirstRecord::Fired(number)) = slot.first.get(&generation).copied()
        {
            slot.first
                .insert(generation, FirstRecord::EndedWithoutData(number));
        }
    }

    fn stop(&mut self, ordinal: Ordinal, excused: bool) {
        let until = self.ground.etcd.now + self.rng.u64(1..4);
        if let Proc::Running { generation, .. } = self.ground.slot(ordinal).process {
            if !excused {
                self.judge_stop(ordinal);
            }
            self.ground.slot(ordinal).process = Proc::Stopping { until, generation };
        }
    }

    /// Reads the list again, refuses if it moved, then asks.
    fn change(&mut self, me: &mut Executor, kind: StepKind, operation: Operation, basis: Basis) {
        let view = self
            .ground
            .way_in()
            .and_then(|via| Some((via, self.ground.quorum_view(&self.spec.name)?)));
        let Some((via, view)) = view else {
            return self.outcome(
                me,
                kind,
                StepResult::Refused(Refused::Other("no member list".into())),
            );
        };
        if Basis::of(&view.members) != basis {
            return self.outcome(me, kind, StepResult::Refused(Refused::Moved));
        }
        let asking = Asking { via, kind, operation };
        if self.rng.u8(..) < 50 {
            me.asking = Some(asking);
        } else {
            self.ask(me, asking);
        }
    }

    fn ask(&mut self, me: &mut Executor, Asking { via, kind, operation }: Asking) {
        if !self.ground.etcd.linked(Place::SITE, via) {
            return self.outcome(me, kind, StepResult::Unclear("no answer".into()));
        }
        match self.ground.etcd.ask(via, operation) {
            Ok(asked) => {
                if let (Operation::Remove(member), 1) = (operation, me.id) {
                    self.judge_removal(member);
                }
                let until = self.ground.etcd.now + 14;
                if me.loses_answers > 0 {
                    me.loses_answers -= 1;
                    self.outcome(me, kind, StepResult::Unclear("connection reset".into()));
                } else {
                    me.waiting = Some(Waiting { asked, kind, until });
                }
            }
            Err(error) => {
                let result = error
                    .refused()
                    .map_or(StepResult::Unclear("timeout".into()), StepResult::Refused);
                self.outcome(me, kind, result);
            }
        }
    }

    fn hand_over(&mut self, me: &mut Executor, from: MemberId, to: MemberId) {
        let at = self
            .ground
            .etcd
            .nodes
            .iter()
            .find(|(_, n)| n.member() == Some(from))
            .map(|(p, _)| *p);
        let reachable = at.filter(|p| self.ground.etcd.linked(Place::SITE, *p));
        let result = match reachable.map(|via| self.ground.etcd.move_leader(via, to)) {
            None => StepResult::Refused(Refused::Other("connection refused".into())),
            Some(Ok(())) => StepResult::Done,
            Some(Err(error)) => error
                .refused()
                .map_or(StepResult::Unclear("timeout".into()), StepResult::Refused),
        };
        self.outcome(me, StepKind::MoveLeader, result);
    }

    fn set_aside(&mut self, ordinal: Ordinal, generation: Generation) {
        if self.ground.slot(ordinal).in_use() == Some(generation) {
            return self.log.event(
                "ground",
                format_args!("member {ordinal} ({generation}) is in use, left where it is"),
            );
        }
        let Some(data) = self.ground.etcd.node(place(ordinal)).volumes.remove(&generation) else {
            return;
        };
        let at = self.ground.etcd.now;
        if !matches!(data, Data::Empty) {
            let member = data.wal().map(|w| w.member);
            self.ground.slot(ordinal).asides.push(Aside {
                generation,
                member,
                at,
            });
        }
    }

    fn drop_aside(&mut self, ordinal: Ordinal, late: bool) {
        self.judge_drop(ordinal, late);
        let slot = self.ground.slot(ordinal);
        if !slot.asides.is_empty() {
            slot.asides.remove(0);
        }
    }
}

fn holds_something(node: &crate::etcd::Node, generation: Generation) -> bool {
    !matches!(node.volumes.get(&generation), None | Some(Data::Empty))
}

fn flags(how: &StartHow) -> As {
    let places = |initial: &[(quorate_core::model::MemberName, quorate_core::model::PeerUrl)]| {
        initial.iter().filter_map(|(_, url)| Place::of(url)).collect()
    };
    match how {
        StartHow::New { token, initial } => As::New {
            token: token.0.clone(),
            initial: places(initial),
        },
        StartHow::Join { initial } => As::Join {
            initial: places(initial),
        },
        StartHow::Resume | StartHow::Settle => As::Resume,
    }
}
