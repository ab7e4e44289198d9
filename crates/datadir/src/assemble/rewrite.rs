//! A database on its way into a new file, changed as it passes.
//!
//! ```text
//! source ─▶ cut at a revision ─▶ compact ─▶ replace and patch small buckets ─▶ add later rows ─▶ BoltWriter
//! ```
//!
//! In: a source, [`Changes`], later rows. Out: a new file, packed, in one pass from front to back. Memory: a few pages,
//! and for a compaction an index of the keys. Where nothing is compacted, a copy and [`crate::bolt::Edit`] do the same
//! for less ([`edit`]).
//! Never: the source touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use crate::Error;
use crate::bolt::{Bolt, BoltWriter, Edit, KeyAndValue, Rows, Then, ahead};
use crate::mvcc::{HashRows, Kept, Lease, Revision, RowKey, Source, bucket, kept, lease_row, meta};
use crate::progress::Progress;

/// Rows of one bucket.
pub type SmallRows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Rows of one bucket that are set, or left out.
pub type Patches = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What becomes of the rows.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Revisions above this one are left out.
    pub cut: Option<i64>,
    /// History is compacted up to there.
    pub compact: Option<i64>,
    /// Buckets that get other rows.
    pub replaced: BTreeMap<Vec<u8>, SmallRows>,
    /// Single rows of small buckets: set, or left out.
    pub patched: BTreeMap<Vec<u8>, Patches>,
    /// Rows of small buckets that are set where there are none with their keys.
    pub added: BTreeMap<Vec<u8>, SmallRows>,
    /// What is written is only passed on, and need not survive a power cut.
    pub passing: bool,
}

impl Changes {
    /// Sets a row of a small bucket.
    pub fn set(&mut self, bucket: &[u8], key: &[u8], value: impl Into<Vec<u8>>) {
        let rows = self.patched.entry(bucket.to_vec()).or_default();
        rows.insert(key.to_vec(), Some(value.into()));
    }

    /// Leaves a row of a small bucket out.
    pub fn remove(&mut self, bucket: &[u8], key: &[u8]) {
        let rows = self.patched.entry(bucket.to_vec()).or_default();
        rows.insert(key.to_vec(), None);
    }

    /// Sets a row of a small bucket where there is none with its key.
    pub fn add(&mut self, bucket: &[u8], key: &[u8], value: impl Into<Vec<u8>>) {
        let rows = self.added.entry(bucket.to_vec()).or_default();
        rows.insert(key.to_vec(), value.into());
    }

    /// Leases that are to be there, where they are not.
    pub(crate) fn add_leases(&mut self, leases: &[Lease]) {
        for lease in leases {
            let (key, value) = lease_row(*lease);
            self.add(bucket::LEASE, &key, value);
        }
    }

    fn names(&self) -> impl Iterator<Item = &Vec<u8>> {
        let set = self.replaced.keys().chain(self.patched.keys());
        set.chain(self.added.keys())
    }

    fn touches(&self, name: &[u8]) -> bool {
        self.replaced.contains_key(name) || self.patched.contains_key(name) || self.added.contains_key(name)
    }

    /// The rows of a small bucket as they will be.
    fn rows(&self, name: &[u8], before: Option<Rows<'_>>) -> Result<SmallRows, Error> {
        let mut rows = match (self.replaced.get(name), before) {
            (Some(rows), _) => rows.clone(),
            (None, Some(mut before)) => {
                let mut rows = SmallRows::new();
                while let Some((key, value)) = before.next()? {
                    rows.insert(key.to_vec(), value.to_vec());
                }
                rows
            }
            (None, None) => SmallRows::new(),
        };
        for (key, value) in self.patched.get(name).into_iter().flatten() {
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
        for (key, value) in self.added.get(name).into_iter().flatten() {
            rows.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Ok(rows)
    }
}

/// Rows of `key` that come after all that are there.
pub trait Later {
    fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, Error>;

    /// Told before the first is asked for: the revision that they come behind.
    fn begin(&mut self, _base: i64) -> Result<(), Error> {
        Ok(())
    }

    /// Asked after the last one: leases that are to be there, where they are not.
    fn leases(&mut self) -> Vec<Lease> {
        Vec::new()
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Later for Nothing {
    fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, Error> {
        Ok(None)
    }
}

#[derive(Debug)]
pub struct Written {
    /// The file, not synced.
    pub file: File,
    /// CRC-32C of all buckets: their names, and every row's key and value.
    pub hash: u32,
    /// Where history was compacted up to its end: the HashKV of what came, with that compaction.
    pub hash_kv: Option<u32>,
}

/// Writes `source`, changed, into `file`, which is empty and called `path`.
pub fn rewrite(
    source: &Source,
    changes: &Changes,
    later: &mut dyn Later,
    file: File,
    path: &Path,
    progress: &Progress,
) -> Result<Written, Error> {
    let mut changes = changes.clone();
    let mut hash_kv = None;
    let compaction = match changes.compact {
        None => None,
        Some(at) => {
            let revision = Revision { main: at, sub: 0 }.bytes();
            changes.set(bucket::META, meta::SCHEDULED_COMPACTION, revision);
            changes.set(bucket::META, meta::FINISHED_COMPACTION, revision);
            let kept = kept(source, at, at, progress)?;
            let whole = at >= source.current_revision() && changes.cut.is_none();
            hash_kv = whole.then(|| {
                let mut left = kept.clone();
                // What is superseded goes, even if no key is there at all.
                left.set_any();
                HashRows::new(at, Some(at), Some(left))
            });
            Some((at, kept))
        }
    };
    let bolt = source.bolt();
    let mut writer = BoltWriter::new(file, path, bolt.page_size())?;
    if changes.passing {
        writer.pass();
    }
    let mut out = Hashing { writer, hash: 0 };
    let present = bolt.buckets()?.into_iter().map(|(name, _)| name);
    let mut names: BTreeSet<Vec<u8>> = present.collect();
    names.extend(changes.names().cloned());
    names.insert(bucket::KEY.to_vec());
    while let Some(name) = names.pop_first() {
        let name = &name[..];
        out.begin(name)?;
        let rows = bolt.bucket(name)?;
        if name == bucket::KEY {
            if let Some(rows) = rows {
                let mut history = Copied {
                    changes: &changes,
                    compaction: compaction.as_ref(),
                    hash_kv: hash_kv.as_mut(),
                };
                history.copy(bolt, rows, &mut out, progress)?;
            }
            while let Some((key, value)) = later.next()? {
                out.put(key, value)?;
                progress.add((key.len() + value.len()) as u64)?;
            }
            // Their bucket comes behind this one.
            changes.add_leases(&later.leases());
            names.extend(changes.added.keys().filter(|added| &added[..] > name).cloned());
        } else if changes.touches(name) {
            for (key, value) in changes.rows(name, rows)? {
                out.put(&key, &value)?;
            }
        } else if let Some(mut rows) = rows {
            while let Some((key, value)) = rows.next()? {
                out.put(key, value)?;
                progress.add((key.len() + value.len()) as u64)?;
            }
        }
    }
    Ok(Written {
        file: out.writer.finish()?,
        hash: out.hash,
        hash_kv: hash_kv.map(|hash| hash.finish().hash),
    })
}

/// A history on its way, with what is left out of it.
struct Copied<'a> {
    changes: &'a Changes,
    compaction: Option<&'a (i64, Kept)>,
    hash_kv: Option<&'a mut HashRows>,
}

impl Copied<'_> {
    fn copy(
        &mut self,
        bolt: &Bolt,
        rows: Rows<'_>,
        out: &mut Hashing,
        progress: &Progress,
    ) -> Result<(), Error> {
        let (changes, compaction) = (self.changes, self.compaction);
        let whole = changes.cut.is_none() && compaction.is_none();
        let mut number = 0;
        ahead(rows, |row| {
            if row.bucket {
                return Err(bolt.damaged(row.place, "there is a bucket inside a bucket"));
            }
            if !whole {
                let key = RowKey::read(row.key).map_err(|why| bolt.damaged(row.place, why))?;
                let main = key.revision.main;
                if changes.cut.is_some_and(|cut| main > cut) {
                    return Ok(Then::Stop);
                }
                let superseded = compaction.is_some_and(|(at, kept)| {
                    // A deletion at that very revision is kept, as etcd keeps it: whoever watches from there must see it.
                    main <= *at && !kept.has(number) && !(key.tombstone && main == *at)
                });
                number += 1;
                if let Some(hash) = &mut self.hash_kv {
                    hash.take(key, row.key, row.value);
                }
                if superseded {
                    return Ok(Then::GoOn);
                }
            }
            out.put(row.key, row.value)?;
            progress.add((row.key.len() + row.value.len()) as u64)?;
            Ok(Then::GoOn)
        })
    }
}

/// A writer, and the hash of what it was given.
struct Hashing {
    writer: BoltWriter,
    hash: u32,
}

impl Hashing {
    fn begin(&mut self, name: &[u8]) -> Result<(), Error> {
        self.hash = crc32c::crc32c_append(self.hash, name);
        self.writer.begin(name)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.hash = crc32c::crc32c_append(crc32c::crc32c_append(self.hash, key), value);
        self.writer.put(key, value)
    }
}

/// Changes `bolt`, a file of our own that `file` writes to, where it is. What is cut off stays behind as free pages.
/// Compacting is not done this way.
pub fn edit(
    bolt: &Bolt,
    changes: &Changes,
    later: &mut dyn Later,
    file: File,
    progress: &Progress,
) -> Result<File, Error> {
    let mut edit = Edit::new(bolt, file, bolt.path())?;
    if changes.passing {
        edit.pass();
    }
    let first = later.next()?.map(|(key, value)| (key.to_vec(), value.to_vec()));
    // The first row that is left out.
    let end = changes.cut.map(|cut| cut.saturating_add(1).to_be_bytes());
    if first.is_some() || end.is_some() {
        let mut history = edit.append_at(bucket::KEY, end.as_ref().map(|end| &end[..]))?;
        if let Some((key, value)) = first {
            history.put(&key, &value)?;
            while let Some((key, value)) = later.next()? {
                history.put(key, value)?;
                progress.add((key.len() + value.len()) as u64)?;
            }
        }
        history.end()?;
    }
    let mut changes = changes.clone();
    changes.add_leases(&later.leases());
    let mut names: Vec<&Vec<u8>> = changes.names().collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let rows = changes.rows(name, bolt.bucket(name)?)?;
        edit.replace(name, &rows)?;
    }
    edit.finish()
}
