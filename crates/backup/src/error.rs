//! What can go wrong with an archive.
//!
//! Every error names what was being done, to what, and why it failed; where something can be done about it, what.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of a store is not one.
    #[error("{url} is not the address of a store: {why}")]
    Address {
        /// The address, without secrets.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store did not do what it was asked.
    #[error("cannot {doing} {object} in {store}: {why}")]
    Store {
        /// What it was asked: "read", "write", "list".
        doing: &'static str,
        /// The object, relative to the store.
        object: String,
        /// The store, without secrets.
        store: String,
        /// Whether asking again may help.
        trouble: Trouble,
        why: String,
    },
    /// Something in the archive is not what it should be.
    #[error("{object} is damaged: {why}")]
    Damaged {
        object: String,
        /// What is wrong with it.
        why: String,
    },
    /// Refused for safety, or because it cannot be.
    #[error("{what}")]
    Refused {
        what: String,
        /// What can be done.
        advice: String,
    },
    /// Another agent writes this archive.
    #[error("another agent writes this archive: {writer}, since {since}")]
    Fenced { writer: String, since: String },
    #[error(transparent)]
    Data(#[from] quorate_datadir::Error),
    #[error(transparent)]
    Etcd(#[from] quorate_client::Error),
    /// A file of this machine.
    #[error("cannot {doing} {path}: {source}")]
    File {
        doing: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// It was asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// What kind of trouble a store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// There is no such object.
    Missing,
    /// There is no such bucket or container, or no such directory.
    NoBucket,
    /// It does not know us, or does not let us.
    Denied,
    /// It is full, or a limit of it is reached.
    Full,
    /// It asks for patience.
    Throttled,
    /// It cannot be reached, cuts connections, or answers nonsense.
    Unreachable,
    /// It keeps the object: a lock or a retention rule is on it.
    Locked,
    Other,
}

impl Error {
    pub fn refused(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Refused {
            what: what.into(),
            advice: advice.into(),
        }
    }

    pub fn damaged(object: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Damaged {
            object: object.into(),
            why: why.into(),
        }
    }

    /// The store's trouble, if it is one of the store.
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Error::Store { trouble, .. } => Some(*trouble),
            _ => None,
        }
    }

    /// There is no such object.
    pub fn is_missing(&self) -> bool {
        self.trouble() == Some(Trouble::Missing)
    }
}
