//! What a snapshot or a database holds, in a few numbers: those of `etcdutl snapshot status`.
//!
//! In: a source. Out: its numbers. Every row is read once. Never: a number from a file whose pages do not hold together.

use crate::Error;
use crate::mvcc::{KeyIndex, KeyValue, RowKey, Source, bucket};
use crate::progress::Progress;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// CRC-32C of all buckets: their names, and every row's key and value.
    pub hash: u32,
    /// The revision of the last row.
    pub revision: i64,
    /// Up to where history was compacted.
    pub compact_revision: Option<i64>,
    /// How many keys there are, at the last revision.
    pub keys: u64,
    /// How many rows there are in all buckets.
    pub rows: u64,
    /// The bytes of all pages.
    pub size: u64,
    /// The storage version; empty before 3.6.
    pub version: String,
    /// Is there a hash behind the pages?
    pub has_digest: bool,
}

pub fn status(source: &Source, progress: &Progress) -> Result<Status, Error> {
    let bolt = source.bolt();
    progress.expect(bolt.size());
    let mut hash = 0;
    let mut rows = 0;
    let mut keys: KeyIndex<()> = KeyIndex::new();
    bolt.check(|name, row| {
        let Some(row) = row else {
            hash = crc32c::crc32c_append(hash, name);
            return Ok(());
        };
        rows += 1;
        hash = crc32c::crc32c_append(crc32c::crc32c_append(hash, row.key), row.value);
        if name == bucket::KEY {
            let read = || {
                let key = RowKey::read(row.key)?;
                Ok((key, KeyValue::read(row.value)?))
            };
            let (key, kv) = read().map_err(|why| bolt.damaged(row.place, why))?;
            if key.tombstone {
                keys.remove(kv.key);
            } else {
                keys.insert(kv.key, ());
            }
        }
        progress.add((row.key.len() + row.value.len()) as u64)
    })?;
    Ok(Status {
        hash,
        revision: source.last_revision(),
        compact_revision: source.compact_revision(),
        keys: keys.len(),
        rows,
        size: bolt.size(),
        version: source
            .numbers()
            .storage_version
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        has_digest: bolt.has_digest(),
    })
}
