//! Makes the seed corpus anew in `fuzz/corpus`, from real etcd of the oldest and the newest cached versions.
//!
//! `cargo run -p quorate-datadir --example fuzz_corpus`

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use quorate_datadir::bolt::{Bolt, BoltWriter};
use quorate_testkit::{Start, oldest_and_newest};

fn main() {
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for directory in ["bolt", "wal", "snap"] {
        fs::create_dir_all(to.join(directory)).expect("a directory");
    }
    for version in oldest_and_newest() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let data_dir = root.path().join("data");
        // A snapshot file after every few entries.
        let server = Start::new(&version, &data_dir).flag("--snapshot-count=5").serve();
        let client = server.client();
        client.grant(77, 3600);
        // Enough for a branch page.
        for number in 0..60_u8 {
            client.put(&[b'a' + number % 5], &vec![number; usize::from(number) * 2]);
        }
        client.put_with_lease(b"leased", b"", 77);
        let deletion = client.delete(b"a", b"c");
        client.compact(deletion - 50);
        let snapshot = root.path().join("snapshot");
        server.etcdctl(
            None,
            &["snapshot", "save", snapshot.to_str().expect("plain text")],
        );
        drop(client);
        server.stop();

        let name = format!("etcd-{version}");
        fs::copy(&snapshot, to.join("bolt").join(&name)).expect("a copy");
        smaller_pages(&snapshot, &to.join("bolt").join(format!("{name}-pages-of-1024")));
        let mut wal = fs::read(only(&data_dir.join("member/wal"), "wal")).expect("a log");
        let end = wal.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        wal.truncate((end / 8 + 2) * 8);
        fs::write(to.join("wal").join(&name), wal).expect("a log");
        fs::copy(
            only(&data_dir.join("member/snap"), "snap"),
            to.join("snap").join(&name),
        )
        .expect("a copy");
    }
}

/// The first file with this ending.
fn only(directory: &Path, ending: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|it| it == ending))
        .collect();
    found.sort();
    found.into_iter().next().expect("a file")
}

/// The same rows on small pages: a tree in a few KiB.
fn smaller_pages(snapshot: &Path, to: &Path) {
    let bolt = Bolt::open(snapshot).expect("a snapshot");
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(to)
        .expect("a file");
    let mut writer = BoltWriter::new(file, to, 1024).expect("a writer");
    for (name, _) in bolt.buckets().expect("buckets") {
        writer.begin(&name).expect("a bucket");
        let mut rows = bolt.bucket(&name).expect("a bucket").expect("a bucket");
        while let Some((key, value)) = rows.next().expect("a row") {
            writer.put(key, value).expect("a row");
        }
    }
    writer.finish().expect("a file");
}
