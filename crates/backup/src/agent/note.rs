//! What the agent's parts tell its centre.

use quorate_client::AuthStatus;

use crate::Error;
use crate::format::record::{Entry, Full, Sample};
use crate::log::Tail;

#[derive(Debug)]
pub enum Note {
    /// This is in the archive now, and what its log has come to.
    Written(Box<(Entry, Tail)>),
    /// Another agent has taken over.
    Relieved(Error),
    /// The clock and the revision.
    Sample(Sample),
    /// How authentication is, where etcd tells.
    Auth(AuthStatus),
    /// A lease's term, or that there is no such lease.
    Lease { id: i64, ttl: Option<i64> },
    /// A lease that could not be asked for.
    LeaseUnknown { id: i64 },
    /// A full copy is in the store, and waits for its record; or taking it failed.
    Full(Box<Result<Full, Error>>),
}
