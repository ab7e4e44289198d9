//! What is known of a store while the tail of its log is applied to it.
//!
//! In: the rows of a database, in order. Out: its revision, its leases, its small buckets whole, and of the keys that
//! matter their present state. Never: more keys in memory than the limit allows.

use std::collections::BTreeMap;

use prost::Message;
use quorate_wire::leasepb;

use super::Stop;
use super::interest::Interest;

/// The buckets that a log can change, besides `key`. They are small, and known whole.
pub const BUCKETS: [&str; 5] = ["cluster", "lease", "members", "members_removed", "meta"];

/// A key that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) create_revision: i64,
    pub(crate) mod_revision: i64,
    pub(crate) version: i64,
    pub(crate) lease: i64,
    /// Empty where no command asks for it.
    pub(crate) value: Vec<u8>,
}

/// A put as it stands in the database.
#[derive(Debug, Clone, Copy)]
pub struct Put<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// The revision that made it.
    pub create_revision: i64,
    /// The revision of this put.
    pub mod_revision: i64,
    /// The puts since it was made.
    pub version: i64,
    /// The lease it is attached to, or 0.
    pub lease: i64,
}

/// The rows of the small buckets: bucket, then row key, then value.
pub type SmallRows = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

/// What is known of a store.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) revision: i64,
    /// The revision it is compacted to, finished or not; -1 if it never was.
    pub(crate) compacted: i64,
    pub(crate) keys: BTreeMap<Vec<u8>, Live>,
    pub(crate) leases: BTreeMap<i64, Lease>,
    pub(crate) small: SmallRows,
    /// The member whose directory this is.
    pub(crate) member: u64,
    /// Why nothing at all can be applied here.
    pub(crate) closed: Option<&'static str>,
    pub(crate) interest: Interest,
    limit_bytes: usize,
    bytes: usize,
}

/// A lease that has been granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The keys attached to it, of those that matter.
    pub(crate) keys: std::collections::BTreeSet<Vec<u8>>,
}

/// What the small buckets of a database hold, and which member it belongs to.
#[derive(Debug, Clone, Default)]
pub struct Small {
    /// Every row of [`BUCKETS`].
    pub rows: SmallRows,
    /// Whether authentication is enabled.
    pub auth_enabled: bool,
    /// Whether an alarm is raised.
    pub alarmed: bool,
    /// The member's id, as its log says.
    pub member: u64,
}

impl Store {
    /// A store with these small buckets, of which keys are to be learnt as far as `interest` goes.
    pub(crate) fn new(small: Small, interest: Interest, limit_bytes: usize) -> Store {
        let row = |key: &str| small.rows.get("meta").and_then(|meta| meta.get(key.as_bytes()));
        let revision = |key: &str| row(key).map_or(Some(-1), |value| main_of(value));
        let (scheduled, finished) = (revision("scheduledCompactRev"), revision("finishedCompactRev"));
        let (leases, leases_readable) = leases_of(&small.rows);
        let closed = if small.auth_enabled {
            Some("authentication is enabled: whether a request was allowed is decided while it is applied")
        } else if small.alarmed {
            Some("an alarm is raised: requests may be refused while they are applied")
        } else if scheduled.is_none() || finished.is_none() {
            Some("the compaction revision in the database is unreadable")
        } else if !leases_readable {
            Some("a lease in the database is unreadable")
        } else {
            None
        };
        let compacted = scheduled.unwrap_or(-1).max(finished.unwrap_or(-1));
        let bytes = interest.bytes();
        Store {
            revision: compacted.max(1),
            compacted,
            keys: BTreeMap::new(),
            leases,
            small: small.rows,
            member: small.member,
            closed,
            interest,
            limit_bytes,
            bytes,
        }
    }

    /// The revision of the last change.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The rows of the small buckets, as they are now.
    pub fn small_rows(&self) -> &SmallRows {
        &self.small
    }

    /// Learns of the next row of `key`, a put.
    pub(crate) fn learn_put(&mut self, put: &Put<'_>) -> Result<(), Stop> {
        self.revision = self.revision.max(put.mod_revision);
        if !self.interest.in_key(put.key, put.lease) {
            self.forget(put.key);
            return Ok(());
        }
        let live = Live {
            create_revision: put.create_revision,
            mod_revision: put.mod_revision,
            version: put.version,
            lease: put.lease,
            value: Vec::new(),
        };
        self.set(put.key, live, put.value)
    }

    /// Learns of the next row of `key`, a deletion in `revision`.
    pub(crate) fn learn_delete(&mut self, key: &[u8], revision: i64) {
        self.revision = self.revision.max(revision);
        self.forget(key);
    }

    /// Whether the database's last row lies before its compaction, which some versions of etcd take for its end.
    pub(crate) fn check_end(&mut self, last_row: i64) {
        let meta = self.small.get("meta");
        let row = |key: &str| {
            meta.and_then(|meta| meta.get(key.as_bytes()))
                .and_then(|value| main_of(value))
        };
        let (scheduled, finished) = (row("scheduledCompactRev"), row("finishedCompactRev"));
        if scheduled > finished
            && scheduled.is_some_and(|scheduled| scheduled > last_row)
            && self.closed.is_none()
        {
            self.closed = Some("an unfinished compaction reaches beyond the last revision in the database");
        }
    }

    /// Sets the state of a key, its lease included; `value` is kept if it matters.
    pub(crate) fn set(&mut self, key: &[u8], mut live: Live, value: &[u8]) -> Result<(), Stop> {
        self.forget(key);
        if self.interest.in_value(key) {
            live.value = value.to_owned();
        }
        self.bytes = self.bytes.saturating_add(cost(key, &live));
        if self.bytes > self.limit_bytes {
            return Err(Stop::because(format!(
                "what it needs to know of the store takes more than {} bytes of memory",
                self.limit_bytes
            )));
        }
        if let Some(lease) = self.leases.get_mut(&live.lease) {
            lease.keys.insert(key.to_owned());
        }
        self.keys.insert(key.to_owned(), live);
        Ok(())
    }

    /// Forgets a key that is gone, or does not matter.
    pub(crate) fn forget(&mut self, key: &[u8]) {
        if let Some(live) = self.keys.remove(key) {
            self.bytes = self.bytes.saturating_sub(cost(key, &live));
            if let Some(lease) = self.leases.get_mut(&live.lease) {
                lease.keys.remove(key);
            }
        }
    }

    /// The rows of a small bucket.
    pub(crate) fn bucket(&self, name: &str) -> Option<&BTreeMap<Vec<u8>, Vec<u8>>> {
        self.small.get(name)
    }

    /// Writes a row of a small bucket.
    pub(crate) fn write(&mut self, bucket: &'static str, key: &[u8], value: Vec<u8>) {
        self.small
            .entry(bucket)
            .or_default()
            .insert(key.to_owned(), value);
    }

    /// Deletes a row of a small bucket.
    pub(crate) fn delete(&mut self, bucket: &'static str, key: &[u8]) {
        self.small.entry(bucket).or_default().remove(key);
    }
}

/// About what a key costs in memory: it may stand in its lease too.
fn cost(key: &[u8], live: &Live) -> usize {
    2 * key.len() + live.value.len() + size_of::<Live>() + 64
}

/// The main revision in a row of `meta`.
fn main_of(value: &[u8]) -> Option<i64> {
    let main: [u8; 8] = value.get(..8)?.try_into().ok()?;
    (value.len() == 17).then_some(i64::from_be_bytes(main))
}

/// The leases in the database, and whether all of them could be read.
fn leases_of(rows: &SmallRows) -> (BTreeMap<i64, Lease>, bool) {
    let mut leases = BTreeMap::new();
    for (key, value) in rows.get("lease").into_iter().flatten() {
        let Ok(lease) = leasepb::Lease::decode(value.as_slice()) else {
            return (leases, false);
        };
        if lease.id.to_be_bytes().as_slice() != key.as_slice() {
            return (leases, false);
        }
        leases.insert(lease.id, Lease::default());
    }
    (leases, true)
}
