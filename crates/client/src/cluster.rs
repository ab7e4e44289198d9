//! Members: listing, adding, promoting, removing, and moving leadership among them.
//!
//! In: ids and peer URLs. Out: members as the asked one knows them. A membership plan must never rest on a
//! stale list, so the only list offered here is a linearizable one.

use quorate_wire::etcdserverpb::{
    self, MemberAddRequest, MemberListRequest, MemberPromoteRequest, MemberRemoveRequest, MoveLeaderRequest,
};

use crate::endpoint::Endpoint;
use crate::error::{Error, Operation};
use crate::kv::ReadReceipt;
use crate::stub::cluster_client::ClusterClient;
use crate::stub::maintenance_client::MaintenanceClient;

/// One member, as the cluster's configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    /// Its name; empty until it has started for the first time.
    pub name: String,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; empty until it has started for the first time.
    pub client_urls: Vec<String>,
    /// Whether it only follows, without a vote.
    pub is_learner: bool,
}

/// The cluster's members, and who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberList {
    pub cluster_id: u64,
    /// The id of the member that answered.
    pub member_id: u64,
    /// The term the answering member is in.
    pub raft_term: u64,
    /// All members, in the order given.
    pub members: Vec<Member>,
}

/// What an addition led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberAdded {
    pub member: Member,
    /// All members, the new one among them.
    pub members: Vec<Member>,
}

impl From<etcdserverpb::Member> for Member {
    fn from(member: etcdserverpb::Member) -> Self {
        Member {
            id: member.id,
            name: member.name,
            peer_urls: member.peer_ur_ls,
            client_urls: member.client_ur_ls,
            is_learner: member.is_learner,
        }
    }
}

fn members(members: Vec<etcdserverpb::Member>) -> Vec<Member> {
    members.into_iter().map(Member::from).collect()
}

impl Endpoint {
    /// The member list as of now or later, never an earlier one.
    ///
    /// etcd 3.4 ignores the request for a linearizable list and answers with what it has applied. So a
    /// quorum read goes first, on the same member: it returns only after the member has applied
    /// everything that was committed when the read began, configuration changes included.
    pub async fn member_list_linearizable(&self) -> Result<MemberList, Error> {
        let receipt = self.linearizable_read().await?;
        self.member_list_after(&receipt).await
    }

    /// The member list, given that a quorum read on this endpoint has just succeeded.
    pub(crate) async fn member_list_after(&self, receipt: &ReadReceipt) -> Result<MemberList, Error> {
        let operation = Operation::MemberList;
        let send = |channel, request| async move { ClusterClient::new(channel).member_list(request).await };
        let response = self
            .call(operation, MemberListRequest { linearizable: true }, send)
            .await?;
        let malformed = |what| Err(Error::malformed(operation, self.label(), what));
        let Some(header) = response.header else {
            return malformed("the reply has no header");
        };
        // Behind a balancer the two requests may reach two members, and then the read vouches for nothing.
        if receipt.member_id.is_some_and(|id| id != header.member_id) {
            return malformed("the list came from another member than the read before it");
        }
        Ok(MemberList {
            cluster_id: header.cluster_id,
            member_id: header.member_id,
            raft_term: header.raft_term,
            members: members(response.members),
        })
    }

    /// Adds a member without a vote.
    ///
    /// etcd makes the new id from the peer URLs and the current second. Repeated within that second, an
    /// addition is refused with `MemberExists` rather than `PeerUrlExists`, and with `MemberNotFound` if the
    /// first was removed in between: that id is gone for good.
    pub async fn member_add_learner(&self, peer_urls: &[String]) -> Result<MemberAdded, Error> {
        self.member_add(MemberAddRequest {
            peer_ur_ls: peer_urls.to_vec(),
            is_learner: true,
        })
        .await
    }

    /// Adds a voting member. The cluster may lose its quorum until that member has started.
    pub async fn member_add_voter(&self, peer_urls: &[String]) -> Result<MemberAdded, Error> {
        self.member_add(MemberAddRequest {
            peer_ur_ls: peer_urls.to_vec(),
            is_learner: false,
        })
        .await
    }

    async fn member_add(&self, request: MemberAddRequest) -> Result<MemberAdded, Error> {
        let send = |channel, request| async move { ClusterClient::new(channel).member_add(request).await };
        let response = self.call(Operation::MemberAdd, request, send).await?;
        match response.member {
            None => Err(Error::malformed(
                Operation::MemberAdd,
                self.label(),
                "the reply names no member",
            )),
            Some(member) => Ok(MemberAdded {
                member: member.into(),
                members: members(response.members),
            }),
        }
    }

    /// Gives a learner its vote. Best asked of the leader: a follower passes the request on, repeats it when
    /// the leader refuses for reasons such as `NotEnoughStarted` instead of telling, and so only times out;
    /// see [`crate::Refusal::outcome`] for what that leaves unknown.
    pub async fn member_promote(&self, id: u64) -> Result<Vec<Member>, Error> {
        let send =
            |channel, request| async move { ClusterClient::new(channel).member_promote(request).await };
        let response = self
            .call(Operation::MemberPromote, MemberPromoteRequest { id }, send)
            .await?;
        Ok(members(response.members))
    }

    /// Removes a member for good: its id never returns.
    pub async fn member_remove(&self, id: u64) -> Result<Vec<Member>, Error> {
        let send = |channel, request| async move { ClusterClient::new(channel).member_remove(request).await };
        let response = self
            .call(Operation::MemberRemove, MemberRemoveRequest { id }, send)
            .await?;
        Ok(members(response.members))
    }

    /// Moves leadership to a voting member. Only the leader serves this.
    pub async fn move_leader(&self, to: u64) -> Result<(), Error> {
        let send =
            |channel, request| async move { MaintenanceClient::new(channel).move_leader(request).await };
        self.call(Operation::MoveLeader, MoveLeaderRequest { target_id: to }, send)
            .await
            .map(|_| ())
    }
}
