//! Deltas made here, read back row by row.

use proptest::prelude::*;
use quorate_datadir::KeyValue;

use super::*;

/// A row's key and value, and whether it is a deletion.
type Row = (Revision, bool, Vec<u8>);

#[derive(Debug, Clone)]
struct Change {
    key: Vec<u8>,
    value: Vec<u8>,
    create: i64,
    version: i64,
    lease: i64,
    deletion: bool,
    new_revision: bool,
}

fn any_change() -> impl Strategy<Value = Change> {
    (
        proptest::collection::vec(any::<u8>(), 1..20),
        proptest::collection::vec(any::<u8>(), 0..300),
        1i64..1000,
        1i64..50,
        prop_oneof![Just(0), any::<i64>()],
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(key, value, create, version, lease, deletion, new_revision)| Change {
                key,
                value,
                create,
                version,
                lease,
                deletion,
                new_revision,
            },
        )
}

/// The text as etcdbrctl writes it: what is zero is left out.
fn text(changes: &[Change]) -> (Vec<u8>, Vec<Row>) {
    let mut text = String::from("[");
    let mut rows = Vec::new();
    let mut revision = Revision { main: 1000, sub: 0 };
    for (number, change) in changes.iter().enumerate() {
        if number == 0 || change.new_revision {
            revision = Revision {
                main: revision.main + 1,
                sub: 0,
            };
        } else {
            revision.sub += 1;
        }
        let mut row = KeyValue {
            key: &change.key,
            ..KeyValue::default()
        };
        let mut kv = vec![format!("\"key\":\"{}\"", STANDARD.encode(&change.key))];
        let main = revision.main;
        if change.deletion {
            kv.push(format!("\"mod_revision\":{main}"));
        } else {
            row = KeyValue {
                key: &change.key,
                create_revision: change.create,
                mod_revision: main,
                version: change.version,
                value: &change.value,
                lease: change.lease,
            };
            kv.push(format!("\"create_revision\":{}", change.create));
            kv.push(format!("\"mod_revision\":{main}"));
            kv.push(format!("\"version\":{}", change.version));
            if !change.value.is_empty() {
                kv.push(format!("\"value\":\"{}\"", STANDARD.encode(&change.value)));
            }
            if change.lease != 0 {
                kv.push(format!("\"lease\":{}", change.lease));
            }
        }
        let kind = if change.deletion { "\"type\":1," } else { "" };
        let comma = if number == 0 { "" } else { "," };
        text.push_str(&format!(
            "{comma}{{\"etcdEvent\":{{{kind}\"kv\":{{{}}}}},\"time\":\"2026-07-24T10:00:{:02}.25+02:00\"}}",
            kv.join(","),
            number % 60
        ));
        rows.push((revision, change.deletion, row.bytes()));
    }
    text.push(']');
    let mut bytes = text.into_bytes();
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    (bytes, rows)
}

struct Dripping<'a>(&'a [u8], usize);

impl Read for Dripping<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let limit = into.len().min(self.1);
        self.0.read(&mut into[..limit])
    }
}

fn read(bytes: &[u8], step: usize) -> Result<Vec<Row>, Trouble> {
    let mut events = DeltaEvents::new(Dripping(bytes, step));
    let mut batch = Batch::default();
    let mut rows = Vec::new();
    while events.next_batch(&mut batch)? {
        rows.extend(
            batch
                .rows()
                .map(|(event, value)| (event.revision, event.tombstone, value.to_vec())),
        );
    }
    Ok(rows)
}

fn why(bytes: &[u8]) -> String {
    match read(bytes, 7) {
        Ok(rows) => panic!("{} rows out of {}", rows.len(), String::from_utf8_lossy(bytes)),
        Err(Trouble::Read(error)) => panic!("{error}"),
        Err(Trouble::Damaged(why)) => why,
    }
}

fn sealed(text: &str) -> Vec<u8> {
    [text.as_bytes(), &Sha256::digest(text)[..]].concat()
}

proptest! {
    #[test]
    fn rows_come_back(changes in proptest::collection::vec(any_change(), 1..60), step in 1usize..3000) {
        let (bytes, rows) = text(&changes);
        prop_assert_eq!(read(&bytes, step).unwrap(), rows);
    }

    #[test]
    fn no_flipped_bit_passes(changes in proptest::collection::vec(any_change(), 1..10), at: prop::sample::Index, bit in 0u8..8) {
        let (mut bytes, _) = text(&changes);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(read(&bytes, 100).is_err());
    }

    #[test]
    fn no_part_passes(changes in proptest::collection::vec(any_change(), 1..5), kept: prop::sample::Index) {
        let (bytes, _) = text(&changes);
        prop_assert!(read(&bytes[..kept.index(bytes.len())], 50).is_err());
    }
}

#[test]
fn large_values_and_many_batches() {
    let mut rng = fastrand::Rng::with_seed(5);
    let changes: Vec<Change> = (0..40)
        .map(|number| Change {
            key: format!("key{number}").into_bytes(),
            value: std::iter::repeat_with(|| rng.u8(..))
                .take(number * 40_000)
                .collect(),
            create: 3,
            version: 1,
            lease: 0,
            deletion: false,
            new_revision: number % 3 == 0,
        })
        .collect();
    let (bytes, rows) = text(&changes);
    assert_eq!(read(&bytes, 1 << 16).unwrap(), rows);
}

#[test]
fn times() {
    let (bytes, _) = text(&[Change {
        key: vec![1],
        value: vec![],
        create: 1,
        version: 1,
        lease: 9,
        deletion: false,
        new_revision: true,
    }]);
    let mut events = DeltaEvents::new(&bytes[..]);
    let mut batch = Batch::default();
    assert!(events.next_batch(&mut batch).unwrap());
    let (event, _) = batch.row(0).unwrap();
    assert_eq!(event.time, "2026-07-24T08:00:00.25Z".parse().unwrap());
    assert_eq!(event.lease, 9);
    assert!(batch.row(1).is_none());
}

#[test]
fn what_is_wrong_is_said() {
    let event = |kv: &str, time: &str| format!("{{\"etcdEvent\":{{\"kv\":{{{kv}}}}},\"time\":\"{time}\"}}");
    let good = |revision: i64| {
        let kv = format!("\"key\":\"YQ==\",\"create_revision\":1,\"mod_revision\":{revision},\"version\":1");
        event(&kv, "2026-07-24T10:00:00Z")
    };
    let time = "2026-07-24T10:00:00Z";
    for (text, expected) in [
        (format!("[{}{}]", good(5), good(6)), "event 2: there is no comma"),
        (
            format!("[{},{}]", good(5), good(4)),
            "event 2: revision 4 stands behind revision 5",
        ),
        (
            format!("[{}]", event("\"key\":\"YQ==\"", time)),
            "it has no revision",
        ),
        (
            format!("[{}]", event("\"mod_revision\":4", time)),
            "it has no key",
        ),
        (
            format!("[{}]", good(5).replace("YQ==", "YQ=")),
            "its key or value is not base64",
        ),
        (
            format!("[{}]", good(5).replace(time, "yesterday")),
            "its time is not one",
        ),
        (
            format!("[{}]", good(5).replace("\"kv\"", "\"type\":2,\"kv\"")),
            "of kind 2",
        ),
        (
            format!("[{}]", good(5).replace("\"version\":1", "\"version\":0")),
            "before it came to be",
        ),
        ("{}".to_owned(), "not an array"),
        (format!("[{}]x", good(5)), "no SHA-256 behind its events"),
    ] {
        let why = why(&sealed(&text));
        assert!(why.contains(expected), "{why} for {text}");
    }
    assert!(read(&sealed("[]"), 5).unwrap().is_empty());
    let mut other = sealed(&format!("[{}]", good(5)));
    let at = other.len() - 1;
    other[at] ^= 1;
    assert!(why(&other).contains("not those that its SHA-256"));
}
