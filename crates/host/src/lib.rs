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

pub mod control;
mod error;
pub mod etcd;
mod ground;
mod root;
pub mod run;
mod status;
pub mod supervise;

pub use error::Error;
pub use ground::certs::own_certs;
pub use root::Root;
pub use root::asides::Aside;
pub use status::{Block, Certs, Member, STALE, Status, SupervisorStatus, Wait, Wanted};
pub use supervise::backup_agent::BackupStatus;
pub use supervise::{Event, Options};
