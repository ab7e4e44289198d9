//! A store in small, and what the tail of a log does to it.

mod keys;
mod members;
mod small;
mod txns;

use prost::Message;
use quorate_wire::etcdserverpb::{InternalRaftRequest, LeaseGrantRequest, LeaseRevokeRequest, PutRequest};
use quorate_wire::mvccpb::KeyValue;

use super::*;
use crate::wal::EntryKind;

/// A database and the tail of its log.
#[derive(Default)]
struct Case {
    small: Small,
    rows: Vec<(i64, i64, Option<KeyValue>, Vec<u8>)>,
    entries: Vec<(EntryKind, Vec<u8>)>,
    by: Option<semver::Version>,
}

/// What came of it.
struct Result_ {
    /// `revision/sub`, then what was put or deleted.
    rows: Vec<String>,
    store: Store,
    stop: Option<Stop>,
    applied: Kinds,
    kinds: Kinds,
}

impl Case {
    fn row(mut self, main: i64, sub: i64, kv: KeyValue) -> Case {
        self.rows.push((main, sub, Some(kv), Vec::new()));
        self
    }

    fn gone(mut self, main: i64, key: &str) -> Case {
        self.rows.push((main, 0, None, key.into()));
        self
    }

    fn small(mut self, bucket: &'static str, key: &[u8], value: &[u8]) -> Case {
        self.small
            .rows
            .entry(bucket)
            .or_default()
            .insert(key.into(), value.into());
        self
    }

    fn lease(self, id: i64, ttl: i64) -> Case {
        let row = quorate_wire::leasepb::Lease {
            id,
            ttl,
            remaining_ttl: 0,
        };
        self.small("lease", &id.to_be_bytes(), &row.encode_to_vec())
    }

    fn request(mut self, request: InternalRaftRequest) -> Case {
        self.entries.push((EntryKind::Normal, request.encode_to_vec()));
        self
    }

    fn entry(mut self, kind: EntryKind, data: &[u8]) -> Case {
        self.entries.push((kind, data.to_owned()));
        self
    }

    fn put(self, put: PutRequest) -> Case {
        self.request(InternalRaftRequest {
            put: Some(put),
            ..Default::default()
        })
    }

    fn delete(self, key: &str, range_end: &str) -> Case {
        self.request(InternalRaftRequest {
            delete_range: Some(quorate_wire::etcdserverpb::DeleteRangeRequest {
                key: key.into(),
                range_end: range_end.into(),
                prev_kv: true,
            }),
            ..Default::default()
        })
    }

    fn grant(self, id: i64, ttl: i64) -> Case {
        self.request(InternalRaftRequest {
            lease_grant: Some(LeaseGrantRequest { id, ttl }),
            ..Default::default()
        })
    }

    fn revoke(self, id: i64) -> Case {
        self.request(InternalRaftRequest {
            lease_revoke: Some(LeaseRevokeRequest { id }),
            ..Default::default()
        })
    }

    fn compact(self, revision: i64) -> Case {
        self.request(InternalRaftRequest {
            compaction: Some(quorate_wire::etcdserverpb::CompactionRequest {
                revision,
                physical: true,
            }),
            ..Default::default()
        })
    }

    fn run(&self) -> Result_ {
        self.run_within(1 << 20)
    }

    fn run_within(&self, limit_bytes: usize) -> Result_ {
        let entries: Vec<Entry<'_>> = self
            .entries
            .iter()
            .enumerate()
            .map(|(place, (kind, data))| Entry {
                index: 101 + place as u64,
                term: 7,
                kind: *kind,
                data,
            })
            .collect();
        let mut survey = Survey::default();
        entries.iter().for_each(|entry| survey.add(entry));
        let kinds = survey.kinds().clone();
        let mut learning = survey.learn(self.small.clone(), limit_bytes);
        if let Some(version) = &self.by {
            learning = learning.replayed_by(version);
        }
        for (main, _, kv, gone) in &self.rows {
            match kv {
                Some(kv) => learning.put(
                    *main,
                    &Put {
                        key: &kv.key,
                        value: &kv.value,
                        create_revision: kv.create_revision,
                        mod_revision: kv.mod_revision,
                        version: kv.version,
                        lease: kv.lease,
                    },
                ),
                None => learning.delete(*main, gone),
            }
        }
        let mut applying = learning.apply();
        let (mut rows, mut stop) = (Vec::new(), None);
        for entry in &entries {
            match applying.entry(entry) {
                Ok(new) => rows.extend(new.iter().map(show)),
                Err(why) => {
                    stop = Some(why);
                    break;
                }
            }
        }
        Result_ {
            rows,
            stop,
            applied: applying.applied().clone(),
            kinds,
            store: applying.finish(),
        }
    }
}

/// `7/1 +a c3 v2 "value" l5` or `7/1 -a`.
fn show(row: &Row) -> String {
    let number = |at: usize| i64::from_be_bytes(row.key[at..at + 8].try_into().unwrap());
    assert_eq!(row.key[8], b'_');
    let place = format!("{}/{}", number(0), number(9));
    let kv = KeyValue::decode(row.value.as_slice()).unwrap();
    let key = String::from_utf8_lossy(&kv.key).into_owned();
    if row.key.len() == 18 {
        assert_eq!(row.key[17], b't');
        assert_eq!(
            row.value,
            KeyValue {
                key: kv.key,
                ..Default::default()
            }
            .encode_to_vec()
        );
        return format!("{place} -{key}");
    }
    assert_eq!(row.key.len(), 17);
    assert_eq!(kv.mod_revision, number(0));
    let lease = if kv.lease == 0 {
        String::new()
    } else {
        format!(" l{:x}", kv.lease)
    };
    format!(
        "{place} +{key} c{} v{} {:?}{lease}",
        kv.create_revision,
        kv.version,
        String::from_utf8_lossy(&kv.value)
    )
}

fn kv(key: &str, create_revision: i64, mod_revision: i64, version: i64, value: &str, lease: i64) -> KeyValue {
    KeyValue {
        key: key.into(),
        create_revision,
        mod_revision,
        version,
        value: value.into(),
        lease,
    }
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.into(),
        value: value.into(),
        ..Default::default()
    }
}

/// Keys a (twice put, deleted, put again), b with lease 5, c; revision 7.
fn seeded() -> Case {
    Case::default()
        .lease(5, 60)
        .row(2, 0, kv("a", 2, 2, 1, "one", 0))
        .row(3, 0, kv("b", 3, 3, 1, "bee", 5))
        .gone(4, "a")
        .row(5, 0, kv("a", 5, 5, 1, "two", 0))
        .row(6, 0, kv("a", 5, 6, 2, "three", 0))
        .row(7, 0, kv("c", 7, 7, 1, "sea", 0))
}
