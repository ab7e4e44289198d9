//! The agent on real etcd, with a store in a directory.

mod every_version;
mod members;
mod trouble;
mod world;
