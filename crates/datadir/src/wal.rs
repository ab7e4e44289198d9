//! The log of a member: its segments' names and what the head of a segment says.
//!
//! In: `member/wal`. Out: the segments in order, and the identity in a segment's head, its checksums verified.
//! Never: more than the head of a segment read, but where a replay is foretold ([`replay()`]) or a log seems
//! to hold nothing else (`blank`).

mod blank;
mod frame;
mod head;
mod replay;
mod segments;

pub(crate) use blank::is_blank;
pub(crate) use head::read_head;
pub(crate) use segments::{Listing, list};

pub use replay::{Replay, replay};
pub use segments::SegmentName;

#[cfg(test)]
pub(crate) use head::tests::head as test_head;
