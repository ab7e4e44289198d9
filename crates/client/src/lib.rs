//! An etcd client that talks to exactly one member at a time, and says precisely what is known of a failure.
//!
//! In: a member's URL, its TLS material, its credentials. Out: plain data, or an [`Error`] that names the
//! operation, the endpoint, the [`Refusal`], and whether the request may still have taken effect
//! ([`Outcome`]). Nothing here balances, fails over, or repeats a request that may have been executed: a
//! membership planner must know which member answered, and a history checker must know what is unknown.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]

mod auth;
mod cluster;
mod endpoint;
mod error;
mod kv;
mod lease;
mod maintenance;
mod members;
mod refusal;
mod snapshot;
mod tls;
mod txn;
mod watch;

#[allow(missing_docs, clippy::all, rustdoc::all)]
mod stub {
    include!("gen/etcdserverpb.rs");
}

pub use auth::{AuthStatus, Credentials};
pub use cluster::{Member, MemberAdded, MemberList};
pub use endpoint::{Endpoint, InvalidEndpoint, Timeouts};
pub use error::{Answer, Error, Operation};
pub use kv::{CasResult, Consistency, Deleted, ReadReceipt};
pub use lease::LeaseTerm;
pub use maintenance::{Alarm, AlarmKind, HashKv, Status};
pub use members::prove::{Port, prove};
pub use members::quorum::{Failure, ListedBy, MemberView, QuorumView, Target};
pub use members::{Address, Answers, Members};
pub use quorate_wire::mvccpb::KeyValue;
pub use refusal::{Outcome, Refusal};
pub use snapshot::Snapshot;
pub use tls::{Identity, IdentityFiles, Tls, TlsError, TlsFiles};
pub use txn::{Condition, Keys, Op, Page, Range, RangeDeleted, Txn, TxnDone};
pub use watch::event::{Event, EventKind, Events};
pub use watch::{Batch, Cut, Watched, Watching};
