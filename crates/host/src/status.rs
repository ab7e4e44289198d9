//! What anyone may know about the cluster: `status.json`, and what `quorate status` prints.
//!
//! In: one pass (spec, observation, memory, plan). Out: plain data, camelCase JSON that is a contract.
//! Never: a secret; a guess (what was not seen in this pass is absent, not repeated from an older one).

use std::path::PathBuf;
use std::time::Duration;

use quorate_core::model::{Ordinal, Process, Time};
use quorate_core::reason::StatusReason;
use quorate_core::{Observed, Plan, Spec};
use serde::{Deserialize, Serialize};

use crate::ground::Ground;
use crate::ground::certs;
use crate::root::asides::Aside;
use crate::supervise::backup_agent::BackupStatus;

/// The state of a host cluster as last seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub cluster: String,
    pub root: PathBuf,
    pub supervisor: SupervisorStatus,
    /// The manifest in use.
    pub manifest: PathBuf,
    /// What the manifest asks for.
    pub spec: Wanted,
    /// etcd's id of the cluster, in hexadecimal, once known.
    pub cluster_id: Option<String>,
    /// Every member wanted or known, by ordinal.
    pub members: Vec<Member>,
    /// All members wanted are healthy voters, and nothing is left to do.
    pub ready: bool,
    /// What is being done.
    pub plan: Vec<String>,
    pub waits: Vec<Wait>,
    pub blocks: Vec<Block>,
    /// Faults of the manifest, warnings, steps that failed last.
    pub problems: Vec<String>,
    /// Old data of members that were replaced or went; looked at once a minute.
    pub asides: Vec<Aside>,
    pub endpoints: Vec<String>,
    /// What clients connect with; absent where TLS is off.
    pub certs: Option<Certs>,
    /// Backups, where the manifest asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupStatus>,
    /// When this was written, RFC 3339.
    pub updated_at: String,
    /// How many seconds ago that was; computed by the reader.
    pub age: Option<u64>,
    /// It is not how the cluster is now: no supervisor runs, or it has not written for a while. Computed by the reader.
    pub stale: bool,
}

/// A status this old, while a supervisor runs, is stale: it is rewritten every few seconds.
pub const STALE: Duration = Duration::from_secs(15);

impl Status {
    /// As far as a reader may believe it. What is old, and whose process has gone, is not healthy.
    pub(crate) fn with_freshness(mut self, now: jiff::Timestamp) -> Status {
        let written: Option<jiff::Timestamp> = self.updated_at.parse().ok();
        // A clock that was set back makes nothing older than new.
        self.age = written.map(|at| u64::try_from(now.duration_since(at).as_secs()).unwrap_or(0));
        let old = self.age.is_none_or(|age| age >= STALE.as_secs());
        let supervised = self.supervisor.running;
        self.stale = old || !supervised;
        let mut gone = false;
        for member in &mut self.members {
            let of_it = member.data_dir.to_string_lossy();
            let lives = member.pid.is_some_and(|pid| runs(pid, &of_it));
            if !lives && (member.pid.is_some() || !supervised) {
                gone = true;
                member.pid = None;
                member.process = if supervised {
                    "ended: its process is gone"
                } else {
                    "stopped"
                }
                .to_owned();
                (member.healthy, member.leader) = (false, false);
            }
            if self.stale {
                (member.healthy, member.leader) = (false, false);
            }
        }
        let agent = self.backup.as_mut();
        if let Some(backup) = agent.filter(|b| b.pid.is_some_and(|pid| !runs(pid, "backup"))) {
            backup.pid = None;
            backup
                .ended
                .get_or_insert_with(|| "its process is gone".to_owned());
        }
        if !supervised {
            self.endpoints.clear();
        }
        if gone || self.stale {
            self.ready = false;
        }
        self.check_disk();
        self.look_at_backups(now);
        self
    }

    /// Adds a problem if the backup agent stopped, or stopped reporting.
    fn look_at_backups(&mut self, now: jiff::Timestamp) {
        let name = StatusReason::BackupSilent.name();
        self.problems.retain(|problem| !problem.starts_with(name));
        let Some(backup) = self.backup.as_mut() else {
            return;
        };
        backup.with_freshness(now);
        if !self.supervisor.running {
            return;
        }
        let why = match (backup.pid, &backup.ended, backup.silent) {
            (None, Some(ended), _) => format!("the backup agent does not run ({ended})"),
            (Some(pid), _, Some(silent)) => {
                format!("the backup agent (pid {pid}) has not reported for {silent} s")
            }
            _ => return,
        };
        self.problems.push(format!(
            "{name}: {why}; changes since then are not in {}",
            backup.archive
        ));
    }
}

/// Is there a process of this id whose command line says `of`? Another may have got the number.
fn runs(pid: u32, of: &str) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(of)
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SupervisorStatus {
    pub pid: u32,
    /// Since when, RFC 3339.
    pub since: String,
    /// Whether it runs; set by the reader, who can see the lock.
    pub running: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Wanted {
    pub replicas: u32,
    pub version: String,
    pub paused: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Member {
    pub name: String,
    /// etcd's id, in hexadecimal, once known.
    pub id: Option<String>,
    pub ordinal: u32,
    /// A linearizable read through it succeeded (for a learner: it answers).
    pub healthy: bool,
    pub leader: bool,
    /// It does not vote yet.
    pub learner: bool,
    /// `leader`, `voter`, `learner`, `unlisted` or `unknown`.
    pub role: String,
    /// The version it runs, or last ran.
    pub version: Option<String>,
    /// The size of its database file in bytes.
    pub db_size: Option<u64>,
    /// How much of it is in use.
    pub db_size_in_use: Option<u64>,
    /// Where clients reach it.
    pub client_url: String,
    /// Where members reach it.
    pub peer_url: String,
    /// Its process, while one runs.
    pub pid: Option<u32>,
    /// `running`, `stopping`, `stopped`, or how it ended.
    pub process: String,
    /// How often it was started again since this supervisor began.
    pub restarts: u32,
    pub log: PathBuf,
    pub data_dir: PathBuf,
}

/// Something that passes by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Wait {
    pub reason: String,
    pub member: Option<String>,
    pub detail: String,
    /// When it is looked at again, RFC 3339.
    pub until: Option<String>,
}

/// Something that needs a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Block {
    pub reason: String,
    pub member: Option<String>,
    pub detail: String,
}

/// The files a client needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Certs {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Everything a status is made from.
pub(crate) struct Pass<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) spec: &'a Spec,
    pub(crate) observed: &'a Observed,
    pub(crate) plan: &'a Plan,
    pub(crate) problems: Vec<String>,
    pub(crate) manifest: PathBuf,
    pub(crate) supervisor: SupervisorStatus,
}

impl Pass<'_> {
    /// The status after this pass; its time is set when it is written.
    pub(crate) fn status(self) -> Status {
        let Pass {
            ground,
            spec,
            observed,
            plan,
            problems,
            manifest,
            supervisor,
        } = self;
        let members: Vec<Member> = observed
            .slots
            .keys()
            .filter_map(|o| member(ground, spec, observed, *o))
            .collect();
        let wanted = Wanted {
            replicas: spec.replicas,
            version: spec.version.to_string(),
            paused: spec.paused,
        };
        let voters = members
            .iter()
            .filter(|m| m.healthy && !m.learner && m.id.is_some())
            .count();
        let settled = plan.steps.is_empty() && plan.waits.is_empty() && plan.blocks.is_empty();
        let name = |ordinal: Option<Ordinal>| ordinal.map(|ordinal| ground.name(ordinal).to_string());
        let wait = |wait: &quorate_core::plan::Wait| Wait {
            reason: wait.reason.to_string(),
            member: name(wait.member),
            detail: wait.detail.clone(),
            until: wait.until.map(rfc3339),
        };
        let block = |block: &quorate_core::plan::Block| Block {
            reason: block.reason.to_string(),
            member: name(block.member),
            detail: block.detail.clone(),
        };
        Status {
            cluster: spec.name.clone(),
            root: ground.root.path().to_owned(),
            supervisor,
            manifest,
            spec: wanted,
            cluster_id: ground.journal.memory.cluster.map(|id| id.to_string()),
            ready: settled && observed.quorum.is_some() && voters == spec.replicas as usize,
            plan: plan
                .steps
                .iter()
                .map(|step| step.described(spec, &ground.journal.memory))
                .collect(),
            waits: plan.waits.iter().map(wait).collect(),
            blocks: plan.blocks.iter().map(block).collect(),
            problems,
            endpoints: members
                .iter()
                .filter(|m| m.pid.is_some())
                .map(|m| m.client_url.clone())
                .collect(),
            certs: ground.journal.tls.then(|| certs::client_files(&ground.root)),
            members,
            asides: Vec::new(),
            backup: None,
            updated_at: String::new(),
            age: None,
            stale: false,
        }
    }
}

/// One member; none for a slot that is neither wanted nor has anything left of a member.
fn member(ground: &Ground, spec: &Spec, observed: &Observed, ordinal: Ordinal) -> Option<Member> {
    let slot = observed.slots.get(&ordinal)?;
    let remembered = ground.journal.memory.slot(ordinal);
    let name = ground.name(ordinal);
    let id = slot.status.as_ref().map(|s| s.member).or(remembered.member);
    let process = ground.runner.member(ordinal);
    if !spec.wants(ordinal) && id.is_none() && process.is_none() {
        return None;
    }
    let quorum = observed.quorum.as_ref();
    let listed = quorum.and_then(|q| q.members.iter().find(|m| Some(m.id) == id));
    let leader = id.is_some() && quorum.and_then(|q| q.leader) == id;
    let learner = listed.is_some_and(|m| m.learner);
    let role = match (quorum, listed) {
        (None, _) => "unknown",
        (Some(_), None) => "unlisted",
        (Some(_), Some(_)) if leader => "leader",
        (Some(_), Some(_)) if learner => "learner",
        (Some(_), Some(_)) => "voter",
    };
    let version = slot.status.as_ref().map(|s| s.version).or(remembered.version);
    Some(Member {
        id: id.map(|id| id.to_string()),
        ordinal: ordinal.0,
        healthy: slot.status.as_ref().is_some_and(|s| s.healthy),
        leader,
        learner,
        role: role.to_owned(),
        version: version.map(|version| version.to_string()),
        db_size: slot.status.as_ref().map(|s| s.db_size),
        db_size_in_use: slot.status.as_ref().map(|s| s.db_in_use),
        client_url: ground.client_url(ordinal).unwrap_or_default(),
        peer_url: slot.peer_url.to_string(),
        pid: process.map(|process| process.record.identity.pid),
        process: match &slot.process {
            Process::Running { .. } => "running".to_owned(),
            Process::Stopping => "stopping".to_owned(),
            Process::Stopped { last: Some(exit) } if !exit.asked => format!("ended: {}", exit.how),
            Process::Stopped { .. } => "stopped".to_owned(),
        },
        restarts: ground.runner.restarts(ordinal),
        log: ground.root.log(&name),
        data_dir: ground.root.volume(&name, remembered.generation),
        name: name.to_string(),
    })
}

/// A time for people and programs.
pub(crate) fn rfc3339(time: Time) -> String {
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| time.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "2026-01-01T00:00:00Z";

    /// A healthy cluster of one whose process is this one, with an agent that is too.
    fn healthy() -> Status {
        Status {
            updated_at: WRITTEN.to_owned(),
            root: PathBuf::from("/"),
            supervisor: SupervisorStatus {
                running: true,
                ..SupervisorStatus::default()
            },
            members: vec![Member {
                healthy: true,
                leader: true,
                pid: Some(std::process::id()),
                process: "running".to_owned(),
                ..Member::default()
            }],
            backup: Some(BackupStatus {
                pid: Some(u32::MAX),
                ..BackupStatus::default()
            }),
            endpoints: vec!["https://127.0.0.1:2379".to_owned()],
            ready: true,
            ..Status::default()
        }
    }

    fn after(seconds: i64, status: Status) -> Status {
        let written: jiff::Timestamp = WRITTEN.parse().unwrap();
        status.with_freshness(written + jiff::SignedDuration::from_secs(seconds))
    }

    #[test]
    fn what_is_old_is_not_healthy() {
        for (seconds, age) in [(2, 2), (-60, 0)] {
            let seen = after(seconds, healthy());
            assert_eq!((seen.age, seen.stale, seen.ready), (Some(age), false, true));
            assert!(seen.members[0].healthy);
        }
        let old = after(15, healthy());
        assert_eq!((old.age, old.stale, old.ready), (Some(15), true, false));
        assert_eq!((old.members[0].healthy, old.members[0].leader), (false, false));
        assert_eq!(
            old.members[0].pid,
            Some(std::process::id()),
            "it runs all the same"
        );
        let undated = Status {
            updated_at: String::new(),
            ..healthy()
        };
        assert!(after(0, undated).stale);
    }

    #[test]
    fn what_nobody_looks_after_is_not_healthy() {
        let mut left = healthy();
        left.supervisor.running = false;
        let left = after(0, left);
        assert_eq!((left.stale, left.ready, left.endpoints.len()), (true, false, 0));
        assert_eq!(left.members[0].process, "running");
    }

    #[test]
    fn who_is_gone_is_said_to_be() {
        let mut dead = healthy();
        dead.members[0].data_dir = PathBuf::from("/no/such/data");
        let supervised = after(0, dead.clone());
        let member = &supervised.members[0];
        assert_eq!((member.pid, member.healthy), (None, false));
        assert_eq!(member.process, "ended: its process is gone");
        assert_eq!((supervised.ready, supervised.stale), (false, false));
        dead.supervisor.running = false;
        assert_eq!(after(0, dead).members[0].process, "stopped");
        let backup = after(0, healthy()).backup.unwrap();
        assert_eq!(
            (backup.pid, backup.ended.as_deref()),
            (None, Some("its process is gone"))
        );
    }

    #[test]
    fn an_agent_that_says_nothing_is_said_to_be_silent() {
        let reported = |seconds, pid, running| {
            let mut status = healthy();
            status.supervisor.running = running;
            let backup = status.backup.as_mut().unwrap();
            (backup.pid, backup.archive) = (pid, "file:///a".to_owned());
            backup.report = Some(serde_json::json!({ "writtenAt": WRITTEN }));
            // What was written before the reader looked is replaced.
            status.problems = vec!["BackupSilent: old".to_owned()];
            let mut problems = after(seconds, status).problems;
            problems.retain(|problem| problem.starts_with("BackupSilent"));
            problems
        };
        let gone = reported(0, Some(u32::MAX), true);
        assert!(
            gone[0].starts_with("BackupSilent: the backup agent does not run"),
            "{gone:?}"
        );
        assert!(reported(0, Some(u32::MAX), false).is_empty(), "nothing is to run");
        // One that hangs is the process of this test: it runs.
        let hanging = |seconds, report: Option<serde_json::Value>| {
            let mut status = healthy();
            status.backup = Some(BackupStatus {
                pid: Some(std::process::id()),
                started_at: Some(WRITTEN.to_owned()),
                report,
                ..BackupStatus::default()
            });
            let written: jiff::Timestamp = WRITTEN.parse().unwrap();
            status.look_at_backups(written + jiff::SignedDuration::from_secs(seconds));
            (status.problems.pop(), status.backup.unwrap())
        };
        let report = serde_json::json!({ "writtenAt": "2026-01-01T00:01:00Z", "archived": 7 });
        for (seconds, report) in [
            (19, None),
            (79, Some(report.clone())),
            (-30, Some(report.clone())),
        ] {
            let (problem, backup) = hanging(seconds, report.clone());
            assert_eq!((problem, backup.silent), (None, None), "{seconds}");
            assert_eq!((backup.report, backup.last_report), (report, None));
        }
        let (problem, backup) = hanging(20, None);
        assert!(
            problem.unwrap().contains("has not reported for 20 s"),
            "since its start"
        );
        assert_eq!((backup.silent, backup.last_report), (Some(20), None));
        let (problem, backup) = hanging(100, Some(report.clone()));
        assert!(problem.unwrap().contains("has not reported for 40 s"));
        assert_eq!(
            (backup.report, backup.last_report),
            (None, Some(report)),
            "it is not the present"
        );
    }
}
