//! Archives of etcdbrctl (gardener's etcd-backup-restore), read as they are; only [`compact`] adds to them.
//!
//! ```text
//! PREFIX/v2/Full-00000000-REVISION-SECONDS[.gz|.Z|.zlib][.final]      etcd's snapshot stream, compressed as one
//! PREFIX/v2/Incr-FROM-TO-SECONDS[.gz|.Z|.zlib]                        JSON array of events, its SHA-256 behind it
//! PREFIX/v1/Backup-SECONDS/NAME                                       the same, as older versions laid it out
//! names ─▶ Listing ─▶ plan ─▶ FullArrival: the base; EventRows: every later row of `key`, each once
//! ```
//!
//! There is no manifest: what is there is what the names say, and what counts is what the content turns out to be. A
//! full may be newer than its name, deltas may overlap, names do not sort by revision, and a crash can leave half a file
//! under a whole name. All of that is found out here, by plan or by content.
//! Never: a revision taken twice, or one left out unsaid; a delta whole in memory; something that counts before its hash.

mod chain;
pub mod compact;
pub mod convert;
mod decompress;
mod delta;
mod fetch;
mod full;
mod list;
mod name;
pub mod restore;
mod rows;
pub mod verify;

pub use chain::{Missing, Plan, Unreachable, Wanted, plan};
pub use decompress::Decompressed;
pub use delta::{Batch, DeltaEvents, Event, Trouble};
pub use fetch::StoreObjects;
pub use full::{FullArrival, FullStream};
pub use list::{Listing, Object};
pub use name::{Compression, Key, Kind, Name};
pub use rows::{EventRows, LeasesSeen, Open, Until, revision_at};
