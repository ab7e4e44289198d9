//! A database put together: a base, the rows that came after it, and what else is to be changed.
//!
//! ```text
//! snapshot ─▶ copy, its hash checked ─┐
//! frames from elsewhere, in any order ┴▶ cut ─▶ later rows behind ─▶ leases, members, versions ─▶ compact ─▶ file
//! ```
//!
//! In: where the base comes from, later rows, changes. Out: one file, synced, without a name that counts; whoever
//! called gives it one. Nothing that arrives is copied twice: it is written where the database will be, and edited there;
//! only a compaction writes it anew. Memory: a few pages, and for a compaction or a hash an index of the keys.
//! Never: a base taken whose hash is wrong; later rows with a hole before, between or behind them.

mod landing;
mod later;
pub mod rewrite;
pub(crate) mod snapshot;

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::bolt::{Bolt, DIGEST};
use crate::examine::verify::verify;
use crate::files::copy::copy;
use crate::files::digest;
use crate::files::push::Push;
use crate::mvcc::{HashKv, KeyValue, Lease, Source, bucket, each_row, hash_at};
use crate::progress::Progress;
use rewrite::{Changes, Nothing, edit, rewrite};

pub use landing::{Arrival, Landing};
pub use later::LaterRows;
pub(crate) use later::{Behind, bump_row};

/// What a database is put together from.
#[derive(Debug)]
pub struct Assembly<'a> {
    /// What is there first.
    pub base: Base<'a>,
    /// Revisions of the base above this one are left out; `None` or 0: none are. Where later rows come behind it, a base
    /// may also end before.
    pub to_revision: Option<i64>,
    pub later: Option<LaterRows<'a>>,
    /// Leases that are there then, besides those of the base; of one that the base has the base's counts.
    pub leases: Vec<Lease>,
    /// History is compacted up to there.
    pub compact: Option<i64>,
    /// What its HashKV must be, or nothing is made.
    pub expect: Option<HashKv>,
}

/// Where the base comes from.
#[derive(Debug)]
pub enum Base<'a> {
    /// A file of this machine: a snapshot, or the database of a member.
    File {
        path: PathBuf,
        /// Take one that has no hash behind it, if it holds together.
        skip_hash_check: bool,
    },
    /// It comes from elsewhere.
    Arriving(&'a mut dyn Arrival),
}

impl<'a> Assembly<'a> {
    /// A base as it is.
    pub fn of(base: Base<'a>) -> Assembly<'a> {
        Assembly {
            base,
            to_revision: None,
            later: None,
            leases: Vec::new(),
            compact: None,
            expect: None,
        }
    }
}

/// An assembly without its base.
#[derive(Debug)]
pub(crate) struct Rest<'a> {
    cut: Option<i64>,
    later: Option<LaterRows<'a>>,
    leases: Vec<Lease>,
    compact: Option<i64>,
    expect: Option<HashKv>,
}

impl Rest<'_> {
    /// Where `source` is cut.
    fn cut(&self, source: &Source) -> Option<i64> {
        // With rows to come behind it, it may turn out older than that.
        let reached = |revision: &i64| self.later.is_none() || *revision < source.current_revision();
        self.cut.filter(|revision| *revision != 0 && reached(revision))
    }

    /// Can this become of `source`? Out: the last revision then, if that can be known.
    pub(crate) fn check(&self, source: &Source) -> Result<Option<i64>, Error> {
        if let Some(cut) = self.cut(source) {
            source.revision(cut)?;
        }
        let base = self.cut(source).unwrap_or_else(|| source.current_revision());
        let end = match self.later.as_ref().map(|later| later.to) {
            Some(Some(to)) if to < base => {
                return Err(Error::refused(
                    format!("later rows end at revision {to}, and the base is at {base}"),
                    "take an earlier base, or cut this one",
                ));
            }
            Some(to) => to,
            None => Some(base),
        };
        match self.compact {
            Some(at) if end.is_some_and(|end| at > end) => Err(Error::refused(
                format!("history cannot be compacted up to {at}: it ends before"),
                "compact up to an earlier revision",
            )),
            Some(at) if source.compact_revision().is_some_and(|done| at < done) => Err(Error::refused(
                format!("history is compacted beyond {at} already"),
                "compact up to a later revision",
            )),
            _ => Ok(end),
        }
    }
}

/// What is to become of the database besides.
pub(crate) trait Shape {
    /// The changes for what turned out to be `source`; or why there can be none.
    fn changes(&mut self, source: &Source) -> Result<Changes, Error>;

    /// How much higher revisions go on.
    fn bump(&self) -> Option<i64>;
}

#[derive(Debug)]
pub(crate) struct Made {
    /// The revision its etcd will be at.
    pub(crate) revision: i64,
    /// What it was compacted from has this HashKV, with the same compaction.
    pub(crate) hash: Option<u32>,
    pub(crate) size: u64,
    /// Keys that go with a lease that is not there.
    pub(crate) without_lease: u64,
}

/// A base that can be begun with.
#[derive(Debug)]
pub(crate) enum Ready<'a> {
    Opened(Box<Source>),
    Arriving(&'a mut dyn Arrival),
}

impl<'a> Assembly<'a> {
    /// Opens a base that is a file. Out: the base, and the rest.
    pub(crate) fn split(self) -> Result<(Ready<'a>, Rest<'a>), Error> {
        let ready = match self.base {
            Base::Arriving(arrival) => Ready::Arriving(arrival),
            Base::File {
                path,
                skip_hash_check,
            } => {
                let source = Source::open(&path)?;
                if !source.bolt().has_digest() && !skip_hash_check {
                    return Err(Error::refused(
                        format!("{} has no hash behind its pages", path.display()),
                        "if it is the database of a member and no snapshot, say --skip-hash-check; `snapshot verify` \
                         looks at the rest",
                    ));
                }
                Ready::Opened(Box::new(source))
            }
        };
        let rest = Rest {
            cut: self.to_revision,
            later: self.later,
            leases: self.leases,
            compact: self.compact,
            expect: self.expect,
        };
        Ok((ready, rest))
    }
}

/// A file on its way to `path`, open for reading and writing.
#[derive(Debug)]
pub(crate) struct Into<'p> {
    pub(crate) file: File,
    pub(crate) path: &'p Path,
    /// It is only passed on: nothing waits until it is on the disk.
    pub(crate) passing: bool,
}

impl<'p> Into<'p> {
    /// Makes `path`, which is not there.
    pub(crate) fn new(path: &'p Path) -> Result<Into<'p>, Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(Error::write(path))?;
        Ok(Into {
            file,
            path,
            passing: false,
        })
    }

    fn again(&self) -> Result<File, Error> {
        self.file.try_clone().map_err(Error::write(self.path))
    }

    fn source(&self) -> Result<Source, Error> {
        Source::of(Bolt::from_file(self.again()?, self.path)?)
    }
}

/// What a compaction is made from; gone when dropped.
struct Spool(PathBuf);

impl Drop for Spool {
    fn drop(&mut self) {
        // Staged directories are cleared away as a whole; elsewhere a leftover is only in the way.
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes the database; synced, unless it is only passed on.
pub(crate) fn assemble(
    base: Ready<'_>,
    rest: Rest<'_>,
    shape: &mut dyn Shape,
    into: &Into<'_>,
    progress: &Progress,
) -> Result<Made, Error> {
    let (compact, expect) = (rest.compact, rest.expect);
    let bump = shape.bump();
    let mut hash = None;
    let Gathered { end, bumped, cut } = match compact {
        None => gather(base, rest, shape, into, bump, progress)?,
        Some(at) => {
            let mut name = into.path.file_name().unwrap_or_default().to_owned();
            name.push(".assembled");
            let spool = Spool(into.path.with_file_name(name));
            let whole = Into {
                passing: true,
                ..Into::new(&spool.0)?
            };
            let gathered = gather(base, rest, shape, &whole, None, progress)?;
            let changes = Changes {
                compact: Some(at),
                passing: into.passing,
                ..Changes::default()
            };
            let source = whole.source()?;
            progress.expect(source.bolt().size().saturating_mul(4));
            let written = rewrite(
                &source,
                &changes,
                &mut Nothing,
                into.again()?,
                into.path,
                progress,
            )?;
            hash = Some(match written.hash_kv {
                Some(hash) => hash,
                None => hash_at(&source, gathered.end, Some(at), progress)?.hash,
            });
            gathered
        }
    };
    if let Some(by) = bump.filter(|_| !bumped) {
        let (mut row, changes) = bump_row(end, by)?;
        let bolt = Bolt::from_file(into.again()?, into.path)?;
        edit(&bolt, &changes, &mut row, into.again()?, progress)?;
    }
    if !into.passing {
        into.file.sync_all().map_err(Error::write(into.path))?;
    }
    let result = into.source()?;
    if let Some(expected) = expect {
        progress.expect(result.bolt().size().saturating_mul(2));
        let compacted = Some(expected.compact_revision).filter(|revision| *revision > 0);
        let found = hash_at(&result, expected.revision, compacted, progress)?;
        if found.hash != expected.hash {
            return Err(Error::Damaged {
                path: into.path.to_owned(),
                place: format!("the keys at revision {}", expected.revision),
                why: format!(
                    "their HashKV is {}, and it should be {}: what it was put together from is not what it was",
                    found.hash, expected.hash
                ),
            });
        }
    }
    Ok(Made {
        revision: end.saturating_add(bump.unwrap_or(0)),
        hash,
        size: result.bolt().size(),
        without_lease: match cut {
            Some(_) => without_lease(&result, end, progress)?,
            None => 0,
        },
    })
}

struct Gathered {
    end: i64,
    /// Revisions go on from a higher one now.
    bumped: bool,
    /// Where the base was cut.
    cut: Option<i64>,
}

/// The base, cut, with the later rows behind it and all changes but a compaction.
fn gather(
    base: Ready<'_>,
    rest: Rest<'_>,
    shape: &mut dyn Shape,
    into: &Into<'_>,
    bump: Option<i64>,
    progress: &Progress,
) -> Result<Gathered, Error> {
    let (cut, end, bumped) = match base {
        Ready::Opened(source) => {
            let bolt = source.bolt();
            let (mut changes, mut later, bumped) = plan(&source, rest, shape, bump)?;
            changes.passing = into.passing;
            progress.expect(bolt.size().saturating_mul(2));
            if changes.cut.is_some() {
                check_hash(&source, progress)?;
                rewrite(&source, &changes, &mut later, into.again()?, into.path, progress)?;
            } else {
                let from = (bolt.file()?, bolt.path());
                let (hashed, copied) = std::thread::scope(|scope| {
                    let hashing = scope.spawn(|| check_hash(&source, progress));
                    let copied = copy(from, (&into.file, into.path), bolt.size(), progress);
                    (hashing.join().unwrap_or(Err(Error::Cancelled)), copied)
                });
                hashed?;
                copied?;
                let copied = Bolt::from_file(into.again()?, into.path)?;
                edit(&copied, &changes, &mut later, into.again()?, progress)?;
            }
            later.ended()?;
            (changes.cut, later.end(), bumped)
        }
        Ready::Arriving(arrival) => {
            let push = match into.passing {
                true => Push::never(),
                false => Push::from(0),
            };
            let landing = Landing::new(into.again()?, into.path, push);
            arrival.arrive(&landing, progress)?;
            landing.end()?;
            let source = into.source()?;
            if arrival.is_vouched_for() {
                // All of it was held against hashes already.
            } else if source.bolt().has_digest() {
                check_hash(&source, progress)?;
            } else {
                // No hash speaks for it: only what holds together is taken.
                verify(&source, progress)?;
            }
            let (mut changes, mut later, bumped) = plan(&source, rest, shape, bump)?;
            changes.passing = into.passing;
            edit(source.bolt(), &changes, &mut later, into.again()?, progress)?;
            later.ended()?;
            (changes.cut, later.end(), bumped)
        }
    };
    Ok(Gathered { end, bumped, cut })
}

/// What is to be done to `source`.
fn plan<'a>(
    source: &Source,
    rest: Rest<'a>,
    shape: &mut dyn Shape,
    bump: Option<i64>,
) -> Result<(Changes, Behind<'a>, bool), Error> {
    let end = rest.check(source)?;
    let cut = rest.cut(source);
    let base = cut.unwrap_or_else(|| source.current_revision());
    let mut changes = shape.changes(source)?;
    changes.cut = cut;
    changes.add_leases(&rest.leases);
    let mut later = Behind::new(base, rest.later)?;
    let bump = bump.zip(end);
    if let Some((by, end)) = bump {
        let (row, bumped) = bump_row(end, by)?;
        for (name, rows) in bumped.patched {
            changes.patched.entry(name).or_default().extend(rows);
        }
        later = later.then(row);
    }
    Ok((changes, later, bump.is_some()))
}

fn check_hash(source: &Source, progress: &Progress) -> Result<(), Error> {
    let bolt = source.bolt();
    let Some(recorded) = digest::recorded(bolt)? else {
        return Ok(());
    };
    let found = digest::sha256(bolt.file()?, bolt.path(), bolt.length() - DIGEST, progress)?;
    if found == recorded {
        Ok(())
    } else {
        Err(digest::mismatch(bolt.path()))
    }
}

/// Keys that are there at `revision` and go with a lease that has ended since.
fn without_lease(source: &Source, revision: i64, progress: &Progress) -> Result<u64, Error> {
    let mut leases = BTreeSet::new();
    if let Some(mut rows) = source.bolt().bucket(bucket::LEASE)? {
        while let Some((key, value)) = rows.next()? {
            leases.extend(Lease::read(key, value).ok().map(|lease| lease.id));
        }
    }
    let mut lost = HashSet::new();
    each_row(source, revision, progress, |row, _, value| {
        let kv = KeyValue::read(value)?;
        if !row.tombstone && kv.lease != 0 && !leases.contains(&kv.lease) {
            lost.insert(kv.key.to_vec());
        } else {
            lost.remove(kv.key);
        }
        Ok(())
    })?;
    Ok(lost.len() as u64)
}
