//! An archive of etcdbrctl's taken over into one of ours, and restored from there.

use std::sync::Arc;

use jiff::Timestamp;
use quorate_backup::etcdbr::convert::{Conversion, Converted, convert};
use quorate_backup::plan::{To, Wanted, plan};
use quorate_backup::restore::restore;
use quorate_backup::{Archive, Store, StoreOptions, StoreUrl};
use quorate_datadir::{Progress, Source as Database, hash_kv};
use quorate_testkit::HashKv;

use crate::ours::alone;
use crate::source::Source;

pub async fn store(root: &std::path::Path) -> Store {
    let url = StoreUrl::parse(&format!("file://{}", root.display())).unwrap();
    Store::open(&url, &StoreOptions::default()).await.unwrap()
}

async fn taken_over(source: &Source, from: &std::path::Path) -> (Archive, Converted) {
    let from = store(from).await;
    let now = Timestamp::now();
    let to = store(&source.path("converted")).await;
    let mut archive = Archive::open_or_begin(&to, None, now).await.unwrap();
    let scratch = source.path("");
    let wanted = Conversion {
        scratch: &scratch,
        writer: "test",
    };
    let converted = convert(&from, &mut archive, wanted, &Arc::new(Progress::new()), now)
        .await
        .unwrap();
    (archive, converted)
}

async fn check(source: &Source, archive: &Archive, to: To, said: HashKv, name: &str) {
    let planned = plan(archive, Wanted { timeline: None, to }).await.unwrap();
    assert_eq!(planned.revision, said.revision, "{to:?}");
    let members = alone(source.path(name));
    let progress = Arc::new(Progress::new());
    restore(planned, &members, &progress, Timestamp::now(), &mut |_| {})
        .await
        .unwrap();
    let database = Database::open(&source.path(name)).unwrap();
    let compacted = Some(said.compact_revision).filter(|revision| *revision > 0);
    let hash = hash_kv(&database, said.revision, compacted, &Progress::new()).unwrap();
    assert_eq!(hash.hash, said.hash, "HashKV at {}", said.revision);
}

#[test]
fn it_becomes_one_of_ours_and_goes_on() {
    let source = Source::start("3.6");
    let before = source.puts(60);
    let archive = source.archive("theirs");
    let mut writer = archive.write(&source.server, &[]);
    writer.await_revision(before);
    source.client.grant(7, 1000);
    source.client.put_with_lease(b"leased", b"x", 7);
    let middle = source.txns(20, 64, 3000);
    writer.await_revision(middle);
    let time = Timestamp::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (_, first) = runtime.block_on(taken_over(&source, &archive.root()));
    assert_eq!((first.fulls, first.revision, first.leases), (1, middle, 1));
    assert_eq!(first.passed_over, []);
    let last = source.puts(40);
    writer.stop_at(last);
    let said = [last, before + 4, middle].map(|revision| source.hash(revision));
    runtime.block_on(async {
        let (ours, second) = taken_over(&source, &archive.root()).await;
        assert_eq!(
            (second.fulls, second.revision, second.timeline),
            (0, last, first.timeline)
        );
        let history = ours.history(second.timeline).await.unwrap();
        assert_eq!(history.faults, [], "its log is whole");
        let head = history.head.map(|head| (head.number, head.every));
        assert_eq!(head, Some((history.records.len() as u64, 0)));
        check(&source, &ours, To::End, said[0], "end").await;
        check(&source, &ours, To::Revision(before + 4), said[1], "inside").await;
        check(&source, &ours, To::Time(time), said[2], "time").await;
        let (_, third) = taken_over(&source, &archive.root()).await;
        assert_eq!(
            (third.deltas, third.fulls, third.rows),
            (0, 0, 0),
            "all of it is there"
        );
    });
}

/// etcdbrctl takes a full when it is started: what came while it was away is in no delta.
#[test]
fn it_goes_on_behind_what_no_delta_has() {
    let source = Source::start("3.6");
    source.puts(30);
    let archive = source.archive("theirs");
    let mut writer = archive.write(&source.server, &[]);
    writer.await_said("Successfully saved full snapshot");
    let seen = source.puts(20);
    writer.stop_at(seen);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (_, first) = runtime.block_on(taken_over(&source, &archive.root()));
    assert_eq!((first.revision, &first.missing[..]), (seen, &[][..]));

    // Another full, and no delta behind it yet.
    let unseen = source.puts(25);
    let mut writer = archive.write(&source.server, &[]);
    writer.await_said("Successfully saved full snapshot");
    let (_, second) = runtime.block_on(taken_over(&source, &archive.root()));
    assert_eq!((second.fulls, second.deltas, second.revision), (1, 0, unseen));
    let last = source.puts(40);
    writer.stop_at(last);
    let said = [seen, unseen, last - 7, last].map(|revision| source.hash(revision));
    runtime.block_on(async {
        let (ours, third) = taken_over(&source, &archive.root()).await;
        let missing: Vec<_> = third.missing.iter().map(|gap| (gap.from, gap.to)).collect();
        assert_eq!(missing, [(seen + 1, unseen)]);
        assert_eq!(
            (third.fulls, third.revision),
            (0, last),
            "the full is there already"
        );
        let history = ours.history(third.timeline).await.unwrap();
        assert_eq!((&history.faults[..], history.gaps().count()), (&[][..], 1));
        for (said, name) in said.into_iter().zip(["seen", "unseen", "inside", "end"]) {
            check(&source, &ours, To::Revision(said.revision), said, name).await;
        }
        let (_, again) = taken_over(&source, &archive.root()).await;
        assert_eq!((again.deltas, again.fulls, again.missing.len()), (0, 0, 0));
    });
}
