//! A snapshot made of a dead member's directory: its database, and the tail of its log that the database lacks.
//!
//! In: a data directory that nothing runs on, and where the snapshot goes. Out: the snapshot ([`Revived`]), as `etcdctl
//! snapshot save` would have made it after the member's next start; or, where an entry's effect is not exactly known,
//! what it is and how much remains ([`Stopped`]), and no file: then a real etcd has to do it, on a copy.
//!
//! The whole tail is applied, also entries that the member did not know to be committed: some of them may have been
//! answered, and a raft leader elected from this log would commit them all.
//!
//! Never: a byte written into the directory; a half-made snapshot under its name.

mod stage;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::bolt::{Appending, Bolt, Edit};
use crate::files::durable::{self, Draft};
use crate::files::lock::{Attempt, DbLock};
use crate::files::{copy, digest};
use crate::mvcc::{KeyValue, RowKey, Source, bucket};
use crate::progress::Progress;
use crate::replay::{Applying, BUCKETS, Kinds, Put, Small, Stop, Store, Survey};
use crate::wal::{End, Log, SnapshotMark};

pub use stage::{Finish, Staged, stage};

/// Keys of the store that a replay keeps in memory, at most.
const KEYS_BYTES_MAX: usize = 512 << 20;

/// What to make a snapshot of.
#[derive(Debug, Clone, Copy)]
pub struct Revive<'a> {
    pub data_dir: &'a Path,
    /// Where its log is, if not in its place in the directory.
    pub wal_dir: Option<&'a Path>,
    /// The snapshot to be made.
    pub file: &'a Path,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revival {
    /// The snapshot is there.
    Whole(Revived),
    /// It takes a real etcd.
    Stopped(Stopped),
}

/// A snapshot that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revived {
    /// The revision of its last change.
    pub revision: i64,
    /// The last entry in it.
    pub index: u64,
    /// The entries that the database lacked.
    pub applied: Kinds,
    /// How many of them the member did not know to be committed.
    pub beyond_commit: u64,
    /// How long what was being written to the log when it ended is; like etcd, this passes over it.
    pub torn_bytes: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The entry, and what is not known of it.
    pub stop: Stop,
    /// The entries before it.
    pub applied: Kinds,
    /// Those from it on.
    pub remaining: Kinds,
    /// The last of them.
    pub last_index: u64,
    /// The minor of etcd 3 that the directory belongs to, as far as it shows.
    pub minor: u64,
}

/// Makes a snapshot of a dead member's directory.
pub fn revive(revive: &Revive<'_>, progress: &Progress) -> Result<Revival, Error> {
    check_place(revive)?;
    let _lock = hold(revive.data_dir)?;
    let member = Member::open(revive)?;
    member.revive(revive.file, progress)
}

/// The snapshot `file` to be, under another name yet: a copy of `bolt`, to be changed.
fn draft_of(bolt: &Bolt, file: &Path, progress: &Progress) -> Result<(Draft, Bolt), Error> {
    let draft = Draft::among_others(file).map_err(Error::write(file))?;
    progress.expect(bolt.size().saturating_mul(2));
    copy::copy(
        (bolt.file()?, bolt.path()),
        (draft.file(), file),
        bolt.size(),
        progress,
    )?;
    let copied = Bolt::from_file(draft.file().try_clone().map_err(Error::write(file))?, file)?;
    Ok((draft, copied))
}

/// The snapshot does not go into the directory it is made of.
fn check_place(revive: &Revive<'_>) -> Result<(), Error> {
    let parent = durable::parent(revive.file);
    let parent = fs::canonicalize(parent).map_err(Error::write(parent))?;
    let within = fs::canonicalize(revive.data_dir).map_err(Error::read(revive.data_dir))?;
    if parent.starts_with(&within) {
        return Err(Error::refused(
            format!("{} lies in the directory it is made of", revive.file.display()),
            "nothing is written there; name a file elsewhere",
        ));
    }
    Ok(())
}

/// Keeps etcd away from a data directory.
pub(crate) fn hold(data_dir: &Path) -> Result<DbLock, Error> {
    match DbLock::try_hold(data_dir)? {
        Attempt::Held(lock) => Ok(lock),
        Attempt::Busy { holder } => Err(Error::InUse {
            path: data_dir.to_owned(),
            holder,
        }),
        Attempt::NoDb => Err(Error::refused(
            format!("{} has no database", data_dir.display()),
            "name the data directory of a member, the one that holds `member/snap/db`",
        )),
    }
}

/// A dead member: the database it would start with, and its log.
struct Member {
    source: Source,
    log: Log,
    /// The last entry in the database.
    index: u64,
}

impl Member {
    fn open(revive: &Revive<'_>) -> Result<Member, Error> {
        let wal_dir = revive
            .wal_dir
            .map_or_else(|| revive.data_dir.join("member/wal"), Path::to_owned);
        let log = Log::read(&wal_dir)?;
        if let Some(damage) = log.end().to_error() {
            return Err(damage);
        }
        let db = crate::examine::look::db_path(revive.data_dir);
        let (mut source, mut index) = opened(&db)?;
        if let Some(mark) = log.snapshot().filter(|mark| mark.index > index) {
            (source, index) = received(&db, mark, index)?;
        }
        Ok(Member { source, log, index })
    }

    fn revive(&self, file: &Path, progress: &Progress) -> Result<Revival, Error> {
        let survey = self.survey()?;
        let kinds = survey.kinds().clone();
        let expected = survey.stop().cloned();
        let applying = self.learn(survey, progress)?;
        let minor = self.minor()?;
        let stopped = |stop: Stop, applied: Kinds| {
            let remaining = kinds.without(&applied);
            Revival::Stopped(Stopped {
                stop,
                applied,
                remaining,
                last_index: self.last_index(),
                minor,
            })
        };
        // A file that would not be finished is not begun.
        if let Some(expected) = expected {
            let (applying, stop) = self.apply(applying, |_, _| Ok(()))?;
            return Ok(stopped(stop.unwrap_or(expected), applying.applied().clone()));
        }
        let (draft, copied) = draft_of(self.source.bolt(), file, progress)?;
        let mut edit = Edit::new(
            &copied,
            draft.file().try_clone().map_err(Error::write(file))?,
            file,
        )?;
        let mut history = edit.append(bucket::KEY)?;
        let (applying, stop) = self.apply(applying, |key, value| {
            history.put(key, value)?;
            progress.add((key.len() + value.len()) as u64)
        })?;
        if let Some(stop) = stop {
            return Ok(stopped(stop, applying.applied().clone()));
        }
        Appending::end(history)?;
        let applied = applying.applied().clone();
        let store = applying.finish();
        self.replace_small(&mut edit, &store)?;
        edit.finish()?;
        digest::append(draft.file(), file, progress)?;
        let bytes = draft.file().metadata().map_err(Error::write(file))?.len();
        draft.publish().map_err(Error::write(file))?;
        Ok(Revival::Whole(Revived {
            revision: store.revision(),
            index: self.last_index(),
            applied,
            beyond_commit: self.beyond_commit(),
            torn_bytes: self.torn_bytes(),
            bytes,
        }))
    }

    /// The minor of etcd 3 that it belongs to: what wrote the database, or what all members have agreed on.
    fn minor(&self) -> Result<u64, Error> {
        let numbers = self.source.numbers();
        let agreed = numbers
            .cluster_version
            .as_ref()
            .map_or(0, |version| version.minor);
        Ok(numbers.written_by()?.minor().max(agreed))
    }

    /// The last entry, in the log or in the database.
    fn last_index(&self) -> u64 {
        self.log.last_index().max(self.index)
    }

    /// How many entries of the tail the member did not know to be committed.
    fn beyond_commit(&self) -> u64 {
        self.last_index()
            .saturating_sub(self.log.state().commit.max(self.index))
    }

    fn torn_bytes(&self) -> u64 {
        match self.log.end() {
            End::Torn { bytes, .. } => *bytes,
            End::Clean | End::Damaged { .. } => 0,
        }
    }

    /// The first pass over the tail.
    fn survey(&self) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        self.for_each_entry(|entry| {
            survey.add(entry);
            Ok(true)
        })?;
        Ok(survey)
    }

    /// The second one. Out: how far it came, and why no further.
    fn apply(
        &self,
        mut applying: Applying,
        mut add: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
    ) -> Result<(Applying, Option<Stop>), Error> {
        let mut stopped = None;
        self.for_each_entry(|entry| {
            match applying.entry(entry) {
                Ok(rows) => {
                    for row in rows {
                        add(&row.key, &row.value)?;
                    }
                }
                Err(stop) => stopped = Some(stop),
            }
            Ok(stopped.is_none())
        })?;
        Ok((applying, stopped))
    }

    /// Goes through the entries that the database lacks, as long as it is told to go on.
    fn for_each_entry(
        &self,
        mut each: impl FnMut(&crate::wal::Entry<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        if self.log.last_index() <= self.index {
            return Ok(());
        }
        let mut entries = self.log.entries(self.index.saturating_add(1))?;
        while let Some(entry) = entries.read_next()? {
            if !each(&entry)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads of the database what the tail needs to know.
    fn learn(&self, survey: Survey, progress: &Progress) -> Result<Applying, Error> {
        let bolt = self.source.bolt();
        let mut learning = survey.learn(self.small()?, KEYS_BYTES_MAX);
        learning.last_row(self.source.last_revision());
        if learning.is_content() {
            return Ok(learning.apply());
        }
        progress.expect(bolt.size());
        let mut rows = self.source.history()?;
        while let Some(row) = rows.next_row()? {
            let damaged = |why| bolt.damaged(row.place, why);
            let key = RowKey::read(row.key).map_err(damaged)?;
            let value = KeyValue::read(row.value).map_err(damaged)?;
            let main = key.revision.main;
            if key.tombstone {
                learning.delete(main, value.key);
            } else {
                learning.put(
                    main,
                    &Put {
                        key: value.key,
                        value: value.value,
                        create_revision: value.create_revision,
                        mod_revision: value.mod_revision,
                        version: value.version,
                        lease: value.lease,
                    },
                );
            }
            progress.add((row.key.len() + row.value.len()) as u64)?;
        }
        Ok(learning.apply())
    }

    fn small(&self) -> Result<Small, Error> {
        let bolt = self.source.bolt();
        let mut small = Small {
            auth_enabled: bolt
                .value(b"auth", b"authEnabled")?
                .is_some_and(|value| value != [0]),
            alarmed: match bolt.bucket(bucket::ALARM)? {
                Some(mut rows) => rows.next()?.is_some(),
                None => false,
            },
            member: self.log.metadata().map_or(0, |metadata| metadata.member_id),
            ..Small::default()
        };
        for name in BUCKETS {
            let Some(mut rows) = bolt.bucket(name.as_bytes())? else {
                continue;
            };
            let into = small.rows.entry(name).or_default();
            while let Some((key, value)) = rows.next()? {
                into.insert(key.to_owned(), value.to_owned());
            }
        }
        Ok(small)
    }

    fn replace_small(&self, edit: &mut Edit<'_>, store: &Store) -> Result<(), Error> {
        for (name, rows) in store.small_rows() {
            edit.replace(name.as_bytes(), rows)?;
        }
        Ok(())
    }
}

fn opened(path: &Path) -> Result<(Source, u64), Error> {
    let source = Source::of(Bolt::open(path)?)?;
    let index = source.numbers().consistent_index.unwrap_or(0);
    Ok((source, index))
}

/// The database that a leader sent and the member had not yet put in the place of its own. etcd does that at its next
/// start, if its log says that the snapshot was accepted.
fn received(db: &Path, mark: SnapshotMark, index: u64) -> Result<(Source, u64), Error> {
    let sent: PathBuf = db.with_file_name(format!("{:016x}.snap.db", mark.index));
    let behind = format!(
        "the database holds entries up to {index}, and the log begins after {}",
        mark.index
    );
    if !sent.exists() {
        return Err(Error::refused(
            format!(
                "{behind}; what is between was to come from {}, which is not there",
                sent.display()
            ),
            "etcd would not start with this directory either; take another member's",
        ));
    }
    let (source, index) = opened(&sent)?;
    if index < mark.index {
        return Err(Error::refused(
            format!(
                "{behind}, and {} holds entries up to {index} only",
                sent.display()
            ),
            "take another member's directory",
        ));
    }
    Ok((source, index))
}
