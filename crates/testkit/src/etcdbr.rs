//! etcdbrctl, and an archive of its own on this machine.
//!
//! In: a directory, a running etcd. Out: what etcdbrctl writes there while etcd is written to, and what it makes of it
//! again. It is run as its users run it, with the store of provider `Local`, which lies below `HOME`.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::{Pid, Signal, kill_process};

use crate::await_that;
use crate::etcd::{Client, Server};
use crate::log_tail::WithLog;
use crate::versions::cache;

/// How long it may take to write what it saw, or to end.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long it may take to restore or to compact.
const LONGEST: Duration = Duration::from_secs(1800);
/// What a pipe holds for one who does not read yet.
const PIPE: usize = 65536;

pub fn etcdbrctl() -> PathBuf {
    let found = std::fs::read_dir(cache().join("etcdbr"))
        .into_iter()
        .flatten()
        .flatten();
    let verified = found
        .map(|entry| entry.path())
        .filter(|path| path.join("VERIFIED").exists());
    let newest = verified.max().map(|path| path.join("etcdbrctl"));
    newest.unwrap_or_else(|| panic!("no etcdbrctl in {}: run `make tools-etcdbr`", cache().display()))
}

/// An archive of etcdbrctl's.
#[derive(Debug, Clone)]
pub struct EtcdbrArchive {
    home: PathBuf,
}

impl EtcdbrArchive {
    /// Below this directory, which is there.
    pub fn below(home: &Path) -> EtcdbrArchive {
        EtcdbrArchive {
            home: home.to_owned(),
        }
    }

    /// The archive: what lies around `v2`.
    pub fn root(&self) -> PathBuf {
        self.home.join("store")
    }

    /// Its names, with `v2/` before them, in no order.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root().join("v2"))
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.map(|name| format!("v2/{name}")).collect()
    }

    /// How it is asked to do something with this archive.
    pub fn command(&self, command: &str) -> Command {
        let mut asked = Command::new(etcdbrctl());
        asked
            .env_clear()
            .env("HOME", &self.home)
            .arg(command)
            .args(["--storage-provider=Local", "--store-container=store"])
            .arg(format!("--snapstore-temp-directory={}", self.home.display()))
            .stdin(Stdio::null());
        asked
    }

    /// Starts writing: a full, then a delta for each second in which something changed.
    pub fn write(&self, server: &Server, flags: &[&str]) -> EtcdbrWriter {
        let log = self.log();
        let output = File::create(&log).expect("a log");
        let child = self
            .command("snapshot")
            .arg(format!("--endpoints={}", server.addresses().client))
            // Nothing is thrown away, and no full comes by the clock.
            .args(["--garbage-collection-period=1s", "--schedule=0 0 1 1 *"])
            .arg("--delta-snapshot-period=1s")
            .args(flags)
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .expect("etcdbrctl can be started");
        EtcdbrWriter {
            archive: self.clone(),
            child,
            log,
        }
    }

    /// A file for what the next one says.
    fn log(&self) -> PathBuf {
        let free = |number: &u32| !self.home.join(format!("etcdbrctl-{number}.log")).exists();
        let number = (0..).find(free).unwrap_or_default();
        self.home.join(format!("etcdbrctl-{number}.log"))
    }

    fn spawn(&self, command: &mut Command) -> EtcdbrWriter {
        let log = self.log();
        let output = File::create(&log).expect("a log");
        let errors = output.try_clone().expect("a log");
        let child = command.stdout(output).stderr(errors).spawn();
        EtcdbrWriter {
            archive: self.clone(),
            child: child.expect("etcdbrctl can be run"),
            log,
        }
    }

    /// Runs it to its end.
    fn run(&self, command: &mut Command) -> EtcdbrRun {
        self.spawn(command).wait()
    }

    pub fn restore(&self, data_dir: &Path, flags: &[&str]) -> EtcdbrRun {
        self.run(self.restoring(data_dir).args(flags))
    }

    /// The same, from a store that is slow: `object`, a small one, does not arrive before what can be seen in the etcd
    /// that etcdbrctl replays into is so.
    pub fn restore_slowly(&self, data_dir: &Path, object: &str, is: impl Fn(&Client) -> bool) -> EtcdbrRun {
        let path = self.root().join(object);
        let bytes = std::fs::read(&path).expect("an object");
        assert!(bytes.len() < PIPE, "{object} does not fit into a pipe");
        std::fs::remove_file(&path).expect("an object can be removed");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let mut restoring = self.spawn(&mut self.restoring(data_dir));
        let log = restoring.log.clone();
        let address = || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let (_, rest) = said.split_once("ready to listen client at: ")?;
            let (address, _) = rest.split_once(['"', '\\', '\n', ' '])?;
            Some(format!("http://{address}"))
        };
        restoring.await_that("its etcd listens", |_| address().is_some());
        let client = Client::new(&address().expect("it listens"));
        restoring.await_that("its etcd is so", |_| is(&client));
        let pipe = std::cell::OnceCell::new();
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        restoring.await_that("the object is read", |_| {
            open(&path, flags, Mode::empty()).is_ok_and(|opened| pipe.set(File::from(opened)).is_ok())
        });
        let mut pipe = pipe.into_inner().expect("it is open");
        pipe.write_all(&bytes).expect("what fits into a pipe");
        drop(pipe);
        restoring.wait()
    }

    fn restoring(&self, data_dir: &Path) -> Command {
        let temporary = self.home.join("restoring");
        let mut command = self.command("restore");
        command
            .arg(format!("--data-dir={}", data_dir.display()))
            .arg(format!(
                "--restoration-temp-snapshots-dir={}",
                temporary.display()
            ));
        command
    }

    /// Puts the newest full and its deltas together into a new full.
    pub fn compact(&self, flags: &[&str]) -> EtcdbrRun {
        let temporary = self.home.join("compacting");
        let mut command = self.command("compact");
        command
            .arg(format!(
                "--data-dir={}",
                self.home.join("compacted.etcd").display()
            ))
            .arg(format!(
                "--restoration-temp-snapshots-dir={}",
                temporary.display()
            ));
        self.run(command.args(flags))
    }
}

/// How a run of it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdbrRun {
    /// It said that all went well.
    pub succeeded: bool,
    /// What it said besides.
    pub said: String,
}

/// An etcdbrctl that writes, or does something else; killed when dropped.
#[derive(Debug)]
pub struct EtcdbrWriter {
    archive: EtcdbrArchive,
    child: Child,
    log: PathBuf,
}

impl EtcdbrWriter {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says that this revision is written. Its name alone does not mean that: objects get it before they are
    /// whole.
    pub fn await_revision(&mut self, revision: i64) {
        let log = self.log.clone();
        self.await_that(&format!("revision {revision} is written"), |_| {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let saved = said.split("snapshot at: ").skip(1);
            let mut last = saved.filter_map(|name| name.split('-').nth(2)?.parse::<i64>().ok());
            last.any(|last| last >= revision)
        });
    }

    /// Waits until it says so. Out: the most memory of its own (RssAnon) that was seen, in bytes.
    pub fn await_said(&mut self, words: &str) -> u64 {
        let (log, status) = (self.log.clone(), format!("/proc/{}/status", self.pid()));
        let most = std::cell::Cell::new(0);
        self.await_that(&format!("it says '{words}'"), |_| {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
            most.set(most.get().max(kilobytes.unwrap_or(0) * 1024));
            std::fs::read_to_string(&log).is_ok_and(|said| said.contains(words))
        });
        most.get()
    }

    /// Waits until something can be seen in the archive.
    pub fn await_that(&mut self, what: &str, is: impl Fn(&EtcdbrArchive) -> bool) {
        await_that(what, PATIENCE, || {
            if is(&self.archive) {
                return Ok(());
            }
            let ended = self.child.try_wait().expect("a child can be waited for");
            assert!(ended.is_none(), "etcdbrctl ended before {what}:\n{}", self.log());
            Err(self.with_log("it is not so yet"))
        });
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn with_log<S>(&self, seen: S) -> WithLog<S> {
        WithLog {
            seen,
            log: self.log.clone(),
        }
    }

    fn await_end(&mut self, patience: Duration) -> ExitStatus {
        await_that("etcdbrctl has ended", patience, || {
            let ended = self.child.try_wait().expect("a child can be waited for");
            ended.ok_or_else(|| self.with_log("it runs"))
        })
    }

    /// Waits for its end.
    fn wait(mut self) -> EtcdbrRun {
        let status = self.await_end(LONGEST);
        EtcdbrRun {
            succeeded: status.success(),
            said: self.log(),
        }
    }

    /// Waits until this revision is written, then has it end in order.
    pub fn stop_at(mut self, revision: i64) {
        self.await_revision(revision);
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("a child can be told to stop");
        self.await_end(PATIENCE);
    }
}

impl Drop for EtcdbrWriter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
