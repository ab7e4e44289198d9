//! Real clusters, run by the real binary, under clients that write down every answer.
//!
//! [`cluster::Cluster`] starts and stops `quorate up` in a root of its own; [`clients::Clients`] put, compare-and-swap
//! and read all the while; [`verdict::judge`] says whether an acknowledged write was lost or a read was stale.

pub use quorate_testkit as etcd;
pub use quorate_testkit::in_full;

pub mod backup;
pub mod clients;
pub mod cluster;
pub mod conformance;
pub mod guide;
pub mod history;
pub mod kube;
pub mod measure;
pub mod torture;
pub mod verdict;
