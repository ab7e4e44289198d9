//! A real etcd started on a directory that was made for it, to hear what it says of the keys in it.
//!
//! In: a data directory of a cluster of one whose peer URL is [`PEER_URL`], and where to look for etcd. Out: its HashKV.
//! The etcd runs in a directory that only this user can enter, which is made for it and removed.
//! Never: a directory that is somebody's: etcd writes to what it runs on.

use std::path::Path;
use std::time::Duration;

use quorate_datadir::Progress;
use serde::Deserialize;

use crate::Error;
use crate::etcd::find::{EtcdBinary, Places, find_etcd_for};
use crate::etcd::sandboxed::SandboxedEtcd;

pub use crate::etcd::sandboxed::PEER_URL;

/// How long etcd may take to serve; a large database is read whole.
const SERVE_LIMIT: Duration = Duration::from_secs(600);
/// How long a hash may take.
const HASH_LIMIT: Duration = Duration::from_secs(600);

/// What is to be served.
#[derive(Debug, Clone, Copy)]
pub struct HashKvRequest<'a> {
    pub data_dir: &'a Path,
    /// An empty directory of this user's alone, to run in.
    pub work: &'a Path,
    pub name: &'a str,
    /// The minor of etcd 3 that the data is of.
    pub minor: u32,
    /// The revision to hash up to.
    pub revision: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashKv {
    pub hash: u32,
    /// With history compacted up to there; -1 if never.
    pub compact_revision: i64,
    /// The etcd that said it.
    pub by: EtcdBinary,
}

#[derive(Deserialize)]
struct Answer {
    hash: u32,
    #[serde(default)]
    compact_revision: i64,
}

/// Starts etcd, asks it, ends it.
pub fn hash_kv_of(wanted: &HashKvRequest<'_>, places: &Places, progress: &Progress) -> Result<HashKv, Error> {
    let etcd = find_etcd_for(wanted.minor, places)?;
    let private = SandboxedEtcd {
        etcd: &etcd,
        work: wanted.work,
        data_dir: wanted.data_dir,
        name: wanted.name,
        peer_url: PEER_URL,
    };
    let failed = |why: String| Error::Serve {
        etcd: etcd.path.clone(),
        why,
    };
    let mut running = private.start()?;
    let still = || Ok(progress.add(0)?);
    running.await_serving(SERVE_LIMIT, &still, &failed)?;
    let answer = running.hash_kv(wanted.revision, HASH_LIMIT, &failed)?;
    let answer: Answer = serde_json::from_slice(&answer)
        .map_err(|error| failed(format!("cannot parse its HashKV response: {error}")))?;
    running.end(&failed)?;
    Ok(HashKv {
        hash: answer.hash,
        compact_revision: answer.compact_revision,
        by: etcd,
    })
}
