//! Records of an archive's log: what was added, by whom, when.
//!
//! ```text
//! SHA-256 of the second line, in hexadecimal
//! {"number":17,"previous":"SHA-256 of record 16", …}
//! ```
//!
//! In: what happened. Out: two lines of text, and back. A record is numbered, names its predecessor by hash, and is
//! never changed; an object of the archive counts from when a record names it.
//! Never: a record believed whose hash is wrong, or that does not follow its predecessor.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::digest::Sha256Hex;
use super::lines;
use super::object::Facts;

/// The longest a record may be. The largest have a sample for each second of a long outage, and new leases.
pub const RECORD_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Its number; the first is 1.
    pub number: u64,
    /// The hash of the one before; zeros for the first.
    pub previous: Sha256Hex,
    /// The epoch of the agent that wrote it, or that wrote last when a command wrote it.
    pub epoch: u64,
    /// When it was written, by the writer's clock.
    pub at: Timestamp,
    pub writer: String,
    pub entry: Entry,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Entry {
    /// An agent begins to write. From here on only records of this epoch may be an agent's.
    Claim(Claim),
    Full(Full),
    /// The changes of a range of revisions.
    Delta(Delta),
    /// Changes that were lost to the archive: the cluster had forgotten them before they could be read.
    Gap(Gap),
    /// Something was proven to be restorable.
    Proof(Proof),
    /// Objects that no longer count, and may be deleted after a time.
    Prune(Prune),
}

/// An agent begins to write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// Its epoch: one more than any before.
    pub epoch: u64,
    /// Why it writes: a first start, the last writer was silent, and so on.
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Full {
    /// The object: etcd's snapshot, its SHA-256 behind.
    #[serde(flatten)]
    pub facts: Facts,
    /// The revision it is of: that of its last row.
    pub revision: i64,
    /// History before this revision is not in it; -1 if it was never compacted.
    pub compact_revision: i64,
    /// How it came to be.
    pub made: Made,
    /// The state was no newer than this.
    pub taken: Timestamp,
    /// The version of etcd it came from.
    pub etcd_version: String,
    /// The revision of users and roles.
    pub auth_revision: u64,
    /// Users and roles are as they were then, if not as of the copy itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_from: Option<AuthFrom>,
    /// etcd's hash, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<Hash>,
}

impl Full {
    /// What point users and roles are of.
    pub fn auth(&self) -> AuthFrom {
        self.auth_from.unwrap_or(AuthFrom {
            revision: self.revision,
            taken: self.taken,
        })
    }
}

/// The point that users and roles of a full copy are of: changes do not tell of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthFrom {
    /// The revision of the full copy that a member streamed.
    pub revision: i64,
    /// When that was taken.
    pub taken: Timestamp,
}

/// How a full copy came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Made {
    /// A member streamed it.
    Snapshot,
    /// From an older one and the changes after it.
    Compaction,
    /// From another tool's archive.
    Conversion,
}

/// A HashKV, and what it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hash {
    pub hash: u32,
    /// Up to this revision.
    pub revision: i64,
    /// With history compacted up to there; -1 if never.
    pub compact_revision: i64,
}

/// The changes of a range of revisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delta {
    #[serde(flatten)]
    pub facts: Facts,
    pub from: i64,
    pub to: i64,
    pub rows: u64,
    /// The bytes of their keys and values.
    pub row_bytes: u64,
    /// The CRC-32C of all rows, key and value.
    pub crc: u32,
    /// What time it was: samples since the last delta.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Leases that rows refer to and no earlier delta of this epoch, behind the same full copy, has told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<Lease>,
    /// What its last revision was like, to know the cluster's history again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Imprint>,
}

/// What a revision was like. Deletions count apart: compaction takes them out of the newest revision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Imprint {
    /// How many keys were put.
    pub puts: u32,
    /// The CRC-32C of their key-value pairs.
    pub puts_crc: u32,
    /// How many keys were deleted.
    pub deletions: u32,
    /// The CRC-32C of these keys.
    pub deletions_crc: u32,
}

impl Imprint {
    /// Takes a put, as etcd keeps it.
    pub fn put(&mut self, key_value: &[u8]) {
        self.puts = self.puts.saturating_add(1);
        self.puts_crc = crc32c::crc32c_append(self.puts_crc, key_value);
    }

    /// Takes the deletion of a key.
    pub fn delete(&mut self, key: &[u8]) {
        self.deletions = self.deletions.saturating_add(1);
        self.deletions_crc = crc32c::crc32c_append(self.deletions_crc, key);
    }

    /// Whether this can be the same revision as `before` was, told later.
    pub fn is_of(&self, before: &Imprint) -> bool {
        let deletions = match self.deletions == before.deletions {
            true => self.deletions_crc == before.deletions_crc,
            false => self.deletions < before.deletions,
        };
        deletions && (self.puts, self.puts_crc) == (before.puts, before.puts_crc)
    }
}

/// What the clock said around a read of the revision: `[before, revision, after]`, milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(i64, i64, i64)", into = "(i64, i64, i64)")]
pub struct Sample {
    /// Later revisions did not exist before this.
    pub before: i64,
    pub revision: i64,
    /// It existed by then.
    pub after: i64,
}

impl From<(i64, i64, i64)> for Sample {
    fn from((before, revision, after): (i64, i64, i64)) -> Sample {
        Sample {
            before,
            revision,
            after,
        }
    }
}

impl From<Sample> for (i64, i64, i64) {
    fn from(sample: Sample) -> (i64, i64, i64) {
        (sample.before, sample.revision, sample.after)
    }
}

/// A lease that rows refer to: its id, and its time to live if it could still be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(i64, Option<i64>)", into = "(i64, Option<i64>)")]
pub struct Lease {
    pub id: i64,
    /// Its granted time to live, in seconds.
    pub ttl: Option<i64>,
}

impl From<(i64, Option<i64>)> for Lease {
    fn from((id, ttl): (i64, Option<i64>)) -> Lease {
        Lease { id, ttl }
    }
}

impl From<Lease> for (i64, Option<i64>) {
    fn from(lease: Lease) -> (i64, Option<i64>) {
        (lease.id, lease.ttl)
    }
}

/// Changes that were lost to the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// The first revision that is missing.
    pub from: i64,
    pub to: i64,
    pub why: String,
}

/// How far something was proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Every object was read, and is what was written.
    Read,
    /// A database was rebuilt, and its hash is right.
    Rebuilt,
    /// A real etcd served it.
    Served,
}

/// Something was proven to be restorable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    pub level: Level,
    /// Up to which revision.
    pub revision: i64,
    /// The revision of the full copy it was rebuilt from.
    pub base: i64,
    /// The hash of what was rebuilt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<Hash>,
    /// How long it took.
    pub seconds: f64,
}

/// Objects that no longer count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prune {
    pub objects: Vec<String>,
    /// They are not deleted before this.
    pub delete_after: Timestamp,
    pub why: String,
}

/// A record and its hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Signed {
    pub record: Record,
    /// The hash of its line.
    pub hash: Sha256Hex,
}

impl Record {
    /// As two lines of text, and the hash.
    pub fn bytes(&self) -> (Vec<u8>, Sha256Hex) {
        lines::write(self)
    }
}

impl Signed {
    /// Reads one record off the front; gives back what is behind it.
    pub fn read(bytes: &[u8]) -> Result<(Signed, &[u8]), &'static str> {
        let (record, hash, rest) = lines::read_first(bytes)?;
        Ok((Signed { record, hash }, rest))
    }

    /// Reads a whole object that holds `count` records.
    pub fn read_all(mut bytes: &[u8], count: u64) -> Result<Vec<Signed>, &'static str> {
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let (record, rest) = Signed::read(bytes)?;
            records.push(record);
            bytes = rest;
        }
        match records.len() as u64 == count {
            true => Ok(records),
            false => Err("it does not hold as many records as its name says"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(entry: Entry) -> Record {
        Record {
            number: 3,
            previous: Sha256Hex([9; 32]),
            epoch: 2,
            at: Timestamp::from_second(1_700_000_000).unwrap(),
            writer: "host/1".to_owned(),
            entry,
        }
    }

    fn facts() -> Facts {
        Facts {
            object: "t/00000001/delta/1-2-a.delta".to_owned(),
            stored_bytes: 100,
            plain_bytes: 200,
            sha256: Sha256Hex([1; 32]),
            index_sha256: Sha256Hex([2; 32]),
            key: None,
        }
    }

    fn entries() -> Vec<Entry> {
        let gap = Gap {
            from: 5,
            to: 9,
            why: "compacted".to_owned(),
        };
        let delta = Delta {
            facts: facts(),
            from: 1,
            to: 2,
            rows: 2,
            row_bytes: 80,
            crc: 7,
            samples: vec![Sample::from((1000, 2, 1003))],
            leases: vec![Lease { id: -5, ttl: None }, Lease { id: 6, ttl: Some(60) }],
            last: Some(Imprint {
                puts: 1,
                puts_crc: u32::MAX,
                ..Imprint::default()
            }),
        };
        let full = Full {
            facts: facts(),
            revision: 2,
            compact_revision: -1,
            made: Made::Snapshot,
            taken: Timestamp::from_second(1_700_000_000).unwrap(),
            etcd_version: "3.6.16".to_owned(),
            auth_revision: 1,
            auth_from: None,
            hash: Some(Hash {
                hash: 1,
                revision: 2,
                compact_revision: -1,
            }),
        };
        vec![Entry::Gap(gap), Entry::Delta(delta), Entry::Full(full)]
    }

    #[test]
    fn records_come_back_one_by_one_and_in_a_row() {
        let mut all = Vec::new();
        for entry in entries() {
            let record = record(entry);
            let (bytes, hash) = record.bytes();
            all.extend_from_slice(&bytes);
            assert_eq!(Signed::read_all(&bytes, 1).unwrap(), [Signed { record, hash }]);
        }
        assert_eq!(Signed::read_all(&all, 3).unwrap().len(), 3);
        assert!(Signed::read_all(&all, 2).is_err());
    }

    #[test]
    fn any_changed_bit_is_seen() {
        for entry in entries() {
            let (bytes, _) = record(entry).bytes();
            for position in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[position / 8] ^= 1 << (position % 8);
                assert!(Signed::read_all(&changed, 1).is_err(), "bit {position}");
            }
        }
    }
}
