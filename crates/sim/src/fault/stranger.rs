//! Somebody else who adds a member to the cluster, perhaps runs it, and in the end takes it away again.
//!
//! In: time. Out: requests to etcd that quorate knows nothing of. Never: more than one such member at a time.

use quorate_core::model::{Generation, quorum};

use super::{change_pending, newest_conf};
use crate::etcd::{As, Operation, Place};
use crate::world::World;

impl World {
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
        self.stranger_since = self.ground.etcd.now;
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
            // It was asked for, and comes yet.
            None if change_pending(&self.ground.etcd) => {}
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
}
