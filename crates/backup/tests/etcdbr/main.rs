//! Archives that a real etcdbrctl wrote of a real etcd, read by us: the same keys, revision by revision.

mod broken;
mod converted;
mod kept;
mod leases;
mod ours;
mod points;
mod source;
mod whole;
