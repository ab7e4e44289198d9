//! The host ground: one etcd cluster as processes of this machine, under a supervisor.
//!
//! In: a root directory and an EtcdCluster manifest. Out: running members, and a status anyone can read. The
//! decisions are [`quorate_core`]'s; here is only observing and doing.
//!
//! ```text
//! manifest ─▶ observe ─▶ core::plan ─▶ core::check ─▶ journal ─▶ execute ─▶ status ─▶ wait
//!               ▲                                                                      │
//!               └──────────── a member ended, the manifest changed, time ──────────────┘
//! ```
//!
//! What must never happen: two etcd on one data directory; a signal to a process that is not ours; a first start
//! on a volume that may have run; an effect before the journal that explains it is on the disk; data deleted that
//! was not first moved aside.

mod asides;
mod build;
mod certs;
mod companion;
pub mod control;
mod disk;
mod error;
mod event_log;
mod execute;
pub mod find;
mod ground;
mod holder;
mod journal;
mod last_index;
mod log;
mod manifest;
mod observe;
mod ports;
mod problems;
mod registry;
mod replay;
pub mod revive;
mod root;
pub mod run;
mod sandboxed_etcd;
pub mod serve;
mod status;
pub mod supervise;

pub use asides::Aside;
pub use certs::own_certs;
pub use companion::BackupStatus;
pub use error::Error;
pub use root::Root;
pub use status::{Block, Certs, Member, STALE, Status, SupervisorStatus, Wait, Wanted};
pub use supervise::{Event, Options};
