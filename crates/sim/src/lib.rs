//! The real planner against a model world, in virtual time: one seed, one course, one log.
//!
//! In: a seed (and which guards are on). Out: a [`run::Verdict`]: what was reached, and what broke.
//! Never: a wall clock, an order that depends on a hash, an unbounded loop.
//!
//! - [`etcd`]: members, their disks, raft and the membership API, drivable without the rest.
//! - [`ground`]: processes, volumes, asides, first-start evidence; observing them.
//! - [`executor`]: observe, plan, check, store, do; and dying in between.
//! - [`fault`], [`user`]: what goes wrong and what is wanted, by chance.
//! - [`world`]: one tick after the other; then the healed phase.
//! - [`checkers`]: what must hold, each for itself.
//! - [`kube`]: the same etcd under the operator, over a model of Kubernetes.
//! - [`run`], [`guards`], [`exhaustive`]: many seeds; one guard off; all small clusters.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod checkers;
pub mod coverage;
pub mod etcd;
pub mod executor;
pub mod exhaustive;
pub mod fault;
pub mod ground;
pub mod guards;
pub mod kube;
pub mod log;
mod replay;
pub mod run;
pub mod user;
pub mod world;

/// Virtual milliseconds in a tick.
pub const TICK_MS: u64 = 500;
