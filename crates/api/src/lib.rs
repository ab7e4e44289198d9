//! The EtcdCluster manifest: its types, its reading, its rules, and edits of its text; and the custom resources that
//! Kubernetes serves ([`crd`]).
//!
//! In: YAML a person wrote, or an object an API server holds. Out: [`Cluster`], checked values that the grounds work from, or every fault at
//! once, each with the field, what was found, what was expected and what to do.
//!
//! What must never happen: a field that is silently ignored because it was misspelt; a fault found only
//! after another one was mended; an edit that changes anything but the one field it is about.
//!
//! ```text
//! text ──parse──▶ EtcdCluster ──validate / resolve──▶ Cluster + warnings, or faults
//! text ──edit::set_*──▶ text
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod crd;
pub mod edit;

mod cluster;
mod duration;
mod fault;
mod layout;
mod manifest;
mod parse;
mod path;
mod reader;
mod resolve;
mod sample;
mod validate;
mod version;

pub use cluster::options::{CompactionMode, LogLevel, Metrics, Options};
pub use cluster::pod::{PodMetadata, PodTemplate};
pub use cluster::quantity::{BadQuantity, Quantity};
pub use cluster::storage::Storage;
pub use cluster::{ClusterSpec, Host, Maintenance, Tls, TlsSecret};
pub use duration::{parse_backup_period, parse_duration};
pub use fault::{Fault, Invalid, Mismatch, Warning};
pub use manifest::{API_VERSION, EtcdCluster, GROUP, KIND, Metadata};
pub use parse::parse;
pub use path::FieldPath;
pub use reader::from_plain;
pub use resolve::{BackupSettings, Cluster, HostSettings, OptionValues, TlsSecrets, resolve};
pub use sample::default_manifest;
pub use validate::{Ground, MAX_NAME, MAX_NAME_KUBERNETES, MAX_REPLICAS, validate};
pub use version::{BadVersion, SUPPORTED_MINORS, check_version};
