//! Faults, done to the world; and their end.
//!
//! In: this seed's rates. Out: a world with something wrong in it, or healed. Never: what the budget forbids.

use quorate_core::model::{AlarmKind, Ordinal};

use super::{FaultKind, Theme};
use crate::etcd::Place;
use crate::executor::DiesAt;
use crate::ground::{Proc, place};
use crate::world::World;

impl World {
    /// Lets chance do its work for one tick.
    pub fn trouble(&mut self) {
        self.bury_disks();
        let rates: Vec<(FaultKind, u16)> = self.swarm.rates.iter().map(|(k, r)| (*k, *r)).collect();
        for (kind, rate) in rates {
            // A young cluster in a seed about forming meets more.
            let boost = if self.swarm.theme == Theme::Forming && self.ground.etcd.now < 40 {
                6
            } else {
                1
            };
            let (changing, rolling) = (self.changing(), self.store.memory.disturbance.is_some());
            if u32::from(self.rng.u16(..)) < u32::from(rate) * boost && self.inject(kind) {
                self.coverage.fault(kind, changing, rolling);
                self.disturbed_at = self.ground.etcd.now;
            }
        }
    }

    /// Is a membership change intended, asked for or in somebody's log?
    fn changing(&self) -> bool {
        self.store.memory.change.is_some()
            || self.executors.iter().any(|e| e.changing())
            || super::change_pending(&self.ground.etcd)
    }

    /// A slot by chance.
    pub(super) fn any_slot(&mut self) -> Option<Ordinal> {
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
            FaultKind::QuorumLoss => self.lose_quorum()?,
            FaultKind::NoSpaceAlarm | FaultKind::CorruptAlarm => {
                let ordinal = self.any_running()?;
                let alarm = if kind == FaultKind::NoSpaceAlarm {
                    AlarmKind::NoSpace
                } else {
                    AlarmKind::Corrupt
                };
                if !self.ground.etcd.raise(place(ordinal), alarm) {
                    return None;
                }
                self.alarms_until = long;
                self.log
                    .event("fault", format_args!("alarm {alarm:?} for member {ordinal}"));
            }
            FaultKind::ApplyLag => {
                let ordinal = self.any_running()?;
                self.ground.etcd.node(place(ordinal)).lags_until = long;
                self.log
                    .event("fault", format_args!("member {ordinal} applies with delay"));
            }
            FaultKind::SlowDisk | FaultKind::StalledDisk => {
                let ordinal = self.any_running()?;
                let node = self.ground.etcd.node(place(ordinal));
                if kind == FaultKind::SlowDisk {
                    node.slow_until = long
                } else {
                    node.stalled_until = node.stalled_until.max(long)
                }
                self.log.event(
                    "fault",
                    format_args!(
                        "{kind:?} at member {ordinal} until {}",
                        long * crate::TICK_MS / 1000
                    ),
                );
            }
            FaultKind::DyingDisk => self.doom_disk()?,
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
            FaultKind::RollBack => self.roll_back()?,
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
                // Long enough, now and then, for a member to be given up.
                let until = long + self.rng.u64(20..200);
                self.ground.slot(ordinal).crashes_until = until;
                if self.rng.bool() && !self.fragile() {
                    self.ground.etcd.kill(place(ordinal));
                    self.exited(ordinal, "killed");
                }
                self.log
                    .event("fault", format_args!("binary of member {ordinal} crashes"));
            }
            FaultKind::ClockAhead | FaultKind::ClockBack => {
                // Mostly minutes, as a time server corrects; now and then a battery is dead.
                let most = if self.rng.u8(..) < 40 { 20_000_000 } else { 600_000 };
                let by = self.rng.i64(1_000..most);
                let by = if kind == FaultKind::ClockBack { -by } else { by };
                self.ground.clock_off_ms += by;
                self.log.event("fault", format_args!("clock jumps by {by} ms"));
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

    /// Everything heals; only what was lost stays lost.
    pub fn heal_everything(&mut self) {
        self.ground.etcd.heal();
        for node in self.ground.etcd.nodes.values_mut() {
            node.slow_until = 0;
            node.stalled_until = 0;
            node.lags_until = 0;
        }
        self.ground.etcd.alarms.clear();
        for slot in self.ground.slots.values_mut() {
            slot.taken_until = 0;
            slot.crashes_until = 0;
            slot.blind_until = 0;
            slot.mute_until = 0;
            slot.dying = None;
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
