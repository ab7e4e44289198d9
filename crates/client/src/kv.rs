//! Reading and writing keys.
//!
//! In: keys, values, expected revisions. Out: revisions and values. Reads say which consistency they ask
//! for; a serializable answer must never pass for a linearizable one.

use quorate_wire::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_wire::etcdserverpb::request_op::Request as Op;
use quorate_wire::etcdserverpb::response_op::Response as Done;
use quorate_wire::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp,
    ResponseHeader, TxnRequest,
};
use quorate_wire::mvccpb::KeyValue;
use tonic::transport::Channel;

use crate::endpoint::Endpoint;
use crate::error::{Error, Operation};
use crate::refusal::Refusal;
use crate::stub::kv_client::KvClient;

/// Above what etcd's default request limit of 1.5 MiB lets one value grow to.
const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;

/// The key that health reads ask for; it need not exist.
const PROBE_KEY: &[u8] = b"health";

/// How fresh a read must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// As of the moment of asking or later; needs a quorum.
    Linearizable,
    /// What the asked member has applied; needs only that member.
    Serializable,
}

impl Consistency {
    fn operation(self) -> Operation {
        match self {
            Consistency::Linearizable => Operation::LinearizableRead,
            Consistency::Serializable => Operation::SerializableRead,
        }
    }
}

/// Proof that a read was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadReceipt {
    /// The member that served it; unknown where it served and then denied the probed key.
    pub member_id: Option<u64>,
    /// The member's revision, under the same proviso.
    pub revision: Option<i64>,
}

/// What a deletion led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// The store's revision afterwards.
    pub revision: i64,
    /// Whether the key existed.
    pub existed: bool,
}

/// What a compare-and-swap led to.
#[derive(Debug, Clone, PartialEq)]
pub enum CasResult {
    /// The value was written.
    Swapped {
        /// The revision it was written at.
        revision: i64,
    },
    /// The key was not as expected, and nothing was written.
    Conflict {
        revision: i64,
        /// The key as it is.
        current: Option<KeyValue>,
    },
}

pub(crate) fn client(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(MAX_REPLY_BYTES)
}

impl Endpoint {
    /// Reads through the quorum: succeeds only if this member reaches a working majority.
    pub async fn linearizable_read(&self) -> Result<ReadReceipt, Error> {
        self.probe(Consistency::Linearizable).await
    }

    /// Reads from this member alone: succeeds if it is up, quorum or not.
    pub async fn serializable_read(&self) -> Result<ReadReceipt, Error> {
        self.probe(Consistency::Serializable).await
    }

    async fn probe(&self, consistency: Consistency) -> Result<ReadReceipt, Error> {
        let request = RangeRequest {
            limit: 1,
            keys_only: true,
            ..read_request(PROBE_KEY, consistency)
        };
        match self.range(request, consistency).await {
            Ok((header, _)) => Ok(ReadReceipt {
                member_id: Some(header.member_id),
                revision: Some(header.revision),
            }),
            // etcd looks at permissions only after the quorum has agreed (3.4 to 3.7), so being denied the
            // key, for want of a grant or of any user, proves as much as reading it.
            Err(error) if matches!(error.refusal(), Refusal::PermissionDenied | Refusal::UserEmpty) => {
                Ok(ReadReceipt {
                    member_id: None,
                    revision: None,
                })
            }
            Err(error) => Err(error),
        }
    }

    pub async fn get(&self, key: &[u8], consistency: Consistency) -> Result<Option<KeyValue>, Error> {
        let (_, mut response) = self.range(read_request(key, consistency), consistency).await?;
        Ok(response.kvs.pop())
    }

    pub(crate) async fn range(
        &self,
        request: RangeRequest,
        consistency: Consistency,
    ) -> Result<(ResponseHeader, RangeResponse), Error> {
        let operation = consistency.operation();
        let send = |channel, request| async move { client(channel).range(request).await };
        let mut response = self.call(operation, request, send).await?;
        Ok((self.header(operation, response.header.take())?, response))
    }

    /// Writes one key and returns the revision it was written at.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<i64, Error> {
        let request = put_request(key, value);
        let send = |channel, request| async move { client(channel).put(request).await };
        let response = self.call(Operation::Put, request, send).await?;
        Ok(self.header(Operation::Put, response.header)?.revision)
    }

    pub async fn delete(&self, key: &[u8]) -> Result<Deleted, Error> {
        let request = DeleteRangeRequest {
            key: key.to_vec(),
            ..DeleteRangeRequest::default()
        };
        let send = |channel, request| async move { client(channel).delete_range(request).await };
        let response = self.call(Operation::Delete, request, send).await?;
        let revision = self.header(Operation::Delete, response.header)?.revision;
        Ok(Deleted {
            revision,
            existed: response.deleted > 0,
        })
    }

    /// Writes one key if it was last modified at the expected revision; 0 expects it not to exist.
    pub async fn compare_and_swap(
        &self,
        key: &[u8],
        expected_mod_revision: i64,
        value: &[u8],
    ) -> Result<CasResult, Error> {
        let operation = Operation::CompareAndSwap;
        let compare = Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Mod.into(),
            key: key.to_vec(),
            target_union: Some(TargetUnion::ModRevision(expected_mod_revision)),
            ..Compare::default()
        };
        let read = read_request(key, Consistency::Linearizable);
        let request = TxnRequest {
            compare: vec![compare],
            success: vec![RequestOp {
                request: Some(Op::RequestPut(put_request(key, value))),
            }],
            failure: vec![RequestOp {
                request: Some(Op::RequestRange(read)),
            }],
        };
        let send = |channel, request| async move { client(channel).txn(request).await };
        let mut response = self.call(operation, request, send).await?;
        let revision = self.header(operation, response.header)?.revision;
        if response.succeeded {
            return Ok(CasResult::Swapped { revision });
        }
        match response.responses.pop().and_then(|op| op.response) {
            Some(Done::ResponseRange(mut range)) => Ok(CasResult::Conflict {
                revision,
                current: range.kvs.pop(),
            }),
            _ => Err(Error::malformed(
                operation,
                self.label(),
                "the reply to a conflict holds no read",
            )),
        }
    }

    /// Drops all revisions older than this one.
    pub async fn compact(&self, revision: i64) -> Result<(), Error> {
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        let send = |channel, request| async move { client(channel).compact(request).await };
        self.call(Operation::Compact, request, send).await.map(|_| ())
    }

    pub(crate) fn header(
        &self,
        operation: Operation,
        header: Option<ResponseHeader>,
    ) -> Result<ResponseHeader, Error> {
        header.ok_or_else(|| Error::malformed(operation, self.label(), "the reply has no header"))
    }
}

fn read_request(key: &[u8], consistency: Consistency) -> RangeRequest {
    let serializable = consistency == Consistency::Serializable;
    RangeRequest {
        key: key.to_vec(),
        serializable,
        ..RangeRequest::default()
    }
}

fn put_request(key: &[u8], value: &[u8]) -> PutRequest {
    PutRequest {
        key: key.to_vec(),
        value: value.to_vec(),
        ..PutRequest::default()
    }
}
