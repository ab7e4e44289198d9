//! A host cluster seen from another process: who runs it, how it is, and how to stop it.
//!
//! In: a root. Out: what its files say, each claim proved before it is believed: a supervisor runs only if a descriptor
//! of its own process holds the lock. Never: a signal to a process that is not proved to be the supervisor or a member.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_core::model::{MemberName, Ordinal};
use quorate_datadir::durable;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::root::journal::Journal;
use crate::run::holder;
use crate::run::{Handle, Identity, Record, Runner};
use crate::status::Status;
use crate::{Error, Root};

/// How long a supervisor has to stop its members and itself.
const DOWN_LIMIT: Duration = Duration::from_secs(30);
/// Larger than any of the small files read here.
const SIZE_MAX: u64 = 16 * 1024 * 1024;
/// A look at the lock by someone else may be in the way for a moment.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

/// Who supervises a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Supervisor {
    #[serde(flatten)]
    identity: Identity,
    /// The manifest it works from.
    pub manifest: PathBuf,
    pub quorate: String,
    /// Since when, RFC 3339.
    pub since: String,
    #[serde(skip)]
    pub running: bool,
}

impl Supervisor {
    /// This process, for this manifest, from now on.
    pub(crate) fn own(manifest: &Path, since: String) -> std::io::Result<Supervisor> {
        let (manifest, quorate) = (manifest.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Ok(Supervisor {
            identity: Identity::own()?,
            manifest,
            quorate,
            since,
            running: true,
        })
    }

    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Is the lock held by this very process? That it is held does not prove it: a child of the supervisor that has yet
    /// to execute its program has copies of all descriptors, and so keeps the lock after the supervisor gave it up; and
    /// the next supervisor takes it before it writes its own record.
    fn holds_lock(&self, root: &Root) -> Result<bool, Error> {
        let failed = |source| Error::Process {
            doing: "look at",
            pid: self.pid(),
            source,
        };
        let holds = holder::holds_lock(self.pid(), &root.lock()).map_err(failed)?;
        Ok(holds && self.identity.lives().map_err(failed)?)
    }

    pub(crate) fn write(&self, root: &Root) -> Result<(), Error> {
        let path = root.supervisor();
        let content = serde_json::to_vec(self);
        let content = content.map_err(|e| Error::file("encode", &path, std::io::Error::other(e)))?;
        Ok(durable::write(&path, &content)?)
    }
}

/// What stopping came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Down {
    /// The supervisor stopped its members and itself.
    Stopped {
        pid: u32,
    },
    /// No supervisor ran; members it had left behind were stopped.
    Leftovers {
        members: usize,
    },
    NothingRan,
}

/// Who supervises `root`, or did last; [`Supervisor::running`] says which.
pub fn supervisor(root: &Path) -> Result<Option<Supervisor>, Error> {
    let root = Root::at(root)?;
    let path = root.supervisor();
    let Some(content) = durable::read(&path, SIZE_MAX)? else {
        return Ok(None);
    };
    let Ok(mut found) = serde_json::from_slice::<Supervisor>(&content) else {
        return Ok(None);
    };
    found.running = is_locked(&root)? && found.holds_lock(&root)?;
    Ok(Some(found))
}

/// Asks the supervisor of `root` for another CA.
pub fn rotate_ca(root: &Path) -> Result<(), Error> {
    let dir = Root::at(root)?.pki();
    quorate_pki::request_rotation(&dir, std::time::SystemTime::now())
        .map_err(|source| Error::Certificates { dir, source })
}

/// Is another CA asked for, and not in place yet?
pub fn rotation_asked(root: &Path) -> bool {
    Root::at(root).is_ok_and(|root| crate::ground::certs::rotation_asked(&root))
}

/// The last status of the cluster in `root`.
pub fn read_status(root: &Path) -> Result<Option<Status>, Error> {
    let found = Root::at(root)?;
    let Some(content) = durable::read(&found.status(), SIZE_MAX)? else {
        return Ok(None);
    };
    let unreadable = |error| Error::file("understand", &found.status(), std::io::Error::other(error));
    let mut status: Status = serde_json::from_slice(&content).map_err(unreadable)?;
    status.supervisor.running = supervisor(root)?.is_some_and(|supervisor| supervisor.running);
    Ok(Some(status.with_freshness(jiff::Timestamp::now())))
}

/// The manifest that the cluster in `root` runs by: the file to edit.
pub fn manifest_path(root: &Path) -> Result<PathBuf, Error> {
    if let Some(supervisor) = supervisor(root)? {
        return Ok(supervisor.manifest);
    }
    let path = Root::at(root)?.manifest();
    if path.is_file() {
        Ok(path)
    } else {
        Err(Error::ManifestMissing { path })
    }
}

/// Does the cluster in `root` go on without its file, by the manifest that was last in force?
pub fn manifest_is_remembered(root: &Path) -> bool {
    let journal = Root::at(root).and_then(|root| Journal::load(&root));
    journal.is_ok_and(|journal| journal.is_some_and(|journal| journal.manifest().is_some()))
}

/// Stops the cluster in `root`: through its supervisor, or, where none runs, member by member.
pub async fn down(root: &Path) -> Result<Down, Error> {
    let found = Root::at(root)?;
    if !found.path().is_dir() {
        return Ok(Down::NothingRan);
    }
    match supervisor(root)? {
        Some(supervisor) if supervisor.running => stop_supervisor(&supervisor).await,
        _ => stop_leftovers(&found).await,
    }
}

async fn stop_supervisor(supervisor: &Supervisor) -> Result<Down, Error> {
    let pid = supervisor.pid();
    let failed = |source: std::io::Error| Error::Process {
        doing: "stop",
        pid,
        source,
    };
    let Some(handle) = Handle::open(&supervisor.identity).map_err(failed)? else {
        return Ok(Down::Stopped { pid });
    };
    handle.signal(Signal::TERM).map_err(failed)?;
    match tokio::time::timeout(DOWN_LIMIT, handle.ended()).await {
        Ok(ended) => ended.map(|()| Down::Stopped { pid }).map_err(failed),
        Err(_) => Err(Error::StillRunning {
            what: format!("the supervisor (pid {pid})"),
            limit: DOWN_LIMIT,
        }),
    }
}

/// Stops members without a supervisor, under the supervisor's lock.
async fn stop_leftovers(root: &Root) -> Result<Down, Error> {
    let _lock = lock(root).await?;
    let mut runner = Runner::new(PathBuf::new());
    let entries = match root.run().read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Down::NothingRan),
        Err(source) => return Err(Error::file("read", &root.run(), source)),
    };
    let records = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"));
    for (number, path) in (0..).zip(records) {
        let Some(record) = Record::read(&path)? else {
            continue;
        };
        let pid = record.identity.pid;
        let lives = record.lives().map_err(|source| Error::Process {
            doing: "look at",
            pid,
            source,
        })?;
        if lives && record.data_dir.starts_with(root.path()) {
            let member = MemberName(
                path.file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
            );
            let evidence = root.first_start(&member, record.generation);
            // The place does not matter here, only that each has its own.
            runner.adopt(Ordinal(number), record, PathBuf::new(), evidence)?;
        }
    }
    let members = runner.running();
    runner.stop_all(None).await?;
    Ok(if members == 0 {
        Down::NothingRan
    } else {
        Down::Leftovers { members }
    })
}

/// Takes the supervisor's lock, or says who has it.
pub(crate) async fn lock(root: &Root) -> Result<File, Error> {
    let file = open_lock(root)?;
    for _ in 0..LOCK_TRIES {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) => {}
            Err(source) => return Err(Error::file("lock", &root.lock(), source)),
        }
        // Only a look at the lock passes by itself, and there is nothing to wait on for that.
        tokio::time::sleep(LOCK_PAUSE).await;
    }
    let holder = match supervisor(root.path())? {
        Some(supervisor) => format!(" (pid {}, since {})", supervisor.pid(), supervisor.since),
        None => String::new(),
    };
    Err(Error::Held {
        root: root.path().to_owned(),
        holder,
    })
}

fn open_lock(root: &Root) -> Result<File, Error> {
    let path = root.lock();
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path);
    opened.map_err(|source| Error::file("open", &path, source))
}

fn is_locked(root: &Root) -> Result<bool, Error> {
    let file = match File::open(root.lock()) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(Error::file("open", &root.lock(), source)),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(source) => Err(Error::file("look at", &root.lock(), source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_root_without_anything_has_nothing_to_stop() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(down(&dir.path().join("nowhere")).await.unwrap(), Down::NothingRan);
        assert_eq!(supervisor(dir.path()).unwrap(), None);
        assert_eq!(read_status(dir.path()).unwrap(), None);
        assert!(matches!(
            manifest_path(dir.path()),
            Err(Error::ManifestMissing { .. })
        ));
    }

    /// A descriptor that a child has inherited keeps the lock when its supervisor has given it up.
    #[tokio::test]
    async fn a_supervisor_that_gave_the_lock_up_is_not_signalled() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path()).unwrap();
        root.prepare().unwrap();
        let held = lock(&root).await.unwrap();
        // The recorded supervisor is this process: a signal to it would end the tests.
        let own = Supervisor::own(Path::new("/m.yaml"), "2026-01-01T00:00:00Z".to_owned()).unwrap();
        own.write(&root).unwrap();
        let copy = held.try_clone().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .stdin(copy)
            .spawn()
            .unwrap();
        drop(held);
        assert!(is_locked(&root).unwrap(), "the child has it");
        assert!(!supervisor(dir.path()).unwrap().unwrap().running);
        let refused = down(dir.path()).await;
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
        assert_eq!(down(dir.path()).await.unwrap(), Down::NothingRan);
    }

    #[tokio::test]
    async fn the_second_supervisor_is_told_who_is_first() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path()).unwrap();
        root.prepare().unwrap();
        let held = lock(&root).await.unwrap();
        Supervisor::own(Path::new("/m.yaml"), "2026-01-01T00:00:00Z".to_owned())
            .unwrap()
            .write(&root)
            .unwrap();
        assert!(supervisor(dir.path()).unwrap().unwrap().running);
        assert_eq!(manifest_path(dir.path()).unwrap(), Path::new("/m.yaml"));
        let error = lock(&root).await.unwrap_err();
        assert_eq!(error.exit_code(), 3);
        for part in [
            &std::process::id().to_string(),
            "since 2026",
            "quorate status --root",
            "quorate down --root",
        ] {
            assert!(error.to_string().contains(part), "{error}");
        }
        drop(held);
        assert!(!supervisor(dir.path()).unwrap().unwrap().running);
        lock(&root).await.unwrap();
    }
}
