//! What can go wrong while certificates are kept: one variant an operation, the object in its fields.
//!
//! Never in here: key material. Causes are IO errors and parser errors that quote no input.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failure to keep or to read certificates.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory could not be made or given its mode.
    #[error("cannot prepare the certificate directory {}", dir.display())]
    PrepareDir {
        dir: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Another process is at work in the directory.
    #[error("another process is changing the certificates in {}; try again when it is done", dir.display())]
    Busy { dir: PathBuf },
    /// A file exists and could not be read (a missing file is no error).
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file could not be written in full and put in its place.
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The mode of a private key could not be tightened.
    #[error("cannot make {} readable by its owner only", path.display())]
    Protect {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A former CA file could not be moved aside.
    #[error("cannot move {} aside", path.display())]
    MoveAside {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A certificate could not be made.
    #[error("cannot issue a certificate for {subject}")]
    Issue {
        /// Whom it was for.
        subject: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No random bytes for a serial number.
    #[error("cannot get random bytes for a serial number")]
    Random {
        #[source]
        source: io::Error,
    },
    /// A file is not one certificate in PEM form.
    #[error("{} is not a certificate in PEM form: {why}", path.display())]
    NotACertificate {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A member name that cannot be part of a file name.
    #[error(
        "member name {name:?} cannot be used in a file name: use letters, digits, '-', '_' and '.', not '.' first"
    )]
    MemberName { name: String },
    /// A subject alternative name that is neither an IP address nor a DNS name.
    #[error("{text:?} is neither an IP address nor a DNS name")]
    San { text: String },
    /// The same member twice.
    #[error("member {name:?} is listed twice")]
    MemberTwice { name: String },
    /// Lifetimes that would have certificates remade on every pass.
    #[error(
        "certificates that live {leaf_lifetime:?} under a CA that lives {ca_lifetime:?} cannot be renewed \
         {renew_before:?} before their end; the three must be in descending order, CA first"
    )]
    Policy {
        ca_lifetime: Duration,
        leaf_lifetime: Duration,
        /// How long before the end a renewal is due.
        renew_before: Duration,
    },
    /// A time that a certificate cannot carry.
    #[error("the clock, or a lifetime, gives a time that a certificate cannot carry")]
    Time,
}
