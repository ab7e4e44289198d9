//! Rows out of deltas that are in memory.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::*;
use crate::etcdbr::name::Name;

const BEGAN: i64 = 1_784_887_200;

struct InMemory(BTreeMap<String, Vec<u8>>);

impl Open for InMemory {
    fn open(&self, object: &Object) -> Result<Box<dyn Read + Send>, Error> {
        let bytes = self.0.get(&object.key).cloned();
        let bytes = bytes.ok_or_else(|| Error::damaged(&object.key, "gone"))?;
        Ok(Box::new(std::io::Cursor::new(bytes)))
    }
}

/// Deltas with one event for each revision of a span, two for every tenth, one second apart.
struct Store {
    bytes: BTreeMap<String, Vec<u8>>,
    deltas: Vec<Object>,
}

impl Store {
    fn of(spans: &[(i64, i64)]) -> Store {
        let mut store = Store {
            bytes: BTreeMap::new(),
            deltas: Vec::new(),
        };
        for (start, last) in spans {
            store.add(*start, *last, *start..=*last);
        }
        store
    }

    fn add(&mut self, start: i64, last: i64, revisions: impl Iterator<Item = i64>) {
        let events: Vec<String> = revisions
            .flat_map(|revision| {
                let event = format!(
                    "{{\"etcdEvent\":{{\"kv\":{{\"key\":\"YQ==\",\"create_revision\":1,\"mod_revision\":{revision},\
                     \"version\":1,\"lease\":{}}}}},\"time\":\"2026-07-24T10:{:02}:{:02}Z\"}}",
                    revision % 3,
                    revision / 60 % 60,
                    revision % 60
                );
                std::iter::repeat_n(event, if revision % 10 == 0 { 2 } else { 1 })
            })
            .collect();
        let text = format!("[{}]", events.join(","));
        let key = format!("v2/Incr-{start:08}-{last:08}-{}", BEGAN + last);
        let name = Name::read(&key[3..]).unwrap();
        let bytes = [text.as_bytes(), &Sha256::digest(&text)[..]].concat();
        let size = bytes.len() as u64;
        self.bytes.insert(key.clone(), bytes);
        self.deltas.push(Object { key, name, size });
    }

    fn rows(self, after: i64, until: Until) -> EventRows {
        EventRows::new(Arc::new(InMemory(self.bytes)), self.deltas, after, until)
    }
}

fn revisions(rows: &mut EventRows) -> Result<Vec<Revision>, quorate_datadir::Error> {
    let mut found = Vec::new();
    while let Some((key, _)) = rows.next()? {
        found.push(quorate_datadir::RowKey::read(key).unwrap().revision);
    }
    Ok(found)
}

/// What a history of `from..=to` is.
fn expected(from: i64, to: i64) -> Vec<Revision> {
    let subs = |main: i64| 0..if main % 10 == 0 { 2 } else { 1 };
    (from..=to)
        .flat_map(|main| subs(main).map(move |sub| Revision { main, sub }))
        .collect()
}

#[test]
fn overlaps_are_given_once() {
    let store = Store::of(&[(11, 30), (15, 25), (20, 40), (31, 45), (46, 46)]);
    let mut rows = store.rows(12, Until::End);
    assert_eq!(revisions(&mut rows).unwrap(), expected(13, 46));
    assert_eq!((rows.revision(), rows.rows()), (46, 34 + 3));
    assert_eq!(rows.leases_seen().ids, BTreeSet::from([1, 2]));
    assert_eq!(rows.time(), Some("2026-07-24T10:00:46Z".parse().unwrap()));
    assert!(
        rows.next().unwrap().is_none() && rows.next().unwrap().is_none(),
        "the end stays the end"
    );
}

#[test]
fn it_ends_where_it_is_told() {
    let spans = [(11, 30), (31, 70)];
    let mut rows = Store::of(&spans).rows(10, Until::Revision(50));
    assert_eq!(revisions(&mut rows).unwrap(), expected(11, 50));
    let time = "2026-07-24T10:00:29.9Z".parse().unwrap();
    let mut rows = Store::of(&spans).rows(10, Until::Time(time));
    assert_eq!(revisions(&mut rows).unwrap(), expected(11, 29));
    let mut none = Store::of(&spans).rows(10, Until::Revision(10));
    assert!(revisions(&mut none).unwrap().is_empty());
    assert_eq!((none.revision(), none.time()), (10, None));
}

#[test]
fn holes_are_found() {
    let mut store = Store::of(&[(11, 20)]);
    store.add(21, 30, (21..=30).filter(|revision| *revision != 25));
    let mut rows = store.rows(10, Until::End);
    let error = revisions(&mut rows).unwrap_err();
    assert!(
        error.to_string().contains("revisions 25 to 25 are missing"),
        "{error}"
    );
    let told = crate::restore::fetch::told(error);
    assert!(
        matches!(&told, Error::Damaged { object, .. } if object.contains("Incr-00000021")),
        "{told}"
    );
    // It holds less than its name says.
    let mut store = Store::of(&[]);
    store.add(11, 20, 11..=18);
    let error = revisions(&mut store.rows(10, Until::End)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("ends with revision 18, its name says 20"),
        "{error}"
    );
}

#[test]
fn a_wrong_hash_is_found_even_behind_the_last_row_wanted() {
    let mut store = Store::of(&[(11, 20), (21, 90)]);
    let bytes = store.bytes.values_mut().next_back().unwrap();
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    let mut rows = store.rows(10, Until::Revision(25));
    let error = revisions(&mut rows).unwrap_err();
    assert!(error.to_string().contains("SHA-256"), "{error}");
    // The delta after the last one that is needed is not looked at.
    let mut store = Store::of(&[(11, 20), (21, 30), (31, 40)]);
    store.bytes.values_mut().next_back().unwrap().clear();
    assert_eq!(
        revisions(&mut store.rows(10, Until::Revision(25))).unwrap(),
        expected(11, 25)
    );
}

#[test]
fn the_store_is_heard() {
    let mut store = Store::of(&[(11, 20)]);
    store.bytes.clear();
    let mut rows = store.rows(10, Until::End);
    let error = revisions(&mut rows).unwrap_err();
    assert!(matches!(crate::restore::fetch::told(error), Error::Damaged { why, .. } if why == "gone"));
}

#[test]
fn which_revision_a_time_was() {
    let store = Store::of(&[(11, 30), (31, 70)]);
    let open: Arc<dyn Open> = Arc::new(InMemory(store.bytes));
    let at = |text: &str| revision_at(&open, &store.deltas, text.parse().unwrap()).unwrap();
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    assert_eq!(at("2026-07-24T10:00:10Z"), None);
    assert_eq!(
        at("2026-07-24T10:00:20Z"),
        Some((20, time("2026-07-24T10:00:20Z")))
    );
    assert_eq!(
        at("2026-07-24T10:00:45.5Z"),
        Some((45, time("2026-07-24T10:00:45Z")))
    );
    assert_eq!(
        at("2027-07-24T10:00:45.5Z"),
        Some((70, time("2026-07-24T10:01:10Z")))
    );
}
