//! What tests run against: real etcd of any cached version, real object storage, etcdbrctl, and a disk that forgets.
//!
//! A [`Server`] is one running etcd, a [`Client`] calls it, a [`Workload`] fills it, and [`Made`] is what it left on
//! disk: the same workload sends every version the same requests in the same order, so that their keyspaces are equal.
//! [`StoreServer`] is real object storage and [`Proxy`] breaks the way to it. [`disk`] is a file system that forgets
//! what was not synced, and [`birth`] kills members before their first entry.
//!
//! Tests of several processes and checkouts share one machine. So ports are leased ([`Ports`]), clusters are counted
//! ([`ClusterSlot`]), every wait has a limit and says what it waited for ([`await_that`]), and what is judged by its
//! duration has a witness of the machine's own stalls ([`StallWitness`]).
//!
//! Failures panic with their cause. Every started process is ended by its process id; only loopback is used.

pub mod birth;
pub mod disk;
mod etcd;
mod etcdbr;
mod leases;
mod log_tail;
mod pause;
mod plain_http;
mod ports;
mod shared_cache;
mod slots;
mod stall;
mod stores;
mod versions;
mod wait;

pub use etcd::{Client, HashKv, Made, Said, Server, Start, User, Workload};
pub use etcdbr::{EtcdbrArchive, EtcdbrRun, EtcdbrWriter, etcdbrctl};
pub use pause::pause;
pub use ports::{Addresses, DefaultPorts, Ports, free_port};
pub use shared_cache::shared_directory;
pub use slots::ClusterSlot;
pub use stall::StallWitness;
pub use stores::{Fault, Kind as StoreKind, Proxy, ServerCertificate, StoreServer};
pub use versions::{
    binary, cache, in_full, minor, newest, newest_of_each_minor, oldest_and_newest, patches, versions,
};
pub use wait::{Awaited, await_end, await_that, await_that_async};
