//! The Kubernetes ground: an operator that runs the clusters which EtcdCluster resources ask for.
//!
//! ```text
//! watches ──observe──▶ Observed ──core::plan──▶ Plan ──core::check──▶ store the memory ──▶ execute ──▶ effects
//! ```
//!
//! In: the API server, through watches. Out: requests to it and to the members. What decides is in quorate-core; here is
//! what is seen ([`observe`], [`slot`], [`pod_state`]), what is made ([`build`]), what is asked for ([`execute`],
//! [`upkeep`]) and what is shown ([`status`]). All of these are pure; the rest ([`reconcile`], [`run`]) moves data between
//! them and the world.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod apply;
mod ask;
pub mod build;
pub mod effect;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod events;
pub mod execute;
pub mod figures;
pub mod gather;
pub mod health;
pub mod install;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod lease;
pub mod listen;
pub mod names;
pub mod observe;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
mod panicked;
pub mod pass;
pub mod passes;
pub mod pod_state;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod reconcile;
pub mod record;
pub mod requests;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod run;
pub mod schedule;
pub mod serve;
pub mod slot;
pub mod status;
pub mod tls;
pub mod trouble;
pub mod upkeep;
pub mod wakeups;
pub mod watch;
pub mod webhook;

pub use run::{Options, run};
