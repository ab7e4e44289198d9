//! What goes wrong, and how often: each seed picks its own mixture (swarm), within a budget that keeps the world
//! winnable.
//!
//! In: a seed. Out: a [`Swarm`]; and, tick by tick, faults done to the world. Never: a loss that by itself destroys
//! a quorum's data, unless this seed is one that breaks the budget on purpose; then the end must be a block.

use std::collections::BTreeMap;

use quorate_core::model::{Generation, MemberId, Ordinal, Version, quorum};

use crate::etcd::{As, Conf, Data, EtcdModel, Kind, Operation, Place};
use crate::executor::DiesAt;
use crate::ground::{FOREIGN, FirstRecord, Ground, Proc, foreign_data, place};
use crate::world::World;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind { $($(#[$doc])* $name,)* }
        impl FaultKind {
            /// All of them.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$name),*];
        }
    };
}

kinds! {
    /// A member's process dies.
    KillMember,
    /// quorate dies, somewhere in its pass.
    KillExecutor,
    /// One place is cut off.
    CutOne,
    /// The network splits in two.
    Split,
    /// A disk acknowledges late.
    SlowDisk,
    /// A disk does not answer at all for a while.
    StalledDisk,
    /// A volume's content is gone.
    WipeVolume,
    /// A volume's content is unreadable.
    DamageVolume,
    /// A step is never done.
    LostStep,
    /// A step is done twice, the second time late.
    DuplicateStep,
    /// A look takes so long that it is old when it is used.
    StaleView,
    /// A second quorate, which read the memory earlier.
    SecondExecutor,
    /// Somebody puts other data where a volume was.
    ForeignData,
    /// Somebody adds a member.
    UnknownMember,
    /// A member's port is taken.
    PortTaken,
    /// The binary crashes at once.
    CrashLoop,
    /// The clock jumps ahead.
    ClockJump,
    /// The answer to a membership change is lost; the change may still happen.
    LostAnswer,
    /// A member runs but gives no status.
    Mute,
    /// A volume cannot be looked at.
    Blind,
    /// A plan is spoilt on purpose: the second opinion must refuse it.
    BadPlan,
}

/// What kind of trouble a seed prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// A bit of everything.
    Mixed,
    /// Version and config changes among crashes and old views.
    Rolling,
    /// Lost disks while others lag.
    Disks,
    /// Sizes up and down, with disks that stall.
    Sizes,
    /// The budget does not hold.
    Hopeless,
    /// Trouble from the first moment.
    Forming,
    /// Nothing goes wrong but the user.
    Calm,
}

/// One seed's mixture.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// Chance per tick, in 1/65536, of each fault that is on.
    pub rates: BTreeMap<FaultKind, u16>,
    /// Chance per tick of an edit by the user, in 1/65536.
    pub edits: u16,
    /// Ticks of trouble.
    pub ticks: u64,
    /// What it prefers.
    pub theme: Theme,
    /// A slot whose disks break again and again.
    pub cursed: Option<Ordinal>,
    /// quorate is cut off for so many of the first ticks.
    pub blind_start: u64,
}

impl Swarm {
    /// The mixture of a seed.
    pub fn of(rng: &mut fastrand::Rng) -> Self {
        let themes = [
            Theme::Mixed,
            Theme::Mixed,
            Theme::Rolling,
            Theme::Rolling,
            Theme::Disks,
            Theme::Disks,
            Theme::Sizes,
            Theme::Hopeless,
            Theme::Forming,
            Theme::Calm,
        ];
        let theme = themes[rng.usize(..themes.len())];
        let favoured: &[FaultKind] = match theme {
            Theme::Mixed | Theme::Calm => &[],
            Theme::Rolling => &[
                FaultKind::KillMember,
                FaultKind::StaleView,
                FaultKind::StalledDisk,
                FaultKind::CutOne,
            ],
            Theme::Disks => &[
                FaultKind::WipeVolume,
                FaultKind::SlowDisk,
                FaultKind::StalledDisk,
                FaultKind::CutOne,
                FaultKind::KillMember,
            ],
            Theme::Sizes => &[FaultKind::StalledDisk, FaultKind::SlowDisk, FaultKind::Mute],
            Theme::Hopeless => &[FaultKind::WipeVolume, FaultKind::DamageVolume],
            Theme::Forming => &[
                FaultKind::WipeVolume,
                FaultKind::SlowDisk,
                FaultKind::KillMember,
                FaultKind::KillExecutor,
                FaultKind::CutOne,
            ],
        };
        let mut rates = BTreeMap::new();
        for kind in FaultKind::ALL {
            let (on, rate) = (rng.u8(..) < 90, rng.u16(60..600));
            let favourite = favoured.contains(kind);
            if favourite || (on && theme != Theme::Calm) {
                rates.insert(*kind, if favourite { rate.saturating_mul(2) } else { rate });
            }
        }
        let edits = match theme {
            Theme::Rolling | Theme::Sizes | Theme::Calm => rng.u16(600..1800),
            _ => rng.u16(100..900),
        };
        let ticks = if theme == Theme::Forming {
            rng.u64(60..200)
        } else {
            rng.u64(150..500)
        };
        let cursed = (theme == Theme::Disks && rng.u8(..) < 80).then(|| Ordinal(rng.u32(..3)));
        let blind_start = if theme == Theme::Forming && rng.bool() {
            rng.u64(10..80)
        } else {
            0
        };
        Self {
            rates,
            edits,
            ticks,
            theme,
            cursed,
            blind_start,
        }
    }
}

impl World {
    /// Lets chance do its work for one tick.
    pub fn trouble(&mut self) {
        let rates: Vec<(FaultKind, u16)> = self.swarm.rates.iter().map(|(k, r)| (*k, *r)).collect();
        for (kind, rate) in rates {
            // A young cluster in a seed about forming meets more.
            let cursed = self.swarm.cursed.is_some() && kind == FaultKind::DamageVolume;
            let boost = if cursed {
                8
            } else if self.swarm.theme == Theme::Forming && self.ground.etcd.now < 40 {
                6
            } else {
                1
            };
            if u32::from(self.rng.u16(..)) < u32::from(rate) * boost && self.inject(kind) {
                self.coverage.fault(kind);
                self.disturbed_at = self.ground.etcd.now;
            }
        }
    }

    /// A slot by chance.
    fn any_slot(&mut self) -> Option<Ordinal> {
        let all: Vec<Ordinal> = self.ground.slots.keys().copied().collect();
        (!all.is_empty()).then(|| all[self.rng.usize(..all.len())])
    }

    fn any_running(&mut self) -> Option<Ordinal> {
        let running = |o: &&Ordinal| matches!(self.ground.slots[o].process, Proc::Running { .. });
        let all: Vec<Ordinal> = self.ground.slots.keys().filter(running).copied().collect();
        (!all.is_empty()).then(|| all[self.rng.usize(..all.len())])
    }

    /// Does one fault; false if there was nothing to do it to.
    fn inject(&mut self, kind: FaultKind) -> bool {
        self.inject_on(kind).is_some()
    }

    fn inject_on(&mut self, kind: FaultKind) -> Option<()> {
        let now = self.ground.etcd.now;
        let long = now + self.rng.u64(6..80);
        match kind {
            FaultKind::KillMember => {
                let ordinal = self.any_running().filter(|_| !self.fragile())?;
                self.log.event("fault", format_args!("kill member {ordinal}"));
                self.ground.etcd.kill(place(ordinal));
                self.exited(ordinal, "killed");
            }
            FaultKind::KillExecutor => {
                let dies = [
                    DiesAt::BeforeStore,
                    DiesAt::AfterStore,
                    DiesAt::BetweenSteps,
                    DiesAt::AfterEffect,
                    DiesAt::Fired,
                ];
                let dies = dies[self.rng.usize(..dies.len())];
                self.executors.first_mut()?.dies = Some(dies);
                self.log
                    .event("fault", format_args!("quorate will die: {dies:?}"));
            }
            FaultKind::CutOne => {
                let at = if self.rng.u8(..) < 40 {
                    Place::SITE
                } else {
                    place(self.any_slot()?)
                };
                self.ground.etcd.cut(at, 1);
                self.partition_until = long;
                self.log.event("fault", format_args!("cut off {}", name(at)));
            }
            FaultKind::Split => {
                let all: Vec<Place> = self
                    .ground
                    .etcd
                    .nodes
                    .keys()
                    .copied()
                    .chain([Place::SITE])
                    .collect();
                let far: Vec<Place> = all.into_iter().filter(|_| self.rng.bool()).collect();
                far.iter().for_each(|p| self.ground.etcd.cut(*p, 1));
                self.partition_until = long;
                let names: Vec<String> = far.iter().map(|p| name(*p)).collect();
                self.log
                    .event("fault", format_args!("split off {}", names.join(" ")));
            }
            FaultKind::SlowDisk | FaultKind::StalledDisk => {
                let ordinal = self.any_running()?;
                let node = self.ground.etcd.node(place(ordinal));
                if kind == FaultKind::SlowDisk {
                    node.slow_until = long
                } else {
                    node.stalled_until = long
                }
                self.log.event(
                    "fault",
                    format_args!(
                        "{kind:?} at member {ordinal} until {}",
                        long * crate::TICK_MS / 1000
                    ),
                );
            }
            FaultKind::WipeVolume | FaultKind::DamageVolume => self.lose_disk(kind)?,
            FaultKind::LostStep => self.executors.first_mut()?.loses_steps += 1,
            FaultKind::DuplicateStep => self.executors.first_mut()?.doubles_steps += 1,
            FaultKind::LostAnswer => self.executors.first_mut()?.loses_answers += 1,
            FaultKind::BadPlan => self.executors.first_mut()?.bad_plans += 1,
            FaultKind::StaleView => self.executors.first_mut()?.slow_look(self.rng.u64(2..70)),
            FaultKind::SecondExecutor => {
                if self.executors.len() > 1 {
                    return None;
                }
                let (start, until) = (now + self.rng.u64(1..20), now + self.rng.u64(20..60));
                let second = self.store.load(2, start, Some(until));
                self.executors.push(second);
                self.log
                    .event("fault", format_args!("a second quorate read the memory"));
            }
            FaultKind::ForeignData => self.swap_in_foreign()?,
            FaultKind::UnknownMember => {
                if self.stranger.is_some() || self.stranger_due.is_some() {
                    return None;
                }
                self.stranger_due = Some(long);
            }
            FaultKind::PortTaken => {
                let ordinal = self.any_slot()?;
                self.ground.slot(ordinal).taken_until = long;
                self.log
                    .event("fault", format_args!("port of member {ordinal} taken"));
            }
            FaultKind::CrashLoop => {
                let ordinal = self.any_slot()?;
                self.ground.slot(ordinal).crashes_until = long + 40;
                if self.rng.bool() && !self.fragile() {
                    self.ground.etcd.kill(place(ordinal));
                    self.exited(ordinal, "killed");
                }
                self.log
                    .event("fault", format_args!("binary of member {ordinal} crashes"));
            }
            FaultKind::ClockJump => {
                let ahead = self.rng.u64(1_000..600_000);
                self.ground.clock_ahead_ms += ahead;
                self.log
                    .event("fault", format_args!("clock jumps {ahead} ms ahead"));
            }
            FaultKind::Mute => {
                let ordinal = self.any_slot()?;
                self.ground.slot(ordinal).mute_until = long;
                self.log
                    .event("fault", format_args!("member {ordinal} gives no status"));
            }
            FaultKind::Blind => {
                let ordinal = self.any_slot()?;
                self.ground.slot(ordinal).blind_until = long;
                self.log.event(
                    "fault",
                    format_args!("volume of member {ordinal} cannot be looked at"),
                );
            }
        }
        Some(())
    }

    /// A disk is lost, if the budget allows it, or if this seed breaks it.
    fn lose_disk(&mut self, kind: FaultKind) -> Option<()> {
        let ordinal = self
            .swarm
            .cursed
            .filter(|_| kind == FaultKind::DamageVolume)
            .or(self.any_slot())?;
        let generation = self.store.memory.slot(ordinal).generation;
        let at = place(ordinal);
        let had = self
            .ground
            .etcd
            .nodes
            .get(&at)?
            .volumes
            .get(&generation)?
            .wal()
            .is_some();
        if !had || self.ground.slots[&ordinal].swapped.is_some() {
            return None;
        }
        if !self.may_lose(ordinal) {
            if self.swarm.theme != Theme::Hopeless {
                return None;
            }
            self.budget_broken = true;
        }
        if kind == FaultKind::WipeVolume {
            self.ground.etcd.wipe(at, generation);
        } else {
            self.ground.etcd.damage(at, generation);
        }
        self.exited(ordinal, "its disk is gone");
        let broken = if self.budget_broken {
            " (budget broken)"
        } else {
            ""
        };
        self.log.event(
            "fault",
            format_args!("{kind:?} member {ordinal} ({generation}){broken}"),
        );
        Some(())
    }

    /// Would the others' disks still be a quorum, with no change under way that could make them fewer?
    pub fn may_lose(&self, ordinal: Ordinal) -> bool {
        let in_flight = self.executors.iter().any(|e| e.changing()) || change_pending(&self.ground.etcd);
        if in_flight {
            return false;
        }
        let Some(conf) = newest_conf(&self.ground.etcd) else {
            return self.may_lose_while_forming(ordinal);
        };
        let forming = self.store.memory.cluster.is_none();
        let others = conf.voters().filter(|(_, m)| m.place != place(ordinal));
        let sound =
            others.filter(|(id, m)| self.sound(*id, m.place) || (forming && self.will_begin(m.place)));
        sound.count() >= quorum(conf.voters().count())
    }

    /// Does the member with this id have its data?
    fn sound(&self, id: MemberId, at: Place) -> bool {
        self.data_of(at)
            .is_some_and(|data| data.wal().is_some_and(|w| w.member == id))
    }

    fn may_lose_while_forming(&self, ordinal: Ordinal) -> bool {
        let Some(first) = &self.store.memory.bootstrap else {
            return true;
        };
        let others = first.members.keys().filter(|o| **o != ordinal);
        let sound = others.filter(|o| {
            let at = place(**o);
            self.data_of(at)
                .is_some_and(|d| d.wal().is_some_and(|w| w.cluster != FOREIGN))
                || self.will_begin(at)
        });
        sound.count() >= quorum(first.members.len())
    }

    /// The volume the memory names for the slot at `at`.
    pub fn data_of(&self, at: Place) -> Option<&Data> {
        let generation = self.store.memory.slot(Ordinal(at.0)).generation;
        self.ground.etcd.nodes.get(&at)?.volumes.get(&generation)
    }

    fn will_begin(&self, at: Place) -> bool {
        let ordinal = Ordinal(at.0);
        let first = self
            .store
            .memory
            .bootstrap
            .as_ref()
            .is_some_and(|b| b.members.contains_key(&ordinal));
        let generation = self.store.memory.slot(ordinal).generation;
        let record = self
            .ground
            .slots
            .get(&ordinal)
            .and_then(|s| s.first.get(&generation));
        first && generation == Generation(0) && !matches!(record, Some(FirstRecord::Fired(_)))
    }

    fn swap_in_foreign(&mut self) -> Option<()> {
        let ordinal = self.any_slot()?;
        let generation = self.store.memory.slot(ordinal).generation;
        let starting = self.fragile() || self.executors.iter().any(|e| e.starting(ordinal));
        if starting || self.ground.slots[&ordinal].swapped.is_some() || !self.may_lose(ordinal) {
            return None;
        }
        let at = place(ordinal);
        self.ground.etcd.kill(at);
        self.exited(ordinal, "killed");
        let version = Version::new(3, 5, 30);
        let own = self
            .ground
            .etcd
            .node(at)
            .volumes
            .insert(generation, foreign_data(at, version))
            .unwrap_or_default();
        self.ground.slot(ordinal).swapped = Some((generation, own));
        self.log.event(
            "fault",
            format_args!("somebody puts other data at member {ordinal} ({generation})"),
        );
        Some(())
    }

    /// Whoever swapped the data puts the own data back.
    pub fn swap_back(&mut self) {
        for ordinal in self.ground.slots.keys().copied().collect::<Vec<_>>() {
            let Some((generation, own)) = self.ground.slot(ordinal).swapped.take() else {
                continue;
            };
            let foreign = self
                .ground
                .etcd
                .nodes
                .get(&place(ordinal))
                .and_then(|n| n.volumes.get(&generation));
            if foreign.and_then(Data::wal).is_none_or(|w| w.cluster != FOREIGN) {
                continue; // It is no longer what was put there.
            }
            self.ground.etcd.kill(place(ordinal));
            self.exited(ordinal, "killed");
            self.ground
                .etcd
                .node(place(ordinal))
                .volumes
                .insert(generation, own);
            self.log
                .event("someone", format_args!("puts the data of member {ordinal} back"));
        }
    }

    /// Somebody else adds a member: when they get to it, or in the worst moment.
    pub fn await_stranger(&mut self) {
        let Some(due) = self.stranger_due else { return };
        if due <= self.ground.etcd.now || self.executors.iter().any(|e| e.about_to_ask()) {
            self.stranger_due = None;
            self.add_stranger();
        }
    }

    fn add_stranger(&mut self) -> Option<()> {
        let via = self.ground.etcd.serving_leader()?;
        let conf = newest_conf(&self.ground.etcd)?;
        let sound = conf.voters().filter(|(id, m)| self.sound(*id, m.place)).count();
        let affordable =
            sound >= quorum(conf.voters().count() + 1) && !self.executors.iter().any(|e| e.changing());
        let voter = self.rng.bool() && affordable;
        let at = Place(100);
        let operation = if voter {
            Operation::AddVoter(at)
        } else {
            Operation::AddLearner(at)
        };
        let asked = self.ground.etcd.ask(via, operation).ok()?;
        self.stranger = asked.member;
        self.stranger_starts_at = self.rng.bool().then_some(self.ground.etcd.now + 4);
        self.log.event(
            "someone",
            format_args!("adds a member {:?} (voter: {voter})", asked.member),
        );
        Some(())
    }

    /// The stranger's process, if somebody runs it.
    pub fn run_stranger(&mut self) {
        if self.stranger_starts_at.is_none_or(|at| at > self.ground.etcd.now) {
            return;
        }
        self.stranger_starts_at = None;
        let Some(conf) = newest_conf(&self.ground.etcd) else {
            return;
        };
        let initial: Vec<Place> = conf.members.values().map(|m| m.place).collect();
        let generation = Generation(self.ground.etcd.now as u32);
        let leader = self
            .ground
            .etcd
            .serving_leader()
            .and_then(|l| self.ground.etcd.nodes[&l].running.as_ref());
        let Some(version) = leader.map(|r| r.version) else {
            return;
        };
        let _ = self
            .ground
            .etcd
            .start(Place(100), generation, &As::Join { initial }, version);
    }

    /// Whoever added a member takes it away.
    pub fn withdraw_stranger(&mut self) {
        if self.stranger.is_none() || !self.ground.etcd.now.is_multiple_of(6) {
            return;
        }
        let version = self
            .ground
            .etcd
            .nodes
            .values()
            .find_map(|n| n.running.as_ref())
            .map(|r| r.version);
        let node = self.ground.etcd.node(Place(100));
        let data = node
            .volumes
            .iter()
            .rev()
            .find(|(_, d)| d.wal().is_some())
            .map(|(g, _)| *g);
        if let (true, Some(generation), Some(version)) = (node.running.is_none(), data, version) {
            let _ = self
                .ground
                .etcd
                .start(Place(100), generation, &As::Resume, version);
        }
        let Some(via) = self.ground.etcd.serving_leader() else {
            return;
        };
        let Some((_, conf, _)) = self.ground.etcd.list(via) else {
            return;
        };
        let strange = conf
            .members
            .iter()
            .find(|(_, m)| m.place == Place(100))
            .map(|(id, _)| *id);
        match strange {
            None => {
                self.ground.etcd.kill(Place(100));
                self.stranger = None;
            }
            Some(id) => {
                let result = self.ground.etcd.ask(via, Operation::Remove(id)).map(|_| ());
                self.log
                    .event("someone", format_args!("removes {id}: {result:?}"));
            }
        }
    }

    /// Everything heals; only what was lost stays lost.
    pub fn heal_everything(&mut self) {
        self.ground.etcd.heal();
        for node in self.ground.etcd.nodes.values_mut() {
            node.slow_until = 0;
            node.stalled_until = 0;
        }
        for slot in self.ground.slots.values_mut() {
            slot.taken_until = 0;
            slot.crashes_until = 0;
            slot.blind_until = 0;
            slot.mute_until = 0;
        }
        self.swap_back();
        self.stranger_due = None;
        self.executors.truncate(1);
        self.executors.iter_mut().for_each(|e| e.calm());
    }
}

fn name(at: Place) -> String {
    if at == Place::SITE {
        "quorate".into()
    } else {
        format!("member {}", at.0)
    }
}

/// Is a change of the list in some log, and not yet applied there?
fn change_pending(etcd: &EtcdModel) -> bool {
    etcd.nodes.values().any(|n| {
        let (Some(running), Some(wal)) = (n.running.as_ref(), n.wal()) else {
            return false;
        };
        wal.log[running.applied..]
            .iter()
            .any(|e| matches!(e.kind, Kind::Conf { .. }))
    })
}

/// The list that the furthest log knows, running or not.
pub fn newest_conf(etcd: &EtcdModel) -> Option<Conf> {
    if let Some(leader) = etcd.serving_leader() {
        return etcd.nodes[&leader].running.as_ref().map(|r| r.conf.clone());
    }
    let logs = etcd
        .nodes
        .values()
        .flat_map(|n| n.volumes.values())
        .filter_map(Data::wal);
    let ours = logs.filter(|w| w.cluster != FOREIGN);
    let newest = ours.max_by_key(|w| w.commit)?;
    let mut conf = Conf::default();
    for entry in &newest.log[..newest.commit] {
        let _ = conf.apply(entry.kind);
    }
    Some(conf)
}

impl Ground {
    /// Ends what has had its time.
    pub fn pass_time(&mut self) {
        let now = self.etcd.now;
        for (ordinal, slot) in &mut self.slots {
            if let Proc::Stopping { until, .. } = slot.process
                && until <= now
            {
                self.etcd.stop(place(*ordinal));
                let at = quorate_core::model::Time(1_000_000 + now * crate::TICK_MS + self.clock_ahead_ms);
                let exit = quorate_core::model::Exit {
                    at,
                    asked: true,
                    how: "exit 0".into(),
                };
                slot.process = Proc::Stopped { last: Some(exit) };
            }
        }
    }
}
