//! Databases on their way into a new file: compacted as etcd compacts, cut off and put together again.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use quorate_datadir::bolt::{Bolt, KeyAndValue};
use quorate_datadir::rewrite::{Changes, Later, Nothing, edit, rewrite};
use quorate_datadir::{Error, Progress, Source, bucket, hash_kv, verify};
use quorate_testkit::{Made, Start, Workload, newest};
use quorate_wire::etcdserverpb::{CompactionRequest, CompactionResponse};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows(bolt: &Bolt, name: &[u8]) -> Rows {
    let mut rows = Rows::new();
    let mut cursor = bolt.bucket(name).unwrap().unwrap();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((key.to_vec(), value.to_vec()));
    }
    rows
}

/// Rows of a list, one after the other.
struct Listed(Rows, usize);

impl Later for Listed {
    fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, Error> {
        self.1 += 1;
        let row = self.0.get(self.1 - 1);
        Ok(row.map(|(key, value)| (&key[..], &value[..])))
    }
}

fn create(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .unwrap()
}

fn rewritten(made: &Made, name: &str, changes: &Changes, later: &mut dyn Later) -> PathBuf {
    let path = made.root().join(name);
    let source = Source::open(&made.snapshot).unwrap();
    let progress = Progress::new();
    rewrite(&source, changes, later, create(&path), &path, &progress).unwrap();
    assert!(progress.done() > 0);
    path
}

#[test]
fn a_compaction_leaves_what_etcds_leaves() {
    for version in ["3.4", "3.5", "3.6", "3.7"].map(newest) {
        let made = Workload::Puts.make(&version);
        let current = made.said.revision;
        for compact in [current / 2, current - 1] {
            let changes = Changes {
                compact: Some(compact),
                ..Changes::default()
            };
            let ours = rewritten(&made, &format!("compacted-{compact}"), &changes, &mut Nothing);
            let ours = Source::open(&ours).unwrap();
            verify(&ours, &Progress::new()).unwrap();
            let server = Start::new(&version, &made.data_dir).serve();
            let client = server.client();
            let request = CompactionRequest {
                revision: compact,
                physical: true,
            };
            let _: CompactionResponse = client.call("KV/Compact", request);
            drop(client);
            server.stop();
            let theirs = Source::open(&made.data_dir).unwrap();
            for revision in [current, (compact + current) / 2 + 1] {
                let hash = |source| hash_kv(source, revision.min(current), None, &Progress::new()).unwrap();
                assert_eq!(
                    hash(&ours),
                    hash(&theirs),
                    "etcd {version}, compacted at {compact}"
                );
            }
            // 3.4.23 does not keep a deletion at the very revision of the compaction.
            if version != "3.4.23" {
                let of = |source: &Source| rows(source.bolt(), bucket::KEY);
                assert_eq!(of(&ours), of(&theirs), "etcd {version}, compacted at {compact}");
            }
        }
    }
}

#[test]
fn what_is_cut_off_can_be_put_behind_again() {
    let made = Workload::Txns.make(&newest("3.6"));
    let source = Source::open(&made.snapshot).unwrap();
    let whole = rows(source.bolt(), bucket::KEY);
    for cut in [1, 2, made.said.revision / 2, made.said.revision] {
        let is_later = |row: &&(Vec<u8>, Vec<u8>)| i64::from_be_bytes(row.0[..8].try_into().unwrap()) > cut;
        let later: Rows = whole.iter().filter(is_later).cloned().collect();
        let changes = Changes {
            cut: Some(cut),
            ..Changes::default()
        };
        let first = rewritten(&made, &format!("cut-{cut}"), &changes, &mut Nothing);
        let at_cut = Source::open(&first).unwrap();
        verify(&at_cut, &Progress::new()).unwrap();
        let hash = |source: &Source, at| hash_kv(source, at, None, &Progress::new()).unwrap().hash;
        assert_eq!(hash(&at_cut, 0), hash(&source, cut));

        // In one pass, and behind what is there.
        let again = rewritten(
            &made,
            &format!("again-{cut}"),
            &changes,
            &mut Listed(later.clone(), 0),
        );
        let mut other = Changes::default();
        other.set(bucket::META, b"term", 9u64.to_be_bytes());
        let file = OpenOptions::new().read(true).write(true).open(&first).unwrap();
        edit(
            at_cut.bolt(),
            &other,
            &mut Listed(later, 0),
            file,
            &Progress::new(),
        )
        .unwrap();
        for path in [again, first] {
            let result = Source::open(&path).unwrap();
            let verdict = verify(&result, &Progress::new()).unwrap();
            assert_eq!(verdict.hash_kv.hash, hash(&source, 0), "cut at {cut}");
            assert_eq!(rows(result.bolt(), bucket::KEY), whole, "cut at {cut}");
        }
    }
}

#[test]
fn cancelled_work_ends() {
    let made = Workload::Puts.make(&newest("3.7"));
    let source = Source::open(&made.snapshot).unwrap();
    let path = made.root().join("never");
    let progress = Progress::new();
    progress.cancel();
    let done = rewrite(
        &source,
        &Changes::default(),
        &mut Nothing,
        create(&path),
        &path,
        &progress,
    );
    assert!(matches!(done, Err(Error::Cancelled)));
    assert!(matches!(verify(&source, &progress), Err(Error::Cancelled)));
}
