//! The one error of this crate: which operation, on what, why, and what to do about it.
//!
//! The cause is kept as the source and never repeated in the message. Waiting is not an error, until it has taken too
//! long.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_datadir::durable;

/// Something that could not be done in a member's pod.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be read, written, moved.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was being done, e.g. `read`.
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A data directory could not be looked at, locked or moved.
    #[error("cannot {doing} the data in {}", path.display())]
    Data {
        /// What was being done.
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: quorate_datadir::Error,
    },
    /// What is written about the volume comes from a newer quorate.
    #[error(
        "{} has format {format}, which this quorate does not know; run the quorate that wrote it, or a newer one",
        path.display()
    )]
    Newer { path: PathBuf, format: u32 },
    /// It could be done, and would not be safe.
    #[error("will not start etcd on {}: {why}", volume.display())]
    Refused {
        volume: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// It was waited for, and did not come.
    #[error("gave up after {} s: {why}", after.as_secs())]
    GaveUp {
        /// How long it was waited.
        after: Duration,
        why: String,
    },
    /// etcd could not be executed.
    #[error("cannot execute {}; check that the container's image has an etcd there", program.display())]
    Exec {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// The exit code that says what kind of failure it is.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Refused { .. } | Error::Newer { .. } => 3,
            _ => 1,
        }
    }

    /// The message and its causes on one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut link = std::error::Error::source(self);
        while let Some(cause) = link {
            text = format!("{text}: {cause}");
            link = cause.source();
        }
        text
    }

    pub(crate) fn refused(volume: &Path, why: impl Into<String>) -> Error {
        Error::Refused {
            volume: volume.to_owned(),
            why: why.into(),
        }
    }
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Error {
        Error::File {
            doing: error.doing,
            path: error.path,
            source: error.source,
        }
    }
}

/// For `map_err`: what was being done to which file.
pub(crate) fn file<E: Into<io::Error>>(doing: &'static str, path: &Path) -> impl Fn(E) -> Error {
    move |source| Error::File {
        doing,
        path: path.to_owned(),
        source: source.into(),
    }
}

/// For `map_err`: what was being done to which data directory.
pub(crate) fn data(doing: &'static str, path: &Path) -> impl Fn(quorate_datadir::Error) -> Error {
    move |source| Error::Data {
        doing,
        path: path.to_owned(),
        source,
    }
}
