//! An etcd that only this user can reach: a cluster of one, listening on sockets in a directory of ours.
//!
//! In: a data directory that was made for it, a directory to run in. Out: an etcd that serves there, until it is ended; and
//! what it says of its keys. It is asked where members ask each other, which needs no user.
//! Never: one that outlives its handle; one that listens on the network.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Error;
use crate::etcd::find::EtcdBinary;

/// How long it may take to end.
const END_LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// The sockets it listens on, in its directory. All versions take a host and a port for the name of one.
const CLIENT: &str = "client:1";
const PEER: &str = "peer:1";
/// Its only peer URL.
pub const PEER_URL: &str = "unix://peer:1";
/// How much of what etcd said last is reported.
const SAID_BYTES: u64 = 2000;
/// An answer, at most.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// What is to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SandboxedEtcd<'a> {
    pub(crate) etcd: &'a EtcdBinary,
    /// Where it runs: its sockets and its log are there. Only this user can enter it.
    pub(crate) work: &'a Path,
    pub(crate) data_dir: &'a Path,
    pub(crate) name: &'a str,
    pub(crate) peer_url: &'a str,
}

/// An etcd that is killed when dropped.
pub(crate) struct Running {
    child: Child,
    work: PathBuf,
    etcd: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes an error of why it failed.
pub(crate) type Failed<'a> = &'a dyn Fn(String) -> Error;

impl SandboxedEtcd<'_> {
    pub(crate) fn start(&self) -> Result<Running, Error> {
        let log = log_in(self.work);
        let written = |source| Error::file("write", &log, source);
        let output = File::create(&log).map_err(written)?;
        let errors = output.try_clone().map_err(written)?;
        let client = format!("unix://{CLIENT}");
        let (name, peer) = (self.name, self.peer_url);
        // etcd is in its directory, so that the names of its sockets are short whatever that is called.
        let data_dir = std::path::absolute(self.data_dir)
            .map_err(|source| Error::file("find", self.data_dir, source))?;
        let program = std::path::absolute(&self.etcd.path).unwrap_or_else(|_| self.etcd.path.clone());
        let spawned = Command::new(program)
            // Flags of etcd may come from its environment.
            .env_clear()
            .arg(format!("--name={name}"))
            .current_dir(self.work)
            .arg(joined("--data-dir=", &data_dir))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={name}={peer}"))
            // A database above the quota would raise an alarm, which the data did not have.
            .arg("--quota-backend-bytes=-1")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn();
        let child = spawned.map_err(|source| Error::Spawn {
            member: name.to_owned(),
            program: self.etcd.path.clone(),
            source,
        })?;
        Ok(Running {
            child,
            work: self.work.to_owned(),
            etcd: self.etcd.path.clone(),
        })
    }
}

impl Running {
    /// Waits until it serves, as long as it is wanted.
    pub(crate) fn await_serving(
        &mut self,
        limit: Duration,
        wanted: &dyn Fn() -> Result<(), Error>,
        failed: Failed<'_>,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        while !self.serves() {
            wanted()?;
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(failed(self.with_log_tail(&format!("it ended with {status}"))));
            }
            if Instant::now() > deadline {
                let why = format!("it does not serve after {} s", limit.as_secs());
                return Err(failed(self.with_log_tail(&why)));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Whether it answers at all: etcd listens at once, and answers when it is ready.
    fn serves(&self) -> bool {
        let answer = self.ask(CLIENT, "GET /version HTTP/1.0\r\n\r\n", Duration::from_secs(1));
        answer.is_ok_and(|answer| is_well(&answer))
    }

    /// What it says of its keys at a revision, as JSON: where members ask each other.
    pub(crate) fn hash_kv(
        &self,
        revision: i64,
        limit: Duration,
        failed: Failed<'_>,
    ) -> Result<Vec<u8>, Error> {
        let body = format!("{{\"revision\":{revision}}}");
        let length = body.len();
        let request = format!("GET /members/hashkv HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = self
            .ask(PEER, &request, limit)
            .map_err(|error| failed(self.with_log_tail(&format!("HashKV failed: {error}"))))?;
        let body = answer.windows(4).position(|four| four == b"\r\n\r\n");
        match body.and_then(|at| answer.get(at + 4..)) {
            Some(body) if is_well(&answer) => Ok(body.to_vec()),
            _ => {
                let text = String::from_utf8_lossy(&answer);
                let first = text.lines().next().unwrap_or_default().to_owned();
                Err(failed(self.with_log_tail(&format!("HashKV failed: {first}"))))
            }
        }
    }

    fn ask(&self, socket: &str, request: &str, limit: Duration) -> io::Result<Vec<u8>> {
        // The name of a socket may not be long, and that of its directory is.
        let dir = File::open(&self.work)?;
        let mut stream = UnixStream::connect(format!("/proc/self/fd/{}/{socket}", dir.as_raw_fd()))?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    }

    /// Has it end, so that all it applied is in its database.
    pub(crate) fn end(&mut self, failed: Failed<'_>) -> Result<(), Error> {
        let signalled = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        );
        signalled.map_err(|errno| Error::Process {
            doing: "end",
            pid: self.child.id(),
            source: errno.into(),
        })?;
        let deadline = Instant::now() + END_LIMIT;
        loop {
            match self.child.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
                Ok(None) => {
                    return Err(Error::StillRunning {
                        what: self.etcd.display().to_string(),
                        limit: END_LIMIT,
                    });
                }
                Err(error) => {
                    return Err(failed(
                        self.with_log_tail(&format!("it cannot be waited for: {error}")),
                    ));
                }
            }
        }
    }

    /// Why, and the last it said.
    fn with_log_tail(&self, why: &str) -> String {
        format!("{why}; the last it said:\n{}", last_words(&log_in(&self.work)))
    }
}

fn is_well(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.") && answer.get(8..12) == Some(b" 200")
}

fn log_in(work: &Path) -> PathBuf {
    work.join("etcd.log")
}

/// A flag and a path, whatever bytes that is made of.
fn joined(flag: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(flag);
    argument.push(path);
    argument
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
