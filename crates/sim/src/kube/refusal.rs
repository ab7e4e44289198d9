//! Secrets that cannot be written while members are lost: they are healed, and nobody is restarted for another change.
//!
//! In: a seed, and which Secret is missing. Out: what did not come to pass. Never: another fault.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use quorate_core::model::{MemberId, Version};

use super::fault::KubeFault;
use super::world::{KubeWorld, Wants};

/// So long a lost member may take to be replaced.
const HEAL_TICKS: u64 = 600;
/// So long nobody may be restarted.
const STILL_TICKS: u64 = 300;

/// Which Secret somebody deletes before none can be written.
#[derive(Clone, Copy, Debug)]
pub enum Missing {
    /// Nobody can sign; what was last good is gone on with.
    Ca,
    /// That for applications; all others are there.
    Client,
}

/// Runs it. An error says what should have been, and has the log.
pub fn run(seed: u64, missing: Missing) -> Result<(), String> {
    let wants = Wants {
        replicas: 3,
        version: Version::new(3, 6, 14),
        reason: 0,
        settings: crate::user::Settings::Good,
        tls: true,
        paused: false,
        invalid: false,
        storage: 1,
        memory: 256,
    };
    let mut world = KubeWorld::calm(seed, wants, true);
    let came_to = world.lose_while_refused(missing);
    came_to.map_err(|why| format!("{why}\n{}", world.log.text()))
}

impl KubeWorld {
    fn lose_while_refused(&mut self, missing: Missing) -> Result<(), String> {
        self.come_right();
        self.unbroken()?;
        self.api.secrets_refused_until = u64::MAX;
        self.api.remove::<Secret>(&match missing {
            Missing::Ca => self.names.ca_secret(),
            Missing::Client => self.names.client_secret(),
        });
        let before = self.serving_voters();
        if !self.lose(KubeFault::WipeVolume) {
            return Err(format!("nobody was lost of {before:?}"));
        }
        let replaced = |now: &BTreeSet<MemberId>| now.len() == 3 && *now != before;
        self.tick_until(HEAL_TICKS, |world| replaced(&world.serving_voters()))?;

        self.wants.reason += 1;
        self.apply_wants();
        let processes = self.processes();
        for _ in 0..STILL_TICKS {
            self.tick();
            self.unbroken()?;
        }
        if self.processes() != processes {
            return Err("a member was restarted although Secrets could not be written".to_owned());
        }
        self.api.secrets_refused_until = 0;
        self.come_right();
        self.unbroken()?;
        match self.processes() == processes {
            true => Err("nobody was restarted for the change".to_owned()),
            false => Ok(()),
        }
    }

    fn unbroken(&self) -> Result<(), String> {
        match self.breaks.first() {
            Some((kind, tick, what)) => Err(format!("{kind:?} at {tick}: {what}")),
            None => Ok(()),
        }
    }

    fn tick_until(&mut self, most: u64, reached: impl Fn(&KubeWorld) -> bool) -> Result<(), String> {
        for _ in 0..most {
            self.tick();
            self.unbroken()?;
            if reached(self) {
                return Ok(());
            }
        }
        Err(format!("not within {most} ticks: {:?}", self.serving_voters()))
    }

    /// The voters that serve.
    fn serving_voters(&self) -> BTreeSet<MemberId> {
        let list = self
            .etcd
            .serving_leader()
            .and_then(|leader| self.etcd.list(leader));
        let Some((_, conf, _)) = list else {
            return BTreeSet::new();
        };
        let serves = conf.voters().filter(|(_, member)| self.etcd.serves(member.place));
        serves.map(|(id, _)| id).collect()
    }

    /// The pods in which etcd runs, and since when.
    fn processes(&self) -> BTreeMap<String, String> {
        let running = self.pods.iter().filter(|(_, pod)| pod.runs());
        running
            .map(|(uid, pod)| (uid.clone(), format!("{:?}", pod.phase)))
            .collect()
    }
}
