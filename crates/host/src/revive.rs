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

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quorate_datadir::replay::Kinds;
use quorate_datadir::{Finish, Progress, Revival, Revive, Revived, Staged, Stopped, durable, stage};

use crate::Error;
use crate::find::{EtcdBinary, Places, find_etcd_for};

/// How long etcd may take to replay a log.
const REPLAY_LIMIT: Duration = Duration::from_secs(3600);
/// How long it may take to end.
const END_LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How often it is tried again when etcd did more than to replay.
const TRIES: usize = 5;
/// The sockets it listens on, in its directory. All versions take a host and a port for the name of one.
const CLIENT: &str = "client:1";
const PEER_URL: &str = "unix://peer:1";
/// How much of what etcd said last is told.
const SAID_BYTES: u64 = 2000;

/// What there is to say while it goes on.
#[derive(Debug)]
pub enum Told<'a> {
    /// An entry was met whose effect is not exactly known here.
    Stopped(&'a Stopped),
    /// A real etcd replays the log.
    Runs(&'a EtcdBinary),
    /// It did this besides, so it is done again.
    Again(&'a Kinds),
}

/// A snapshot that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// What is in it.
    pub revived: Revived,
    /// The etcd that replayed the log, if it took one.
    pub by: Option<EtcdBinary>,
    /// Entries about members or the cluster that are not in it, because what they do could not be told.
    pub left_out: Kinds,
}

/// Makes the snapshot.
pub fn revive(
    wanted: &Revive<'_>,
    places: &Places,
    tell: &mut dyn FnMut(Told<'_>),
    progress: &Progress,
) -> Result<Made, Error> {
    let stopped = match quorate_datadir::revive(wanted, progress)? {
        Revival::Whole(revived) => {
            return Ok(Made {
                revived,
                by: None,
                left_out: Kinds::default(),
            });
        }
        Revival::Stopped(stopped) => stopped,
    };
    tell(Told::Stopped(&stopped));
    let etcd = find_etcd_for(u32::try_from(stopped.minor).unwrap_or(u32::MAX), places)?;
    for _ in 0..TRIES {
        tell(Told::Runs(&etcd));
        let work = Work::beside(wanted.file)?;
        let staged = stage(wanted, &work.dir, &version(&etcd), PEER_URL, progress)?;
        let left_out = staged.left_out().clone();
        replay(&etcd, &staged, &work, progress)?;
        match staged.finish(progress)? {
            Finish::Done(revived) => {
                return Ok(Made {
                    revived,
                    by: Some(etcd),
                    left_out,
                });
            }
            Finish::Strayed(kinds) => tell(Told::Again(&kinds)),
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

    fn log(&self) -> PathBuf {
        self.dir.join("etcd.log")
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

/// An etcd that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs etcd until it serves, which it does once it has applied its log, and ends it.
fn replay(etcd: &EtcdBinary, staged: &Staged, work: &Work, progress: &Progress) -> Result<(), Error> {
    let log = work.log();
    let failed = |why: &str| Error::Replay {
        etcd: etcd.path.clone(),
        why: format!("{why}; the last it said:\n{}", last_words(&log)),
    };
    let output = File::create(&log).map_err(|source| Error::file("write", &log, source))?;
    let errors = output
        .try_clone()
        .map_err(|source| Error::file("write", &log, source))?;
    let client = format!("unix://{CLIENT}");
    let (name, peer) = (staged.name(), staged.peer_url());
    // etcd is in its directory, so that the names of its sockets are short whatever that is called.
    let data_dir = std::path::absolute(staged.data_dir())
        .map_err(|source| Error::file("find", staged.data_dir(), source))?;
    let program = std::path::absolute(&etcd.path).unwrap_or_else(|_| etcd.path.clone());
    let spawned = Command::new(program)
        // Flags of etcd may come from its environment.
        .env_clear()
        .arg(format!("--name={name}"))
        .current_dir(&work.dir)
        .arg(joined("--data-dir=", &data_dir))
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster={name}={peer}"))
        // A database above the quota would raise an alarm, which the dead member did not have.
        .arg("--quota-backend-bytes=-1")
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn();
    let spawned = spawned.map_err(|source| Error::Spawn {
        member: name.to_owned(),
        program: etcd.path.clone(),
        source,
    })?;
    let mut running = Running(spawned);
    let deadline = Instant::now() + REPLAY_LIMIT;
    while !serves(&work.dir) {
        progress.add(0)?;
        if let Ok(Some(status)) = running.0.try_wait() {
            return Err(failed(&format!("it ended with {status}")));
        }
        if Instant::now() > deadline {
            return Err(failed(&format!(
                "it does not serve after {} s",
                REPLAY_LIMIT.as_secs()
            )));
        }
        std::thread::sleep(LOOK);
    }
    end(&mut running.0, etcd, &failed)
}

/// Has it end, so that all it applied is in its database.
fn end(child: &mut Child, etcd: &EtcdBinary, failed: &dyn Fn(&str) -> Error) -> Result<(), Error> {
    let signalled = rustix::process::kill_process(
        rustix::process::Pid::from_child(child),
        rustix::process::Signal::TERM,
    );
    signalled.map_err(|errno| Error::Process {
        doing: "end",
        pid: child.id(),
        source: errno.into(),
    })?;
    let deadline = Instant::now() + END_LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return Ok(()),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
            Ok(None) => {
                return Err(Error::StillRunning {
                    what: etcd.path.display().to_string(),
                    limit: END_LIMIT,
                });
            }
            Err(error) => return Err(failed(&format!("it cannot be waited for: {error}"))),
        }
    }
}

/// A flag and a path, whatever bytes that is made of.
fn joined(flag: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(flag);
    argument.push(path);
    argument
}

/// Whether it answers at all: etcd listens at once, and answers when it is ready.
fn serves(dir: &Path) -> bool {
    let ask = || -> std::io::Result<bool> {
        // The name of a socket may not be long, and that of its directory is.
        let dir = File::open(dir)?;
        let mut stream = UnixStream::connect(format!("/proc/self/fd/{}/{CLIENT}", dir.as_raw_fd()))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /version HTTP/1.0\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(answer.starts_with(b"HTTP/1.") && answer.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

fn last_words(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        use std::io::{Seek, SeekFrom};
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SAID_BYTES)))?;
        let mut text = Vec::new();
        file.take(SAID_BYTES).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = read().unwrap_or_default();
    String::from_utf8_lossy(&text).trim_end().to_owned()
}
