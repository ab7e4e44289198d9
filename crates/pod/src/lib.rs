//! What quorate does inside a member's pod, on Kubernetes.
//!
//! ```text
//! init container look     classifies the volume, and says so in its termination message   ─▶ the operator reads it
//! init container prepare  the gate: a plain restart passes, all else waits for a go-ahead  ◀─ the operator gives it
//! container etcd          the launcher: looks once more at every start, then becomes etcd
//! ```
//!
//! In: a volume, and the operator's go-ahead as a pod annotation. Out: a report, and etcd on the right data. The pod
//! asks no API server for anything, so a member restarts while the operator is away.
//!
//! What must never happen: a first start on a volume that may have run; two etcd on one volume; a go-ahead used by
//! another pod than it was given to; data deleted that was not first moved aside; a panic, whatever the files hold.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod admit;
pub mod contract;
mod error;
pub mod first;
pub mod gate;
mod handover;
pub mod launch;
pub mod look;
pub mod rules;
mod volume;

pub use contract::{Found, GoAhead, How, Report, Started};
pub use error::Error;
