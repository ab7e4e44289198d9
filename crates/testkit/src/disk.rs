//! A file system that forgets what was not synced, for tests of code that must survive a power cut.
//!
//! In: a [`Disk`], which is plain data, and code that writes files. Out: every state that the disk may be found in had
//! the power gone at any operation of that code ([`every_cut`]), and how the code behaves on a disk that stops
//! answering ([`every_failure`]) or fills up ([`Mount::limit`]).
//!
//! The model is harsher than any one real file system, and promises what POSIX does:
//! - `fsync` and `fdatasync` of a file keep its content and length; `fsync` its permissions too; neither its name.
//! - `fsync` of a directory keeps the names in it, and nothing of what is in the files behind them.
//! - Each creation, removal and renaming is kept whole or not at all; one between two directories is kept when either
//!   is synced.
//! - Of everything else any part may be kept: see [`Survival`].
//!
//! Never: a mount that outlives its [`Mount`]; a mount that a killed process left is removed by the next.

mod content;
mod cuts;
mod mount;
mod serve;
mod survive;
mod tree;
mod volume;

pub use cuts::{Cut, Tally, every_cut, every_failure};
pub use mount::Mount;
pub use survive::Survival;
pub use volume::Disk;
