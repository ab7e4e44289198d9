//! The operator's process: its Lease, its watches, which object is looked at when, what it serves.
//!
//! Nothing in here knows what is done for an object of a kind.

pub mod health;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod lease;
pub mod listen;
pub mod metrics;
pub mod passes;
pub mod request_counter;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod run;
pub mod schedule;
pub mod serve;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod unfinished;
pub mod wakeups;
pub mod watch;
pub mod work;
