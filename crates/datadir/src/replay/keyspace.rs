//! Puts and deletions: the rows they leave, and the state they leave behind.
//!
//! In: what a request or a transaction does to keys. Out: rows of the `key` bucket, byte for byte as etcd writes them.
//! One request is one revision, its changes numbered from 0; a request that changes nothing takes no revision.

use std::ops::Bound;

use prost::Message;
use quorate_wire::etcdserverpb::{DeleteRangeRequest, PutRequest};
use quorate_wire::mvccpb::KeyValue;

use super::Stop;
use super::store::{Live, Store};

/// A row of the `key` bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Revision, place in it, and whether it is a deletion: 17 or 18 bytes.
    pub key: Vec<u8>,
    /// The marshalled key and value; of a deletion only the key.
    pub value: Vec<u8>,
}

/// The key of a row, as in the `key` bucket and in `meta`.
pub(crate) fn row_key(main: i64, sub: i64) -> Vec<u8> {
    let mut key = Vec::with_capacity(18);
    key.extend(main.to_be_bytes());
    key.push(b'_');
    key.extend(sub.to_be_bytes());
    key
}

/// Why a request has no effect: etcd answers it with an error, whoever applies it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// A revision being written.
pub(crate) struct Change<'a> {
    pub(crate) store: &'a mut Store,
    revision: i64,
    rows: Vec<Row>,
}

impl<'a> Change<'a> {
    pub(crate) fn begin(store: &'a mut Store) -> Result<Change<'a>, Stop> {
        let revision = store.revision.checked_add(1);
        let revision = revision.ok_or_else(|| Stop::because("there is no revision left"))?;
        Ok(Change {
            store,
            revision,
            rows: Vec::new(),
        })
    }

    /// The rows of the revision, which counts if there are any.
    pub(crate) fn end(self) -> Vec<Row> {
        if !self.rows.is_empty() {
            self.store.revision = self.revision;
        }
        self.rows
    }

    fn next_key(&self) -> Vec<u8> {
        row_key(self.revision, self.rows.len() as i64)
    }

    /// A put that has been found to be allowed.
    pub(crate) fn put(&mut self, put: &PutRequest) -> Result<(), Stop> {
        if put.key.is_empty() {
            return Err(Stop::because("it puts the empty key"));
        }
        let before = self.store.keys.get(&put.key);
        let (mut value, mut lease) = (put.value.as_slice(), put.lease);
        if put.ignore_value || put.ignore_lease {
            // A transaction that deletes a key and then relies on it makes etcd panic.
            let before = before.ok_or_else(|| Stop::because("it relies on a key that is gone"))?;
            if put.ignore_value {
                value = &before.value;
            }
            if put.ignore_lease {
                lease = before.lease;
            }
        }
        if lease != 0 && !self.store.leases.contains_key(&lease) {
            return Err(Stop::because(format!(
                "it attaches a key to lease {lease:x}, which does not exist"
            )));
        }
        let version = before.map_or(0, |before| before.version).checked_add(1);
        let live = Live {
            create_revision: before.map_or(self.revision, |before| before.create_revision),
            mod_revision: self.revision,
            version: version.ok_or_else(|| Stop::because("there is no version left"))?,
            lease,
            value: Vec::new(),
        };
        let row = KeyValue {
            key: put.key.clone(),
            create_revision: live.create_revision,
            mod_revision: live.mod_revision,
            version: live.version,
            value: value.to_owned(),
            lease,
        };
        self.rows.push(Row {
            key: self.next_key(),
            value: row.encode_to_vec(),
        });
        self.store.set(&put.key, live, &row.value)
    }

    /// Deletes every key of a range, in order.
    pub(crate) fn delete_range(&mut self, delete: &DeleteRangeRequest) -> Result<(), Stop> {
        if delete.key.is_empty() {
            return Err(Stop::because("it deletes from the empty key"));
        }
        let keys: Vec<Vec<u8>> = range(self.store, &delete.key, &delete.range_end)
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.delete(key);
        }
        Ok(())
    }

    /// Deletes a key that exists.
    pub(crate) fn delete(&mut self, key: Vec<u8>) {
        let mut row_key = self.next_key();
        row_key.push(b't');
        self.store.forget(&key);
        let row = KeyValue {
            key,
            ..Default::default()
        };
        self.rows.push(Row {
            key: row_key,
            value: row.encode_to_vec(),
        });
    }
}

/// The keys of a range that exist: one, all from a key on, or those before an end.
pub(crate) fn range<'a>(
    store: &'a Store,
    key: &'a [u8],
    range_end: &'a [u8],
) -> impl Iterator<Item = (&'a Vec<u8>, &'a Live)> {
    let end = match range_end {
        [] => Bound::Included(key),
        [0] => Bound::Unbounded,
        end => Bound::Excluded(end),
    };
    // An end before the beginning holds nothing; a map's range would panic.
    let empty = !matches!(range_end, [] | [0]) && range_end <= key;
    let bounds = (
        Bound::Included(key),
        if empty { Bound::Included(key) } else { end },
    );
    store.keys.range::<[u8], _>(bounds).filter(move |_| !empty)
}

/// Whether etcd would carry out a put: the lease it names must exist, and the key if it relies on its present state.
pub(crate) fn check_put(store: &Store, put: &PutRequest) -> Result<Result<(), Refused>, Stop> {
    if put.lease < 0 || put.lease == i64::MAX {
        // Up to 3.4.19 and 3.5.2 a restart forgets such a lease.
        return Err(Stop::because(format!("it names lease {:x}", put.lease)));
    }
    let relies = put.ignore_value || put.ignore_lease;
    let refused = (relies && !store.keys.contains_key(&put.key))
        || (put.lease != 0 && !store.leases.contains_key(&put.lease));
    Ok(if refused { Err(Refused) } else { Ok(()) })
}

/// A put by itself.
pub(crate) fn put(store: &mut Store, put: &PutRequest) -> Result<Vec<Row>, Stop> {
    if check_put(store, put)?.is_err() {
        return Ok(Vec::new());
    }
    let mut change = Change::begin(store)?;
    change.put(put)?;
    Ok(change.end())
}

/// A deletion by itself.
pub(crate) fn delete_range(store: &mut Store, delete: &DeleteRangeRequest) -> Result<Vec<Row>, Stop> {
    let mut change = Change::begin(store)?;
    change.delete_range(delete)?;
    Ok(change.end())
}
