//! A quick look at a data directory: is there anything, whose is it, is its head intact.
//!
//! In: the path etcd is given as `--data-dir`. Out: [`Look`]. It reads the heads of the first and the last log
//! segment and a few pages of the database, so it takes no longer for a large member than for a small one.
//! What it says about a directory that an etcd is using may be out of date at once: hold [`crate::DbLock`]
//! before acting on it. Never: damage taken for emptiness.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use semver::Version;

use crate::Error;
use crate::bolt::{self, Bolt, Metas};
use crate::wal::{self, Listing, SegmentName};

/// Files named in [`Look::NoWal`] at most.
const MAX_NAMED: usize = 64;

/// What a data directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// There is no directory, or no `member` in it: nothing was ever started here.
    Empty,
    Data(Identity),
    /// A log that nothing was ever written to: the member has promised nothing to anyone, neither a vote nor an entry.
    /// etcd ended between making its log and its first write. It does not recover from that: started again, it waits
    /// for a leader for ever, knowing of no members, not even of itself.
    Unborn {
        /// Who it would have been.
        member_id: u64,
        cluster_id: u64,
    },
    /// There is a `member` directory without a log: etcd was stopped before it had an identity, or the log was
    /// taken away.
    NoWal {
        /// The files below it, by their paths in the data directory, sorted; some of them if there are many.
        what_is_there: Vec<PathBuf>,
    },
    /// Something is there that etcd would not start with.
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// Whose data it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub member_id: u64,
    pub cluster_id: u64,
    /// How many log segments there are.
    pub wal_segments: u64,
    /// The first of them.
    pub first_segment: SegmentName,
    /// The last of them.
    pub last_segment: SegmentName,
    pub db: Db,
    /// The storage version etcd 3.6 and newer write, once the cluster's version is decided.
    pub storage_version: Option<Version>,
    /// The cluster's version as the database has it.
    pub cluster_version: Option<Version>,
}

/// The database of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Db {
    /// It is not there. etcd may be able to rebuild it from its log, or not.
    Missing,
    /// It is there with no bytes in it.
    Blank,
    /// It is there, with at least one valid meta page.
    Present {
        /// The size of its pages.
        page_size: u32,
        transaction: u64,
        /// One of its two meta pages is not valid; the other counts.
        one_meta_damaged: bool,
    },
}

/// The database's path in `data_dir`.
pub fn db_path(data_dir: &Path) -> PathBuf {
    data_dir.join("member").join("snap").join("db")
}

pub fn look(data_dir: &Path) -> Result<Look, Error> {
    let member = data_dir.join("member");
    match fs::metadata(&member) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Ok(damaged(member, "it is not a directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Look::Empty),
        Err(source) => return Err(Error::Read { path: member, source }),
    }
    let wal_dir = member.join("wal");
    let listing = match wal::list(&wal_dir) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Ok(damaged(wal_dir, "it is not a directory"));
        }
        Err(source) => {
            return Err(Error::List {
                path: wal_dir,
                source,
            });
        }
    };
    match listing {
        Listing::None => Ok(Look::NoWal {
            what_is_there: files_below(data_dir, &member)?,
        }),
        Listing::Gap { before, after } => Ok(damaged(
            wal_dir.join(after.to_string()),
            format!("it does not follow {before}: a segment between is missing"),
        )),
        Listing::Contiguous { count, first, last } => {
            look_inside(data_dir, &wal_dir, Segments { count, first, last })
        }
    }
}

struct Segments {
    count: u64,
    first: SegmentName,
    last: SegmentName,
}

fn look_inside(data_dir: &Path, wal_dir: &Path, segments: Segments) -> Result<Look, Error> {
    let Segments { count, first, last } = segments;
    let mut heads = Vec::with_capacity(2);
    for name in [first, last] {
        let path = wal_dir.join(name.to_string());
        match wal::read_head(&path) {
            Ok(Ok(head)) => heads.push(head),
            Ok(Err(why)) => return Ok(damaged(path, why)),
            Err(source) => return Err(Error::Read { path, source }),
        }
    }
    let (Some(&head), Some(&tail)) = (heads.first(), heads.last()) else {
        return Ok(damaged(wal_dir.to_owned(), "there is no segment in it"));
    };
    if first.sequence == 0 && head.chain != 0 {
        return Ok(damaged(
            wal_dir.join(first.to_string()),
            "the first segment continues from a checksum that none before it left",
        ));
    }
    if (head.member_id, head.cluster_id) != (tail.member_id, tail.cluster_id) {
        return Ok(damaged(
            wal_dir.join(last.to_string()),
            format!("it belongs to another member than {first}"),
        ));
    }
    if count == 1 && first.sequence == 0 {
        let path = wal_dir.join(first.to_string());
        match wal::is_blank(&path) {
            Ok(true) => {
                let (member_id, cluster_id) = (head.member_id, head.cluster_id);
                return Ok(Look::Unborn {
                    member_id,
                    cluster_id,
                });
            }
            Ok(false) => {}
            Err(source) => return Err(Error::Read { path, source }),
        }
    }
    let path = db_path(data_dir);
    let content = match read_db(&path) {
        Ok(Ok(content)) => content,
        Ok(Err(why)) => return Ok(damaged(path, why)),
        Err(source) => return Err(Error::Read { path, source }),
    };
    Ok(Look::Data(Identity {
        member_id: head.member_id,
        cluster_id: head.cluster_id,
        wal_segments: count,
        first_segment: first,
        last_segment: last,
        db: content.db,
        storage_version: content.storage_version,
        cluster_version: content.cluster_version,
    }))
}

struct DbContent {
    db: Db,
    storage_version: Option<Version>,
    cluster_version: Option<Version>,
}

fn read_db(path: &Path) -> io::Result<Result<DbContent, &'static str>> {
    let without = |db| {
        Ok(Ok(DbContent {
            db,
            storage_version: None,
            cluster_version: None,
        }))
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return without(Db::Missing),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Ok(Err("it is not a file"));
    }
    let (meta, count) = match bolt::read_metas(&file)? {
        Metas::Blank => return without(Db::Blank),
        Metas::Invalid => return Ok(Err("neither of its two meta pages is valid")),
        Metas::Valid { newest, count } => (newest, count),
    };
    // What does not hold together there is found by whoever needs it; a look goes on without.
    let bolt = Bolt::from_file(file, path).ok();
    let version = |bucket: &[u8], key: &[u8]| {
        let text = bolt.as_ref()?.value(bucket, key).ok().flatten()?;
        Version::parse(std::str::from_utf8(&text).ok()?).ok()
    };
    Ok(Ok(DbContent {
        db: Db::Present {
            page_size: meta.page_size,
            transaction: meta.transaction,
            one_meta_damaged: count < 2,
        },
        storage_version: version(b"meta", b"storageVersion"),
        cluster_version: version(b"cluster", b"clusterVersion"),
    }))
}

fn damaged(path: PathBuf, why: impl Into<String>) -> Look {
    Look::Damaged {
        path,
        why: why.into(),
    }
}

/// The files in `dir` and in the directories directly in it, by their paths in `base`.
fn files_below(base: &Path, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let mut dirs = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = dirs.pop() {
        let failed = |source| Error::List {
            path: dir.clone(),
            source,
        };
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            if entry.file_type().map_err(failed)?.is_dir() && depth < 2 {
                dirs.push((path, depth + 1));
            } else if files.len() < MAX_NAMED {
                files.push(path.strip_prefix(base).unwrap_or(&path).to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests;
