//! What is done for an EtcdCluster.
//!
//! In: its objects ([`gather`], [`observe`], [`slot`], [`pod_state`]) and what is remembered ([`record`]). Out: objects
//! ([`build`]), requests ([`execute`], [`upkeep`]) and a status. All of these are pure, and so is the
//! order in which they come ([`reconcile`]); [`live`] makes its requests.

pub mod build;
pub mod driver;
pub mod execute;
#[allow(clippy::disallowed_methods, reason = "reads the clock for what decides")]
pub mod live;
pub(crate) mod log;
pub mod login;
pub mod memory_text;
pub mod observe;
pub mod pass;
mod peers;
pub mod reconcile;
pub mod record;
pub mod resources;
pub mod status;
mod unplanned;
pub mod upkeep;
