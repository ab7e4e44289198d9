//! What can go wrong with a data directory, a snapshot or one of their files. For a [`look`](crate::look()) and a
//! verification damage is a finding; for whoever needs what is damaged it is an error.

use std::io;
use std::path::PathBuf;

/// A failure of an operation on a data directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A directory could not be listed.
    #[error("cannot list {}", path.display())]
    List {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The database could not be locked, for another reason than that it is locked already.
    #[error("cannot lock {}", path.display())]
    Lock {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The directory is in use.
    #[error("{} is in use{}", path.display(), holder.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    InUse {
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
        from: PathBuf,
        /// Where it should have gone.
        target: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The directory was renamed, and the new name may not survive a power cut.
    #[error("cannot make the new name of {} durable", target.display())]
    SyncParent {
        /// Where it is now.
        target: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// What a file holds does not hold together.
    #[error("{} is damaged: {place}: {why}", path.display())]
    Damaged {
        path: PathBuf,
        place: String,
        /// What is wrong there.
        why: String,
    },
    /// What was to be read came from elsewhere, and did not come.
    #[error("{source}")]
    Supply {
        /// Why, in the words of whoever was to bring it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cancelled; nothing was changed")]
    Cancelled,
    /// It can be done, and is not, for safety's sake or because it makes no sense.
    #[error("{what}; {advice}")]
    Refused {
        /// What is not done, and why.
        what: String,
        /// What to do instead.
        advice: String,
    },
}

impl Error {
    /// A failure to read `path`.
    pub(crate) fn read(path: &std::path::Path) -> impl Fn(io::Error) -> Error + '_ {
        move |source| Error::Read {
            path: path.to_owned(),
            source,
        }
    }

    /// A failure to write `path`.
    pub(crate) fn write(path: &std::path::Path) -> impl Fn(io::Error) -> Error + '_ {
        move |source| Error::Write {
            path: path.to_owned(),
            source,
        }
    }

    /// What was to come from elsewhere did not come.
    pub fn supply(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Supply {
            source: source.into(),
        }
    }

    pub(crate) fn refused(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Refused {
            what: what.into(),
            advice: advice.into(),
        }
    }
}
