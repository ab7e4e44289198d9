//! Archives looked after where they lie: verified, and compacted so that both tools go on with what was made.

use std::sync::Arc;

use jiff::Timestamp;
use quorate_backup::etcdbr::compact::compact;
use quorate_backup::etcdbr::verify::{Depth, verify};
use quorate_backup::plan::To;
use quorate_datadir::{Progress, Source as Database, hash_kv};
use quorate_testkit::newest;

use crate::converted::store;
use crate::ours::{Ours, served};
use crate::source::Source;

#[test]
fn verified_and_compacted() {
    let source = Source::start("3.5");
    let before = source.puts(80);
    let archive = source.archive("theirs");
    let mut writer = archive.write(&source.server, &["--compression-policy=zlib"]);
    writer.await_revision(before);
    let last = source.txns(15, 30, 100);
    writer.stop_at(last);
    let said = source.hash(last);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let progress = Arc::new(Progress::new());
    let scratch = source.path("");
    let looked = || {
        runtime.block_on(async {
            let store = store(&archive.root()).await;
            verify(&store, Depth::Rebuilt(&scratch), &progress).await.unwrap()
        })
    };
    let report = looked();
    assert_eq!(report.findings, []);
    assert_eq!(
        (report.fulls, report.deltas as usize),
        (1, Ours::open(&archive).listing.deltas.len())
    );
    let rebuilt = report.rebuilt.unwrap();
    assert_eq!((rebuilt.revision, rebuilt.hash.hash), (last, said.hash));

    // As a member says it that has compacted up to there.
    let hash = |path: &std::path::Path, compacted| {
        let database = Database::open(path).unwrap();
        hash_kv(&database, last, compacted, &Progress::new())
            .unwrap()
            .hash
    };
    let made = Ours::open(&archive)
        .make(To::End, source.path("before.etcd"))
        .unwrap();
    made.check(said);
    let expected = hash(&made.data_dir, Some(last));

    let compacted = runtime.block_on(async {
        let store = store(&archive.root()).await;
        compact(&store, &scratch, &progress, Timestamp::now())
            .await
            .unwrap()
    });
    assert_eq!((compacted.revision, compacted.was_there), (last, false));
    let again = runtime.block_on(async {
        let store = store(&archive.root()).await;
        compact(&store, &scratch, &progress, Timestamp::now())
            .await
            .unwrap()
    });
    assert!(again.was_there && again.object == compacted.object);
    // etcdbrctl takes it as its own: there is nothing to apply.
    let theirs = source.path("theirs.etcd");
    let run = archive.restore(&theirs, &[]);
    assert!(
        run.succeeded && run.said.contains(compacted.object.trim_start_matches("v2/")),
        "{}",
        run.said
    );
    assert_eq!(served(&newest("3.5"), &theirs, last).hash, expected);
    let made = Ours::open(&archive)
        .make(To::End, source.path("ours.etcd"))
        .unwrap();
    assert_eq!(made.outcome.way.plan().base.key, compacted.object);
    assert_eq!(hash(&made.data_dir, None), expected);

    // Damage is found where it is.
    let listing = Ours::open(&archive).listing;
    let victim = &listing.deltas[0].key;
    std::fs::write(archive.root().join(victim), b"nothing of the kind").unwrap();
    let report = looked();
    let objects: Vec<&String> = report.findings.iter().map(|finding| &finding.object).collect();
    assert_eq!(objects, [victim]);
    assert!(report.rebuilt.is_some(), "the new full does not need it");
}
