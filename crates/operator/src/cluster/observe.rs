//! One look at a cluster: its objects as the watches have them, and what its members say.
//!
//! In: [`Objects`], the memory, the members' [`Answers`]. Out: [`Observed`]. Never: a failure because something is down;
//! that is a fact in it.

pub mod gather;
pub mod pod_state;
pub mod slot;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ResourceRequirements;
use quorate_client::{Address, Answers, Port};
use quorate_core::Memory;
use quorate_core::model::{Observed, Ordinal, Outcome, Process, QuorumView, Spec, Time, Token, Volume};

use crate::cluster::build::etcd::settings_of;
use crate::cluster::observe::slot::SlotObjects;
use crate::cluster::resources::seen;
use crate::names::{CLIENT_PORT, Names, PEER_PORT, scheme};

/// All objects of one cluster that a look needs, by slot.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Every slot that has any.
    pub slots: BTreeMap<Ordinal, SlotObjects>,
    /// Those that run with another configuration may trust a CA that nobody has any more.
    pub lost_ca: bool,
    /// The resources that are wanted.
    pub resources: Option<ResourceRequirements>,
}

impl Objects {
    /// Where to ask each member that runs. Certificates are for its name, not for the address of its pod.
    pub fn addresses(&self, names: &Names, port: Port, tls: bool) -> BTreeMap<Ordinal, Address> {
        let port = match port {
            Port::Client => CLIENT_PORT,
            Port::Peer => PEER_PORT,
        };
        let url = |ip: &str| {
            let ip = if ip.contains(':') {
                format!("[{ip}]")
            } else {
                ip.to_owned()
            };
            format!("{}://{ip}:{port}", scheme(tls))
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
    pub names: &'a Names,
    pub spec: &'a Spec,
    pub memory: &'a Memory,
    /// Whether members speak TLS.
    pub tls: bool,
    /// When the look began.
    pub at: Time,
    /// How the last step ended.
    pub last: Option<Outcome>,
    /// The token for a bootstrap.
    pub token: Token,
    /// There was nothing to ask the members with.
    pub unasked: bool,
}

impl Look<'_> {
    /// The address of a pod that is gone may be another's by now, and an etcd of another cluster may answer there. What
    /// such a one says is about nothing of ours.
    fn drop_foreign_answers(&self, ordinals: &BTreeSet<Ordinal>, answers: &mut Answers) {
        if let Some(ours) = self.memory.cluster {
            answers.statuses.retain(|_, status| status.cluster == ours);
            answers.quorum = answers.quorum.take().filter(|q| q.cluster == ours);
            return;
        }
        // Nobody knows the cluster's id yet; but its members list each other by their names.
        let urls: BTreeSet<_> = ordinals
            .iter()
            .map(|o| self.names.peer_url(*o, self.tls))
            .collect();
        let lists_us = |q: &QuorumView| {
            q.members
                .iter()
                .flat_map(|m| &m.peer_urls)
                .any(|u| urls.contains(u))
        };
        if let Some(stranger) = answers.quorum.take_if(|q| !lists_us(q)) {
            answers.statuses.retain(|_, s| s.cluster != stranger.cluster);
        }
    }

    pub fn observed(self, objects: &Objects, mut answers: Answers) -> Observed {
        let wanted = (0..self.spec.replicas).map(Ordinal);
        let remembered = self.memory.slots.keys().copied();
        let present = objects.slots.keys().copied();
        let mut ordinals: BTreeSet<Ordinal> = wanted.chain(remembered).chain(present).collect();
        self.drop_foreign_answers(&ordinals, &mut answers);
        // A member may be listed of which nothing else is left: its objects are gone, and what remembered it is too.
        let listed = answers.quorum.iter().flat_map(|q| &q.members);
        let urls = listed.flat_map(|m| &m.peer_urls);
        ordinals.extend(urls.filter_map(|url| self.names.ordinal_at(url)));
        let mut lost_ca = BTreeSet::new();
        let slots = ordinals.into_iter().map(|ordinal| {
            let peer_url = self.names.peer_url(ordinal, self.tls);
            let slot = objects.slot(ordinal);
            let mut view = slot.view(self.names, ordinal, peer_url, self.memory, self.at);
            if let (Process::Running { config, .. }, Some(pod)) = (&mut view.process, slot.pod()) {
                let wanted = (self.spec.config.as_str(), objects.resources.as_ref());
                (*config, view.resize) = seen(config, wanted, &slot.set_resources, &pod.resources);
            }
            view.status = answers.statuses.remove(&ordinal);
            view.durable = answers.durable.remove(&ordinal);
            if let (Process::Running { .. }, Some(status)) = (&view.process, &view.status) {
                // Nobody can look at the volume of a pod that runs; but who answers has data.
                view.volume = Volume::Data {
                    member: status.member,
                    cluster: status.cluster,
                };
            }
            let wanted = settings_of(&self.spec.config);
            let another =
                matches!(&view.process, Process::Running { config, .. } if settings_of(config) != wanted);
            if objects.lost_ca && another {
                lost_ca.insert(ordinal);
            }
            (ordinal, view)
        });
        let slots = slots.collect();
        Observed {
            at: self.at,
            fresh_token: self.token.clone(),
            slots,
            quorum: answers.quorum,
            login_refused: answers.login_refused,
            unasked: self.unasked,
            last: self.last.clone(),
            lost_ca,
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::model::{ClusterId, Listed, MemberId, MemberStatus, Version};

    use super::*;

    const OURS: ClusterId = ClusterId(1);
    const OTHERS: ClusterId = ClusterId(2);

    fn status(cluster: ClusterId) -> MemberStatus {
        MemberStatus {
            member: MemberId(7),
            cluster,
            leader: None,
            term: 1,
            applied: 1,
            version: Version::new(3, 6, 1),
            db_size: 0,
            db_in_use: 0,
            alarms: Default::default(),
            healthy: true,
        }
    }

    fn list(cluster: ClusterId, of: &str) -> QuorumView {
        let member = Listed {
            id: MemberId(7),
            name: String::new(),
            peer_urls: vec![Names::of("n", of).peer_url(Ordinal(0), false)],
            learner: false,
        };
        QuorumView {
            cluster,
            members: vec![member],
            leader: None,
        }
    }

    /// Whether the status in the first slot and the list are taken for ours.
    fn taken(memory: Option<ClusterId>, status_of: ClusterId, quorum: QuorumView) -> (bool, bool) {
        let spec = Spec {
            name: "c".to_owned(),
            replicas: 1,
            version: Version::new(3, 6, 1),
            config: String::new(),
            paused: false,
            frozen: None,
            accept_rolled_back: None,
            storage: None,
            manifest: None,
            fallback: None,
            own_configs: BTreeMap::new(),
            own_fallbacks: BTreeMap::new(),
        };
        let memory = Memory {
            cluster: memory,
            ..Memory::default()
        };
        let look = Look {
            names: &Names::of("n", "c"),
            spec: &spec,
            memory: &memory,
            tls: false,
            at: Time(1),
            last: None,
            token: Token(String::new()),
            unasked: false,
        };
        let answers = Answers {
            statuses: [(Ordinal(0), status(status_of))].into(),
            quorum: Some(quorum),
            ..Answers::default()
        };
        let seen = look.observed(&Objects::default(), answers);
        (seen.slots[&Ordinal(0)].status.is_some(), seen.quorum.is_some())
    }

    #[test]
    fn what_another_cluster_says_at_an_address_of_ours_is_not_heard() {
        assert_eq!(taken(Some(OURS), OURS, list(OURS, "c")), (true, true));
        assert_eq!(taken(Some(OURS), OTHERS, list(OTHERS, "other")), (false, false));
        assert_eq!(taken(Some(OURS), OURS, list(OTHERS, "other")), (true, false));
        // Before anyone knows the cluster's id.
        assert_eq!(taken(None, OURS, list(OURS, "c")), (true, true));
        assert_eq!(taken(None, OTHERS, list(OTHERS, "other")), (false, false));
        assert_eq!(taken(None, OURS, list(OTHERS, "other")), (true, false));
    }
}
