//! What can go wrong while a data directory is looked at or moved. Damage is a finding, not an error.

use std::io;
use std::path::PathBuf;

/// A failure of an operation on a data directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A directory could not be listed.
    #[error("cannot list {}", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The database could not be locked, for another reason than that it is locked already.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The database.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The directory is in use.
    #[error("{} is in use{}", path.display(), holder.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    InUse {
        /// The data directory.
        path: PathBuf,
        /// The process that has it, if it could be found.
        holder: Option<u32>,
    },
    /// There is something where the directory should go.
    #[error("{} is there already, and nothing is overwritten", target.display())]
    TargetExists {
        /// Where it should have gone.
        target: PathBuf,
    },
    /// The directory could not be renamed.
    #[error("cannot move {} to {}", from.display(), target.display())]
    Move {
        /// The directory.
        from: PathBuf,
        /// Where it should have gone.
        target: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The directory was renamed, and the new name may not survive a power cut.
    #[error("cannot make the new name of {} durable", target.display())]
    SyncParent {
        /// Where it is now.
        target: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}
