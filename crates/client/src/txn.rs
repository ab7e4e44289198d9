//! Ranges of keys, and transactions.
//!
//! In: what to read, what to compare, what to write. Out: what was there and what was done, with the revision. A page
//! of a range is bounded by its limit; the reader asks for the next one.

use quorate_wire::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_wire::etcdserverpb::request_op::Request as Asked;
use quorate_wire::etcdserverpb::{self, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};
use quorate_wire::mvccpb::KeyValue;

use crate::endpoint::Endpoint;
use crate::error::{Error, Operation};
use crate::kv::{Consistency, client};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    first: Vec<u8>,
    end: Vec<u8>,
}

impl Keys {
    pub fn one(key: &[u8]) -> Keys {
        Keys {
            first: key.to_vec(),
            end: Vec::new(),
        }
    }

    pub fn all() -> Keys {
        Keys {
            first: vec![0],
            end: vec![0],
        }
    }

    /// From this one on.
    pub fn from(first: &[u8]) -> Keys {
        Keys {
            first: if first.is_empty() { vec![0] } else { first.to_vec() },
            end: vec![0],
        }
    }

    /// From the first on, before the other.
    pub fn between(first: &[u8], end: &[u8]) -> Keys {
        Keys {
            first: if first.is_empty() { vec![0] } else { first.to_vec() },
            end: end.to_vec(),
        }
    }

    /// Those of them that come after this one.
    pub fn after(&self, key: &[u8]) -> Keys {
        let mut first = key.to_vec();
        first.push(0);
        Keys {
            first,
            end: self.end.clone(),
        }
    }

    /// Those that begin so; the empty prefix means every key.
    pub fn prefix(prefix: &[u8]) -> Keys {
        let mut end = prefix.to_vec();
        while let Some(last) = end.last_mut() {
            if *last < 0xff {
                *last += 1;
                return Keys::between(prefix, &end);
            }
            end.pop();
        }
        Keys::from(prefix)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    pub keys: Keys,
    /// As of this revision; `None` means now.
    pub revision: Option<i64>,
    /// So many at most; 0 means all, in one answer.
    pub limit: i64,
    pub keys_only: bool,
    pub consistency: Consistency,
}

impl Range {
    /// These keys, now, all of them.
    pub fn of(keys: Keys) -> Range {
        Range {
            keys,
            revision: None,
            limit: 0,
            keys_only: false,
            consistency: Consistency::Linearizable,
        }
    }

    fn request(self) -> RangeRequest {
        RangeRequest {
            key: self.keys.first,
            range_end: self.keys.end,
            limit: self.limit,
            revision: self.revision.unwrap_or(0),
            keys_only: self.keys_only,
            serializable: self.consistency == Consistency::Serializable,
            ..RangeRequest::default()
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The store's revision when it answered.
    pub revision: i64,
    /// The keys, in order.
    pub pairs: Vec<KeyValue>,
    /// There are more than the limit let through.
    pub more: bool,
    /// How many there are without the limit.
    pub count: i64,
}

/// What must hold of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Last modified at this revision; 0 means that it does not exist.
    ModRevision { key: Vec<u8>, revision: i64 },
    /// Created at this revision; 0 means that it does not exist.
    CreateRevision { key: Vec<u8>, revision: i64 },
    /// It has this value.
    Value { key: Vec<u8>, value: Vec<u8> },
}

impl Condition {
    fn compare(self) -> etcdserverpb::Compare {
        let (key, target, union) = match self {
            Condition::ModRevision { key, revision } => {
                (key, CompareTarget::Mod, TargetUnion::ModRevision(revision))
            }
            Condition::CreateRevision { key, revision } => {
                (key, CompareTarget::Create, TargetUnion::CreateRevision(revision))
            }
            Condition::Value { key, value } => (key, CompareTarget::Value, TargetUnion::Value(value)),
        };
        etcdserverpb::Compare {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key,
            target_union: Some(union),
            ..etcdserverpb::Compare::default()
        }
    }
}

/// What a transaction does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
        /// The lease it hangs on, or 0.
        lease: i64,
    },
    Delete(Keys),
}

impl Op {
    fn request(self) -> RequestOp {
        let request = match self {
            Op::Put { key, value, lease } => Asked::RequestPut(PutRequest {
                key,
                value,
                lease,
                ..PutRequest::default()
            }),
            Op::Delete(keys) => Asked::RequestDeleteRange(DeleteRangeRequest {
                key: keys.first,
                range_end: keys.end,
                ..DeleteRangeRequest::default()
            }),
        };
        RequestOp {
            request: Some(request),
        }
    }
}

/// A transaction: if every condition holds, all of one list is done, otherwise all of the other, in one revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    pub conditions: Vec<Condition>,
    /// What is done then.
    pub then: Vec<Op>,
    /// What is done otherwise.
    pub otherwise: Vec<Op>,
}

/// What a transaction led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnDone {
    pub held: bool,
    /// The store's revision afterwards.
    pub revision: i64,
}

/// What the deletion of a range led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeDeleted {
    /// The store's revision afterwards.
    pub revision: i64,
    /// How many keys there were.
    pub keys: i64,
}

impl Endpoint {
    pub async fn read_range(&self, range: Range) -> Result<Page, Error> {
        let consistency = range.consistency;
        let (header, response) = self.range(range.request(), consistency).await?;
        Ok(Page {
            revision: header.revision,
            pairs: response.kvs,
            more: response.more,
            count: response.count,
        })
    }

    /// Whether everything that happened after this revision can still be told by this member: nothing later than it
    /// has been compacted away.
    pub async fn remembers_since(&self, revision: i64) -> Result<bool, Error> {
        let request = RangeRequest {
            key: vec![0],
            revision,
            count_only: true,
            serializable: true,
            limit: 1,
            ..RangeRequest::default()
        };
        match self.range(request, Consistency::Serializable).await {
            Ok(_) => Ok(true),
            Err(error) => match error.refusal() {
                crate::Refusal::CompactedRevision => Ok(false),
                crate::Refusal::FutureRevision => Ok(true),
                _ => Err(error),
            },
        }
    }

    /// Writes one key that hangs on a lease, and returns the revision it was written at.
    pub async fn put_leased(&self, key: &[u8], value: &[u8], lease: i64) -> Result<i64, Error> {
        let request = PutRequest {
            key: key.to_vec(),
            value: value.to_vec(),
            lease,
            ..PutRequest::default()
        };
        let send = |channel, request| async move { client(channel).put(request).await };
        let response = self.call(Operation::Put, request, send).await?;
        Ok(self.header(Operation::Put, response.header)?.revision)
    }

    /// Deletes keys, in one revision.
    pub async fn delete_range(&self, keys: Keys) -> Result<RangeDeleted, Error> {
        let request = DeleteRangeRequest {
            key: keys.first,
            range_end: keys.end,
            ..DeleteRangeRequest::default()
        };
        let send = |channel, request| async move { client(channel).delete_range(request).await };
        let response = self.call(Operation::Delete, request, send).await?;
        Ok(RangeDeleted {
            revision: self.header(Operation::Delete, response.header)?.revision,
            keys: response.deleted,
        })
    }

    pub async fn txn(&self, txn: Txn) -> Result<TxnDone, Error> {
        let request = TxnRequest {
            compare: txn.conditions.into_iter().map(Condition::compare).collect(),
            success: txn.then.into_iter().map(Op::request).collect(),
            failure: txn.otherwise.into_iter().map(Op::request).collect(),
        };
        let send = |channel, request| async move { client(channel).txn(request).await };
        let response = self.call(Operation::Txn, request, send).await?;
        Ok(TxnDone {
            held: response.succeeded,
            revision: self.header(Operation::Txn, response.header)?.revision,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(Keys::prefix(b"ab"), Keys::between(b"ab", b"ac"));
        assert_eq!(Keys::prefix(b"a\xff\xff"), Keys::between(b"a\xff\xff", b"b"));
        assert_eq!(Keys::prefix(b"\xff"), Keys::from(b"\xff"));
        assert_eq!(Keys::prefix(b""), Keys::all());
        assert_eq!(Keys::prefix(b"ab").after(b"ab1"), Keys::between(b"ab1\0", b"ac"));
    }
}
