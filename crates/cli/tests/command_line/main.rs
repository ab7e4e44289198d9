//! The real binary, run as a user runs it.

mod agent;
mod backup;
mod backup_bad_input;
mod backup_broken_off;
mod backup_meanwhile;
mod backup_theirs;
mod backup_times;
mod backup_undo;
mod bad_input;
mod etcd;
mod explain;
mod install;
mod real_cluster;
mod sandbox;
mod snapshot_read;
mod snapshot_restore;
mod snapshot_save;
mod supervisor_ends;
mod up;
mod usage;
