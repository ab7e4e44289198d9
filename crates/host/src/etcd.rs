//! Binaries of etcd on this machine: found, and run apart from the members where only etcd can tell.

pub mod find;
pub mod hash_kv;
pub mod revive;
mod sandboxed;
