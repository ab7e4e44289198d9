//! The Kubernetes ground: an operator that runs the clusters which EtcdCluster resources ask for.
//!
//! ```text
//! watches ──observe──▶ Observed ──core::decide──▶ Plan ──▶ store the memory ──▶ execute ──▶ effects
//! ```
//!
//! In: the API server, through watches. Out: requests to it and to the members. What decides is in quorate-core.
//! A folder per kind of object ([`cluster`]); what all kinds share is in [`requests`] and [`runtime`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cluster;
pub mod install;
pub mod names;
pub mod requests;
pub mod runtime;
pub mod tls;
pub mod webhook;

pub use runtime::run::{Options, run};
