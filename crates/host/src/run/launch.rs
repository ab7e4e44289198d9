//! The launcher: a short-lived program that becomes etcd.
//!
//! In: a [`Launch`], as JSON, from the supervisor. Out: etcd, under the launcher's own process number, in a session
//! of its own, logging to its file. On the way, in this order: the member's lock (inherited by etcd, so that it is
//! held exactly as long as the process lives), the record of the process, the evidence of a first start, exec.
//!
//! Never: etcd without a record; a first start without evidence that the volume never ran; a second process for a
//! member; an `ETCD_…` variable of the user's environment that changes what etcd does.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use quorate_core::model::{Generation, Time, Version};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::evidence;
use super::identity::Identity;
use super::record::Record;
use super::volume_record::VolumeRecord;
use crate::Error;

/// Everything the launcher needs to know. No secrets: it is seen in the process list for a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    pub member: String,
    pub program: PathBuf,
    pub version: Version,
    pub arguments: Vec<String>,
    /// Its data directory, made here if it is not there.
    pub data_dir: PathBuf,
    /// Which volume that is.
    pub generation: Generation,
    /// The digest of what it is started with.
    pub config: String,
    /// The CAs that it will trust; empty without TLS.
    #[serde(default)]
    pub trusted: Option<String>,
    /// Where its process is recorded.
    pub record: PathBuf,
    /// The lock it holds while it lives.
    pub alive: PathBuf,
    pub log: PathBuf,
    /// To be written on the volume.
    #[serde(default)]
    pub volume: Option<VolumeRecord>,
    /// The evidence to fire; only for a first start.
    pub first_start: Option<PathBuf>,
    pub directory: PathBuf,
    /// The supervisor: a launcher that outlived it does not start what nobody may want any more.
    pub supervisor: u32,
    /// When it was asked for.
    pub since: Time,
}

/// Becomes etcd. Returns only if that failed.
pub fn main(json: &str) -> Error {
    let launch: Launch = match serde_json::from_str(json) {
        Ok(launch) => launch,
        Err(source) => return Error::LaunchSpec { source },
    };
    let log = match open_log(&launch.log) {
        Ok(log) => log,
        Err(error) => return error,
    };
    let error = match prepare(&launch) {
        Ok(lock) => become_etcd(&launch, &log, lock),
        Err(error) => error,
    };
    // The supervisor shows the last line of the log of a member that ended.
    let _ = writeln!(&log, "quorate: {}", error.chain());
    error
}

/// Takes the lock, writes the record and fires the evidence.
fn prepare(launch: &Launch) -> Result<File, Error> {
    let refused = |why: String| Error::LaunchRefused {
        member: launch.member.clone(),
        why,
    };
    // A session of its own: Ctrl-C in the terminal is for the supervisor, which then stops members in order.
    let _ = rustix::process::setsid();
    let lock =
        lock(&launch.alive)?.ok_or_else(|| refused("a process of this member still runs".to_owned()))?;
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if parent != i32::try_from(launch.supervisor).ok() {
        return Err(refused("the supervisor that asked for it has ended".to_owned()));
    }
    make_private(&launch.data_dir)?;
    let unknown = |source| Error::Process {
        doing: "identify",
        pid: std::process::id(),
        source,
    };
    let record = Record {
        identity: Identity::own().map_err(unknown)?,
        since: launch.since,
        data_dir: launch.data_dir.clone(),
        generation: launch.generation,
        version: launch.version,
        config: launch.config.clone(),
        trusted: launch.trusted.clone(),
    };
    record.write(&launch.record)?;
    let volume = launch.data_dir.display();
    if launch.first_start.is_none() && !evidence::has_wal(&launch.data_dir) {
        return Err(refused(format!(
            "it is to go on from its data, and there is none in {volume}"
        )));
    }
    if let Some(volume) = &launch.volume {
        volume.write(&launch.data_dir)?;
    }
    if let Some(path) = &launch.first_start {
        if evidence::has_wal(&launch.data_dir) {
            return Err(refused(format!("a first start over data in {volume}")));
        }
        let present = evidence::fire(path)?;
        if !present.allows() {
            return Err(refused(format!(
                "a first start without proof that none ran before ({present:?})"
            )));
        }
    }
    Ok(lock)
}

fn become_etcd(launch: &Launch, log: &File, lock: File) -> Error {
    let failed = |source| Error::Exec {
        member: launch.member.clone(),
        program: launch.program.clone(),
        source,
    };
    let (out, err) = match (log.try_clone(), log.try_clone()) {
        (Ok(out), Ok(err)) => (out, err),
        (Err(source), _) | (_, Err(source)) => return failed(source),
    };
    // etcd inherits the lock: it ends with the process, however that ends.
    if let Err(source) = rustix::io::fcntl_setfd(&lock, rustix::io::FdFlags::empty()) {
        return failed(source.into());
    }
    let mut command = Command::new(&launch.program);
    command.args(&launch.arguments).current_dir(&launch.directory);
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    for (name, _) in std::env::vars_os() {
        // One of them, ETCD_FORCE_NEW_CLUSTER, would throw the other members out.
        let name_text = name.to_string_lossy();
        if name_text.starts_with("ETCD_") && name_text != "ETCD_UNSUPPORTED_ARCH" {
            command.env_remove(&name);
        }
    }
    failed(command.exec())
}

/// Tries to lock a member's `alive` file; `None` if a process holds it.
pub(crate) fn lock(path: &Path) -> Result<Option<File>, Error> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path);
    let file = opened.map_err(|source| Error::file("open", path, source))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(source) => Err(Error::file("lock", path, source)),
    }
}

fn open_log(path: &Path) -> Result<File, Error> {
    // Append mode: the supervisor may cut the file while etcd writes to it.
    let opened = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path);
    opened.map_err(|source| Error::file("open", path, source))
}

fn make_private(directory: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.map_err(|source| Error::file("create", directory, source))
}
