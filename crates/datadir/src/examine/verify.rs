//! Is a snapshot, a database or a member's whole directory intact?
//!
//! In: a source, or a directory. Out: what it is and what was looked at; or the first thing that is wrong, with its place. The hash
//! behind the pages, every page against every other, every row against those before it, then HashKV. Memory: an index of
//! the keys that are there.
//! Never: "intact" said of more than was looked at: what cannot be known is said with it.

use std::path::Path;

use super::inspect::{Inspection, inspect};
use crate::Error;
use crate::bolt::Structure;
use crate::files::digest;
use crate::mvcc::{HashKv, HashRows, History, KeyValue, RowKey, Source, bucket, each_row, small};
use crate::progress::Progress;

/// What was found intact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub structure: Structure,
    /// The hash behind them, which is right; `None` if there is none.
    pub digest: Option<[u8; 32]>,
    /// CRC-32C of all rows of all buckets.
    pub hash: u32,
    /// The HashKV at the last revision.
    pub hash_kv: HashKv,
    /// How many keys there are.
    pub keys: u64,
    /// How many versions of keys.
    pub versions: u64,
}

impl Verdict {
    /// What could be wrong and not be seen.
    pub fn unknown(&self) -> &'static str {
        if self.digest.is_some() {
            "nothing: the hash that etcd sent covers every byte"
        } else {
            "there is no hash behind the pages, so bytes changed inside values, inside keys without changing their order, \
             or in the number of a page that then leads to an older one, would not be seen; compare HashKV with \
             another member's"
        }
    }
}

/// A member's directory that was found intact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberVerdict {
    pub database: Verdict,
    /// Its log and its snapshot files.
    pub log: Inspection,
    /// The last entry whose effect is in the database.
    pub applied: u64,
}

/// Looks at a member's directory: the database, the log, the snapshot files, and whether they belong together.
pub fn verify_member(data_dir: &Path, progress: &Progress) -> Result<MemberVerdict, Error> {
    let source = Source::open(data_dir)?;
    let database = verify(&source, progress)?;
    let log = inspect(data_dir)?;
    if let Some(damage) = log.end.to_error() {
        return Err(damage);
    }
    if let Some(file) = log.snap_files.iter().find(|f| f.known && f.content.is_err()) {
        return Err(Error::Damaged {
            path: file.path.clone(),
            place: "the file".to_owned(),
            why: file.content.as_ref().err().cloned().unwrap_or_default(),
        });
    }
    let applied = source.numbers().consistent_index.unwrap_or(0);
    let apart = |why: String| Error::Damaged {
        path: source.bolt().path().to_owned(),
        place: "the raft position".to_owned(),
        why,
    };
    if applied > log.last_index {
        let last = log.last_index;
        return Err(apart(format!(
            "the database goes up to entry {applied}, and the log only to {last}: one of the two is another's"
        )));
    }
    if let Some(start) = log.start(source.numbers().written_by()?) {
        let received = log.received.iter().any(|received| received.index >= start.index);
        if applied < start.index && !received {
            let start = start.index;
            return Err(apart(format!(
                "the log goes on from entry {start}, and the database only goes up to {applied}"
            )));
        }
        if !log.has_entries_after(start) {
            return Err(apart(format!(
                "entries after {} are missing from the log",
                start.index
            )));
        }
    }
    Ok(MemberVerdict {
        database,
        log,
        applied,
    })
}

/// Looks at all of a snapshot or a database.
pub fn verify(source: &Source, progress: &Progress) -> Result<Verdict, Error> {
    let bolt = source.bolt();
    let recorded = digest::recorded(bolt)?;
    let passes = 1 + u64::from(recorded.is_some());
    progress.expect(bolt.size().saturating_mul(passes));
    // Both read the whole file: side by side, what one has read the other finds in memory.
    let (hashed, walked) = std::thread::scope(|scope| {
        let hashing = recorded.map(|recorded| {
            scope.spawn(move || {
                let length = bolt.length() - crate::bolt::DIGEST;
                let found = digest::sha256(bolt.file()?, bolt.path(), length, progress)?;
                if found == recorded {
                    Ok(())
                } else {
                    Err(digest::mismatch(bolt.path()))
                }
            })
        });
        let walked = walk(source, progress);
        let hashed = hashing.map(|thread| thread.join().unwrap_or(Err(Error::Cancelled)));
        (hashed, walked)
    });
    // What the walk finds has a more exact place.
    let walked = walked?;
    hashed.transpose()?;
    let hash_kv = match walked.hash_kv {
        Some(hash_kv) => hash_kv,
        None => {
            progress.expect(bolt.size());
            let kept = Some(walked.history.kept());
            let mut hash = HashRows::new(source.current_revision(), source.compact_revision(), kept);
            each_row(source, i64::MAX, progress, |row, key, value| {
                hash.take(row, key, value);
                Ok(())
            })?;
            hash.finish()
        }
    };
    Ok(Verdict {
        structure: walked.structure,
        digest: recorded,
        hash: walked.hash,
        hash_kv,
        keys: walked.history.live(),
        versions: walked.history.rows(),
    })
}

struct Walked {
    structure: Structure,
    hash: u32,
    history: History,
    /// `None` if it leaves out rows, which are only known now.
    hash_kv: Option<HashKv>,
}

fn walk(source: &Source, progress: &Progress) -> Result<Walked, Error> {
    let bolt = source.bolt();
    let compacted = source.compact_revision();
    let mut hash = 0;
    let mut history = History::new(compacted, source.numbers().compaction_is_done);
    let mut hash_kv = HashRows::new(source.current_revision(), compacted, None);
    let structure = bolt.check(|name, row| {
        let Some(row) = row else {
            hash = crc32c::crc32c_append(hash, name);
            return Ok(());
        };
        hash = crc32c::crc32c_append(crc32c::crc32c_append(hash, row.key), row.value);
        let mut judge = || {
            if name != bucket::KEY {
                return small::check(name, row.key, row.value);
            }
            let key = RowKey::read(row.key)?;
            history.take(key, &KeyValue::read(row.value)?)?;
            hash_kv.take(key, row.key, row.value);
            Ok(())
        };
        judge().map_err(|why| bolt.damaged(row.place, why))?;
        progress.add((row.key.len() + row.value.len()) as u64)
    })?;
    Ok(Walked {
        structure,
        hash,
        hash_kv: (!history.any_superseded()).then(|| hash_kv.finish()),
        history,
    })
}
