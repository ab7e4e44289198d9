//! The backup agent beside the members: a process of its own, kept running while the cluster does.
//!
//! In: what the manifest says of backups. Out: `quorate backup run …` as a child, its log, what it says of itself. It is
//! a process and no task, so that nothing that happens to it or its store can touch the members or their supervisor; it
//! ends with the supervisor, and the next one starts it again: the archive knows where it was.
//! Never: a member that waits for a backup, or for an agent's end; an agent that is started again and again without a pause.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use quorate_api::BackupSettings;
use quorate_datadir::durable;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout_at};

use crate::root::log;
use crate::{Error, Root};

/// How long it may take to flush what it has before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// The pause after its first end; it doubles with each.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// It ran well if it ran that long.
const RAN_WELL: Duration = Duration::from_secs(300);
/// What an agent says of itself is a page.
const REPORT_MAX: u64 = 1 << 20;

/// What is known of the backups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupStatus {
    pub archive: String,
    /// The agent's process, while one runs.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u32,
    /// How it ended last, if it did.
    pub ended: Option<String>,
    pub log: PathBuf,
    /// Since when that process runs, RFC 3339.
    pub started_at: Option<String>,
    /// What it says of itself.
    pub report: Option<serde_json::Value>,
    /// For how many seconds it has not reported, once that is too long; computed by the reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<u64>,
    /// Its last report in place of the present one, if it is silent or does not run; computed by the reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_report: Option<serde_json::Value>,
}

/// The agent rewrites its report every few seconds; one older than this means that it hangs.
const SILENT: Duration = Duration::from_secs(20);

impl BackupStatus {
    /// As far as a reader may believe it: an agent that does not run, or hangs, reports nothing.
    pub(crate) fn with_freshness(&mut self, now: jiff::Timestamp) {
        self.silent = self.silent_for(now).filter(|silent| *silent >= SILENT.as_secs());
        if self.pid.is_none() || self.silent.is_some() {
            self.last_report = self.report.take().or(self.last_report.take());
        }
    }

    /// The seconds since the last report of the agent that runs, or else since its start. A clock that was set back makes
    /// nothing older.
    fn silent_for(&self, now: jiff::Timestamp) -> Option<u64> {
        self.pid?;
        let reported = self
            .report
            .as_ref()
            .and_then(|report| report.get("writtenAt")?.as_str());
        let last: jiff::Timestamp = reported.or(self.started_at.as_deref())?.parse().ok()?;
        Some(u64::try_from(now.duration_since(last).as_secs()).unwrap_or(0))
    }
}

#[derive(Debug)]
pub(crate) struct BackupAgent {
    launcher: PathBuf,
    root: Root,
    wanted: Option<BackupSettings>,
    running: Option<(Child, Instant)>,
    started_at: Option<jiff::Timestamp>,
    /// It was asked to stop, and is killed at this time.
    stopping: Option<Instant>,
    stop_limit: Duration,
    ends: u32,
    starts: u32,
    not_before: Option<Instant>,
    ended: Option<String>,
}

impl BackupAgent {
    pub(crate) fn new(launcher: PathBuf, root: Root) -> BackupAgent {
        BackupAgent {
            launcher,
            root,
            wanted: None,
            running: None,
            started_at: None,
            stopping: None,
            stop_limit: STOP_LIMIT,
            ends: 0,
            starts: 0,
            not_before: None,
            ended: None,
        }
    }

    /// Looks after it: started if it is wanted and the cluster serves, stopped if it is not, restarted if what is
    /// wanted has changed. It waits for nothing: what is not done yet is looked at the next time. Returns what is worth
    /// telling.
    pub(crate) fn tend(&mut self, wanted: Option<&BackupSettings>, serves: bool) -> Option<String> {
        let mut news = self.reap();
        if self.wanted.as_ref() != wanted {
            (self.ends, self.not_before) = (0, None);
            self.wanted = wanted.cloned();
            if self.running.is_some() {
                self.ask_to_stop();
                news = Some(match wanted {
                    Some(_) => "the backup agent is restarted, as the manifest says now".to_owned(),
                    None => "the backup agent is stopped, as the manifest says now".to_owned(),
                });
            }
        }
        if let (Some(at), Some((child, _))) = (self.stopping, &mut self.running)
            && Instant::now() >= at
        {
            // Its end is noticed the next time.
            let _ = child.start_kill();
        }
        let due = self.not_before.is_none_or(|at| Instant::now() >= at);
        if self.running.is_none() && self.wanted.is_some() && due && serves {
            match self.start() {
                Ok(()) if self.starts == 1 => news = Some(format!("backups go to {}", self.archive())),
                Ok(()) => {}
                Err(error) => news = Some(self.failed(error.chain())),
            }
        }
        news
    }

    fn reap(&mut self) -> Option<String> {
        let (child, since) = self.running.as_mut()?;
        let how = match child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        if since.elapsed() >= RAN_WELL {
            self.ends = 0;
        }
        self.running = None;
        if self.stopping.take().is_some() {
            return None;
        }
        let last = log::last_words(&self.root.log_of("backup"));
        Some(self.failed(match last {
            Some(line) => format!("{how}: {line}"),
            None => how,
        }))
    }

    fn failed(&mut self, why: String) -> String {
        let pause = PAUSE.saturating_mul(1 << self.ends.min(6)).min(PAUSE_MAX);
        self.ends = self.ends.saturating_add(1);
        self.not_before = Some(Instant::now() + pause);
        let reported = format!(
            "the backup agent ended ({why}); it is started again in {} s",
            pause.as_secs()
        );
        self.ended = Some(why);
        reported
    }

    fn archive(&self) -> String {
        let own = || format!("file://{}", self.root.archive().display());
        self.wanted
            .as_ref()
            .and_then(|wanted| wanted.url.clone())
            .unwrap_or_else(own)
    }

    fn start(&mut self) -> Result<(), Error> {
        let Some(wanted) = &self.wanted else {
            return Ok(());
        };
        // What the one before said of itself is not this one's word.
        let _ = std::fs::remove_file(self.root.backup_report());
        let path = self.root.log_of("backup");
        log::bound(&path)?;
        let mut options = OpenOptions::new();
        let log = options.append(true).create(true).mode(0o600).open(&path);
        let log = log.map_err(|source| Error::file("open", &path, source))?;
        let again = log
            .try_clone()
            .map_err(|source| Error::file("open", &path, source))?;
        let mut command = Command::new(&self.launcher);
        command
            .arg("--root")
            .arg(self.root.path())
            .args(["backup", "run", &self.archive(), "--supervised"]);
        command.arg("--status-file").arg(self.root.backup_report());
        command.args(wanted.flags());
        let child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(again)
            .kill_on_drop(true)
            .spawn();
        let child = child.map_err(|source| Error::Spawn {
            member: "the backup agent".to_owned(),
            program: self.launcher.clone(),
            source,
        })?;
        self.running = Some((child, Instant::now()));
        self.started_at = Some(jiff::Timestamp::now());
        self.starts += 1;
        Ok(())
    }

    /// Has it flush what it has and end, in its time.
    fn ask_to_stop(&mut self) {
        let (Some((child, _)), None) = (&self.running, self.stopping) else {
            return;
        };
        self.stopping = Some(Instant::now() + self.stop_limit);
        // Not reaped yet, so the number is still its own.
        let pid = child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
    }

    /// Has it flush what it has and end, and waits for it.
    pub(crate) async fn stop(&mut self) {
        self.ask_to_stop();
        let (Some((mut child, _)), Some(until)) = (self.running.take(), self.stopping.take()) else {
            return;
        };
        if timeout_at(until, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }

    /// Keeps its log within bounds, also while it runs.
    pub(crate) fn bound_log(&self) -> Result<(), Error> {
        log::bound(&self.root.log_of("backup")).map(drop)
    }

    /// What is known of it; `None` where no backups are wanted.
    pub(crate) fn status(&self) -> Option<BackupStatus> {
        self.wanted.as_ref()?;
        let report = durable::read(&self.root.backup_report(), REPORT_MAX)
            .ok()
            .flatten();
        Some(BackupStatus {
            archive: self.archive(),
            pid: self.running.as_ref().and_then(|(child, _)| child.id()),
            restarts: self.starts.saturating_sub(1),
            ended: self.ended.clone(),
            log: self.root.log_of("backup"),
            started_at: self
                .running
                .as_ref()
                .and(self.started_at)
                .map(|at| at.to_string()),
            silent: None,
            last_report: None,
            report: report.and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// An agent that says its arguments and does not heed SIGTERM.
    const STUBBORN: &str = "#!/bin/sh\ntrap '' TERM\necho \"$@\"\nwhile :; do sleep 0.1; done\n";

    async fn tend_until(
        backup_agent: &mut BackupAgent,
        wanted: Option<&BackupSettings>,
        so: impl Fn(&BackupAgent) -> bool,
    ) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !so(backup_agent) {
            assert!(Instant::now() < deadline, "{backup_agent:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
            backup_agent.tend(wanted, true);
        }
    }

    fn pid(backup_agent: &BackupAgent) -> Option<u32> {
        backup_agent.running.as_ref().and_then(|(child, _)| child.id())
    }

    /// One that does not end is not waited for; it is killed when its time is over, and no second one runs beside it.
    #[tokio::test]
    async fn an_end_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(&dir.path().join("root")).unwrap();
        root.prepare().unwrap();
        let launcher = dir.path().join("agent");
        fs::write(&launcher, STUBBORN).unwrap();
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o700)).unwrap();
        let mut backup_agent = BackupAgent::new(launcher, root.clone());
        // So long that it is not over by itself.
        backup_agent.stop_limit = Duration::from_secs(3600);
        let [one, two] = ["file:///one", "file:///two"].map(|url| BackupSettings {
            url: Some(url.to_owned()),
            schedule: None,
            period: None,
            keep: Vec::new(),
        });
        let log = root.log_of("backup");
        let said = |text: &'static str| {
            let log = log.clone();
            move |_: &BackupAgent| fs::read_to_string(&log).is_ok_and(|said| said.contains(text))
        };
        tend_until(&mut backup_agent, Some(&one), said("file:///one")).await;
        let first = pid(&backup_agent).unwrap();
        let news = backup_agent.tend(Some(&two), true).unwrap();
        assert!(news.contains("restarted"), "{news}");
        assert_eq!(backup_agent.tend(Some(&two), true), None);
        assert_eq!(pid(&backup_agent), Some(first));
        backup_agent.stopping = Some(Instant::now());
        tend_until(&mut backup_agent, Some(&two), said("file:///two")).await;
        assert_ne!(pid(&backup_agent), Some(first));
        let mut status = backup_agent.status().unwrap();
        let started: jiff::Timestamp = status.started_at.clone().unwrap().parse().unwrap();
        status.with_freshness(started + jiff::SignedDuration::from_secs(30));
        assert_eq!(status.silent, Some(30), "it has not reported since its start");
        assert_eq!(
            (status.restarts, status.ended),
            (1, None),
            "an end that was asked for"
        );

        // No longer wanted.
        let news = backup_agent.tend(None, true).unwrap();
        assert!(news.contains("is stopped"), "{news}");
        backup_agent.stopping = Some(Instant::now());
        tend_until(&mut backup_agent, None, |backup_agent| {
            backup_agent.running.is_none()
        })
        .await;

        // Its log is bounded while it runs, too.
        tend_until(&mut backup_agent, Some(&one), |backup_agent| {
            backup_agent.running.is_some()
        })
        .await;
        let file = OpenOptions::new().write(true).open(&log).unwrap();
        file.set_len(20 << 20).unwrap();
        backup_agent.bound_log().unwrap();
        assert!(log.metadata().unwrap().len() < 1 << 20);
        backup_agent.ask_to_stop();
        backup_agent.stopping = Some(Instant::now());
        backup_agent.stop().await;
        assert!(backup_agent.running.is_none());
    }
}
