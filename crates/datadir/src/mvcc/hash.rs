//! etcd's HashKV: one number over all that a store holds at a revision.
//!
//! ```text
//! crc32c over "key", then key and value of every row up to R, but
//!   rows up to the compaction C that are not the last of a key that is there at R (unless none is there at all, and
//!   etcd has compacted up to C and still has them),
//!   deletions at C itself
//! ```
//!
//! In: rows of `key` in order, R, C. Out: the number, equal to that of a member with the same C. Memory: nothing to
//! speak of without a compaction; with one, an index of the keys that are there.
//! Never: a number for a revision that is not there.

use super::index::{Kept, KeyIndex};
use super::row::{KeyValue, RowKey};
use super::source::Source;
use crate::Error;
use crate::bolt::{Then, ahead};
use crate::progress::Progress;

/// A HashKV, and what it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashKv {
    pub hash: u32,
    /// Up to this revision.
    pub revision: i64,
    /// With history compacted up to there; -1 if never.
    pub compact_revision: i64,
}

/// The hash of rows as they pass by.
#[derive(Debug)]
pub(crate) struct HashRows {
    crc: u32,
    revision: i64,
    compacted: i64,
    kept: Option<Kept>,
    rows: u64,
}

impl HashRows {
    /// Up to `revision`; of the rows up to `compacted` only those `kept`.
    pub(crate) fn new(revision: i64, compacted: Option<i64>, kept: Option<Kept>) -> HashRows {
        HashRows {
            crc: crc32c::crc32c(b"key"),
            revision,
            compacted: compacted.unwrap_or(-1),
            kept: kept.filter(Kept::any),
            rows: 0,
        }
    }

    /// Takes the next row.
    pub(crate) fn take(&mut self, row: RowKey, key: &[u8], value: &[u8]) {
        let number = self.rows;
        self.rows += 1;
        let main = row.revision.main;
        let superseded = main <= self.compacted && self.kept.as_ref().is_some_and(|kept| !kept.has(number));
        if main > self.revision || superseded || (row.tombstone && main == self.compacted) {
            return;
        }
        self.crc = crc32c::crc32c_append(crc32c::crc32c_append(self.crc, key), value);
    }

    pub(crate) fn finish(&self) -> HashKv {
        HashKv {
            hash: self.crc,
            revision: self.revision,
            compact_revision: self.compacted,
        }
    }
}

/// The HashKV of `source` at `revision` (0: the current one), as a member says it that has history compacted up to
/// `compacted` (`None`: as in the source).
pub fn hash_kv(
    source: &Source,
    revision: i64,
    compacted: Option<i64>,
    progress: &Progress,
) -> Result<HashKv, Error> {
    let revision = source.revision(revision)?;
    let own = source.compact_revision();
    if compacted.is_some() && compacted < own {
        return Err(Error::refused(
            format!("history was compacted up to {} already", own.unwrap_or(0)),
            "a hash with an earlier compaction cannot be computed from it",
        ));
    }
    let compacted = compacted.or(own).filter(|c| *c >= 0);
    if compacted.is_some_and(|c| c > revision) {
        return Err(Error::refused(
            format!("revision {revision} has been compacted"),
            "ask for a later revision",
        ));
    }
    hash_at(source, revision, compacted, progress)
}

/// The same, whatever the source says of its compactions: of a store in which revisions go on from a higher one, too.
pub(crate) fn hash_at(
    source: &Source,
    revision: i64,
    compacted: Option<i64>,
    progress: &Progress,
) -> Result<HashKv, Error> {
    let kept = match compacted {
        None => None,
        Some(compacted) => {
            let mut kept = kept(source, revision, compacted, progress)?;
            // A member that has compacted so far has none of what is superseded, even if no key is there at all.
            if source.compact_revision() != Some(compacted) {
                kept.set_any();
            }
            Some(kept)
        }
    };
    let mut hash = HashRows::new(revision, compacted, kept);
    each_row(source, revision, progress, |row, key, value| {
        hash.take(row, key, value);
        Ok(())
    })?;
    Ok(hash.finish())
}

/// Which rows up to `compacted` are the last of a key that is there at `revision`.
pub(crate) fn kept(
    source: &Source,
    revision: i64,
    compacted: i64,
    progress: &Progress,
) -> Result<Kept, Error> {
    const LATER: [u8; 8] = [0xff; 8];
    let mut keys: KeyIndex<[u8; 8]> = KeyIndex::new();
    let mut rows = 0u64;
    each_row(source, revision, progress, |row, _, value| {
        let kv = KeyValue::read(value)?;
        let number = rows;
        rows += 1;
        if row.tombstone {
            keys.remove(kv.key);
        } else {
            let early = row.revision.main <= compacted;
            keys.insert(kv.key, if early { number.to_ne_bytes() } else { LATER });
        }
        Ok(())
    })?;
    let mut kept = Kept::none(rows);
    for number in keys.values() {
        if number != LATER {
            kept.add(u64::from_ne_bytes(number));
        }
    }
    if keys.len() > 0 {
        kept.set_any();
    }
    Ok(kept)
}

/// Calls `take` with every row up to `revision`.
pub(crate) fn each_row(
    source: &Source,
    revision: i64,
    progress: &Progress,
    mut take: impl FnMut(RowKey, &[u8], &[u8]) -> Result<(), &'static str>,
) -> Result<(), Error> {
    let bolt = source.bolt();
    ahead(source.history()?, |row| {
        let place = row.place;
        let key = RowKey::read(row.key).map_err(|why| bolt.damaged(place, why))?;
        if key.revision.main > revision {
            return Ok(Then::Stop);
        }
        take(key, row.key, row.value).map_err(|why| bolt.damaged(place, why))?;
        progress.add((row.key.len() + row.value.len()) as u64)?;
        Ok(Then::GoOn)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mvcc::Revision;

    /// Rows that real etcd of all versions hashes to these numbers.
    #[test]
    fn known_numbers() {
        let mut hash = HashRows::new(3, None, None);
        assert_eq!(hash.finish().hash, 1_084_519_789);
        let rows: [(i64, &[u8]); 2] = [
            (2, &[0x0a, 1, 0x61, 0x10, 2, 0x18, 2, 0x20, 1, 0x2a, 1, 0x31]),
            (3, &[0x0a, 1, 0x61, 0x10, 2, 0x18, 3, 0x20, 2, 0x2a, 1, 0x32]),
        ];
        for (main, value) in rows {
            let revision = Revision { main, sub: 0 };
            let row = RowKey {
                revision,
                tombstone: false,
            };
            hash.take(row, &revision.bytes(), value);
        }
        assert_eq!(hash.finish().hash, 535_221_974);
    }
}
