//! What is done for an EtcdCluster.
//!
//! In: its objects ([`gather`], [`observe`], [`slot`], [`pod_state`]) and what is remembered ([`record`]). Out: objects
//! ([`build`]), requests ([`execute`], [`upkeep`]) and a status. All of these are pure; [`reconcile`] moves data between
//! them and the world.

pub mod build;
pub mod execute;
pub mod gather;
pub(crate) mod log;
pub mod memory_text;
pub mod observe;
pub mod pass;
pub mod pod_state;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod reconcile;
pub mod record;
pub mod slot;
pub mod status;
pub mod upkeep;
