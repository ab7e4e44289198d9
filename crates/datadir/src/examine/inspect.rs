//! Everything that a data directory which nothing runs on says of its member, but for what is in the database.
//!
//! In: a data directory whose lock is held ([`crate::DbLock`]); a log of any size, read once. Out: [`Inspection`]: whose
//! it is, how far its raft log goes, what etcd could start from, what is left over, and whether the log is whole. Its
//! numbers can be held against those in the database: `consistent_index` lies between the index of [`Inspection::start`]
//! and `last_index`, and may be past `commit`, which is not always written at once. Never: a byte changed; damage
//! taken for an end.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::snap_file::{self, SnapFile};
use crate::wal::{End, HardState, Log, SnapshotMark};
use crate::{Error, Target};

/// Leftovers that are named at most.
const LEFTOVERS_MAX: usize = 64;

/// What a data directory says of its member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The member; none if the log is damaged before it says so.
    pub member_id: Option<u64>,
    pub cluster_id: Option<u64>,
    /// How many segments the log has.
    pub segments: u64,
    /// The last hard state; zeros if there is none.
    pub state: HardState,
    /// The first entry of those up to the last without a gap.
    pub first_index: Option<u64>,
    /// The last entry, in the log or in the newest snapshot.
    pub last_index: u64,
    /// The term of that entry.
    pub last_term: u64,
    /// The snapshots that the log tells of and that are committed, in its order.
    pub snapshots: Vec<SnapshotMark>,
    /// The snapshot files, newest first.
    pub snap_files: Vec<SnapFileFound>,
    /// Databases that a leader sent, by the index of the last entry in them. etcd takes one in place of its own if
    /// that is further than its own goes.
    pub received: Vec<Received>,
    /// What etcd left unfinished or put aside, by paths in the data directory; some of them if there are many.
    pub leftovers: Vec<PathBuf>,
    /// How the log ended.
    pub end: End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapFileFound {
    pub path: PathBuf,
    /// What it says, or why etcd would not take it.
    pub content: Result<SnapFile, String>,
    /// The log tells of this snapshot; etcd ignores others.
    pub known: bool,
}

/// A database that a leader sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub path: PathBuf,
    /// The index of the last entry in it.
    pub index: u64,
}

pub fn inspect(data_dir: &Path) -> Result<Inspection, Error> {
    inspect_with_log(data_dir, &data_dir.join("member").join("wal"))
}

/// Inspects `data_dir`, whose member has its log in `wal_dir`, etcd's `--wal-dir`.
pub fn inspect_with_log(data_dir: &Path, wal_dir: &Path) -> Result<Inspection, Error> {
    let member = data_dir.join("member");
    let log = Log::read(wal_dir)?;
    let metadata = log.metadata();
    let mut inspection = Inspection {
        member_id: metadata.map(|metadata| metadata.member_id),
        cluster_id: metadata.map(|metadata| metadata.cluster_id),
        segments: log.segments().len() as u64,
        state: log.state(),
        first_index: log.first_index(),
        last_index: log.last_index(),
        last_term: log.last_term(),
        snapshots: log.snapshots().collect(),
        snap_files: Vec::new(),
        received: Vec::new(),
        leftovers: Vec::new(),
        end: log.end().clone(),
    };
    for dir in [&member, &member.join("snap"), wal_dir] {
        for name in names(dir)? {
            inspection.file(data_dir, dir, &name)?;
        }
    }
    inspection.snap_files.sort_unstable_by(|a, b| b.path.cmp(&a.path));
    inspection
        .received
        .sort_unstable_by_key(|received| received.index);
    inspection.leftovers.sort_unstable();
    Ok(inspection)
}

/// The names of the files in `dir`; those that are no text are none of etcd's.
fn names(dir: &Path) -> Result<Vec<String>, Error> {
    let failed = |source| Error::List {
        path: dir.to_owned(),
        source,
    };
    let mut names = Vec::new();
    match fs::read_dir(dir) {
        Ok(entries) => {
            for entry in entries {
                names.extend(entry.map_err(failed)?.file_name().into_string());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    Ok(names)
}

impl Inspection {
    fn file(&mut self, data_dir: &Path, dir: &Path, name: &str) -> Result<(), Error> {
        let path = dir.join(name);
        if let Some((term, index)) = snap_file::named(name) {
            let content = snap_file::read(&path)?.and_then(|content| {
                if (content.term, content.index) == (term, index) {
                    Ok(content)
                } else {
                    Err("it is of another snapshot than its name says".to_owned())
                }
            });
            let known = self.snapshots.contains(&SnapshotMark { index, term });
            self.snap_files.push(SnapFileFound { path, content, known });
            return Ok(());
        }
        let received = name.strip_suffix(".snap.db").filter(|index| index.len() == 16);
        if let Some(index) = received.and_then(|index| u64::from_str_radix(index, 16).ok()) {
            self.received.push(Received { path, index });
            return Ok(());
        }
        // `0.tmp` and `1.tmp` are segments made beforehand, `db.tmp.N` a defragmentation, `tmpN` a snapshot on its
        // way here, `wal.tmp` a log that was never finished, `*.broken` what etcd repaired.
        let unfinished = name.starts_with("tmp") || name.ends_with(".tmp") || name.contains(".tmp.");
        if (unfinished || name.contains(".broken")) && self.leftovers.len() < LEFTOVERS_MAX {
            self.leftovers
                .push(path.strip_prefix(data_dir).unwrap_or(&path).to_owned());
        }
        Ok(())
    }

    /// The snapshot that an etcd of this minor starts from; none if it finds none. Up to 3.6 it needs the file of a
    /// snapshot, and without any it starts from the first entry there ever was; from 3.7 on the log is enough.
    pub fn start(&self, target: Target) -> Option<SnapshotMark> {
        let newest = self.snapshots.iter().max().copied();
        if target >= Target::V3_7 {
            return newest;
        }
        let readable = |file: &&SnapFileFound| file.known && file.content.is_ok();
        let of = |file: &SnapFileFound| {
            let content = file.content.as_ref().ok()?;
            let (index, term) = (content.index, content.term);
            Some(SnapshotMark { index, term })
        };
        let from_file = self.snap_files.iter().filter(readable).find_map(of);
        from_file.or_else(|| self.snapshots.iter().find(|mark| mark.index == 0).copied())
    }

    /// Would entries be missing if etcd started from `start`?
    pub fn has_entries_after(&self, start: SnapshotMark) -> bool {
        start.index >= self.last_index
            || self
                .first_index
                .is_some_and(|first| first <= start.index.saturating_add(1))
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.member_id, self.cluster_id) {
            (Some(member), Some(cluster)) => writeln!(f, "member {member:x} of cluster {cluster:x}")?,
            _ => writeln!(f, "a log that does not say whose it is")?,
        }
        let HardState { term, vote, commit } = self.state;
        writeln!(f, "term {term}, vote {vote:x}, commit {commit}")?;
        let (last, last_term) = (self.last_index, self.last_term);
        match self.first_index {
            Some(first) => writeln!(f, "entries {first} to {last}, the last of term {last_term}")?,
            None => writeln!(f, "no entries; the last was {last} of term {last_term}")?,
        }
        for mark in &self.snapshots {
            writeln!(f, "snapshot {} of term {}", mark.index, mark.term)?;
        }
        for file in &self.snap_files {
            let path = file.path.display();
            match &file.content {
                Err(why) => writeln!(f, "{path}: cannot be used: {why}")?,
                Ok(_) if file.known => writeln!(f, "{path}: whole")?,
                Ok(_) => writeln!(f, "{path}: whole, and the log does not tell of it")?,
            }
        }
        for received in &self.received {
            writeln!(
                f,
                "{}: sent by a leader, up to entry {}",
                received.path.display(),
                received.index
            )?;
        }
        for leftover in &self.leftovers {
            writeln!(f, "{}: left over", leftover.display())?;
        }
        write!(f, "the log {}", self.end)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Clean => write!(f, "is intact"),
            End::Torn {
                path,
                offset,
                bytes,
                why,
            } => {
                let path = path.display();
                write!(
                    f,
                    "ends with {bytes} bytes of an unfinished write at offset {offset} of {path}: {why}"
                )
            }
            End::Damaged { path, offset, why } => {
                write!(f, "is damaged at offset {offset} of {}: {why}", path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Roster, wal};

    fn restored(dir: &Path) -> (Roster, PathBuf) {
        let roster = Roster::parse("a=http://a:1,b=http://b:1", "t").unwrap();
        let member = dir.join("member");
        wal::write_restored(&member.join("wal"), roster.members[0].id, &roster, Target::V3_6).unwrap();
        snap_file::write_restored(&member.join("snap"), &roster, Target::V3_6).unwrap();
        (roster, member)
    }

    #[test]
    fn a_restored_member() {
        let dir = tempfile::tempdir().unwrap();
        let (roster, member) = restored(dir.path());
        let seen = inspect(dir.path()).unwrap();
        assert_eq!(
            (seen.member_id, seen.cluster_id),
            (Some(roster.members[0].id), Some(roster.cluster_id))
        );
        assert_eq!(
            (seen.first_index, seen.last_index, seen.last_term, seen.segments),
            (Some(1), 2, 1, 1)
        );
        let mark = |index, term| SnapshotMark { index, term };
        assert_eq!(seen.snapshots, [mark(0, 0), mark(2, 1)]);
        assert_eq!(seen.snap_files.len(), 1);
        assert!(seen.snap_files[0].known && seen.snap_files[0].content.is_ok());
        assert_eq!(
            (seen.end.clone(), seen.leftovers.len(), seen.received.len()),
            (End::Clean, 0, 0)
        );
        assert_eq!(
            (seen.start(Target::V3_6), seen.start(Target::V3_7)),
            (Some(mark(2, 1)), Some(mark(2, 1)))
        );
        let text = seen.to_string();
        assert!(
            text.contains("entries 1 to 2, the last of term 1\n") && text.ends_with("the log is intact"),
            "{text}"
        );

        // Without its file up to 3.6 does not start from a snapshot.
        let file = member.join("snap/0000000000000001-0000000000000002.snap");
        fs::write(&file, b"x").unwrap();
        let seen = inspect(dir.path()).unwrap();
        assert!(seen.snap_files[0].content.is_err());
        assert_eq!(
            (seen.start(Target::V3_6), seen.start(Target::V3_7)),
            (Some(mark(0, 0)), Some(mark(2, 1)))
        );
        assert!(seen.has_entries_after(mark(0, 0)) && seen.has_entries_after(mark(2, 1)));

        // A log may lie elsewhere.
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(member.join("wal"), &elsewhere).unwrap();
        assert_eq!(inspect_with_log(dir.path(), &elsewhere).unwrap(), seen);
    }

    #[test]
    fn leftovers_and_what_a_leader_sent() {
        let dir = tempfile::tempdir().unwrap();
        let (_, member) = restored(dir.path());
        for name in [
            "snap/db",
            "snap/db.tmp.123",
            "snap/tmp456",
            "snap/00000000000000ff.snap.db",
            "wal/1.tmp",
            "wal/0000000000000000-0000000000000000.wal.broken",
            "snap/0000000000000001-0000000000000001.snap.broken",
        ] {
            fs::write(member.join(name), b"").unwrap();
        }
        fs::copy(
            member.join("snap/0000000000000001-0000000000000002.snap"),
            member.join("snap/0000000000000001-0000000000000009.snap"),
        )
        .unwrap();
        let seen = inspect(dir.path()).unwrap();
        let leftovers: Vec<&str> = seen.leftovers.iter().map(|path| path.to_str().unwrap()).collect();
        let expected = [
            "member/snap/0000000000000001-0000000000000001.snap.broken",
            "member/snap/db.tmp.123",
            "member/snap/tmp456",
            "member/wal/0000000000000000-0000000000000000.wal.broken",
            "member/wal/1.tmp",
        ];
        assert_eq!(leftovers, expected);
        assert_eq!((seen.received.len(), seen.received[0].index), (1, 255));
        assert_eq!(seen.snap_files.len(), 2);
        let odd = &seen.snap_files[0];
        assert!(
            odd.content.as_ref().is_err_and(|why| why.contains("name")) && !odd.known,
            "{odd:?}"
        );
        let text = seen.to_string();
        assert!(
            text.contains("member/wal/1.tmp: left over\n") && text.contains("up to entry 255\n"),
            "{text}"
        );
    }

    #[test]
    fn nothing_there() {
        let dir = tempfile::tempdir().unwrap();
        let seen = inspect(dir.path()).unwrap();
        assert!(matches!(&seen.end, End::Damaged { why, .. } if why == "there is no log in it"));
        assert_eq!((seen.member_id, seen.start(Target::V3_7)), (None, None));
        assert!(
            seen.to_string()
                .starts_with("a log that does not say whose it is\n")
        );
    }
}
