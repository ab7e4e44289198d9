//! Disks that are lost, damaged or swapped, within a budget: what is left must be able to win.
//!
//! In: a fault that takes a volume. Out: whether it may, and what is left. Never: a quorum's disks at once, unless
//! the seed is one that breaks the budget on purpose.

use std::collections::BTreeSet;

use quorate_core::Memory;
use quorate_core::model::{ClusterId, Generation, MemberId, Ordinal, Version, Volume, quorum};

use super::{FaultKind, Theme};
use crate::checkers::GRACE_TICKS;
use crate::etcd::{Conf, Data, EtcdModel, Kind, Place};
use crate::ground::{Dying, FOREIGN, FirstRecord, Snapshot, foreign_data, place};
use crate::world::World;

impl World {
    /// A disk is lost, if the budget allows it, or if this seed breaks it.
    pub(super) fn lose_disk(&mut self, kind: FaultKind) -> Option<()> {
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
        self.lost_its_disk(ordinal, generation);
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

    /// The disks of so many voters are gone at once that the rest is no quorum. Only a seed that breaks the budget does it.
    pub(super) fn lose_quorum(&mut self) -> Option<()> {
        if self.swarm.theme != Theme::Hopeless || self.quorum_lost_at.is_some() {
            return None;
        }
        let conf = newest_conf(&self.ground.etcd).filter(|_| self.store.memory.cluster.is_some())?;
        let voters: Vec<Place> = conf.voters().map(|(_, m)| m.place).collect();
        let ours = |at: &&Place| self.ground.slots.contains_key(&Ordinal(at.0));
        let most = voters.len() + 1 - quorum(voters.len());
        let lost: Vec<Place> = voters.iter().filter(ours).rev().take(most).copied().collect();
        let busy = self.ground.slots.values().any(|s| s.swapped.is_some());
        if lost.len() < most || busy || self.stranger.is_some() || !self.knows_voters(&conf) {
            return None;
        }
        for at in &lost {
            let ordinal = Ordinal(at.0);
            let generation = self.store.memory.slot(ordinal).generation;
            self.ground.etcd.wipe(*at, generation);
            self.lost_its_disk(ordinal, generation);
        }
        self.budget_broken = true;
        self.quorum_lost_at = Some(self.ground.etcd.now);
        self.log.event(
            "fault",
            format_args!("QuorumLoss: the disks of {lost:?} are gone"),
        );
        Some(())
    }

    /// Does the memory name just these voters? After a change that it has not seen, nobody can tell what a quorum is.
    fn knows_voters(&self, conf: &Conf) -> bool {
        let memory = &self.store.memory;
        let known = memory.slots.values().filter(|s| s.voter).filter_map(|s| s.member);
        let listed: BTreeSet<MemberId> = conf.voters().map(|(id, _)| id).collect();
        memory.change.is_none() && known.collect::<BTreeSet<_>>() == listed
    }

    /// Takes a snapshot of a volume, or puts it back to the one that was taken before, if that is one that can be known of.
    pub(super) fn roll_back(&mut self) -> Option<()> {
        let ordinal = self.any_slot()?;
        let generation = self.store.memory.slot(ordinal).generation;
        let at = place(ordinal);
        let data = self.ground.etcd.nodes.get(&at)?.volumes.get(&generation)?.clone();
        let slot = self.ground.slot(ordinal);
        if data.wal().is_none() || slot.swapped.is_some() || slot.dying.is_some() {
            return None;
        }
        let now = Snapshot {
            generation,
            data,
            run: slot.runs.get(&generation).copied(),
        };
        let earlier = slot.snapshot.clone().filter(|s| {
            let whose = |s: &Snapshot| s.data.wal().map(|w| w.member);
            s.generation == generation && whose(s) == whose(&now)
        });
        let known =
            |memory: &Memory, marks| matches!(memory.fault(ordinal, marks), Some(Volume::RolledBack { .. }));
        let known_to_all = |s: &Snapshot| {
            known(&self.store.memory, s.marks()) && self.executors.iter().all(|e| known(&e.memory, s.marks()))
        };
        let Some(earlier) = earlier.filter(known_to_all) else {
            self.ground.slot(ordinal).snapshot = Some(now);
            return None;
        };
        if !self.may_lose(ordinal) || self.executors.iter().any(|e| e.starting(ordinal)) {
            return None;
        }
        let mut volumes = self.ground.etcd.node(at).volumes.clone();
        volumes.insert(generation, earlier.data);
        self.ground.etcd.exchange(at, volumes);
        self.exited(ordinal, "killed");
        let slot = self.ground.slot(ordinal);
        match earlier.run {
            Some(run) => slot.runs.insert(generation, run),
            None => slot.runs.remove(&generation),
        };
        slot.rolled_back.insert(generation);
        self.log.event(
            "fault",
            format_args!("the volume of member {ordinal} ({generation}) is rolled back"),
        );
        Some(())
    }

    /// A disk stops answering; it will be lost, whatever is done about its cluster in the meantime.
    pub(super) fn doom_disk(&mut self) -> Option<()> {
        let ordinal = self.any_slot()?;
        let generation = self.store.memory.slot(ordinal).generation;
        let voters = newest_conf(&self.ground.etcd)?.voters().count();
        let busy = self
            .ground
            .slots
            .values()
            .any(|s| s.dying.is_some() || s.swapped.is_some());
        let runs = self.ground.slots[&ordinal].in_use() == Some(generation);
        // While it forms, some count that have no data yet; when the disk is gone they may not count any more.
        let forming = self.store.memory.cluster.is_none();
        if busy || !runs || forming || voters < 3 || !self.may_lose(ordinal) {
            return None;
        }
        let now = self.ground.etcd.now;
        let at = now + self.rng.u64(60..160);
        // It does not answer once more before it is gone.
        self.ground.etcd.node(place(ordinal)).stalled_until = at + 1;
        self.ground.slot(ordinal).dying = Some(Dying {
            generation,
            known_at: now + GRACE_TICKS,
            at,
        });
        self.log.event(
            "fault",
            format_args!("DyingDisk at member {ordinal} ({generation})"),
        );
        Some(())
    }

    /// Disks whose time has come. One is spared if its cluster was changed before anybody could know.
    pub(super) fn bury_disks(&mut self) {
        let now = self.ground.etcd.now;
        let voters = newest_conf(&self.ground.etcd).map_or(0, |c| c.voters().count());
        let dying = self.ground.slots.iter_mut().find(|(_, s)| s.dying.is_some());
        let Some((ordinal, slot)) = dying else { return };
        let (ordinal, Some(dying)) = (*ordinal, slot.dying.as_mut()) else {
            return;
        };
        if now == dying.known_at && voters < 3 {
            slot.dying = None;
        } else if now >= dying.at {
            let generation = dying.generation;
            slot.dying = None;
            self.ground.etcd.wipe(place(ordinal), generation);
            self.lost_its_disk(ordinal, generation);
            self.log.event(
                "fault",
                format_args!("the dying disk of member {ordinal} ({generation}) is gone"),
            );
        }
    }

    /// A process on the volume of another generation does not notice.
    fn lost_its_disk(&mut self, ordinal: Ordinal, generation: Generation) {
        let slot = self.ground.slots.get(&ordinal);
        if slot.and_then(|s| s.in_use()) == Some(generation) {
            self.exited(ordinal, "its disk is gone");
        }
    }

    /// Would the others' disks still be a quorum, with no change under way that could make them fewer?
    pub fn may_lose(&self, ordinal: Ordinal) -> bool {
        let in_flight = self.executors.iter().any(|e| e.changing()) || change_pending(&self.ground.etcd);
        let Some(conf) = newest_conf(&self.ground.etcd) else {
            return !in_flight && self.may_lose_while_forming(ordinal);
        };
        let forming = self.store.memory.cluster.is_none();
        let others = conf.voters().filter(|(_, m)| m.place != place(ordinal));
        let sound =
            others.filter(|(id, m)| self.sound(*id, m.place) || (forming && self.will_begin(m.place)));
        let (sound, voters) = (sound.count(), conf.voters().count());
        // A change under way may take a sound one out, or bring one in that has nothing yet.
        let after = sound > quorum(voters.saturating_sub(1)) && sound >= quorum(voters + 1);
        sound >= quorum(voters) && (!in_flight || after)
    }

    /// Does the member with this id have its data?
    pub(super) fn sound(&self, id: MemberId, at: Place) -> bool {
        let doomed = self
            .ground
            .slots
            .get(&Ordinal(at.0))
            .is_some_and(|s| s.dying.is_some());
        let has = |data: &Data| data.wal().is_some_and(|w| w.member == id);
        !doomed && !self.is_rolled_back(at) && self.data_of(at).is_some_and(has)
    }

    /// Was the present volume at `at` put back to an earlier state?
    fn is_rolled_back(&self, at: Place) -> bool {
        let generation = self.store.memory.slot(Ordinal(at.0)).generation;
        let slot = self.ground.slots.get(&Ordinal(at.0));
        slot.is_some_and(|s| s.rolled_back.contains(&generation))
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

    pub(super) fn swap_in_foreign(&mut self) -> Option<()> {
        let ordinal = self.any_slot()?;
        let generation = self.store.memory.slot(ordinal).generation;
        // While it forms, and only one volume has data, nobody could tell whose that is.
        let forming = self.store.memory.bootstrap.is_some() && self.store.memory.cluster.is_none();
        let starting = forming || self.fragile() || self.executors.iter().any(|e| e.starting(ordinal));
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
}

/// Is a change of the list in the log of some member, and not yet applied there? Also of one that does not run: it may be
/// committed as soon as that one does again.
pub fn change_pending(etcd: &EtcdModel) -> bool {
    let conf = newest_conf(etcd);
    let is_member = |id: &MemberId| conf.as_ref().is_none_or(|conf| conf.members.contains_key(id));
    etcd.nodes.values().any(|node| {
        let applied = |generation: &Generation| {
            let running = node.running.as_ref().filter(|r| r.generation == *generation);
            running.map(|r| r.applied)
        };
        node.volumes.iter().any(|(generation, data)| {
            let Some(wal) = data.wal().filter(|wal| is_member(&wal.member)) else {
                return false;
            };
            let from = applied(generation).unwrap_or(wal.commit);
            let mut open = wal.log.iter().skip(from);
            open.any(|e| matches!(e.kind, Kind::Conf { .. }))
        })
    })
}

/// The list that the furthest log knows, running or not.
pub fn newest_conf(etcd: &EtcdModel) -> Option<Conf> {
    if let Some(leader) = etcd.serving_leader() {
        return etcd.nodes[&leader].running.as_ref().map(|r| r.conf.clone());
    }
    committed_conf(etcd, |cluster| cluster != FOREIGN)
}

/// The members that a quorum has agreed on, whoever has applied that yet.
pub fn committed_conf(etcd: &EtcdModel, ours: impl Fn(ClusterId) -> bool) -> Option<Conf> {
    let volumes = etcd.nodes.values().flat_map(|n| n.volumes.values());
    let logs = volumes.filter_map(Data::wal).filter(|w| ours(w.cluster));
    let newest = logs.max_by_key(|w| w.commit)?;
    let mut conf = Conf::default();
    for entry in &newest.log[..newest.commit] {
        let _ = conf.apply(entry.kind);
    }
    Some(conf)
}
