//! Backups that lose nothing: one cluster's history in an archive, and any point of it back again.
//!
//! In: a live cluster, a store by its URL. Out: an archive (full copies and every change between them, in one gapless
//! sequence), and from it a data directory at any revision or time.
//! Never: a backup that counts before it is whole; a chain extended by two writers; data of a cluster deleted because
//! its archive could not be read.

pub mod agent;
mod archive;
pub mod chain;
pub mod clock;
pub mod compact;
pub mod copy;
pub mod delta;
mod deposit;
mod digest;
mod error;
pub mod etcdbr;
mod fetch;
pub mod hold;
pub mod inventory;
mod lines;
pub mod log;
pub mod names;
pub mod object;
pub mod plan;
pub mod prune;
pub mod record;
pub mod restore;
pub mod retention;
mod store;
pub mod undo;
pub mod verify;

pub use archive::{Archive, FORMAT, Identity, Origin, Point, Restored};
pub use digest::Sha256Hex;
pub use error::{Error, Trouble};
pub use store::{CreateOnly, Created, Credentials, Deleted, Found, Store, StoreOptions, StoreUrl, Upload};
