//! Real databases: one real etcd of any cached version, driven over gRPC, and what it leaves on disk.
//!
//! In: a version and a [`Workload`]. Out: [`Made`]: a snapshot file, the data directory of the stopped member, and what
//! etcd itself said of them. The same workload asks every version the same in the same order, so that their keyspaces
//! are equal. For other questions there is a running [`Server`] and a [`Client`] for it. Where archives are kept, there is
//! real object storage: [`StoreServer`], and a [`Proxy`] that breaks it.
//!
//! This is for tests: what goes wrong panics and says what it was. Every wait is bounded; what was started is ended, by
//! its process id; only loopback is used.

mod addresses;
mod cached;
mod client;
mod etcdbr;
mod made;
mod server;
mod stores;
mod workload;
mod writes;

pub use addresses::{Addresses, free_port};
pub use cached::{binary, cache, newest, versions};
pub use client::{Client, User};
pub use etcdbr::{EtcdbrArchive, EtcdbrRun, EtcdbrWriter, etcdbrctl};
pub use made::{HashKv, Made, Said};
pub use server::{Server, Start};
pub use stores::{Fault, Kind as StoreKind, Proxy, ServerCertificate, StoreServer};
pub use workload::Workload;
