//! A cluster under random work, an agent that is killed at random, and a reference for every point that matters.
//!
//! [`trio::Trio`] is three real etcd; [`work::Work`] writes without a pause; [`agent::Agent`] is `quorate backup run` as a
//! process; [`reference::Point`] is what etcd itself said of all keys at a revision, and what a restore is held against.

pub mod agent;
pub mod reference;
pub mod trio;
pub mod work;
