//! Certificates of an etcd cluster: an [`Ca`] in memory, and [`ensure`], which keeps all of a local cluster in
//! one directory with it.
//!
//! In: a directory, what the cluster needs ([`Wanted`]), for how long ([`Policy`]) and the time.
//! Out: a directory in which every certificate is present, matches its key, is signed by the CA that signs now
//! and will stay valid for a while, and a [`Report`] that says what was found and what was done.
//!
//! What must never happen: a private key that others can read, even for a moment; a secret in an error,
//! a report or a `Debug` text; a CA file deleted (it is moved aside); a crash that leaves something the
//! next [`ensure`] does not repair.
//!
//! ```text
//! pki/                      0700
//!   ca.crt  ca.key          all CAs that are trusted, the key of the one that signs; certificates 0644, keys 0600
//!   ca-…, rotate            a rotation under way, see [`Cas`]
//!   server-NAME.crt  .key   what member NAME shows to clients (and to itself: etcd's gateway dials it)
//!   peer-NAME.crt    .key   what member NAME shows to, and dials, the other members with
//!   root.crt  root.key      what quorate dials with, as etcd's root user
//!   client.crt  client.key  what applications dial with, as the user `client`
//!   ca.key.aside-N          the keys of former CAs, the last three
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod ca;
mod cas;
mod ensure;
mod error;
mod examine;
mod files;
mod inspect;
mod issue;
mod layout;
mod report;
mod wanted;

pub use ca::{Ca, describe_all};
pub use cas::{Cas, clear_rotation_request, request_rotation, restore_trust};
pub use ensure::ensure;
pub use error::Error;
pub use examine::PairPem;
pub use inspect::{CertInfo, Fingerprint, Usage, inspect, inspect_all};
pub use issue::{Leaf, LeafUsages};
pub use layout::{Layout, PairPaths};
pub use report::{Outcome, PairReport, Report, Role, Why};
pub use wanted::{MemberIdentity, Policy, San, Wanted};
