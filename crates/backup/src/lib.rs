//! Backups that lose nothing: one cluster's history in an archive, and any point of it back again.
//!
//! In: a live cluster, a store by its URL. Out: an archive (full copies and every change between them, in one gapless
//! sequence), and from it a data directory at any revision or time.
//! Never: a backup that counts before it is whole; a chain extended by two writers; data of a cluster deleted because
//! its archive could not be read.

pub mod agent;
mod archive;
mod error;
pub mod etcdbr;
mod format;
pub mod hold;
pub mod inventory;
pub mod log;
mod maintain;
pub mod restore;
mod store;
pub mod undo;

pub use archive::{Archive, FORMAT, Identity, Origin, Point, Restored};
pub use error::{Error, Trouble};
pub use format::digest::Sha256Hex;
pub use format::{delta, names, object, record};
pub use maintain::{compact, copy, prune, retention, verify};
pub use restore::{chain, clock, plan};
pub use store::{CreateOnly, Created, Credentials, Deleted, Found, Store, StoreOptions, StoreUrl, Upload};
