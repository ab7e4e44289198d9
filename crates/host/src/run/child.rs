//! Members as processes that this supervisor launched or adopted: the `child` runner.
//!
//! In: start, adopt, stop, by ordinal. Out: what runs, and an [`Ended`] for each end. One task a process: it waits
//! for the end, carries out a stop (SIGTERM, ten seconds, SIGKILL), and watches a first start for its log.
//!
//! Never: a stop that waits for ever; a signal to anything but the process that was proved to be the member's;
//! a member that is stopped because this value was dropped.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::model::{Exit, Ordinal, Process};
use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::evidence;
use super::handle::Handle;
use super::identity::Identity;
use super::launch::Launch;
use super::record::Record;
use crate::root::log;
use crate::{Error, supervise};

/// How long a member may take to stop before it is killed.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How long a full stop may take, killing included.
const STOP_ALL_LIMIT: Duration = Duration::from_secs(15);
/// How long the leader outlives the others in a full stop.
const LEADER_PAUSE: Duration = Duration::from_secs(4);
/// How often a first start is looked at until it has a write-ahead log.
const WAL_LOOK: Duration = Duration::from_millis(20);

/// The members that run under this supervisor.
#[derive(Debug)]
pub(crate) struct Runner {
    launcher: PathBuf,
    members: BTreeMap<Ordinal, Member>,
    ends: BTreeMap<Ordinal, Exit>,
    starts: BTreeMap<Ordinal, u32>,
    watchers: JoinSet<Ended>,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) record: Record,
    stopping: bool,
    stop: Arc<Notify>,
}

#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) ordinal: Ordinal,
    pub(crate) exit: Exit,
}

impl Runner {
    pub(crate) fn new(launcher: PathBuf) -> Runner {
        Runner {
            launcher,
            members: BTreeMap::new(),
            ends: BTreeMap::new(),
            starts: BTreeMap::new(),
            watchers: JoinSet::new(),
        }
    }

    /// Launches a member. Returns once the launcher runs; whether etcd does is for the next observation.
    pub(crate) fn start(&mut self, ordinal: Ordinal, launch: &Launch) -> Result<u32, Error> {
        let refused = |why: &str| Error::LaunchRefused {
            member: launch.member.clone(),
            why: why.to_owned(),
        };
        if self.members.contains_key(&ordinal) {
            return Err(refused("its process still runs"));
        }
        let spawn_failed = |source| Error::Spawn {
            member: launch.member.clone(),
            program: self.launcher.clone(),
            source,
        };
        let json = serde_json::to_string(launch).map_err(|source| Error::LaunchSpec { source })?;
        let child = Command::new(&self.launcher)
            .args(["launch-member", "--spec", &json])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(spawn_failed)?;
        // Not reaped before it is waited for below, so the number is still its own.
        let pid = child
            .id()
            .ok_or_else(|| spawn_failed(io::Error::other("it ended at once")))?;
        let unknown = |source| Error::Process {
            doing: "identify",
            pid,
            source,
        };
        let identity = Identity::of(pid).map_err(unknown)?;
        let identity = identity.ok_or_else(|| spawn_failed(io::Error::other("it ended at once")))?;
        let handle = Handle::open(&identity).map_err(unknown)?;
        let record = Record {
            identity,
            since: launch.since,
            data_dir: launch.data_dir.clone(),
            generation: launch.generation,
            version: launch.version,
            config: launch.config.clone(),
            trusted: launch.trusted.clone(),
        };
        let watch = Watch {
            ordinal,
            child: Some(child),
            handle,
            log: launch.log.clone(),
            first_start: launch
                .first_start
                .clone()
                .map(|path| (path, launch.data_dir.clone())),
        };
        self.enter(ordinal, record, watch);
        Ok(pid)
    }

    /// Takes over a process that another supervisor launched; `false` if it no longer lives. `first_start` is the
    /// evidence of its volume: the watch over a first start goes on where it provably has no log yet.
    pub(crate) fn adopt(
        &mut self,
        ordinal: Ordinal,
        record: Record,
        log: PathBuf,
        first_start: PathBuf,
    ) -> Result<bool, Error> {
        let pid = record.identity.pid;
        let unknown = |source| Error::Process {
            doing: "watch",
            pid,
            source,
        };
        let Some(handle) = Handle::open(&record.identity).map_err(unknown)? else {
            return Ok(false);
        };
        let has_begun = evidence::has_wal(&record.data_dir) || evidence::had_wal(pid, &record.data_dir);
        let watch = Watch {
            ordinal,
            child: None,
            handle: Some(handle),
            log,
            first_start: (!has_begun).then(|| (first_start, record.data_dir.clone())),
        };
        self.enter(ordinal, record, watch);
        Ok(true)
    }

    fn enter(&mut self, ordinal: Ordinal, record: Record, watch: Watch) {
        let stop = Arc::new(Notify::new());
        self.watchers.spawn(watch.run(Arc::clone(&stop)));
        self.ends.remove(&ordinal);
        let starts = self.starts.entry(ordinal).or_default();
        *starts = starts.saturating_add(1);
        self.members.insert(
            ordinal,
            Member {
                record,
                stopping: false,
                stop,
            },
        );
    }

    /// Asks a member to stop; it has [`STOP_LIMIT`]. Nothing runs: nothing happens.
    pub(crate) fn stop(&mut self, ordinal: Ordinal) {
        if let Some(member) = self.members.get_mut(&ordinal) {
            member.stopping = true;
            member.stop.notify_one();
        }
    }

    /// Stops all members at once and waits for them; the leader, if it is known, a moment after the others. A leader
    /// that stops among stopping members tries for seven seconds to hand over to one of them; one that is left alone
    /// does not try.
    pub(crate) async fn stop_all(&mut self, leader: Option<Ordinal>) -> Result<(), Error> {
        let ordinals: Vec<Ordinal> = self.members.keys().copied().collect();
        let all = async {
            ordinals
                .iter()
                .filter(|ordinal| Some(**ordinal) != leader)
                .for_each(|ordinal| self.stop(*ordinal));
            let _ = timeout(LEADER_PAUSE, self.until_only(leader)).await;
            ordinals.iter().for_each(|ordinal| self.stop(*ordinal));
            self.until_only(None).await;
        };
        if timeout(STOP_ALL_LIMIT, all).await.is_err() {
            let pids: Vec<String> = self
                .members
                .values()
                .map(|m| m.record.identity.pid.to_string())
                .collect();
            return Err(Error::StillRunning {
                what: format!("etcd (pid {})", pids.join(", ")),
                limit: STOP_ALL_LIMIT,
            });
        }
        Ok(())
    }

    async fn until_only(&mut self, last: Option<Ordinal>) {
        while self.members.keys().any(|ordinal| Some(*ordinal) != last) {
            self.next_end().await;
        }
    }

    /// The next member to end. Waits for ever if none runs. Safe to drop and call again.
    pub(crate) async fn next_end(&mut self) -> Ended {
        loop {
            match self.watchers.join_next().await {
                Some(Ok(ended)) => {
                    self.members.remove(&ended.ordinal);
                    self.ends.insert(ended.ordinal, ended.exit.clone());
                    return ended;
                }
                // A watcher neither panics nor is it aborted while this value lives.
                Some(Err(_)) => {}
                None => std::future::pending::<()>().await,
            }
        }
    }

    /// Ends that have happened already, without waiting.
    pub(crate) fn ended(&mut self) -> Vec<Ended> {
        let mut all = Vec::new();
        while let Some(joined) = self.watchers.try_join_next() {
            if let Ok(ended) = joined {
                self.members.remove(&ended.ordinal);
                self.ends.insert(ended.ordinal, ended.exit.clone());
                all.push(ended);
            }
        }
        all
    }

    /// The process of a member, while one runs.
    pub(crate) fn member(&self, ordinal: Ordinal) -> Option<&Member> {
        self.members.get(&ordinal)
    }

    /// The process of a member as the planner sees it.
    pub(crate) fn process(&self, ordinal: Ordinal) -> Process {
        match self.members.get(&ordinal) {
            None => Process::Stopped {
                last: self.ends.get(&ordinal).cloned(),
            },
            Some(member) if member.stopping => Process::Stopping,
            Some(Member { record, .. }) => Process::Running {
                since: record.since,
                version: record.version,
                config: record.config.clone(),
                generation: record.generation,
            },
        }
    }

    /// How often this supervisor has seen a member start again.
    pub(crate) fn restarts(&self, ordinal: Ordinal) -> u32 {
        self.starts
            .get(&ordinal)
            .map_or(0, |starts| starts.saturating_sub(1))
    }

    pub(crate) fn running(&self) -> usize {
        self.members.len()
    }
}

/// One process and what is done with it until its end.
struct Watch {
    ordinal: Ordinal,
    /// Launched by this supervisor, which must reap it; `None` for one that was adopted.
    child: Option<Child>,
    /// `None` if it had ended before it could be opened.
    handle: Option<Handle>,
    log: PathBuf,
    first_start: Option<(PathBuf, PathBuf)>,
}

impl Watch {
    async fn run(mut self, stop: Arc<Notify>) -> Ended {
        let mut looks = interval(WAL_LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut wal_seen = false;
        let mut asked = false;
        let how = loop {
            tokio::select! {
                how = self.end() => break how,
                () = stop.notified(), if !asked => {
                    asked = true;
                    self.signal(Signal::TERM);
                    if let Ok(how) = timeout(STOP_LIMIT, self.end()).await {
                        break how;
                    }
                    self.signal(Signal::KILL);
                }
                _ = looks.tick(), if !wal_seen && self.first_start.is_some() => wal_seen = self.has_wal(),
            }
        };
        if let Some((path, _)) = self.first_start.as_ref().filter(|_| !wal_seen && !self.has_wal()) {
            // If it cannot be written, what is there stays: `fired`, which proves nothing, and that is safe.
            let _ = evidence::ended_without_data(path);
        }
        let how = match log::last_words(&self.log) {
            Some(line) if !asked => format!("{how}: {line}"),
            _ => how,
        };
        Ended {
            ordinal: self.ordinal,
            exit: Exit {
                at: supervise::now(),
                asked,
                how,
            },
        }
    }

    async fn end(&mut self) -> String {
        match (&mut self.child, &self.handle) {
            (Some(child), _) => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => format!("how is not known: {error}"),
            },
            (None, Some(handle)) => match handle.ended().await {
                Ok(()) => "how is not known: another quorate had launched it".to_owned(),
                Err(error) => format!("how is not known: {error}"),
            },
            (None, None) => "how is not known".to_owned(),
        }
    }

    fn has_wal(&self) -> bool {
        self.first_start
            .as_ref()
            .is_some_and(|(_, data_dir)| evidence::has_wal(data_dir))
    }

    fn signal(&self, signal: Signal) {
        if let Some(handle) = &self.handle {
            // It fails only if the process has ended, which is what was wanted.
            let _ = handle.signal(signal);
        }
    }
}
