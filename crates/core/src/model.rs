//! The nouns: ids, versions, time, what is wanted and what was seen. Plain data, no behaviour beyond parsing
//! and arithmetic on itself.

mod basis;
mod ids;
mod observed;
mod progress;
mod spec;
mod time;
mod version;

pub use basis::Basis;
pub use ids::{ClusterId, Generation, MemberId, MemberName, Ordinal, PeerUrl, Token};
pub use observed::{
    Alarm, AlarmKind, Exit, FirstStart, Listed, MemberStatus, Observed, Outcome, Place, Process, QuorumView,
    Refused, Resize, SlotView, StepKind, StepResult, Storage, StorageId, StorageSize, Volume,
};
pub use progress::{Epoch, Progress, VolumeMarks};
pub use spec::{Frozen, Setup, Spec};
pub use time::Time;
pub use version::{Version, VersionError, VersionPath};

/// How many of `voters` make a quorum.
pub fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}
