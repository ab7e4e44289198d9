//! Random histories through a real etcd, then our view of every revision against etcd's own answers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use fastrand::Rng;
use quorate_datadir::view::{Compared, Kind, Selection, Side, Totals, Values, diff, find, trail};
use quorate_datadir::{Error, Progress, Source};
use quorate_testkit::{Client, Start, versions};
use quorate_wire::etcdserverpb::request_op::Request;
use quorate_wire::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, PutRequest, PutResponse, RangeRequest,
    RangeResponse, RequestOp, TxnRequest, TxnResponse,
};

/// Keys that are prefixes of one another, not text, first and last.
const KEYS: [&[u8]; 12] = [
    b"\0",
    b"a",
    b"a/",
    b"a/1",
    b"a/2",
    b"a0",
    b"b",
    b"b\0",
    b"\xc3\x28",
    b"\xff",
    b"\xff\xff",
    b"\xff\xffz",
];
const STEPS: usize = 120;

/// A key's value, create revision, mod revision, version, lease.
type State = BTreeMap<Vec<u8>, (Vec<u8>, i64, i64, i64, i64)>;

fn key(rng: &mut Rng) -> &'static [u8] {
    KEYS[rng.usize(..KEYS.len())]
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let length = match rng.u8(..10) {
        0 => 0,
        1 => 6000,
        // Few values, so that some are written twice.
        _ => 1 + rng.usize(..2),
    };
    vec![rng.u8(..2); length]
}

fn put(rng: &mut Rng, key: &[u8], lease: i64) -> PutRequest {
    let lease = if rng.u8(..4) == 0 { lease } else { 0 };
    PutRequest {
        key: key.to_vec(),
        value: value(rng),
        lease,
        ..PutRequest::default()
    }
}

fn delete(key: &[u8], range_end: &[u8]) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: key.to_vec(),
        range_end: range_end.to_vec(),
        ..DeleteRangeRequest::default()
    }
}

fn txn(requests: Vec<Request>) -> TxnRequest {
    let operation = |request| RequestOp {
        request: Some(request),
    };
    TxnRequest {
        success: requests.into_iter().map(operation).collect(),
        ..TxnRequest::default()
    }
}

/// One random change, or one that etcd refuses.
fn step(etcd: &Client, rng: &mut Rng, lease: i64) {
    match rng.u8(..20) {
        0..10 => {
            let key = key(rng);
            let _: PutResponse = etcd.call("KV/Put", put(rng, key, lease));
        }
        10..13 => {
            etcd.delete(key(rng), b"");
        }
        13 => {
            let (first, end) = (key(rng), key(rng));
            etcd.delete(first, end);
        }
        14..17 => {
            // Several keys at once; each once, else etcd refuses it.
            let mut keys = KEYS.to_vec();
            rng.shuffle(&mut keys);
            let changes: Vec<Request> = keys[..2 + rng.usize(..4)]
                .iter()
                .map(|key| match rng.bool() {
                    true => Request::RequestPut(put(rng, key, lease)),
                    false => Request::RequestDeleteRange(delete(key, b"")),
                })
                .collect();
            etcd.txn(txn(changes));
        }
        17 => {
            // A key twice in one revision, where etcd lets it through.
            let key = key(rng);
            let inner = Request::RequestTxn(txn(vec![Request::RequestPut(put(rng, key, lease))]));
            let outer = Request::RequestDeleteRange(delete(key, b""));
            let _ = etcd.try_call::<_, TxnResponse>("KV/Txn", txn(vec![outer, inner]));
        }
        18 => {
            let far = rng.i64(..30);
            let request = CompactionRequest {
                revision: (etcd.revision() - far).max(1),
                physical: true,
            };
            let _ = etcd.try_call::<_, CompactionResponse>("KV/Compact", request);
        }
        _ => {
            // As it would be after an older revision was all there is: nothing changes, and no revision is used up.
            etcd.txn(txn(Vec::new()));
        }
    }
}

/// etcd's answer about a range at a revision.
fn theirs(etcd: &Client, selection: &Selection, revision: i64) -> Option<State> {
    let (first, end) = match selection {
        Selection::All => (vec![0], vec![0]),
        Selection::Exact(key) => (key.clone(), vec![]),
        Selection::From(key) => (key.clone(), vec![0]),
        Selection::Range(first, end) => (first.clone(), end.clone()),
        Selection::Prefix(prefix) => {
            let mut end = prefix.clone();
            while end.last() == Some(&0xff) {
                end.pop();
            }
            match end.last_mut() {
                Some(last) => *last += 1,
                None => end = vec![0],
            }
            (prefix.clone(), end)
        }
    };
    let request = RangeRequest {
        key: first,
        range_end: end,
        revision,
        ..RangeRequest::default()
    };
    let answer: RangeResponse = etcd.try_call("KV/Range", request).ok()?;
    let rows = answer.kvs.into_iter().map(|kv| {
        let state = (
            kv.value,
            kv.create_revision,
            kv.mod_revision,
            kv.version,
            kv.lease,
        );
        (kv.key, state)
    });
    Some(rows.collect())
}

fn ours(source: &Source, selection: &Selection, revision: i64) -> Result<State, Error> {
    let progress = Progress::new();
    let revision = source.revision(revision)?;
    let mut values = Values::of(source)?;
    let found = find(source, selection, revision, &progress)?;
    assert!(found.is_sorted_by(|a, b| a.key < b.key));
    assert_eq!(progress.done(), progress.total());
    found
        .into_iter()
        .map(|found| {
            let value = values.get(&found)?;
            assert_eq!(value.len() as u64, found.value_bytes);
            let state = (
                value,
                found.create_revision,
                found.mod_revision,
                found.version,
                found.lease,
            );
            Ok((found.key, state))
        })
        .collect()
}

/// What differs, and what does not, by two whole answers of etcd.
fn expected(before: &State, after: &State, compared: Compared) -> (BTreeMap<Vec<u8>, Kind>, Totals) {
    let (mut changes, mut totals) = (BTreeMap::new(), Totals::default());
    for key in before.keys().chain(after.keys()) {
        let kind = match (before.get(key), after.get(key)) {
            (Some(_), None) => Kind::Deleted,
            (None, Some(_)) => Kind::Added,
            (Some(b), Some(a)) if b.0 != a.0 => Kind::Changed,
            (Some(b), Some(a)) if b.4 != a.4 && compared == Compared::ValueAndLease => Kind::Changed,
            _ => continue,
        };
        changes.insert(key.clone(), kind);
    }
    for kind in changes.values() {
        *match kind {
            Kind::Added => &mut totals.added,
            Kind::Changed => &mut totals.changed,
            Kind::Deleted => &mut totals.deleted,
        } += 1;
    }
    for (key, state) in before {
        match after.get(key) {
            Some(other) if !changes.contains_key(key) && other.2 != state.2 => totals.rewritten += 1,
            Some(_) if !changes.contains_key(key) => totals.same += 1,
            _ => {}
        }
    }
    (changes, totals)
}

fn differences(sides: [Side<'_>; 2], states: [&State; 2], context: &str) {
    // Now the one, now the other.
    let compared = match sides[0].revision % 2 {
        0 => Compared::Value,
        _ => Compared::ValueAndLease,
    };
    let context = &format!("{context}, {compared:?}");
    let mut told = BTreeMap::new();
    let mut order = Vec::new();
    let totals = diff(sides, &Selection::All, compared, &Progress::new(), |change| {
        assert!(
            told.insert(change.key.to_vec(), change.kind).is_none(),
            "told twice: {change:?}"
        );
        let revision = |state: &State| state.get(change.key).map(|state| state.2);
        assert_eq!(
            (change.before, change.after),
            (revision(states[0]), revision(states[1])),
            "{context}"
        );
        order.push((change.kind != Kind::Deleted, change.after.or(change.before)));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(
        (told, totals),
        expected(states[0], states[1], compared),
        "{context}"
    );
    assert!(order.is_sorted(), "{context}: {order:?}");
}

fn holds(etcd: &Client, source: &Source, rng: &mut Rng, context: &str) {
    let current = etcd.revision();
    assert_eq!(source.current_revision(), current, "{context}");
    let mut known: Vec<(i64, State)> = Vec::new();
    for revision in 1..=current + 1 {
        let context = format!("{context}, revision {revision}");
        match (
            theirs(etcd, &Selection::All, revision),
            ours(source, &Selection::All, revision),
        ) {
            (Some(theirs), Ok(ours)) => {
                assert_eq!(theirs, ours, "{context}");
                known.push((revision, ours));
            }
            (None, Err(Error::Refused { what, .. })) => {
                let word = if revision > current {
                    "not there yet"
                } else {
                    "compacted"
                };
                assert!(what.contains(word), "{context}: {what}");
            }
            (theirs, ours) => panic!("{context}: etcd says {theirs:?}, we say {ours:?}"),
        }
        for selection in [
            Selection::Exact(key(rng).to_vec()),
            Selection::Prefix(key(rng).to_vec()),
            Selection::From(key(rng).to_vec()),
            Selection::Range(key(rng).to_vec(), key(rng).to_vec()),
        ] {
            if let Ok(ours) = ours(source, &selection, revision) {
                assert_eq!(
                    theirs(etcd, &selection, revision),
                    Some(ours),
                    "{context}: {selection:?}"
                );
            }
        }
    }
    assert!(known.len() >= 2, "{context}: {} revisions are left", known.len());
    for _ in 0..30 {
        let [from, to] = [(); 2].map(|()| &known[rng.usize(..known.len())]);
        let side = |revision| Side { source, revision };
        let context = format!("{context}, from {} to {}", from.0, to.0);
        differences([side(from.0), side(to.0)], [&from.1, &to.1], &context);
    }
    for key in KEYS {
        for (revision, state) in known.iter().filter(|(_, state)| !state.contains_key(key)) {
            let found = trail(source, key, *revision, &Progress::new()).unwrap();
            let later = known
                .iter()
                .find(|(r, state)| r > revision && state.contains_key(key));
            assert_eq!(
                found.written_later.is_some(),
                later.is_some(),
                "{context}: {key:?} {state:?}"
            );
            if let Some(seen) = found.last_seen_at {
                let then = known.iter().find(|(revision, _)| *revision == seen);
                assert!(
                    then.is_some_and(|(_, state)| state.contains_key(key)),
                    "{context}: {key:?}"
                );
                assert_eq!(found.deleted_at, Some(seen + 1), "{context}: {key:?}");
            }
        }
    }
}

#[test]
fn every_revision_is_as_etcd_says() {
    for version in versions() {
        for seed in 0..2 {
            let mut rng = Rng::with_seed(seed);
            let dir = tempfile::tempdir().unwrap();
            let server = Start::new(&version, &dir.path().join("data")).serve();
            let etcd = server.client();
            let lease = 4711;
            etcd.grant(lease, 3600);
            let context = format!("etcd {version}, seed {seed}");
            let file = dir.path().join("snapshot.db");
            for _ in 0..STEPS {
                step(&etcd, &mut rng, lease);
            }
            server.etcdctl(None, &["snapshot", "save", file.to_str().unwrap()]);
            holds(&etcd, &Source::open(&file).unwrap(), &mut rng, &context);

            // Two snapshots of one store, and a stopped member beside its snapshot.
            let before = (etcd.revision(), theirs(&etcd, &Selection::All, 0).unwrap());
            for _ in 0..20 {
                let key = key(&mut rng);
                let _: PutResponse = etcd.call("KV/Put", put(&mut rng, key, lease));
                etcd.delete(KEYS[rng.usize(..KEYS.len())], b"");
            }
            let after = (etcd.revision(), theirs(&etcd, &Selection::All, 0).unwrap());
            let data_dir = server.data_dir().to_owned();
            let running = Source::open(&data_dir).unwrap_err();
            assert!(matches!(running, Error::InUse { .. }), "{context}: {running}");
            drop(etcd);
            server.stop();
            let (first, second) = (Source::open(&file).unwrap(), Source::open(&data_dir).unwrap());
            assert_eq!(ours(&second, &Selection::All, 0).unwrap(), after.1, "{context}");
            let sides = [(&first, before.0), (&second, after.0)];
            let sides = sides.map(|(source, revision)| Side { source, revision });
            differences(sides, [&before.1, &after.1], &context);
        }
    }
}
