//! What [`crate::ensure`] found and what it did, for each certificate.
//!
//! Plain data for logs, status and events. Never in here: anything read from a private key.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::inspect::{Fingerprint, Usage};
use crate::layout::PairPaths;
use crate::wanted::San;

/// What a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Role {
    /// The CA that signs for clients, and for members toward them.
    Ca,
    /// The CA that signs for members toward each other.
    PeerCa,
    /// A member's certificate toward clients.
    Server(String),
    /// A member's certificate toward other members.
    Peer(String),
    /// The certificate of quorate itself.
    Root,
    /// The certificate of applications.
    Client,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Ca => f.write_str("CA"),
            Role::PeerCa => f.write_str("peer CA"),
            Role::Server(member) => write!(f, "server {member}"),
            Role::Peer(member) => write!(f, "peer {member}"),
            Role::Root => f.write_str("root"),
            Role::Client => f.write_str("client"),
        }
    }
}

/// Why a certificate and its key were reissued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// A file is not there.
    Missing {
        path: PathBuf,
    },
    /// A file is there and cannot be used.
    Unreadable {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The present CA did not sign it.
    NotSignedByCa,
    NearExpiry {
        until: SystemTime,
    },
    Expired {
        until: SystemTime,
    },
    /// It begins in the future although the CA is valid already: it was issued by a clock that was ahead.
    NotYetValid {
        from: SystemTime,
    },
    /// It carries other names than wanted.
    WrongSans {
        found: BTreeSet<San>,
        /// What it should carry.
        wanted: BTreeSet<San>,
    },
    /// It carries another common name than wanted.
    WrongName {
        found: String,
        /// What it should carry.
        wanted: String,
    },
    /// The key is not the certificate's.
    KeyMismatch,
    /// It may not be used for what it is for.
    WrongUsage {
        /// What it may be used for.
        found: Vec<Usage>,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |sans: &BTreeSet<San>| {
            let texts: Vec<String> = sans.iter().map(San::to_string).collect();
            texts.join(", ")
        };
        match self {
            Why::Missing { path } => write!(f, "{} was missing", file_name(path)),
            Why::Unreadable { path, why } => write!(f, "{} could not be used: {why}", file_name(path)),
            Why::NotSignedByCa => f.write_str("the present CA had not signed it"),
            Why::NearExpiry { .. } => f.write_str("it was about to expire"),
            Why::Expired { .. } => f.write_str("it had expired"),
            Why::NotYetValid { .. } => f.write_str("it was not valid yet (issued by a clock that was ahead)"),
            Why::WrongSans { found, wanted } => {
                write!(f, "it was for [{}], wanted was [{}]", join(found), join(wanted))
            }
            Why::WrongName { found, wanted } => write!(f, "it was named {found:?}, wanted was {wanted:?}"),
            Why::KeyMismatch => f.write_str("its key did not match"),
            Why::WrongUsage { .. } => f.write_str("it did not allow the uses it is for"),
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// What was done about a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was good and is untouched.
    Kept,
    /// It and its key were reissued.
    Made(Why),
}

/// One certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairReport {
    pub role: Role,
    pub paths: PairPaths,
    pub outcome: Outcome,
    /// The key was readable by others, and no longer is. The key itself was kept.
    pub key_mode_fixed: bool,
    /// The beginning of its validity, after what was done.
    pub not_before: SystemTime,
    /// The end of its validity, after what was done.
    pub not_after: SystemTime,
}

impl PairReport {
    /// The certificate and key were made by this pass.
    pub fn made(&self) -> bool {
        self.outcome != Outcome::Kept
    }
}

/// What one pass of [`crate::ensure`] found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Both CAs first, then server and peer of each member in the order given, then root and the client.
    pub pairs: Vec<PairReport>,
    /// A CA is new: everything that trusted the former one must be given this one.
    pub ca_changed: bool,
    /// SHA-256 of the certificate of the CA for clients.
    pub ca_fingerprint: Fingerprint,
    /// Former CA files that were moved aside, under their new names.
    pub moved_aside: Vec<PathBuf>,
    /// A CA is not valid before this time, which is in the future: this machine's clock is behind (or was
    /// ahead when the CA was made). Nothing is remade for that, since the clock is what needs mending.
    pub clock_behind: Option<SystemTime>,
}

impl Report {
    /// Was any certificate reissued?
    pub fn changed(&self) -> bool {
        self.pairs.iter().any(PairReport::made)
    }

    /// The report on one certificate.
    pub fn pair(&self, role: &Role) -> Option<&PairReport> {
        self.pairs.iter().find(|pair| pair.role == *role)
    }
}
