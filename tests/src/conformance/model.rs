//! The same script on the simulator's model of etcd.
//!
//! In: a script, the version, and the real trace, from which only two things are taken: what a `start` meant (resume
//! or join), and who led afterwards, because which follower wins an election is chance on both sides, and a new
//! leader knows nothing of a learner that is down. Out: the model's own trace. Never: a real answer, list or exit.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use quorate_core::model::{Generation, MemberId, Version};
use quorate_sim::etcd::{self, As, EtcdError, EtcdModel, Operation};

use super::real::{NOBODY, WRITES, WRITES_AFTER_HEAL};
use super::script::{Action, Ask, PLACES, Place, Script, Who};
use super::trace::{Answer, Did, Step, Trace};

/// Twenty seconds: longer than any election, catching up, and the five seconds of health.
const SETTLE_TICKS: u32 = 40;
/// As long as the real client waits.
const ANSWER_TICKS: u32 = 18;

struct Model {
    etcd: EtcdModel,
    version: Version,
    ids: BTreeMap<Place, MemberId>,
    generations: BTreeMap<Place, u32>,
    cut: BTreeSet<Place>,
}

/// Runs a script on the model.
pub fn run(script: &Script, version: &str, seed: u64, real: &Trace) -> anyhow::Result<Trace> {
    let mut model = Model {
        etcd: EtcdModel::new(seed),
        version: version.parse().context("the version under test")?,
        ids: BTreeMap::new(),
        generations: BTreeMap::new(),
        cut: BTreeSet::new(),
    };
    model.form(script.initial);
    let leader = |n: usize| real.steps.get(n).and_then(|s| s.leader);
    let mut trace = Trace::default();
    trace
        .steps
        .push(model.settle(None, Did::Nothing, None, leader(0)));
    for (n, action) in script.actions.iter().enumerate() {
        let Some(step) = real.steps.get(n + 1) else { break };
        let answer = model.act(*action, &step.did);
        trace
            .steps
            .push(model.settle(Some(*action), step.did.clone(), answer, leader(n + 1)));
    }
    Ok(trace)
}

fn node(place: Place) -> etcd::Place {
    etcd::Place(place)
}

impl Model {
    fn ticks(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.etcd.advance();
        }
        // The checkers' notes are for the simulator.
        self.etcd.notes.clear();
    }

    fn start(&mut self, place: Place, flags: &As) {
        let volume = Generation(self.generations.get(&place).copied().unwrap_or(0));
        // Whether it runs shows in the trace; why it does not is not compared.
        let _ = self.etcd.start(node(place), volume, flags, self.version);
    }

    fn form(&mut self, initial: u32) {
        let places: Vec<etcd::Place> = (1..=initial).map(node).collect();
        for place in 1..=initial {
            self.start(
                place,
                &As::New {
                    token: "conformance".into(),
                    initial: places.clone(),
                },
            );
        }
        self.ticks(SETTLE_TICKS);
        for place in 1..=initial {
            self.ids.extend(
                self.etcd
                    .nodes
                    .get(&node(place))
                    .and_then(|n| n.member())
                    .map(|id| (place, id)),
            );
        }
        for value in 0..WRITES {
            self.etcd.write(node(1), value);
        }
    }

    fn id(&self, who: Who) -> MemberId {
        match who {
            Who::Nobody => MemberId(NOBODY),
            Who::At(place) => self.ids.get(&place).copied().unwrap_or(MemberId(NOBODY)),
        }
    }

    fn act(&mut self, action: Action, did: &Did) -> Option<Answer> {
        match (action, did) {
            (Action::Ask { via, ask }, Did::Asked) => return Some(self.ask(via, ask)),
            (Action::Kill(place), Did::Killed) => self.etcd.kill(node(place)),
            (Action::Wipe(place), Did::Wiped) => self.empty(place),
            (Action::CutOff(place), Did::Cut) => {
                self.cut.insert(place);
                self.etcd.cut(node(place), place as u8);
            }
            (Action::Heal, Did::Healed) => {
                self.cut.clear();
                self.etcd.heal();
            }
            (Action::Start(place), Did::Resumed) => self.start(place, &As::Resume),
            (Action::Start(place), Did::Joined(initial)) => {
                self.empty(place);
                self.start(
                    place,
                    &As::Join {
                        initial: initial.iter().copied().map(node).collect(),
                    },
                );
            }
            _ => {}
        }
        None
    }

    fn empty(&mut self, place: Place) {
        let generation = self.generations.entry(place).or_default();
        self.etcd.wipe(node(place), Generation(*generation));
        *generation += 1;
    }

    fn ask(&mut self, via: Place, ask: Ask) -> Answer {
        let operation = match ask {
            Ask::AddLearner(place) => Operation::AddLearner(node(place)),
            Ask::AddVoter(place) => Operation::AddVoter(node(place)),
            Ask::Promote(who) => Operation::Promote(self.id(who)),
            Ask::Remove(who) => Operation::Remove(self.id(who)),
        };
        let asked = match self.etcd.ask(node(via), operation) {
            Ok(asked) => asked,
            Err(error) => return Answer::Refused(error),
        };
        for _ in 0..ANSWER_TICKS {
            self.ticks(1);
            match self.etcd.answer(asked) {
                None => {}
                Some(Err(error)) => return Answer::Refused(error),
                Some(Ok(())) => {
                    if let (Ask::AddLearner(place) | Ask::AddVoter(place), Some(id)) = (ask, asked.member) {
                        self.ids.insert(place, id);
                    }
                    return Answer::Accepted;
                }
            }
        }
        Answer::Refused(EtcdError::Timeout)
    }

    fn settle(
        &mut self,
        action: Option<Action>,
        did: Did,
        answer: Option<Answer>,
        real: Option<Place>,
    ) -> Step {
        self.ticks(SETTLE_TICKS);
        // Handing over can fail for a moment, as in etcd, and an election can follow.
        for _ in 0..SETTLE_TICKS {
            let leader = self.etcd.serving_leader();
            let Some(target) = real.map(node).filter(|place| leader != Some(*place)) else {
                break;
            };
            let target = self.etcd.nodes.get(&target).and_then(|n| n.member());
            if let (Some(leader), Some(target)) = (leader, target) {
                let _ = self.etcd.move_leader(leader, target);
            }
            self.ticks(4);
        }
        if did == Did::Healed
            && let Some(leader) = self.etcd.serving_leader()
        {
            (0..WRITES_AFTER_HEAL).for_each(|value| self.etcd.write(leader, value));
            self.ticks(SETTLE_TICKS);
        }
        let leader = self.etcd.serving_leader();
        let list = leader.and_then(|l| self.etcd.list(l)).map(|(_, conf, _)| {
            conf.members
                .values()
                .map(|m| (m.place.0, m.learner))
                .collect::<BTreeMap<_, _>>()
        });
        let runs = |p: &Place| {
            self.etcd
                .nodes
                .get(&node(*p))
                .is_some_and(|n| n.running.is_some())
        };
        let running = (1..=PLACES).filter(runs).collect();
        Step {
            action,
            did,
            answer,
            list,
            running,
            leader: leader.map(|l| l.0),
        }
    }
}
