//! Everything quorate decides, as plain synchronous functions over plain data.
//!
//! In: what the user wants ([`model::Spec`]), what was seen ([`model::Observed`]) and what was remembered
//! ([`memory::Memory`]). Out: a [`plan::Plan`] and the memory to store before any of its steps runs.
//! Never: a file, a socket, a clock or a random number. The same functions drive real etcd and the simulator.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod check;
pub mod decide;
pub mod guard;
mod last_words;
pub mod memory;
pub mod model;
pub mod plan;
pub mod purpose;
pub mod reason;
pub mod rotation;
pub mod transitions;

pub use check::check;
pub use decide::{Decision, checked, decide, decide_with};
pub use last_words::last_words;
pub use memory::Memory;
pub use model::{Observed, Spec};
pub use plan::{Plan, Step, plan};
