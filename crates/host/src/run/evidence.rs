//! `run/<name>-g<N>.first`: positive evidence about the first start on a fresh volume.
//!
//! ```text
//! (nothing) ──executor──▶ armed ──launcher, just before exec──▶ fired ──watcher, if it ended without a WAL──▶ ended-without-data
//! ```
//!
//! Absence proves nothing, `fired` proves nothing: both are read as unknown. The file lies outside the volume, so
//! that wiping a member's directory cannot forge "it never ran".

use std::path::Path;

use quorate_core::model::FirstStart;
use quorate_datadir::durable;

use crate::Error;

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    Absent,
    /// A first start was prepared; the launcher has not come to it.
    Armed,
    /// The launcher was about to become etcd.
    Fired,
    /// etcd ran, was watched all the while, and ended before it had a write-ahead log.
    EndedWithoutData,
    /// Something else is in the file.
    Unreadable,
}

const ARMED: &str = "armed";
const FIRED: &str = "fired";
const ENDED: &str = "ended-without-data";

impl Evidence {
    pub fn read(path: &Path) -> Result<Evidence, Error> {
        let Some(content) = durable::read(path, 1024)? else {
            return Ok(Evidence::Absent);
        };
        Ok(match std::str::from_utf8(&content).map(str::trim) {
            Ok(ARMED) => Evidence::Armed,
            Ok(FIRED) => Evidence::Fired,
            Ok(ENDED) => Evidence::EndedWithoutData,
            _ => Evidence::Unreadable,
        })
    }

    /// May a first start run on the volume this is about?
    pub fn allows(self) -> bool {
        matches!(self, Evidence::Armed | Evidence::EndedWithoutData)
    }

    /// As the planner understands it, given whether a process of that member is (or may be) alive.
    pub fn first_start(self, alive: bool) -> FirstStart {
        match self {
            _ if alive => FirstStart::Unknown,
            Evidence::Armed => FirstStart::NotRun,
            Evidence::EndedWithoutData => FirstStart::RanWithoutData,
            Evidence::Absent | Evidence::Fired | Evidence::Unreadable => FirstStart::Unknown,
        }
    }
}

/// Prepares a first start. What is already there is left alone, and returned.
pub fn arm(path: &Path) -> Result<Evidence, Error> {
    let present = Evidence::read(path)?;
    if present == Evidence::Absent {
        durable::write(path, ARMED.as_bytes())?;
        return Ok(Evidence::Armed);
    }
    Ok(present)
}

/// The launcher is about to become etcd. Only where a first start is allowed.
pub fn fire(path: &Path) -> Result<Evidence, Error> {
    let present = Evidence::read(path)?;
    if present.allows() {
        durable::write(path, FIRED.as_bytes())?;
    }
    Ok(present)
}

/// The watched process ended and never had a write-ahead log.
pub fn ended_without_data(path: &Path) -> Result<(), Error> {
    // Only what was fired can have ended: a launcher that failed before it leaves `armed`, which says more.
    if Evidence::read(path)? == Evidence::Fired {
        durable::write(path, ENDED.as_bytes())?;
    }
    Ok(())
}

/// Is there a write-ahead log in this data directory? A directory that cannot be read counts as one: what cannot
/// be seen must not prove absence.
pub fn has_wal(data_dir: &Path) -> bool {
    let entries = match data_dir.join("member/wal").read_dir() {
        Ok(entries) => entries,
        Err(error) => return error.kind() != std::io::ErrorKind::NotFound,
    };
    entries.into_iter().any(|entry| match entry {
        Ok(entry) => entry
            .path()
            .extension()
            .is_some_and(|extension| extension == "wal"),
        Err(_) => true,
    })
}

/// Has this living process ever had a write-ahead log in `data_dir`? etcd keeps its log open for life, so a log that was
/// deleted under it still shows among its open files. What cannot be seen counts as a log.
pub fn had_wal(pid: u32, data_dir: &Path) -> bool {
    let wal = data_dir.join("member/wal");
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return true;
    };
    open.into_iter().any(
        |entry| match entry.and_then(|entry| std::fs::read_link(entry.path())) {
            Ok(target) => target.starts_with(&wal),
            // It was closed between the listing and the look.
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_only_moves_forward() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c-0-g0.first");
        assert_eq!(fire(&path).unwrap(), Evidence::Absent);
        assert_eq!(
            Evidence::read(&path).unwrap(),
            Evidence::Absent,
            "nothing is fired that was not armed"
        );
        ended_without_data(&path).unwrap();
        assert_eq!(Evidence::read(&path).unwrap(), Evidence::Absent);
        assert_eq!(arm(&path).unwrap(), Evidence::Armed);
        ended_without_data(&path).unwrap();
        assert_eq!(Evidence::read(&path).unwrap(), Evidence::Armed);
        assert_eq!(fire(&path).unwrap(), Evidence::Armed);
        assert_eq!(
            arm(&path).unwrap(),
            Evidence::Fired,
            "what was fired is never armed again"
        );
        assert_eq!(fire(&path).unwrap(), Evidence::Fired);
        ended_without_data(&path).unwrap();
        assert_eq!(arm(&path).unwrap(), Evidence::EndedWithoutData);
        assert!(fire(&path).unwrap().allows());
        assert_eq!(Evidence::read(&path).unwrap(), Evidence::Fired);
    }

    #[test]
    fn only_positive_evidence_counts() {
        let table = [
            (Evidence::Absent, FirstStart::Unknown),
            (Evidence::Armed, FirstStart::NotRun),
            (Evidence::Fired, FirstStart::Unknown),
            (Evidence::EndedWithoutData, FirstStart::RanWithoutData),
            (Evidence::Unreadable, FirstStart::Unknown),
        ];
        for (evidence, expected) in table {
            assert_eq!(evidence.first_start(false), expected);
            assert_eq!(evidence.first_start(true), FirstStart::Unknown);
        }
    }

    #[test]
    fn a_wal_is_seen_and_a_temporary_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!has_wal(dir.path()));
        std::fs::create_dir_all(dir.path().join("member/wal.tmp")).unwrap();
        std::fs::write(dir.path().join("member/wal.tmp/0.wal"), "").unwrap();
        assert!(!has_wal(dir.path()));
        std::fs::create_dir_all(dir.path().join("member/wal")).unwrap();
        std::fs::write(dir.path().join("member/wal/0.tmp"), "").unwrap();
        assert!(!has_wal(dir.path()));
        std::fs::write(dir.path().join("member/wal/0-0.wal"), "").unwrap();
        assert!(has_wal(dir.path()));
    }

    #[test]
    fn a_log_that_was_deleted_under_a_process_still_shows() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let wal = dir.path().join("member/wal");
        std::fs::create_dir_all(&wal).unwrap();
        assert!(!had_wal(own, dir.path()));
        let held = std::fs::File::create(wal.join("0.wal")).unwrap();
        assert!(had_wal(own, dir.path()));
        std::fs::remove_dir_all(dir.path().join("member")).unwrap();
        assert!(!has_wal(dir.path()));
        assert!(had_wal(own, dir.path()), "the wipe is seen through");
        drop(held);
        assert!(!had_wal(own, dir.path()));
        assert!(
            had_wal(u32::MAX, dir.path()),
            "what cannot be seen proves nothing"
        );
    }
}
