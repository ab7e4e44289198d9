//! What each step does to the ground, as a real ground would do it.
//!
//! In: one step of a stored plan. Out: its effect, and what it came to. Never: a first start that is not armed by this
//! very plan or that finds something in its volume; a membership change on a list that has moved; a volume taken away
//! from under a process.

use quorate_core::guard::Guard;
use quorate_core::model::{
    Basis, Exit, Generation, MemberId, Ordinal, Refused, StepKind, StepResult, Time, Version,
};
use quorate_core::plan::{StartHow, Step};

use super::{Asking, DiesAt, Executor, Queued, Waiting};
use crate::etcd::{As, Data, Operation, Place};
use crate::ground::{Aside, FirstRecord, Pod, Proc, marks, place};
use crate::user::Settings;
use crate::world::World;

impl World {
    pub(super) fn effect(&mut self, me: &mut Executor, queued: &Queued) {
        if !queued.late && me.id == 1 {
            self.judge_after_loss(&queued.step);
        }
        match &queued.step {
            Step::Provide {
                ordinal,
                generation,
                version,
                config,
            } => self.provide(*ordinal, *generation, (*version, config)),
            Step::Withdraw { ordinal } => {
                let slot = self.ground.slot(*ordinal);
                slot.pod.take_if(|_| matches!(slot.process, Proc::Stopped { .. }));
            }
            Step::Start {
                ordinal,
                generation,
                how,
                version,
                config,
            } => {
                let result = self.start(me, queued, (*ordinal, *generation), how, (*version, config));
                self.outcome(me, StepKind::Start, result);
            }
            Step::Stop { ordinal, since } => self.stop(*ordinal, *since, queued.late || me.id != 1),
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
            Step::Write { ordinal, .. } => {
                if self.ground.etcd.linked(Place::SITE, place(*ordinal)) {
                    self.ground.etcd.write_nothing(place(*ordinal));
                }
            }
            Step::SetAside { ordinal, generation } => self.set_aside(*ordinal, *generation),
            Step::DropAside { ordinal, keep } => self.drop_asides(*ordinal, *keep, queued.late),
            // A machine has no storage of its own, and gives all it has.
            Step::Grow { .. } | Step::Discard { .. } | Step::Resize { .. } => {}
        }
    }

    /// Makes a pod where there is none.
    fn provide(&mut self, ordinal: Ordinal, generation: Generation, (version, config): (Version, &str)) {
        let ready_at = self.ground.etcd.now + self.rng.u64(1..20);
        let slot = self.ground.slot(ordinal);
        if matches!(slot.process, Proc::Stopped { .. }) && slot.pod.is_none() {
            slot.pod = Some(Pod {
                generation,
                config: config.to_owned(),
                version,
                ready_at,
            });
        }
    }

    fn start(
        &mut self,
        me: &mut Executor,
        queued: &Queued,
        (ordinal, generation): (Ordinal, Generation),
        how: &StartHow,
        (version, config): (Version, &str),
    ) -> StepResult {
        let (now, pods) = (self.ground.etcd.now, self.ground.pods);
        let slot = self.ground.slot(ordinal);
        if !matches!(slot.process, Proc::Stopped { .. }) {
            return StepResult::Done;
        }
        if pods {
            let made_for = (generation, version, config);
            let fits = |pod: &Pod| {
                (pod.generation, pod.version, pod.config.as_str()) == made_for && pod.ready_at <= now
            };
            if !slot.pod.as_ref().is_some_and(fits) {
                return StepResult::Refused(Refused::Other("there is no pod for it".into()));
            }
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
        if !first && !self.is_its_own(me, ordinal, generation) {
            return StepResult::Refused(Refused::Other("the data is not this member's".into()));
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
        let run = me.memory.slot(ordinal).run;
        let last = self.ground.slot(ordinal).runs.entry(generation).or_default();
        *last = run.max(*last);
        self.judge_start(ordinal, generation, how);
        let (flags, at) = (flags(how), place(ordinal));
        if !queued.late && me.id == 1 {
            self.judge_settings(ordinal, config);
        }
        self.ground.slot(ordinal).last_config = config.to_owned();
        let (broken, settings) = (
            self.ground.slot(ordinal).crashes_until > now,
            Settings::of(config),
        );
        let hangs = settings == Settings::Hang && !first && !broken;
        let crashes = broken || settings != Settings::Good;
        let started = if crashes {
            self.ground.etcd.node(at).volumes.entry(generation).or_default();
            Ok(())
        } else if self
            .ground
            .replay_limit(ordinal, generation)
            .is_some_and(|newest| version.minor > newest)
        {
            Err("it cannot replay its log")
        } else {
            self.ground.etcd.start(at, generation, &flags, version)
        };
        let since = self.ground.now();
        match started {
            Ok(()) => {
                let dies_at = (crashes && !hangs).then(|| now + self.rng.u64(1..4));
                let config = config.to_owned();
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
                    self.ground.writes((ordinal, generation), how, version);
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

    /// Is the data in a volume that of the member the memory knows?
    fn is_its_own(&self, me: &Executor, ordinal: Ordinal, generation: Generation) -> bool {
        let node = self.ground.etcd.nodes.get(&place(ordinal));
        let Some(wal) = node.and_then(|n| n.volumes.get(&generation)).and_then(Data::wal) else {
            return true; // etcd itself ends at once.
        };
        let memory = &me.memory;
        let whole = |slot: &crate::ground::Slot| {
            let marks = marks(&Data::Wal(wal.clone()), slot.runs.get(&generation).copied());
            memory.fault(ordinal, marks).is_none()
        };
        let guarded = self.guards.on(Guard::PresentVolume);
        memory.cluster.is_none_or(|c| c == wal.cluster)
            && memory.slot(ordinal).member.is_none_or(|m| m == wal.member)
            && (!guarded || self.ground.slots.get(&ordinal).is_none_or(whole))
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

    fn stop(&mut self, ordinal: Ordinal, meant: Time, excused: bool) {
        let until = self.ground.etcd.now + self.rng.u64(1..4);
        if let Proc::Running {
            generation, since, ..
        } = self.ground.slot(ordinal).process
            && since == meant
        {
            if !excused {
                self.judge_stop(ordinal);
            }
            let slot = self.ground.slot(ordinal);
            slot.process = Proc::Stopping { until, generation };
            slot.stopped_by_mistake = excused;
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

    pub(super) fn ask(&mut self, me: &mut Executor, Asking { via, kind, operation }: Asking) {
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

    fn drop_asides(&mut self, ordinal: Ordinal, keep: u32, late: bool) {
        while self.ground.slot(ordinal).asides.len() > keep as usize {
            self.judge_drop(ordinal, late);
            self.ground.slot(ordinal).asides.remove(0);
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
