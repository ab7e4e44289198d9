//! One look at a cluster: its objects as the watches have them, and what its members say.
//!
//! In: [`Objects`], the memory, the members' [`Answers`]. Out: [`Observed`]. Never: a failure because something is down;
//! that is a fact in it.

use std::collections::{BTreeMap, BTreeSet};

use quorate_client::{Address, Answers};
use quorate_core::Memory;
use quorate_core::model::{Observed, Ordinal, Outcome, Process, Spec, Time, Token, Volume};

use crate::names::{CLIENT_PORT, Names, scheme};
use crate::slot::SlotObjects;

/// All objects of one cluster that a look needs, by slot.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Every slot that has any.
    pub slots: BTreeMap<Ordinal, SlotObjects>,
}

impl Objects {
    /// Where to ask each member that runs. Certificates are for its name, not for the address of its pod.
    pub fn addresses(&self, names: &Names, tls: bool) -> BTreeMap<Ordinal, Address> {
        let url = |ip: &str| {
            let ip = if ip.contains(':') {
                format!("[{ip}]")
            } else {
                ip.to_owned()
            };
            format!("{}://{ip}:{CLIENT_PORT}", scheme(tls))
        };
        let address = |ordinal, slot: &SlotObjects| {
            Some(Address {
                url: url(slot.address()?),
                server_name: tls.then(|| names.host(ordinal)),
            })
        };
        let running = self.slots.iter();
        running.filter_map(|(o, s)| Some((*o, address(*o, s)?))).collect()
    }

    /// A slot, empty if it has nothing.
    pub fn slot(&self, ordinal: Ordinal) -> SlotObjects {
        self.slots.get(&ordinal).cloned().unwrap_or_default()
    }
}

/// What a look is made from, besides the objects and the answers.
#[derive(Debug)]
pub struct Look<'a> {
    /// What the cluster is called.
    pub names: &'a Names,
    /// What is wanted.
    pub spec: &'a Spec,
    /// What is remembered.
    pub memory: &'a Memory,
    /// Whether members speak TLS.
    pub tls: bool,
    /// When the look began.
    pub at: Time,
    /// How the last step ended.
    pub last: Option<Outcome>,
    /// The token for a bootstrap.
    pub token: Token,
}

impl Look<'_> {
    /// Puts it together.
    pub fn observed(self, objects: &Objects, mut answers: Answers) -> Observed {
        let wanted = (0..self.spec.replicas).map(Ordinal);
        let remembered = self.memory.slots.keys().copied();
        let present = objects.slots.keys().copied();
        let ordinals: BTreeSet<Ordinal> = wanted.chain(remembered).chain(present).collect();
        let slots = ordinals.into_iter().map(|ordinal| {
            let peer_url = self.names.peer_url(ordinal, self.tls);
            let slot = objects.slot(ordinal);
            let mut view = slot.view(ordinal, peer_url, self.spec, self.memory, self.at);
            view.status = answers.statuses.remove(&ordinal);
            if let (Process::Running { .. }, Some(status)) = (&view.process, &view.status) {
                // Nobody can look at the volume of a pod that runs; but who answers has data.
                view.volume = Volume::Data {
                    member: status.member,
                    cluster: status.cluster,
                };
            }
            (ordinal, view)
        });
        Observed {
            at: self.at,
            fresh_token: self.token.clone(),
            slots: slots.collect(),
            quorum: answers.quorum,
            last: self.last.clone(),
        }
    }
}
