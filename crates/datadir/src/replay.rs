//! The tail of a log applied to the database it belongs to, as etcd would at its next start.
//!
//! In: the entries that a database does not hold yet, and from the database what they touch ([`Survey`], then
//! [`Learning`]). Out: new rows of the `key` bucket in order, and the small buckets as they are afterwards
//! ([`Applying`]). Plain data in, plain data out: nothing here reads or writes a file.
//!
//! Never: an entry applied whose effect is not exactly known. At the first such entry it stops and says why
//! ([`Stop`]); a real etcd can do the rest. What is exactly known was read from etcd's own code, 3.4 to 3.7, and is
//! checked against real members that were killed (crates/host/tests/dead_members).
//!
//! ```text
//! pass 1 over the tail      Survey      which keys, ranges and leases matter; which kinds of entries there are
//! pass over the key bucket  Learning    the present state of those keys
//! pass 2 over the tail      Applying    rows and changes, entry by entry
//! ```

mod command;
mod interest;
mod keyspace;
mod lease;
mod member_row;
mod membership;
mod store;
#[cfg(test)]
mod tests;
mod txn;
mod v2;

use std::collections::BTreeMap;
use std::fmt;

use command::Command;
use interest::Interest;
use membership::Era;

use crate::wal::Entry;

pub use keyspace::Row;
pub use lease::MIN_TTL_BY_DEFAULT;
pub use store::{BUCKETS, Put, Small, SmallRows, Store};

/// What a tail touches takes at most this much memory to remember.
const SURVEY_BYTES_MAX: usize = 256 << 20;

/// Why an entry is not applied here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    pub index: u64,
    pub kind: &'static str,
    /// What is not known.
    pub why: String,
}

impl Stop {
    fn because(why: impl Into<String>) -> Stop {
        Stop {
            index: 0,
            kind: "",
            why: why.into(),
        }
    }

    fn at(self, index: u64, kind: &'static str) -> Stop {
        Stop { index, kind, ..self }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "entry {} ({}): {}", self.index, self.kind, self.why)
    }
}

/// How many entries there are, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kinds(BTreeMap<&'static str, u64>);

impl Kinds {
    fn add(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }

    pub(crate) fn count(&mut self, entry: &Entry<'_>) {
        self.add(Command::of(entry).kind());
    }

    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// How many there are of each kind.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(kind, count)| (*kind, *count))
    }

    /// What is left of these after `others`.
    pub fn without(&self, others: &Kinds) -> Kinds {
        let left = self
            .0
            .iter()
            .map(|(kind, count)| (*kind, count - others.0.get(kind).unwrap_or(&0).min(count)));
        Kinds(left.filter(|(_, count)| *count > 0).collect())
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (kind, count)) in self.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(formatter, "{comma}{count} {kind}")?;
        }
        Ok(())
    }
}

/// What an entry acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Keys, leases, users, alarms: what a client asks for.
    Request,
    Members,
    /// The cluster they are: its version.
    Cluster,
    /// Nothing in the database.
    Nothing,
}

/// What `entry` acts on.
pub(crate) fn takes(entry: &Entry<'_>) -> Takes {
    match Command::of(entry) {
        Command::Nothing(_) | Command::Other(command::V2) => Takes::Nothing,
        Command::Attributes(_) | Command::Member(_) | Command::Other(command::MEMBERS_TWO) => Takes::Members,
        Command::ClusterVersion(_) | Command::Other(command::DOWNGRADE) => Takes::Cluster,
        Command::Put(_)
        | Command::DeleteRange(_)
        | Command::Txn(_)
        | Command::Compaction(_)
        | Command::LeaseGrant(_)
        | Command::LeaseRevoke(_)
        | Command::Other(_) => Takes::Request,
    }
}

/// The first pass over a tail.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    interest: Interest,
    kinds: Kinds,
    versions: Vec<String>,
    stop: Option<Stop>,
    /// It touches too much, so nothing of it can be applied.
    too_much: bool,
}

impl Survey {
    /// Looks at the next entry.
    pub fn add(&mut self, entry: &Entry<'_>) {
        let command = Command::of(entry);
        self.kinds.add(command.kind());
        if let Command::ClusterVersion(version) = &command {
            self.versions.push(version.clone());
        }
        if self.stop.is_some() {
            return;
        }
        match command {
            Command::Other(kind) => {
                self.stop = Some(Stop::because("its effect is not exactly known here").at(entry.index, kind));
            }
            command => self.interest.add(&command),
        }
        if self.interest.bytes() > SURVEY_BYTES_MAX {
            let why = format!("what the log touches takes more than {SURVEY_BYTES_MAX} bytes of memory");
            self.stop = Some(Stop::because(why).at(entry.index, "any"));
            (self.interest, self.too_much) = (Interest::default(), true);
        }
    }

    /// The kinds of all entries.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The first entry that will not be applied, as far as can be told without the database.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Goes on to the database, whose small buckets are these; at most `limit_bytes` of keys are kept in memory.
    pub fn learn(self, small: Small, limit_bytes: usize) -> Learning {
        let failed = self.stop.filter(|_| self.too_much);
        let store = Store::new(small, self.interest, limit_bytes);
        let era = Era::of(&store, self.versions.iter().map(String::as_str));
        Learning {
            store,
            era,
            last_row: 0,
            failed,
        }
    }
}

/// The pass over the `key` bucket.
#[derive(Debug, Clone)]
pub struct Learning {
    store: Store,
    era: Era,
    last_row: i64,
    failed: Option<Stop>,
}

impl Learning {
    /// The same, where it is known which etcd will replay the log.
    pub(crate) fn replayed_by(self, version: &semver::Version) -> Learning {
        let era = self.era.replayed_by(version);
        Learning { era, ..self }
    }

    /// Whether the `key` bucket need not be read, but for its last row.
    pub fn is_content(&self) -> bool {
        self.store.interest.is_empty()
    }

    /// The next row: a put in revision `main`.
    pub fn put(&mut self, main: i64, put: &Put<'_>) {
        self.last_row = main;
        if self.failed.is_none() {
            self.failed = self.store.learn_put(put).err();
        }
        self.store.revision = self.store.revision.max(main);
    }

    /// The next row: a deletion in revision `main`.
    pub fn delete(&mut self, main: i64, key: &[u8]) {
        self.last_row = main;
        self.store.learn_delete(key, main);
    }

    /// The last row's revision, where the rows themselves need not be read.
    pub fn last_row(&mut self, main: i64) {
        self.last_row = main;
        self.store.revision = self.store.revision.max(main);
    }

    /// Goes on to apply the tail.
    pub fn apply(mut self) -> Applying {
        self.store.check_end(self.last_row);
        Applying {
            store: self.store,
            era: self.era,
            failed: self.failed,
            applied: Kinds::default(),
            last: None,
        }
    }
}

/// The second pass over a tail.
#[derive(Debug, Clone)]
pub struct Applying {
    store: Store,
    era: Era,
    failed: Option<Stop>,
    applied: Kinds,
    last: Option<(u64, u64)>,
}

impl Applying {
    /// Applies the next entry: the rows it adds to the `key` bucket. After a stop nothing more may be applied.
    pub fn entry(&mut self, entry: &Entry<'_>) -> Result<Vec<Row>, Stop> {
        let command = Command::of(entry);
        let kind = command.kind();
        let rows = self
            .command(&command)
            .map_err(|stop| stop.at(entry.index, kind))?;
        self.applied.add(kind);
        self.last = Some((entry.index, entry.term));
        Ok(rows)
    }

    fn command(&mut self, command: &Command) -> Result<Vec<Row>, Stop> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if let Command::Nothing(_) = command {
            return Ok(Vec::new());
        }
        if let Some(why) = self.store.closed {
            return Err(Stop::because(why));
        }
        let store = &mut self.store;
        match command {
            Command::Put(put) => keyspace::put(store, put),
            Command::DeleteRange(delete) => keyspace::delete_range(store, delete),
            Command::Txn(txn) => txn::apply(store, txn),
            Command::Compaction(compaction) => {
                compact(store, compaction.revision);
                Ok(Vec::new())
            }
            Command::LeaseGrant(grant) => lease::grant(store, grant),
            Command::LeaseRevoke(id) => lease::revoke(store, *id),
            Command::ClusterVersion(version) => membership::set_version(store, version).map(|()| Vec::new()),
            Command::Attributes(set) => membership::set_attributes(store, self.era, set).map(|()| Vec::new()),
            Command::Member(change) => membership::change(store, self.era, change).map(|()| Vec::new()),
            Command::Nothing(_) => Ok(Vec::new()),
            Command::Other(_) => Err(Stop::because("its effect is not exactly known here")),
        }
    }

    /// The kinds of the entries applied so far.
    pub fn applied(&self) -> &Kinds {
        &self.applied
    }

    /// The store after the last entry; it knows that entry's place in the log.
    pub fn finish(self) -> Store {
        match self.last {
            Some((index, term)) => self.finish_at(index, term),
            None => self.store,
        }
    }

    /// The store, which now stands at this place of the log.
    pub(crate) fn finish_at(mut self, index: u64, term: u64) -> Store {
        self.store
            .write("meta", b"consistent_index", index.to_be_bytes().to_vec());
        if self.era.since_35() {
            self.store.write("meta", b"term", term.to_be_bytes().to_vec());
        }
        self.store
    }
}

/// Schedules a compaction, as etcd does before it begins: at the next start it is carried out.
fn compact(store: &mut Store, revision: i64) {
    if revision <= store.compacted || revision > store.revision {
        return;
    }
    store.compacted = revision;
    store.write("meta", b"scheduledCompactRev", keyspace::row_key(revision, 0));
}
