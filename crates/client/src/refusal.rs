//! Why a request failed, and whether it may have taken effect all the same.
//!
//! In: the gRPC status of a failed call. Out: a [`Refusal`], and from it an [`Outcome`]. etcd's texts are
//! matched before the status code, because the code of one and the same refusal differs between versions
//! (a learner's "not supported" is `Unavailable` in 3.5 and `FailedPrecondition` in 3.7) and some refusals
//! travel as `Unknown`. Must never call a request "not done" unless etcd decides that before it proposes,
//! or refuses it deterministically when applying.

use std::error::Error as _;
use std::fmt;

use tonic::{Code, ConnectError, Status, TimeoutExpired};

use crate::error::Operation;

/// What is known about the effect of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request had no effect and never will have.
    NotDone,
    /// The request may have taken effect, or may yet.
    Unknown,
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)+) => {
        /// Why a request failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Refusal {
            $($(#[$doc])* $name,)+
        }

        impl Refusal {
            /// All refusals, for tables and tests.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$name,)+];

            /// The refusal's stable name, as used in events, conditions and metrics.
            pub fn reason(self) -> &'static str {
                match self {
                    $(Refusal::$name => stringify!($name),)+
                }
            }
        }

        impl fmt::Display for Refusal {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Refusal::$name => $text,)+
                })
            }
        }
    };
}

refusals! {
    /// Membership change refused: too few members are connected to the one asked.
    UnhealthyCluster = "the member is not connected to enough of its peers",
    /// Membership change refused: too few members have started for it to keep quorum.
    NotEnoughStarted = "too few members have started to change membership safely",
    /// Promotion refused: the learner has not caught up.
    LearnerNotReady = "the learner has not caught up with the leader",
    /// Addition refused: the cluster holds as many learners as it may.
    TooManyLearners = "the cluster already has as many learners as it allows",
    /// No such member, or it was removed.
    MemberNotFound = "no such member",
    /// A member with this id exists.
    MemberExists = "a member with this id exists",
    /// A member with one of these peer URLs exists.
    PeerUrlExists = "a member with one of these peer URLs exists",
    /// The given peer URLs are malformed.
    BadMemberUrls = "the peer URLs are malformed",
    /// Promotion refused: the member votes already.
    MemberNotLearner = "the member is not a learner",
    /// Only the leader serves this, and this member is not the leader.
    NotLeader = "the member is not the leader",
    /// The member knows of no leader.
    NoLeader = "the member knows of no leader",
    /// Leadership cannot move to that member.
    BadLeaderTransferee = "leadership cannot move to that member",
    /// A learner does not serve this.
    NotSupportedForLearner = "a learner does not serve this",
    /// etcd gave up waiting for consensus or for its own apply loop.
    Timeout = "etcd timed out",
    /// Leadership changed while a read waited.
    LeaderChanged = "the leader changed",
    /// The member is shutting down.
    Stopped = "the member is stopping",
    /// etcd accepts no more requests until it has applied its backlog.
    TooManyRequests = "the member has too large a backlog",
    /// The request exceeds etcd's size limit.
    RequestTooLarge = "the request is too large",
    /// The database is at its quota.
    NoSpace = "the database is full",
    /// The corruption alarm is raised.
    Corrupt = "the cluster is marked corrupt",
    /// The user may not do this.
    PermissionDenied = "permission denied",
    /// The token is unknown or expired.
    InvalidAuthToken = "the auth token is not valid",
    /// The token predates a change of users or roles.
    AuthOldRevision = "the auth token predates a change of users or roles",
    /// Authentication is on and the request named no user.
    UserEmpty = "the request carries no user",
    /// Authentication was requested where it is off.
    AuthNotEnabled = "authentication is not enabled",
    /// Wrong user or password.
    AuthFailed = "wrong user or password",
    /// The requested revision is compacted away.
    CompactedRevision = "the revision has been compacted",
    /// The requested revision does not exist yet.
    FutureRevision = "the revision does not exist yet",
    /// No such lease, or it ended.
    LeaseNotFound = "no such lease",
    /// This etcd does not know the request.
    NotImplemented = "this etcd does not implement the request",
    /// No connection could be made.
    Unreachable = "no connection could be made",
    /// The connection failed during the request.
    Disconnected = "the connection failed during the request",
    /// No answer came in time.
    DeadlineExceeded = "no answer came in time",
    /// The reply lacks a required part or contradicts another.
    Malformed = "the reply makes no sense",
    Other = "the request failed",
}

/// etcd's texts, as sent by 3.4 to 3.7.
const TEXTS: &[(&str, Refusal)] = &[
    ("unhealthy cluster", Refusal::UnhealthyCluster),
    (
        "re-configuration failed due to not enough started members",
        Refusal::NotEnoughStarted,
    ),
    (
        "can only promote a learner member which is in sync with leader",
        Refusal::LearnerNotReady,
    ),
    ("too many learner members in cluster", Refusal::TooManyLearners),
    ("member not found", Refusal::MemberNotFound),
    ("member ID already exist", Refusal::MemberExists),
    ("Peer URLs already exists", Refusal::PeerUrlExists),
    ("given member URLs are invalid", Refusal::BadMemberUrls),
    ("can only promote a learner member", Refusal::MemberNotLearner),
    ("not leader", Refusal::NotLeader),
    ("no leader", Refusal::NoLeader),
    ("bad leader transferee", Refusal::BadLeaderTransferee),
    ("rpc not supported for learner", Refusal::NotSupportedForLearner),
    ("request timed out", Refusal::Timeout),
    (
        "request timed out, possibly due to previous leader failure",
        Refusal::Timeout,
    ),
    (
        "request timed out, possibly due to connection lost",
        Refusal::Timeout,
    ),
    (
        "request timed out, waiting for the applied index took too long",
        Refusal::Timeout,
    ),
    (
        "request timed out, leader transfer took too long",
        Refusal::Timeout,
    ),
    ("leader changed", Refusal::LeaderChanged),
    ("server stopped", Refusal::Stopped),
    ("too many requests", Refusal::TooManyRequests),
    ("request is too large", Refusal::RequestTooLarge),
    ("mvcc: database space exceeded", Refusal::NoSpace),
    ("corrupt cluster", Refusal::Corrupt),
    ("permission denied", Refusal::PermissionDenied),
    ("invalid auth token", Refusal::InvalidAuthToken),
    ("revision of auth store is old", Refusal::AuthOldRevision),
    ("user name is empty", Refusal::UserEmpty),
    ("authentication is not enabled", Refusal::AuthNotEnabled),
    (
        "authentication failed, invalid user ID or password",
        Refusal::AuthFailed,
    ),
    (
        "mvcc: required revision has been compacted",
        Refusal::CompactedRevision,
    ),
    (
        "mvcc: required revision is a future revision",
        Refusal::FutureRevision,
    ),
    ("requested lease not found", Refusal::LeaseNotFound),
    ("context deadline exceeded", Refusal::DeadlineExceeded),
];

const PREFIX: &str = "etcdserver: ";

impl Refusal {
    /// Classifies a failed call.
    pub(crate) fn classify(status: &Status) -> Refusal {
        if let Some(refusal) = status.message().strip_prefix(PREFIX).and_then(Refusal::from_text) {
            return refusal;
        }
        if in_chain::<ConnectError>(status) {
            return Refusal::Unreachable;
        }
        if in_chain::<TimeoutExpired>(status) {
            return Refusal::DeadlineExceeded;
        }
        match status.code() {
            Code::DeadlineExceeded => Refusal::DeadlineExceeded,
            Code::Unimplemented => Refusal::NotImplemented,
            Code::Unavailable => Refusal::Disconnected,
            _ if status.source().is_some() => Refusal::Disconnected,
            _ => Refusal::Other,
        }
    }

    fn from_text(text: &str) -> Option<Refusal> {
        TEXTS
            .iter()
            .find(|(known, _)| *known == text)
            .map(|(_, refusal)| *refusal)
    }

    /// Whether a request refused in this way may have taken effect.
    ///
    /// Two refusals look final and are not. `NoSpace`: the member whose apply exceeds the quota stores the
    /// value first and then answers "database space exceeded". And whatever a *promotion* is told after a
    /// follower forwarded it to the leader: the follower repeats the forwarded request when its reply is
    /// lost, so "not a learner", "not ready" or "no leader" may be said of a promotion that was applied.
    pub fn outcome(self, operation: Operation) -> Outcome {
        use Refusal::*;
        match self {
            LearnerNotReady | MemberNotLearner | MemberNotFound | NoLeader
                if operation == Operation::MemberPromote =>
            {
                Outcome::Unknown
            }
            UnhealthyCluster
            | NotEnoughStarted
            | LearnerNotReady
            | TooManyLearners
            | MemberNotFound
            | MemberExists
            | PeerUrlExists
            | BadMemberUrls
            | MemberNotLearner
            | NotLeader
            | NoLeader
            | BadLeaderTransferee
            | NotSupportedForLearner
            | TooManyRequests
            | RequestTooLarge
            | PermissionDenied
            | InvalidAuthToken
            | AuthOldRevision
            | UserEmpty
            | AuthNotEnabled
            | AuthFailed
            | CompactedRevision
            | FutureRevision
            | LeaseNotFound
            | NotImplemented
            | Unreachable => Outcome::NotDone,
            Timeout | LeaderChanged | Stopped | NoSpace | Corrupt | Disconnected | DeadlineExceeded
            | Malformed | Other => Outcome::Unknown,
        }
    }

    /// Whether a new token may turn this refusal into success; such requests were not executed.
    /// Is it about who asks?
    pub fn is_about_users(self) -> bool {
        matches!(
            self,
            Refusal::PermissionDenied
                | Refusal::InvalidAuthToken
                | Refusal::AuthOldRevision
                | Refusal::UserEmpty
                | Refusal::AuthFailed
        )
    }

    pub(crate) fn wants_new_token(self) -> bool {
        matches!(
            self,
            Refusal::InvalidAuthToken | Refusal::AuthOldRevision | Refusal::UserEmpty
        )
    }
}

fn in_chain<E: std::error::Error + 'static>(status: &Status) -> bool {
    let mut link = status.source();
    while let Some(error) = link {
        if error.is::<E>() {
            return true;
        }
        link = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_texts_are_recognised_whatever_the_code() {
        for code in [Code::Unavailable, Code::FailedPrecondition, Code::Unknown] {
            for (text, refusal) in TEXTS {
                let status = Status::new(code, format!("{PREFIX}{text}"));
                assert_eq!(Refusal::classify(&status), *refusal, "{text}");
            }
        }
    }

    #[test]
    fn longer_text_is_not_taken_for_its_beginning() {
        let not_ready = "etcdserver: can only promote a learner member which is in sync with leader";
        assert_eq!(
            Refusal::classify(&Status::unknown(not_ready)),
            Refusal::LearnerNotReady
        );
        let not_learner = "etcdserver: can only promote a learner member";
        assert_eq!(
            Refusal::classify(&Status::unknown(not_learner)),
            Refusal::MemberNotLearner
        );
    }

    #[test]
    fn unknown_text_falls_back_on_the_code() {
        for (status, refusal) in [
            (
                Status::unavailable("error reading from server: EOF"),
                Refusal::Disconnected,
            ),
            (
                Status::deadline_exceeded("context deadline exceeded"),
                Refusal::DeadlineExceeded,
            ),
            (
                Status::unimplemented("unknown method RangeStream"),
                Refusal::NotImplemented,
            ),
            (Status::unknown("etcdserver: something new"), Refusal::Other),
            (Status::internal("not leader"), Refusal::Other),
        ] {
            assert_eq!(Refusal::classify(&status), refusal, "{status}");
        }
    }

    #[test]
    fn connection_failures_are_told_from_broken_connections() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let status = Status::from_error(Box::new(ConnectError(Box::new(refused))));
        assert_eq!(Refusal::classify(&status), Refusal::Unreachable);
        assert_eq!(Refusal::Unreachable.outcome(Operation::Put), Outcome::NotDone);

        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let status = Status::from_error(Box::new(reset));
        assert_eq!(Refusal::classify(&status), Refusal::Disconnected);
        assert_eq!(Refusal::Disconnected.outcome(Operation::Put), Outcome::Unknown);
    }

    #[test]
    fn what_may_have_happened_is_never_called_not_done() {
        for refusal in [
            Refusal::Timeout,
            Refusal::DeadlineExceeded,
            Refusal::Disconnected,
            Refusal::Stopped,
            Refusal::LeaderChanged,
            Refusal::NoSpace,
            Refusal::Other,
        ] {
            for operation in [Operation::Put, Operation::MemberAdd, Operation::MemberPromote] {
                assert_eq!(refusal.outcome(operation), Outcome::Unknown, "{refusal:?}");
            }
        }
    }

    #[test]
    fn forwarded_promotion_is_doubted() {
        for refusal in [
            Refusal::LearnerNotReady,
            Refusal::MemberNotLearner,
            Refusal::MemberNotFound,
        ] {
            assert_eq!(refusal.outcome(Operation::MemberPromote), Outcome::Unknown);
            assert_eq!(refusal.outcome(Operation::MemberRemove), Outcome::NotDone);
        }
    }

    #[test]
    fn every_refusal_has_a_text_of_its_own() {
        let mut texts = Refusal::ALL
            .iter()
            .map(|refusal| refusal.to_string())
            .collect::<Vec<_>>();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), Refusal::ALL.len());
    }
}
