//! How the backups of a running cluster are, in a sentence or two.
//!
//! In: what the supervisor knows of the agent, and what the agent says of itself. Out: words for `quorate status`. What the
//! agent does not say is left out, not guessed.

use std::time::Duration;

use jiff::Timestamp;
use quorate_backup::agent::SILENT;
use quorate_host::BackupStatus;
use serde_json::Value;

use super::count::count;
use crate::duration;

/// What there is to say.
pub fn sentences(backup: &BackupStatus, now: Timestamp) -> Vec<String> {
    let (how, report) = match (backup.pid, &backup.ended, backup.silent, &backup.report) {
        (None, Some(ended), ..) => (
            format!("no agent runs: it ended ({ended}); see {}", backup.log.display()),
            None,
        ),
        (None, None, ..) => ("the agent starts when a member serves".to_owned(), None),
        (Some(_), _, Some(silent), _) => (
            format!("the agent has not reported for {silent} s; changes since then are not in it"),
            backup.last_report.as_ref(),
        ),
        (Some(_), _, None, None) => ("the agent is starting".to_owned(), None),
        (Some(_), _, None, Some(report)) => (how(report, now), Some(report)),
    };
    let mut sentences = vec![format!("{}: {how}", backup.archive)];
    let Some(report) = report else {
        return sentences;
    };
    let mut known = Vec::new();
    known.extend(ago(report, "full", now).map(|ago| format!("last full copy {ago}")));
    known.extend(ago(report, "delta", now).map(|ago| format!("last changes {ago}")));
    known.extend(proven(report, now));
    if !known.is_empty() {
        sentences.push(known.join(", "));
    }
    if let Some(missing) = report["missing"].as_i64().filter(|missing| *missing > 0) {
        sentences.push(format!(
            "{} missing: `quorate backup list` shows where",
            count(missing, "revision is", "revisions are")
        ));
    }
    sentences
}

fn how(report: &Value, now: Timestamp) -> String {
    match report["state"].as_str() {
        Some("standingBy") => {
            format!(
                "another agent writes it ({}); this one stands by, and takes over when that one is silent for {} s",
                report["writer"].as_str().unwrap_or("unknown"),
                SILENT.as_secs()
            )
        }
        Some("writing") => {
            let behind = match (report["revision"].as_i64(), report["archived"].as_i64()) {
                (Some(revision), Some(archived)) if revision > archived => revision - archived,
                (Some(_), Some(archived)) => return format!("everything up to revision {archived} is in it"),
                _ => return "the first full copy is being taken".to_owned(),
            };
            let of = since(&report["behindSince"], now)
                .map_or_else(String::new, |since| format!(" of the last {since}"));
            let (one, several) = (format!("revision{of} is"), format!("revisions{of} are"));
            format!("{} not in it yet", count(behind, &one, &several))
        }
        _ => match report["lastFailure"][0].as_str() {
            Some(failure) => format!("not written just now: {failure}"),
            None => "the agent is starting".to_owned(),
        },
    }
}

fn since(value: &Value, now: Timestamp) -> Option<String> {
    let at: Timestamp = value.as_str()?.parse().ok()?;
    let seconds = u64::try_from(now.duration_since(at).as_secs()).unwrap_or(0);
    Some(duration::say(Duration::from_secs(seconds)))
}

fn ago(report: &Value, what: &str, now: Timestamp) -> Option<String> {
    since(&report[what]["at"], now).map(|since| format!("{since} ago"))
}

fn proven(report: &Value, now: Timestamp) -> Option<String> {
    let (mark, level) = (&report["proof"][0], report["proof"][1].as_str()?);
    let since = since(&mark["at"], now)?;
    Some(format!(
        "proven restorable ({level}) up to revision {} {since} ago",
        mark["revision"]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_known_is_said() {
        let now = Timestamp::from_second(1_800_000_060).unwrap();
        let at = Timestamp::from_second(1_800_000_000).unwrap().to_string();
        let shown_for = |pid, report| {
            let backup = BackupStatus {
                archive: "file:///a".to_owned(),
                pid,
                report,
                ended: Some("exit status: 1: no bucket".to_owned()),
                log: "/r/logs/backup.log".into(),
                ..BackupStatus::default()
            };
            sentences(&backup, now)
        };
        assert_eq!(
            shown_for(None, None),
            ["file:///a: no agent runs: it ended (exit status: 1: no bucket); see /r/logs/backup.log"]
        );
        let report = json!({
            "state": "writing", "revision": 12, "archived": 10, "behindSince": at, "missing": 3,
            "full": {"revision": 7, "at": at}, "proof": [{"revision": 7, "at": at}, "rebuilt"],
        });
        assert_eq!(
            shown_for(Some(1), Some(report)),
            [
                "file:///a: 2 revisions of the last 60 s are not in it yet",
                "last full copy 60 s ago, proven restorable (rebuilt) up to revision 7 60 s ago",
                "3 revisions are missing: `quorate backup list` shows where",
            ]
        );
        let report = json!({"state": "writing", "revision": 12, "archived": 11, "missing": 1});
        assert_eq!(
            shown_for(Some(1), Some(report)),
            [
                "file:///a: 1 revision is not in it yet",
                "1 revision is missing: `quorate backup list` shows where",
            ]
        );
        let report = json!({"state": "writing", "revision": 12, "archived": 11, "behindSince": at});
        assert_eq!(
            shown_for(Some(1), Some(report)),
            ["file:///a: 1 revision of the last 60 s is not in it yet"]
        );
        let report = json!({"state": "writing", "revision": 12, "archived": 12});
        assert_eq!(
            shown_for(Some(1), Some(report)),
            ["file:///a: everything up to revision 12 is in it"]
        );
        let silent = BackupStatus {
            archive: "file:///a".to_owned(),
            pid: Some(1),
            silent: Some(40),
            last_report: Some(
                json!({"state": "writing", "revision": 12, "archived": 12, "full": {"at": at}}),
            ),
            ..BackupStatus::default()
        };
        assert_eq!(
            sentences(&silent, now),
            [
                "file:///a: the agent has not reported for 40 s; changes since then are not in it",
                "last full copy 60 s ago"
            ]
        );
        let report = json!({"state": "standingBy", "writer": "b/agent"});
        assert_eq!(
            shown_for(Some(1), Some(report)),
            [
                "file:///a: another agent writes it (b/agent); this one stands by, and takes over when that one is silent for 60 s"
            ]
        );
    }
}
