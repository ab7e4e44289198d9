//! What a cluster held at a revision, by its own word, and whether a restored directory holds the same.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use quorate_datadir::view::{Selection, Values, find};
use quorate_datadir::{Progress, Source, hash_kv};
use quorate_testkit::Client;
use quorate_wire::etcdserverpb::{HashKvRequest, HashKvResponse, RangeRequest, RangeResponse};
use quorate_wire::mvccpb::KeyValue;

/// All keys at a revision.
#[derive(Debug, Clone)]
pub struct Point {
    pub revision: i64,
    /// Milliseconds since 1970 when it was asked for.
    pub asked: i64,
    /// And when the answer was there.
    pub answered: i64,
    keys: Vec<KeyValue>,
    /// HashKV, and the compaction it goes with.
    hash: Option<(u32, i64)>,
}

pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Point {
    /// Asks for it; `None` if the member does not answer just now.
    pub fn ask(client: &Client, with_hash: bool) -> Option<Point> {
        let asked = now();
        let all = RangeRequest {
            key: vec![0],
            range_end: vec![0],
            ..RangeRequest::default()
        };
        let response: RangeResponse = client.try_call("KV/Range", all).ok()?;
        let answered = now();
        let revision = response.header?.revision;
        let hash = || {
            let response: HashKvResponse = client
                .try_call("Maintenance/HashKV", HashKvRequest { revision })
                .ok()?;
            Some((response.hash, response.compact_revision))
        };
        Some(Point {
            revision,
            asked,
            answered,
            keys: response.kvs,
            hash: with_hash.then(hash).flatten(),
        })
    }

    /// Does the member's directory hold exactly this at this revision? Whether its hash was compared too.
    pub fn compare(&self, data_dir: &Path) -> bool {
        let progress = Progress::new();
        let source =
            Source::open(data_dir).unwrap_or_else(|error| panic!("revision {}: {error}", self.revision));
        let found = find(&source, &Selection::All, self.revision, &progress)
            .unwrap_or_else(|error| panic!("revision {}: {error}", self.revision));
        let mut values = Values::of(&source).expect("rows");
        let mut held: Vec<KeyValue> = Vec::new();
        for found in &found {
            held.push(KeyValue {
                key: found.key.clone(),
                create_revision: found.create_revision,
                mod_revision: found.mod_revision,
                version: found.version,
                value: values.get(found).expect("a value"),
                lease: found.lease,
            });
        }
        assert_eq!(held, self.keys, "all keys at revision {}", self.revision);
        // A directory that was compacted further than the member was cannot be hashed as the member was.
        let Some((hash, compacted)) = self.hash else {
            return false;
        };
        let compacted = (compacted > 0).then_some(compacted);
        if source.compact_revision() > compacted {
            return false;
        }
        let ours = hash_kv(&source, self.revision, compacted, &progress).expect("a hash");
        assert_eq!(
            ours.hash, hash,
            "HashKV at revision {} of {ours:?}",
            self.revision
        );
        true
    }
}
