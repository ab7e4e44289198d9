//! Leases: how long they were granted for, and for tests granting, keeping and ending them.
//!
//! A lease that the cluster does not know is an answer and no error.

use quorate_wire::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
};

use crate::endpoint::Endpoint;
use crate::error::{Error, Operation};
use crate::refusal::Refusal;
use crate::stub::lease_client::LeaseClient;

/// Some hundred thousand leases.
const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;

/// How long a lease lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerm {
    /// How many seconds it was granted for, and is granted for anew with each keep-alive.
    pub granted_seconds: i64,
    /// How many of them are left.
    pub left_seconds: i64,
}

impl Endpoint {
    /// A lease's term; `None` if the cluster knows no such lease, be it that it ended.
    pub async fn lease_term(&self, id: i64) -> Result<Option<LeaseTerm>, Error> {
        let request = LeaseTimeToLiveRequest { id, keys: false };
        let send =
            |channel, request| async move { LeaseClient::new(channel).lease_time_to_live(request).await };
        match self.call(Operation::LeaseTerm, request, send).await {
            Ok(response) if response.ttl < 0 || response.granted_ttl <= 0 => Ok(None),
            Ok(response) => Ok(Some(LeaseTerm {
                granted_seconds: response.granted_ttl,
                left_seconds: response.ttl,
            })),
            Err(error) if error.refusal() == Refusal::LeaseNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The ids of all leases that this member knows.
    pub async fn leases(&self) -> Result<Vec<i64>, Error> {
        let send = |channel, request| async move {
            LeaseClient::new(channel)
                .max_decoding_message_size(MAX_LIST_BYTES)
                .lease_leases(request)
                .await
        };
        let response = self.call(Operation::Leases, LeaseLeasesRequest {}, send).await?;
        Ok(response.leases.into_iter().map(|lease| lease.id).collect())
    }

    /// Grants a lease for so many seconds; id 0 lets etcd choose one. Returns the id.
    pub async fn lease_grant(&self, id: i64, seconds: i64) -> Result<i64, Error> {
        let request = LeaseGrantRequest { id, ttl: seconds };
        let send = |channel, request| async move { LeaseClient::new(channel).lease_grant(request).await };
        let response = self.call(Operation::LeaseGrant, request, send).await?;
        Ok(response.id)
    }

    /// Begins a lease's term anew. Returns the seconds it has now, or `None` if there is no such lease.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<Option<i64>, Error> {
        let operation = Operation::LeaseKeepAlive;
        let send = |channel, request: tonic::Request<LeaseKeepAliveRequest>| async move {
            let (metadata, extensions, message) = request.into_parts();
            let messages = futures::stream::iter([message]);
            let request = tonic::Request::from_parts(metadata, extensions, messages);
            let mut replies = LeaseClient::new(channel)
                .lease_keep_alive(request)
                .await?
                .into_inner();
            match replies.message().await? {
                Some(reply) => Ok(tonic::Response::new(reply)),
                None => Err(tonic::Status::unavailable("the stream ended without an answer")),
            }
        };
        let reply = self.call(operation, LeaseKeepAliveRequest { id }, send).await?;
        Ok((reply.ttl > 0).then_some(reply.ttl))
    }

    /// Ends a lease and deletes its keys.
    pub async fn lease_revoke(&self, id: i64) -> Result<(), Error> {
        let send = |channel, request| async move { LeaseClient::new(channel).lease_revoke(request).await };
        self.call(Operation::LeaseRevoke, LeaseRevokeRequest { id }, send)
            .await
            .map(|_| ())
    }
}
