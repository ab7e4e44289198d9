//! What a real etcd is given when a log holds entries whose effect is not exactly known here.
//!
//! The copy that it runs on is a new cluster of one member, restored from the dead member's database; behind the log of
//! that restore stand the requests of the dead member's tail, committed. So etcd applies every one of them, and neither
//! its configuration nor its log names another member: a copy of the log itself would have it dial the real ones, which
//! could take it for the dead one and count its votes.
//!
//! In: a dead member's directory, and where to work. Out: a directory for etcd ([`Staged`]); and from what etcd left
//! there the snapshot. Entries that concern the members are not given to etcd: what can be told of them is applied here,
//! and the rest is named in [`Staged::left_out`].
//! Never: a snapshot of a copy in which etcd did anything else than to replay.

use std::fs;
use std::path::{Path, PathBuf};

use semver::Version;

use super::{Member, Revive, Revived, check_place, hold, opened};
use crate::Error;
use crate::bolt::{Bolt, Edit};
use crate::examine::look;
use crate::files::{copy, digest};
use crate::mvcc::meta;
use crate::progress::Progress;
use crate::replay::{Kinds, SmallRows, Store, Survey, Takes, takes};
use crate::restore::{Restore, restore};
use crate::wal::{Extension, Log};

const NAME: &str = "replay";

/// A directory that a real etcd is to start with, serve, and end.
#[derive(Debug)]
pub struct Staged {
    file: PathBuf,
    data_dir: PathBuf,
    peer_url: String,
    /// The last request in its log.
    fed: u64,
    /// What the snapshot says of the members and the cluster.
    store: Store,
    left_out: Kinds,
    applied: Kinds,
    index: u64,
    beyond_commit: u64,
    torn_bytes: u64,
}

/// What etcd did besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// Nothing: the snapshot is there.
    Done(Revived),
    /// Something else than to replay, e.g. it ended a lease that ran out meanwhile; it has to be done again.
    Strayed(Kinds),
}

/// What etcd wrote to its log behind what was there.
#[derive(Debug, Default)]
struct After {
    /// It told its attributes, which it does when everything before is applied.
    published: bool,
    /// What not every start brings.
    strayed: Kinds,
}

/// Makes a directory in `work`, which is empty, for an etcd of `version` that will have `peer_url`.
pub fn stage(
    revive: &Revive<'_>,
    work: &Path,
    version: &Version,
    peer_url: &str,
    progress: &Progress,
) -> Result<Staged, Error> {
    check_place(revive)?;
    let _lock = hold(revive.data_dir)?;
    let member = Member::open(revive)?;
    let base = work.join("base.db");
    copy_database(&member, &base, progress)?;
    let data_dir = work.join("data");
    restore(
        &Restore {
            snapshot: base.clone(),
            data_dir: data_dir.clone(),
            wal_dir: None,
            name: NAME.to_owned(),
            initial_cluster: format!("{NAME}={peer_url}"),
            token: format!("quorate-replay-{}", std::process::id()),
            peer_urls: peer_url.to_owned(),
            skip_hash_check: true,
            bump: None,
            to_revision: None,
            for_version: Some(version.clone()),
        },
        progress,
    )?;
    fs::remove_file(&base).map_err(Error::write(&base))?;
    let mut extension = Extension::begin(&data_dir.join("member/wal"))?;
    let (mut members, mut applied) = (Survey::default(), Kinds::default());
    member.for_each_entry(|entry| {
        match takes(entry) {
            Takes::Request => extension.add(entry.data)?,
            Takes::Members | Takes::Cluster => members.add(entry),
            Takes::Nothing => {}
        }
        applied.count(entry);
        Ok(true)
    })?;
    let fed = extension.end()?;
    let (store, left_out) = member.apply_membership(members, version)?;
    Ok(Staged {
        file: revive.file.to_owned(),
        data_dir,
        peer_url: peer_url.to_owned(),
        fed,
        store,
        applied: applied.without(&left_out),
        left_out,
        index: member.last_index(),
        beyond_commit: member.beyond_commit(),
        torn_bytes: member.torn_bytes(),
    })
}

fn copy_database(member: &Member, to: &Path, progress: &Progress) -> Result<(), Error> {
    let bolt = member.source.bolt();
    let mut options = fs::OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(to)
        .map_err(Error::write(to))?;
    let length = bolt.high_water().saturating_mul(u64::from(bolt.page_size()));
    progress.expect(length);
    copy::copy((bolt.file()?, bolt.path()), (&file, to), length, progress)
}

impl Member {
    /// Applies only what concerns the members and the cluster. Out: how they are then, and what could not be told.
    fn apply_membership(&self, survey: Survey, version: &Version) -> Result<(Store, Kinds), Error> {
        let kinds = survey.kinds().clone();
        // Neither authentication nor alarms keep such entries from being applied.
        let small = crate::replay::Small {
            auth_enabled: false,
            alarmed: false,
            ..self.small()?
        };
        let mut applying = survey.learn(small, usize::MAX).replayed_by(version).apply();
        // Of the members nothing can be told after the first doubt; the cluster's version does not depend on them.
        let mut doubt = [false; 2];
        self.for_each_entry(|entry| {
            let doubt = match takes(entry) {
                Takes::Members => &mut doubt[0],
                Takes::Cluster => &mut doubt[1],
                Takes::Request | Takes::Nothing => return Ok(true),
            };
            *doubt = *doubt || applying.entry(entry).is_err();
            Ok(true)
        })?;
        let left_out = kinds.without(applying.applied());
        Ok((
            applying.finish_at(self.last_index(), self.log.last_term()),
            left_out,
        ))
    }
}

impl Staged {
    /// The directory for etcd.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// What to call the member, `--name`.
    pub fn name(&self) -> &'static str {
        NAME
    }

    pub fn peer_url(&self) -> &str {
        &self.peer_url
    }

    /// Entries about members or the cluster whose effect is not known, and not in the snapshot.
    pub fn left_out(&self) -> &Kinds {
        &self.left_out
    }

    /// Makes the snapshot of what etcd left, after it served and ended.
    pub fn finish(self, progress: &Progress) -> Result<Finish, Error> {
        let _lock = hold(&self.data_dir)?;
        let after = self.after()?;
        if after.strayed.total() > 0 {
            return Ok(Finish::Strayed(after.strayed));
        }
        let (source, index) = opened(&look::db_path(&self.data_dir))?;
        // 3.4 does not write the index of an entry that changes no key.
        let reached = index >= self.fed || source.numbers().term.is_none();
        if !reached || !after.published {
            return Err(Error::refused(
                format!(
                    "etcd did not serve, and applied entries up to {index} of {}",
                    self.fed
                ),
                "it ended too early; its log tells why",
            ));
        }
        let (bolt, file) = (source.bolt(), &self.file);
        let (draft, copied) = super::draft_of(bolt, file, progress)?;
        let mut edit = Edit::new(
            &copied,
            draft.file().try_clone().map_err(Error::write(file))?,
            file,
        )?;
        for (name, rows) in self.rows(&copied)? {
            edit.replace(name.as_bytes(), &rows)?;
        }
        edit.finish()?;
        digest::append(draft.file(), file, progress)?;
        let bytes = draft.file().metadata().map_err(Error::write(file))?.len();
        draft.publish().map_err(Error::write(file))?;
        Ok(Finish::Done(Revived {
            revision: source.current_revision(),
            index: self.index,
            applied: self.applied,
            beyond_commit: self.beyond_commit,
            torn_bytes: self.torn_bytes,
            bytes,
        }))
    }

    /// What stands in etcd's log behind the requests.
    fn after(&self) -> Result<After, Error> {
        let log = Log::read(&self.data_dir.join("member/wal"))?;
        if let Some(damage) = log.end().to_error() {
            return Err(damage);
        }
        let mut after = After::default();
        if log.last_index() > self.fed {
            let mut entries = log.entries(self.fed + 1)?;
            while let Some(entry) = entries.read_next()? {
                match takes(&entry) {
                    Takes::Request => after.strayed.count(&entry),
                    Takes::Members => after.published = true,
                    Takes::Cluster | Takes::Nothing => {}
                }
            }
        }
        Ok(after)
    }

    /// The buckets that are not the copy's own: the dead member's, and its place in its log.
    fn rows(&self, copied: &Bolt) -> Result<SmallRows, Error> {
        let mut rows = self.store.small_rows().clone();
        rows.remove("lease");
        let own = rows.entry("meta").or_default();
        // How far it is compacted is what etcd made of it.
        for key in [meta::SCHEDULED_COMPACTION, meta::FINISHED_COMPACTION] {
            match copied.value(b"meta", key)? {
                Some(value) => own.insert(key.to_owned(), value),
                None => own.remove(key),
            };
        }
        for bucket in ["members", "members_removed", "cluster"] {
            rows.entry(bucket).or_default();
        }
        Ok(rows)
    }
}
