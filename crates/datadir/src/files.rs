//! Files and directories, whatever they hold: locked, hashed, copied, moved aside, put on the disk for good.
//!
//! In: paths. Out: bytes that are on the disk, a lock that is held, a directory in another place.
//! Never: a file that is half written under its name; anything moved from under a running etcd.

pub(crate) mod aside;
pub(crate) mod copy;
pub(crate) mod digest;
pub mod durable;
pub(crate) mod lock;
pub(crate) mod push;
