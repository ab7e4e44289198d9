//! What the members answer an operator: by the model of etcd, through whoever can be reached.
//!
//! In: the world. Out: statuses, and the member list of a quorum. Never: a list from a learner.

use std::collections::BTreeMap;

use quorate_client::{Address, Answers};
use quorate_core::model::{Listed, MemberId, MemberStatus, Observed, Ordinal, QuorumView};

use crate::etcd::Place;
use crate::kube::kubelet::Running;
use crate::kube::world::KubeWorld;

impl KubeWorld {
    /// What members say whose pods the operator knows to run.
    pub(in crate::kube) fn answers(&self, addresses: &BTreeMap<Ordinal, Address>) -> Answers {
        let mut answers = Answers::default();
        for (ordinal, address) in addresses {
            if self
                .pod_at(address)
                .is_some_and(|p| p.runs() && p.dead_until.is_none())
            {
                answers
                    .statuses
                    .extend(self.member_status(*ordinal).map(|s| (*ordinal, s)));
            }
        }
        let votes = |ordinal: &Ordinal| self.list(Place(ordinal.0)).is_some();
        let durable = answers.statuses.iter().filter(|(o, s)| s.healthy && votes(o));
        answers.durable = durable.map(|(o, s)| (*o, (s.member, s.applied))).collect();
        answers.quorum = answers.statuses.keys().find_map(|o| self.list(Place(o.0)));
        answers
    }

    /// The pod at an address.
    pub(in crate::kube) fn pod_at(&self, address: &Address) -> Option<&Running> {
        let (host, _) = address.url.rsplit_once(':')?;
        let (_, uid) = host.split_once("://ip-")?;
        self.pods.get(uid)
    }

    pub(in crate::kube) fn list(&self, via: Place) -> Option<QuorumView> {
        let (cluster, conf, leader) = self.etcd.list(via)?;
        if !conf.votes(self.etcd.nodes.get(&via)?.member()?) {
            return None;
        }
        let members: Vec<Listed> = conf.listed(&self.names.cluster);
        let renamed = members.into_iter().map(|m| {
            let places = m.peer_urls.iter().filter_map(Place::of);
            let peer_urls = places
                .map(|p| self.names.peer_url(Ordinal(p.0), self.wants.tls))
                .collect();
            Listed { peer_urls, ..m }
        });
        Some(QuorumView {
            cluster,
            members: renamed.collect(),
            leader: Some(leader),
        })
    }

    /// The list, read again through a healthy voter, the leader first.
    pub(in crate::kube) fn quorum_view(
        &self,
        observed: &Observed,
        except: Option<MemberId>,
    ) -> Option<(Place, QuorumView)> {
        let leader = observed.quorum.as_ref()?.leader;
        let healthy = observed.slots.iter().filter_map(|(ordinal, slot)| {
            let status = slot.status.as_ref().filter(|s| s.healthy)?;
            (Some(status.member) != except).then_some((Some(status.member) != leader, *ordinal))
        });
        let mut all: Vec<(bool, Ordinal)> = healthy.collect();
        all.sort();
        let mut places = all.into_iter().map(|(_, o)| Place(o.0)).take(2);
        places.find_map(|p| Some((p, self.list(p).filter(|_| self.etcd.linked(Place::SITE, p))?)))
    }

    pub(in crate::kube) fn member_status(&self, ordinal: Ordinal) -> Option<MemberStatus> {
        let at = Place(ordinal.0);
        if !self.etcd.linked(Place::SITE, at) {
            return None;
        }
        let node = self.etcd.nodes.get(&at)?;
        let (running, wal) = (node.running.as_ref()?, node.wal()?);
        let learner = running.conf.members.get(&wal.member).is_none_or(|m| m.learner);
        // As the client judges: one that calls itself a learner, and votes by the list, needs a read.
        let via = self.etcd.serving_leader();
        let via = via.filter(|via| self.etcd.linked(Place::SITE, *via));
        let learner = learner && !self.etcd.votes_by_list(via, wal.member);
        Some(MemberStatus {
            member: wal.member,
            cluster: wal.cluster,
            leader: running.leader,
            term: wal.term,
            applied: running.applied as u64,
            version: running.version,
            db_size: 4096 * (1 + wal.log.len() as u64),
            db_in_use: 4096 * (1 + running.applied as u64),
            alarms: self.etcd.alarms.clone(),
            healthy: learner || self.etcd.serves(at),
        })
    }
}
