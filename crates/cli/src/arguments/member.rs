//! Who a member is that a data directory is made for: what `snapshot restore` and `backup restore` ask alike, and mean as
//! `etcdutl snapshot restore` means it.

use std::path::PathBuf;

use clap::Args;

use super::snapshot::revision;

/// A member to be.
#[derive(Debug, Args)]
pub struct NewMember {
    /// Where the member's log goes [default: in the data directory]
    #[arg(long, value_name = "DIR")]
    pub wal_dir: Option<PathBuf>,
    /// The name of the member
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub name: String,
    /// All members, with their peer URLs
    #[arg(
        long,
        value_name = "NAME=URL,…",
        default_value = "default=http://localhost:2380"
    )]
    pub initial_cluster: String,
    /// What distinguishes this cluster from others, and from the one that it comes from
    #[arg(long, value_name = "TOKEN", default_value = "etcd-cluster")]
    pub initial_cluster_token: String,
    /// The member's own peer URLs
    #[arg(long, value_name = "URL,…", default_value = "http://localhost:2380")]
    pub initial_advertise_peer_urls: String,
    /// Raise the revision by so much, so that no watcher sees one twice
    #[arg(long, value_name = "N", requires = "mark_compacted", value_parser = revision)]
    pub bump_revision: Option<i64>,
    /// Report to watchers that everything up to there is compacted
    #[arg(long, requires = "bump_revision")]
    pub mark_compacted: bool,
    /// The etcd that is to start from it, such as 3.5 [default: the one it comes from, or a newer one]
    #[arg(long, value_name = "MINOR")]
    pub for_version: Option<String>,
}
