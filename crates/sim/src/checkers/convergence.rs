//! When everything has healed, the cluster becomes what is wanted, and quorate has nothing left to say.
//!
//! In: the world. Out: what is still missing, in words. Never: a demand on what lies aside.

use quorate_core::model::Ordinal;

use crate::etcd::Data;
use crate::ground::{Proc, place};
use crate::world::World;

impl World {
    /// What is not yet as wanted; `None` when all of it is.
    pub fn missing(&self) -> Option<String> {
        let Some(via) = self.ground.way_in() else {
            return Some("no member serves".into());
        };
        let (_, conf, _) = self.ground.etcd.list(via)?;
        let wanted = self.spec.replicas as usize;
        if conf.members.len() != wanted {
            return Some(format!("{} members instead of {wanted}", conf.members.len()));
        }
        for ordinal in (0..self.spec.replicas).map(Ordinal) {
            let at = place(ordinal);
            let Some((id, listed)) = conf.members.iter().find(|(_, m)| m.place == at) else {
                return Some(format!("member {ordinal} is not in the list"));
            };
            if listed.learner {
                return Some(format!("member {ordinal} is a learner"));
            }
            let node = self.ground.etcd.nodes.get(&at)?;
            if node.member() != Some(*id) || !self.ground.etcd.serves(at) {
                return Some(format!("member {ordinal} does not serve"));
            }
            let Some(Proc::Running { version, config, .. }) =
                self.ground.slots.get(&ordinal).map(|s| &s.process)
            else {
                return Some(format!("member {ordinal} does not run"));
            };
            if *version != self.spec.version || *config != self.spec.config_of(ordinal) {
                return Some(format!("member {ordinal} runs {version} with {config}"));
            }
        }
        self.leftovers().or_else(|| self.still_planning())
    }

    fn leftovers(&self) -> Option<String> {
        for (ordinal, slot) in &self.ground.slots {
            if ordinal.0 >= self.spec.replicas && !matches!(slot.process, Proc::Stopped { .. }) {
                return Some(format!("member {ordinal} still runs"));
            }
            let used = slot.in_use();
            let Some(node) = self.ground.etcd.nodes.get(&place(*ordinal)) else {
                continue;
            };
            let left = node
                .volumes
                .iter()
                .find(|(g, data)| Some(**g) != used && !matches!(data, Data::Empty));
            if let Some((generation, _)) = left {
                return Some(format!(
                    "data of member {ordinal} ({generation}) lies where nothing uses it"
                ));
            }
        }
        None
    }

    fn still_planning(&self) -> Option<String> {
        let Some((_, plan)) = self.executors.first().and_then(|e| e.plan.as_ref()) else {
            return Some("no plan was made".into());
        };
        let quiet = plan.steps.is_empty() && plan.waits.is_empty() && plan.blocks.is_empty();
        (!quiet).then(|| {
            format!(
                "the plan is not empty: {:?} {:?} {:?}",
                plan.steps, plan.waits, plan.blocks
            )
        })
    }
}
