//! Backups that lose nothing: one cluster's history in an archive, and any point of it back again.
//!
//! In: a live cluster, a store by its URL. Out: an archive (full copies and every change between them, in one gapless
//! sequence), and from it a data directory at any revision or time.
//! Never: a backup that counts before it is whole; a chain extended by two writers; data of a cluster deleted because
//! its archive could not be read.

mod error;
pub mod etcdbr;

pub use error::{Error, Trouble};
