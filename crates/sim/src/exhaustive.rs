//! Every small cluster there is: all combinations of what each slot can look like, planned for and judged.
//!
//! In: how many slots, and how finely. Out: how many cases, and what was wrong with any. Never: a case left out
//! because it is unlikely; only what contradicts itself is (a member that answers without data).

use std::collections::BTreeMap;

use quorate_core::Memory;
use quorate_core::memory::{Bootstrap, Mark, Slot};
use quorate_core::model::{
    Alarm, AlarmKind, ClusterId, FirstStart, Frozen, Generation, Listed, MemberId, MemberStatus, Observed,
    Ordinal, Place as Where, Process, QuorumView, SlotView, Spec, Time, Token, Version, Volume, quorum,
};
use quorate_core::plan::{BlockReason, Plan, plan};

use crate::etcd::Place;

mod rules;

/// What a slot's volume looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    Empty,
    Data,
    Damaged,
}

/// What its process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    Stopped,
    /// It runs and says nothing.
    Silent,
    /// It answers, without a quorum.
    Unwell,
    Well,
}

/// What the member list says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InList {
    No,
    Voter,
    Learner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub disk: Disk,
    /// What is remembered of it.
    pub mark: Mark,
    pub runs: Runs,
    pub listed: InList,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub cases: u64,
    /// What was wrong, at most a hundred.
    pub wrong: Vec<String>,
}

/// All states of a slot that do not contradict themselves.
pub fn fine() -> Vec<State> {
    let mut all = Vec::new();
    for disk in [Disk::Empty, Disk::Data, Disk::Damaged] {
        for mark in [Mark::Never, Mark::Intended, Mark::Started] {
            for runs in [Runs::Stopped, Runs::Silent, Runs::Unwell, Runs::Well] {
                for listed in [InList::No, InList::Voter, InList::Learner] {
                    let state = State {
                        disk,
                        mark,
                        runs,
                        listed,
                    };
                    if state.possible() {
                        all.push(state);
                    }
                }
            }
        }
    }
    all
}

/// The few states that matter when there are many slots.
pub fn coarse() -> Vec<State> {
    let state = |disk, mark, runs, listed| State {
        disk,
        mark,
        runs,
        listed,
    };
    vec![
        state(Disk::Empty, Mark::Never, Runs::Stopped, InList::No),
        state(Disk::Data, Mark::Started, Runs::Well, InList::Voter),
        state(Disk::Data, Mark::Started, Runs::Stopped, InList::Voter),
        state(Disk::Data, Mark::Started, Runs::Silent, InList::Voter),
        state(Disk::Empty, Mark::Started, Runs::Stopped, InList::Voter),
        state(Disk::Data, Mark::Started, Runs::Well, InList::Learner),
        state(Disk::Data, Mark::Started, Runs::Stopped, InList::No),
    ]
}

impl State {
    fn possible(self) -> bool {
        let answers = matches!(self.runs, Runs::Unwell | Runs::Well);
        let with_data = self.disk == Disk::Data || !answers;
        let remembered = self.disk == Disk::Empty || self.mark != Mark::Never;
        let damaged_stands = self.disk != Disk::Damaged || self.runs == Runs::Stopped;
        let in_list = self.runs != Runs::Well || self.listed != InList::No;
        with_data && remembered && damaged_stands && in_list
    }
}

const OLD: Version = Version::new(3, 5, 33);
const NEW: Version = Version::new(3, 6, 14);
const NOW: Time = Time(10_000_000);
const CLUSTER: ClusterId = ClusterId(0xc1);

/// A case: the slots, and what is wanted of them.
#[derive(Clone, Debug)]
pub struct Case {
    /// The slots by ordinal.
    pub slots: Vec<State>,
    /// How many are wanted.
    pub replicas: u32,
    /// Is another version wanted than runs?
    pub upgrade: bool,
    /// Is the list hidden though a quorum could give it?
    pub hidden: bool,
    pub standstill: Standstill,
}

/// What keeps a cluster from being changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standstill {
    No,
    Paused,
    /// The manifest cannot be followed.
    Frozen,
    /// Whoever answers says that members' data differ.
    Corrupt,
}

impl Standstill {
    const ALL: [Standstill; 4] = [
        Standstill::No,
        Standstill::Paused,
        Standstill::Frozen,
        Standstill::Corrupt,
    ];
}

impl Case {
    /// The id of the member at `ordinal`.
    pub fn id(ordinal: usize) -> MemberId {
        MemberId(0xa0 + ordinal as u64)
    }

    fn spec(&self) -> Spec {
        Spec {
            name: "c".into(),
            replicas: self.replicas,
            version: if self.upgrade { NEW } else { OLD },
            config: "config-0".into(),
            paused: self.standstill == Standstill::Paused,
            frozen: (self.standstill == Standstill::Frozen).then(|| Frozen {
                reason: BlockReason::Invalid,
                detail: "spec.replicas".into(),
            }),
            accept_rolled_back: None,
            storage: None,
            manifest: None,
            fallback: None,
            own_configs: BTreeMap::new(),
            own_fallbacks: BTreeMap::new(),
        }
    }

    /// The list, if a quorum of it is well.
    fn quorum(&self) -> Option<QuorumView> {
        let voters = self.slots.iter().filter(|s| s.listed == InList::Voter).count();
        let mut well = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, s)| s.listed == InList::Voter && s.runs == Runs::Well);
        let count = well.clone().count();
        if self.hidden || voters == 0 || count < quorum(voters) {
            return None;
        }
        let members = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, s)| s.listed != InList::No);
        let members = members.map(|(n, s)| Listed {
            id: Self::id(n),
            name: format!("c-{n}"),
            peer_urls: vec![Place(n as u32).url()],
            learner: s.listed == InList::Learner,
        });
        let leader = well.next_back().map(|(n, _)| Self::id(n));
        Some(QuorumView {
            cluster: CLUSTER,
            members: members.collect(),
            leader,
        })
    }

    fn slot_view(&self, n: usize) -> SlotView {
        let state = self.slots[n];
        let volume = match state.disk {
            Disk::Empty => Volume::Empty,
            Disk::Data => Volume::Data {
                member: Self::id(n),
                cluster: CLUSTER,
            },
            Disk::Damaged => Volume::Damaged {
                why: "crc mismatch".into(),
            },
        };
        let running = Process::Running {
            since: Time(NOW.0 - 60_000),
            version: OLD,
            config: "config-0".into(),
            generation: Generation(0),
        };
        let leader = self.quorum().and_then(|q| q.leader);
        let corrupt = Alarm {
            kind: AlarmKind::Corrupt,
            member: Self::id(0),
        };
        let corrupt = Some(corrupt).filter(|_| self.standstill == Standstill::Corrupt);
        let status = MemberStatus {
            member: Self::id(n),
            cluster: CLUSTER,
            leader,
            term: 3,
            applied: 100,
            version: OLD,
            db_size: 4096,
            db_in_use: 4096,
            alarms: corrupt.into_iter().collect(),
            healthy: state.runs == Runs::Well,
        };
        SlotView {
            resize: Default::default(),
            no_room_aside: None,
            peer_url: Place(n as u32).url(),
            volume,
            marks: None,
            durable: None,
            first_start: if state.mark == Mark::Intended {
                FirstStart::NotRun
            } else {
                FirstStart::Unknown
            },
            leftovers: Vec::new(),
            place: Where::Ready,
            made_for: None,
            storage: None,
            asides: 0,
            process: if state.runs == Runs::Stopped {
                Process::Stopped { last: None }
            } else {
                running
            },
            status: matches!(state.runs, Runs::Unwell | Runs::Well).then_some(status),
            deletion_pending: false,
            in_service: true,
            cannot_start: None,
            ran: None,
            replay_limit: None,
            located: None,
        }
    }

    pub fn observed(&self) -> Observed {
        let wanted = self.slots.len().max(self.replicas as usize);
        let blank = |n: usize| SlotView {
            resize: Default::default(),
            no_room_aside: None,
            peer_url: Place(n as u32).url(),
            volume: Volume::Empty,
            marks: None,
            durable: None,
            first_start: FirstStart::Unknown,
            leftovers: Vec::new(),
            place: Where::Ready,
            made_for: None,
            storage: None,
            asides: 0,
            process: Process::Stopped { last: None },
            status: None,
            deletion_pending: false,
            in_service: true,
            cannot_start: None,
            ran: None,
            replay_limit: None,
            located: None,
        };
        let view = |n: usize| {
            if n < self.slots.len() {
                self.slot_view(n)
            } else {
                blank(n)
            }
        };
        Observed {
            login_refused: None,
            unasked: false,
            at: NOW,
            fresh_token: Token("token-1".into()),
            slots: (0..wanted).map(|n| (Ordinal(n as u32), view(n))).collect(),
            quorum: self.quorum(),
            last: None,
            lost_ca: Default::default(),
        }
    }

    pub fn memory(&self) -> Memory {
        let known = self
            .slots
            .iter()
            .any(|s| s.listed != InList::No || s.mark != Mark::Never);
        let first: BTreeMap<Ordinal, _> = (0..self.slots.len())
            .map(|n| (Ordinal(n as u32), Place(n as u32).url()))
            .collect();
        let slots = self.slots.iter().enumerate().map(|(n, s)| {
            let member = (s.listed != InList::No || s.disk == Disk::Data).then(|| Self::id(n));
            let slot = Slot {
                mark: s.mark,
                member,
                version: (s.mark != Mark::Never).then_some(OLD),
                ..Slot::default()
            };
            (Ordinal(n as u32), slot)
        });
        Memory {
            bootstrap: known.then(|| Bootstrap {
                token: Token("token-0".into()),
                members: first,
            }),
            cluster: self
                .slots
                .iter()
                .any(|s| s.listed != InList::No)
                .then_some(CLUSTER),
            slots: slots.collect(),
            ..Memory::default()
        }
    }

    /// Plans for it, and says what is wrong with the plan.
    pub fn judge(&self) -> Result<(), String> {
        let (spec, observed, before) = (self.spec(), self.observed(), self.memory());
        let (first, after) = plan(&spec, &observed, &before, NOW);
        let violations = quorate_core::check(&spec, &observed, &before, &after, &first, NOW);
        if let Some(violation) = violations.first() {
            return Err(format!("check: {violation}; steps {:?}", first.steps));
        }
        rules::judge(self, &observed, &before, &first)?;
        settles(&spec, &observed, after, first)
    }
}

/// The same world, looked at with another memory: a slot that moved on to its next volume finds that one empty and
/// the old one lying there.
fn seen_with(observed: &Observed, memory: &Memory) -> Observed {
    let mut observed = observed.clone();
    for (ordinal, view) in &mut observed.slots {
        if memory.slot(*ordinal).generation > Generation(0) {
            let old = std::mem::replace(&mut view.volume, Volume::Empty);
            view.leftovers = if old == Volume::Empty {
                Vec::new()
            } else {
                vec![Generation(0)]
            };
            view.first_start = FirstStart::Unknown;
        }
    }
    observed
}

/// Planning again on the same look must come to rest: no to and fro between two plans.
fn settles(spec: &Spec, observed: &Observed, mut memory: Memory, first: Plan) -> Result<(), String> {
    let mut last = first;
    for _ in 0..6 {
        let (next, after) = plan(spec, &seen_with(observed, &memory), &memory, NOW);
        let same = next.steps == last.steps && after == memory;
        if same || (next.steps.is_empty() && after == memory) {
            return Ok(());
        }
        (last, memory) = (next, after);
    }
    Err(format!("does not come to rest; lastly {:?}", last.steps))
}

/// All clusters of `slots` slots with these states; every `stride`th case.
pub fn all(slots: usize, states: &[State], stride: u64) -> Report {
    let mut report = Report::default();
    let combinations = (states.len() as u64).pow(slots as u32);
    let variants = 5 * 2 * 2 * 4;
    for number in (0..combinations * variants).step_by(stride.max(1) as usize) {
        let (mut rest, variant) = (number / variants, number % variants);
        let mut chosen = Vec::with_capacity(slots);
        for _ in 0..slots {
            chosen.push(states[(rest % states.len() as u64) as usize]);
            rest /= states.len() as u64;
        }
        let case = Case {
            slots: chosen,
            replicas: 1 + (variant % 5) as u32,
            upgrade: variant / 5 % 2 == 1,
            hidden: variant / 10 % 2 == 1,
            standstill: Standstill::ALL[(variant / 20) as usize],
        };
        let learners = case.slots.iter().filter(|s| s.listed == InList::Learner).count();
        if learners > 1 {
            continue; // etcd allows one.
        }
        report.cases += 1;
        if let Err(wrong) = case.judge()
            && report.wrong.len() < 100
        {
            report.wrong.push(format!("{wrong}\n    {case:?}"));
        }
    }
    report
}
