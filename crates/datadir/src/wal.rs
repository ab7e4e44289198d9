//! The log of a member: its segments' names, its records, and what they come to.
//!
//! In: `member/wal`. Out: the segments in order, the identity in a segment's head ([`Reader`] reads the rest), every
//! record with its checksum verified, the entries that count ([`Log`]), and what etcd would replay ([`replay()`]).
//! Never: a byte of a log changed that is there; a record believed whose checksum does not hold.

mod blank;
mod encode;
mod extend;
mod field;
mod frame;
mod head;
mod log;
mod read;
mod record;
mod replay;
mod segments;
mod write;

pub(crate) use blank::is_blank;
pub(crate) use extend::Extension;
pub(crate) use head::read_head;
pub(crate) use segments::{Listing, list};
pub(crate) use write::{RESTORED_TERM, conf_state, make_directory};

pub use log::{Entries, Log, last_index};
pub use read::{End, Found, Position, Reader};
pub use record::{Entry, EntryKind, HardState, Metadata, Record, SnapshotMark};
pub use replay::{Replay, replay};
pub use segments::SegmentName;
pub use write::write_restored;

#[cfg(test)]
pub(crate) use head::tests::head as test_head;
