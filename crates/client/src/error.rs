//! The one error of this client's calls.
//!
//! In: a failed call. Out: which operation, on which endpoint, refused how, and whether it may have been
//! done. The message never repeats the cause; [`Error::chain`] prints both on one line.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::Status;

use crate::refusal::{Outcome, Refusal};

/// What was asked of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Reads one member's status.
    Status,
    /// Reads the member list.
    MemberList,
    /// Adds a member, voter or learner.
    MemberAdd,
    /// Makes a learner a voter.
    MemberPromote,
    MemberRemove,
    MoveLeader,
    /// Reads with the quorum's agreement.
    LinearizableRead,
    /// Reads what the member has applied.
    SerializableRead,
    Put,
    Delete,
    /// Writes a key if it has not changed.
    CompareAndSwap,
    Txn,
    Watch,
    /// Asks how long a lease lasts.
    LeaseTerm,
    Leases,
    LeaseGrant,
    /// Begins a lease's term anew.
    LeaseKeepAlive,
    LeaseRevoke,
    Compact,
    /// Reads the raised alarms.
    Alarms,
    Disarm,
    /// Hashes the stored keys.
    HashKv,
    /// Compacts the database file.
    Defragment,
    Snapshot,
    /// Trades user and password for a token.
    Authenticate,
    /// Administers users and roles.
    AuthAdmin,
    /// Asks how authentication is.
    AuthStatus,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Status => "status",
            Operation::MemberList => "member list",
            Operation::MemberAdd => "member add",
            Operation::MemberPromote => "member promote",
            Operation::MemberRemove => "member remove",
            Operation::MoveLeader => "move leader",
            Operation::LinearizableRead => "linearizable read",
            Operation::SerializableRead => "serializable read",
            Operation::Put => "put",
            Operation::Delete => "delete",
            Operation::CompareAndSwap => "compare and swap",
            Operation::Txn => "transaction",
            Operation::Watch => "watch",
            Operation::LeaseTerm => "lease time to live",
            Operation::Leases => "lease list",
            Operation::LeaseGrant => "lease grant",
            Operation::LeaseKeepAlive => "lease keep-alive",
            Operation::LeaseRevoke => "lease revoke",
            Operation::Compact => "compact",
            Operation::Alarms => "alarms",
            Operation::Disarm => "disarm",
            Operation::HashKv => "hash",
            Operation::Defragment => "defragment",
            Operation::Snapshot => "snapshot",
            Operation::Authenticate => "authenticate",
            Operation::AuthAdmin => "auth administration",
            Operation::AuthStatus => "auth status",
        })
    }
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} on {endpoint}: {refusal}")]
pub struct Error {
    operation: Operation,
    endpoint: Arc<str>,
    refusal: Refusal,
    outcome: Outcome,
    #[source]
    cause: Cause,
}

/// What stood behind a failed call.
#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Answer(Answer),
    #[error("waited {}ms", .0.as_millis())]
    Waited(Duration),
    #[error("{0}")]
    Malformed(&'static str),
}

/// A failed call's gRPC status: etcd's own words, or the transport's.
#[derive(Debug)]
pub struct Answer(Status);

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.message() {
            "" => write!(f, "{}", self.0.code()),
            message => f.write_str(message),
        }
    }
}

impl std::error::Error for Answer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl Error {
    pub(crate) fn answered(operation: Operation, endpoint: &Arc<str>, status: Status) -> Self {
        let refusal = Refusal::classify(&status);
        let cause = Cause::Answer(Answer(status));
        Error::new(operation, endpoint, refusal, cause)
    }

    pub(crate) fn no_answer(operation: Operation, endpoint: &Arc<str>, waited: Duration) -> Self {
        Error::new(
            operation,
            endpoint,
            Refusal::DeadlineExceeded,
            Cause::Waited(waited),
        )
    }

    pub(crate) fn malformed(operation: Operation, endpoint: &Arc<str>, what: &'static str) -> Self {
        Error::new(operation, endpoint, Refusal::Malformed, Cause::Malformed(what))
    }

    fn new(operation: Operation, endpoint: &Arc<str>, refusal: Refusal, cause: Cause) -> Self {
        let outcome = refusal.outcome(operation);
        Error {
            operation,
            endpoint: Arc::clone(endpoint),
            refusal,
            outcome,
            cause,
        }
    }

    /// The same failure, of a preparation for a request that was therefore never sent.
    pub(crate) fn before_sending(mut self) -> Self {
        self.outcome = Outcome::NotDone;
        self
    }

    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The URL of the member asked.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub fn refusal(&self) -> Refusal {
        self.refusal
    }

    /// Whether the request may have taken effect all the same.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The message and its causes on one line, each said once.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut link = self.source();
        while let Some(cause) = link {
            let words = cause.to_string();
            if !text.contains(&words) {
                text = format!("{text}: {words}");
            }
            link = cause.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Arc<str> {
        Arc::from("http://127.0.0.1:1")
    }

    #[test]
    fn message_names_operation_endpoint_and_refusal_but_not_the_cause() {
        let status = Status::unavailable("etcdserver: unhealthy cluster");
        let error = Error::answered(Operation::MemberAdd, &endpoint(), status);
        let message = "member add on http://127.0.0.1:1: the member is not connected to enough of its peers";
        assert_eq!(error.to_string(), message);
        assert_eq!(error.chain(), format!("{message}: etcdserver: unhealthy cluster"));
        assert_eq!(error.refusal(), Refusal::UnhealthyCluster);
        assert_eq!(error.outcome(), Outcome::NotDone);
    }

    #[test]
    fn unsent_requests_are_not_done_whatever_stopped_them() {
        let error = Error::no_answer(Operation::Authenticate, &endpoint(), Duration::from_secs(2));
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert_eq!(error.before_sending().outcome(), Outcome::NotDone);
    }

    #[test]
    fn error_stays_small() {
        assert!(size_of::<Error>() <= 64, "{}", size_of::<Error>());
    }
}
