//! Requests to the API server: what they ask for, how they are made, what they report.
//!
//! In: effects and news, from any kind's pass. Out: what failed. Never: a request that could outlast the Lease.

pub mod api_errors;
pub mod apply;
pub mod ask;
pub mod effect;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod events;
