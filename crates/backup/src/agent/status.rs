//! How the agent is: told to whoever asks, as plain data and as metrics.
//!
//! In: what happens. Out: a [`Status`], or lines that Prometheus reads. Never: a secret.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

use crate::format::record::Level;
use crate::{Error, Trouble};

/// What the agent is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum State {
    /// It has not opened the archive yet.
    #[default]
    Starting,
    /// Another agent writes the archive.
    StandingBy {
        writer: String,
    },
    Writing,
    Stopped,
}

/// Something of the archive, and when it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    pub revision: i64,
    pub at: Timestamp,
}

/// How the agent is.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// What it is doing.
    #[serde(flatten)]
    pub state: State,
    /// The archive, without secrets.
    pub store: String,
    /// The timeline it writes.
    pub timeline: Option<u32>,
    pub epoch: Option<u64>,
    /// Whether the store refuses to create one name twice. Where it does not, two agents at once are not kept apart.
    pub fenced: Option<bool>,
    /// The member that is watched.
    pub watching: Option<String>,
    /// What the cluster has come to.
    pub revision: Option<i64>,
    /// What the archive has come to.
    pub archived: Option<i64>,
    /// Events that have come and are not in the archive.
    pub unflushed: u64,
    /// Since when the oldest of them waits.
    pub oldest_unflushed: Option<Timestamp>,
    /// Since when, at the earliest, the cluster is ahead of the archive.
    pub behind_since: Option<Timestamp>,
    /// The newest full copy.
    pub full: Option<Mark>,
    /// One is being taken; its bytes so far.
    pub full_running: Option<u64>,
    pub delta: Option<Mark>,
    /// What was last proven to be restorable, and how far.
    pub proof: Option<(Mark, Level)>,
    /// Revisions that are lost to the archive.
    pub missing: i64,
    /// Full copies taken by this agent.
    pub fulls: u64,
    /// Deltas written by this agent.
    pub deltas: u64,
    /// Bytes of full copies that it has stored.
    pub full_bytes: u64,
    /// Bytes of deltas that it has stored.
    pub delta_bytes: u64,
    /// Bytes of rows in them, before packing.
    pub row_bytes: u64,
    /// What failed, by reason.
    pub failures: BTreeMap<&'static str, u64>,
    /// What failed last, and when.
    pub last_failure: Option<(String, Timestamp)>,
}

impl Status {
    /// How many revisions the archive is behind.
    pub fn lag_revisions(&self) -> i64 {
        match (self.revision, self.archived) {
            (Some(revision), Some(archived)) => (revision - archived).max(0),
            _ => 0,
        }
    }
}

/// Where the agent writes how it is. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<Status>>);

impl Board {
    /// How it is now.
    pub fn status(&self) -> Status {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Something failed and will be tried again.
    pub(super) fn failed(&self, doing: &'static str, error: &Error, now: Timestamp) {
        let reason = reason(error);
        let text = describe(error);
        tracing::warn!(reason, error = text, "{doing} failed; it will be tried again");
        self.update(|status| {
            *status.failures.entry(reason).or_default() += 1;
            status.last_failure = Some((format!("{doing}: {text}"), now));
        });
    }

    pub fn metrics(&self, now: Timestamp) -> String {
        metrics(&self.status(), now)
    }
}

/// An error on one line, with its causes and what can be done.
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::Etcd(error) => error.chain(),
        Error::Refused { what, advice } => format!("{what}; {advice}"),
        error => error.to_string(),
    }
}

/// The name under which a failure is counted.
pub fn reason(error: &Error) -> &'static str {
    match error {
        Error::Store { trouble, .. } => match trouble {
            Trouble::Missing => "store_missing",
            Trouble::NoBucket => "store_no_bucket",
            Trouble::Denied => "store_denied",
            Trouble::Full => "store_full",
            Trouble::Throttled => "store_throttled",
            Trouble::Unreachable => "store_unreachable",
            Trouble::Locked => "store_locked",
            Trouble::Other => "store_other",
        },
        Error::Etcd(_) => "etcd",
        Error::Damaged { .. } => "damaged",
        Error::Fenced { .. } => "fenced",
        Error::Refused { .. } => "refused",
        _ => "other",
    }
}

fn metrics(status: &Status, now: Timestamp) -> String {
    let mut text = String::new();
    let mut one = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            let _ = write!(
                text,
                "# HELP quorate_backup_{name} {help}\n# TYPE quorate_backup_{name} {kind}\nquorate_backup_{name} {value}\n"
            );
        }
    };
    let age = |at: Timestamp| now.duration_since(at).as_secs_f64().max(0.0);
    let writing = matches!(status.state, State::Writing);
    let (gauge, counter) = ("gauge", "counter");
    one(
        "writing",
        gauge,
        "1 if this agent writes the archive, 0 if it starts or stands by.",
        Some(f64::from(u8::from(writing))),
    );
    one(
        "fenced",
        gauge,
        "1 if the store keeps two writers apart.",
        status.fenced.map(|fenced| f64::from(u8::from(fenced))),
    );
    for (what, mark) in [
        ("full", status.full),
        ("delta", status.delta),
        ("proven", status.proof.map(|(mark, _)| mark)),
    ] {
        let help = format!("Seconds since the last {what} was recorded.");
        one(
            &format!("last_{what}_age_seconds"),
            gauge,
            &help,
            mark.map(|mark| age(mark.at)),
        );
        let help = format!("The revision of the last {what}.");
        one(
            &format!("last_{what}_revision"),
            gauge,
            &help,
            mark.map(|mark| mark.revision as f64),
        );
    }
    one(
        "last_proven_level",
        gauge,
        "How far it was proven: 1 read, 2 rebuilt, 3 served.",
        status.proof.map(|(_, level)| match level {
            Level::Read => 1.0,
            Level::Rebuilt => 2.0,
            Level::Served => 3.0,
        }),
    );
    one(
        "cluster_revision",
        gauge,
        "The revision of the cluster.",
        status.revision.map(|revision| revision as f64),
    );
    one(
        "archived_revision",
        gauge,
        "The last revision of the sequence of changes in the archive.",
        status.archived.map(|revision| revision as f64),
    );
    one(
        "lag_revisions",
        gauge,
        "How many revisions the archive is behind the cluster.",
        Some(status.lag_revisions() as f64),
    );
    one(
        "lag_seconds",
        gauge,
        "For how long the archive has been behind the cluster.",
        Some(status.behind_since.map_or(0.0, age)),
    );
    one(
        "oldest_unflushed_seconds",
        gauge,
        "The age of the oldest event that came and is not in the archive.",
        Some(status.oldest_unflushed.map_or(0.0, age)),
    );
    one(
        "missing_revisions",
        gauge,
        "Revisions that are lost to the archive.",
        Some(status.missing as f64),
    );
    for (name, help, value) in [
        ("fulls_total", "Full copies taken.", status.fulls),
        ("deltas_total", "Deltas written.", status.deltas),
        (
            "full_bytes_total",
            "Bytes of full copies stored.",
            status.full_bytes,
        ),
        ("delta_bytes_total", "Bytes of deltas stored.", status.delta_bytes),
        (
            "row_bytes_total",
            "Bytes of the rows in deltas, before packing.",
            status.row_bytes,
        ),
    ] {
        one(name, counter, help, Some(value as f64));
    }
    text.push_str("# HELP quorate_backup_failures_total What failed and was tried again, by reason.\n");
    text.push_str("# TYPE quorate_backup_failures_total counter\n");
    for (reason, count) in &status.failures {
        let _ = writeln!(
            text,
            "quorate_backup_failures_total{{reason=\"{reason}\"}} {count}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_tell_ages_lag_and_failures() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let board = Board::default();
        board.update(|status| {
            status.state = State::Writing;
            status.revision = Some(120);
            status.archived = Some(100);
            status.behind_since = Some(at(990));
            status.full = Some(Mark {
                revision: 50,
                at: at(400),
            });
            status.proof = Some((
                Mark {
                    revision: 40,
                    at: at(100),
                },
                Level::Rebuilt,
            ));
        });
        let error = Error::refused("no", "never");
        board.failed("a test", &error, at(999));
        let text = board.metrics(at(1000));
        for line in [
            "quorate_backup_writing 1",
            "quorate_backup_last_full_age_seconds 600",
            "quorate_backup_last_full_revision 50",
            "quorate_backup_last_proven_level 2",
            "quorate_backup_lag_revisions 20",
            "quorate_backup_lag_seconds 10",
            "quorate_backup_oldest_unflushed_seconds 0",
            "quorate_backup_failures_total{reason=\"refused\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("last_delta_age"), "{text}");
        let json = serde_json::to_value(board.status()).unwrap();
        assert_eq!(json["state"], "writing");
    }
}
