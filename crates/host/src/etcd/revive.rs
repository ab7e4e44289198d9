//! A snapshot made of a dead member's directory, with the help of a real etcd where its log holds what only etcd knows.
//!
//! In: the directory, the snapshot to be made, where to look for etcd. Out: the snapshot, and who made it. Most logs are
//! replayed without etcd ([`quorate_datadir::revive`]). For the others an etcd is started on a copy, in a directory
//! beside the snapshot: a cluster of its own, of one member, that knows of no other member and listens on sockets in
//! that directory, which only this user can enter. It is ended as soon as it serves, for then it has replayed
//! everything, and the copy is removed.
//!
//! Never: an etcd that runs on the directory itself, or that could meet a member of the real cluster; one that outlives
//! this; a copy left behind, but by a crash.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_datadir::replay::Kinds;
use quorate_datadir::{Finish, Progress, Revival, Revive, Revived, Staged, Stopped, durable, stage};

use crate::Error;
use crate::etcd::find::{EtcdBinary, Places, find_etcd_for};
use crate::etcd::sandboxed::{PEER_URL, SandboxedEtcd};

/// How long etcd may take to replay a log.
const REPLAY_LIMIT: Duration = Duration::from_secs(3600);
/// How often it is tried again when etcd did more than to replay.
const TRIES: usize = 5;

/// What there is to say while it goes on.
#[derive(Debug)]
pub enum ReviveEvent<'a> {
    /// An entry was met whose effect is not exactly known here.
    UnsupportedEntry(&'a Stopped),
    /// A real etcd replays the log.
    EtcdStarted(&'a EtcdBinary),
    /// It did this besides, so it is done again.
    Retrying(&'a Kinds),
}

/// A snapshot that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevivedSnapshot {
    /// What is in it.
    pub revived: Revived,
    /// The etcd that replayed the log, if it took one.
    pub by: Option<EtcdBinary>,
    /// Entries about members or the cluster that are not in it, because what they do is not known.
    pub left_out: Kinds,
}

pub fn revive(
    wanted: &Revive<'_>,
    places: &Places,
    on_event: &mut dyn FnMut(ReviveEvent<'_>),
    progress: &Progress,
) -> Result<RevivedSnapshot, Error> {
    let stopped = match quorate_datadir::revive(wanted, progress)? {
        Revival::Whole(revived) => {
            return Ok(RevivedSnapshot {
                revived,
                by: None,
                left_out: Kinds::default(),
            });
        }
        Revival::Stopped(stopped) => stopped,
    };
    on_event(ReviveEvent::UnsupportedEntry(&stopped));
    let etcd = find_etcd_for(u32::try_from(stopped.minor).unwrap_or(u32::MAX), places)?;
    for _ in 0..TRIES {
        on_event(ReviveEvent::EtcdStarted(&etcd));
        let work = Work::beside(wanted.file)?;
        let staged = stage(wanted, &work.dir, &version(&etcd), PEER_URL, progress)?;
        let left_out = staged.left_out().clone();
        replay(&etcd, &staged, &work, progress)?;
        match staged.finish(progress)? {
            Finish::Done(revived) => {
                return Ok(RevivedSnapshot {
                    revived,
                    by: Some(etcd),
                    left_out,
                });
            }
            Finish::Strayed(kinds) => on_event(ReviveEvent::Retrying(&kinds)),
        }
    }
    Err(Error::Replay {
        etcd: etcd.path,
        why: format!(
            "in each of {TRIES} tries it changed more than the log says, as when a short lease runs out"
        ),
    })
}

fn version(etcd: &EtcdBinary) -> semver::Version {
    let version = etcd.version;
    semver::Version::new(version.major.into(), version.minor.into(), version.patch.into())
}

/// A directory to work in; gone when dropped.
struct Work {
    dir: PathBuf,
}

impl Work {
    fn beside(file: &Path) -> Result<Work, Error> {
        let mut name = std::ffi::OsString::from(".");
        name.push(file.file_name().unwrap_or_default());
        name.push(format!(".quorate-replay-{}", std::process::id()));
        let work = Work {
            dir: file.with_file_name(name),
        };
        // What an earlier process of this number left.
        work.remove();
        let made = fs::DirBuilder::new().mode(0o700).create(&work.dir);
        made.map_err(|source| Error::file("make", &work.dir, source))?;
        Ok(work)
    }

    fn remove(&self) {
        // A leftover is only in the way of the disk; the snapshot is what counts.
        let _ = fs::remove_dir_all(&self.dir);
        if let Some(parent) = self.dir.parent() {
            let _ = durable::sync_directory(parent);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Runs etcd until it serves, which it does once it has applied its log, and ends it.
fn replay(etcd: &EtcdBinary, staged: &Staged, work: &Work, progress: &Progress) -> Result<(), Error> {
    let private = SandboxedEtcd {
        etcd,
        work: &work.dir,
        data_dir: staged.data_dir(),
        name: staged.name(),
        peer_url: staged.peer_url(),
    };
    let failed = |why: String| Error::Replay {
        etcd: etcd.path.clone(),
        why,
    };
    let mut running = private.start()?;
    let wanted = || Ok(progress.add(0)?);
    running.await_serving(REPLAY_LIMIT, &wanted, &failed)?;
    running.end(&failed)
}
