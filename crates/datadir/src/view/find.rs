//! The keys of a store as they were at a revision, and their values.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::selection::Selection;
use super::sweep::sweep;
use crate::bolt::Rows;
use crate::{Error, KeyValue, Progress, Revision, RowKey, Source};

/// A key, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub key: Vec<u8>,
    /// The revision that made it.
    pub create_revision: i64,
    /// The revision that last wrote it.
    pub mod_revision: i64,
    /// How often it was written since it was made.
    pub version: i64,
    /// The lease it is bound to; 0 if to none.
    pub lease: i64,
    /// How long its value is, in bytes.
    pub value_bytes: u64,
    row: Revision,
}

/// A key's state, while later rows may still change it.
struct Place {
    create_revision: i64,
    mod_revision: i64,
    version: i64,
    lease: i64,
    value_bytes: u64,
    row: Revision,
}

/// The selected keys that were there at `revision`, in the order of their bytes. Memory grows with them alone.
pub fn find(
    source: &Source,
    selection: &Selection,
    revision: i64,
    progress: &Progress,
) -> Result<Vec<Found>, Error> {
    find_those(source, |key| selection.has(key), revision, progress)
}

/// The same, of the keys that `wanted` says.
pub fn find_those(
    source: &Source,
    wanted: impl Fn(&[u8]) -> bool,
    revision: i64,
    progress: &Progress,
) -> Result<Vec<Found>, Error> {
    let mut alive: BTreeMap<Vec<u8>, Place> = BTreeMap::new();
    sweep(source, revision, progress, |row, written| {
        if wanted(written.key) {
            if row.tombstone {
                alive.remove(written.key);
            } else if let Some(place) = alive.get_mut(written.key) {
                *place = place_of(row, written);
            } else {
                alive.insert(written.key.to_vec(), place_of(row, written));
            }
        }
        ControlFlow::Continue(())
    })?;
    let found = |(key, place): (Vec<u8>, Place)| Found {
        key,
        create_revision: place.create_revision,
        mod_revision: place.mod_revision,
        version: place.version,
        lease: place.lease,
        value_bytes: place.value_bytes,
        row: place.row,
    };
    Ok(alive.into_iter().map(found).collect())
}

fn place_of(row: RowKey, written: &KeyValue<'_>) -> Place {
    Place {
        create_revision: written.create_revision,
        mod_revision: written.mod_revision,
        version: written.version,
        lease: written.lease,
        value_bytes: written.value.len() as u64,
        row: row.revision,
    }
}

/// Values, looked up one at a time.
pub struct Values<'a> {
    source: &'a Source,
    rows: Rows<'a>,
}

impl<'a> Values<'a> {
    /// Of the keys of `source`.
    pub fn of(source: &'a Source) -> Result<Values<'a>, Error> {
        let rows = source.history()?;
        Ok(Values { source, rows })
    }

    /// The value of a key that was found in the same store.
    pub fn get(&mut self, found: &Found) -> Result<Vec<u8>, Error> {
        let bolt = self.source.bolt();
        let wanted = found.row.bytes();
        self.rows.seek(&wanted)?;
        match self.rows.next_row()? {
            Some(row) if row.key == wanted => {
                let written = KeyValue::read(row.value).map_err(|why| bolt.damaged(row.place, why))?;
                if written.key == found.key {
                    return Ok(written.value.to_vec());
                }
                Err(bolt.damaged(row.place, "it holds another key than a moment ago"))
            }
            _ => Err(Error::Damaged {
                path: bolt.path().to_owned(),
                place: format!("row {}", found.row),
                why: "it was there a moment ago, and is not found by its key".to_owned(),
            }),
        }
    }
}
