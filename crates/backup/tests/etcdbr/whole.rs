//! Archives as they should be: every compression, every kind of change, to the newest revision.

use quorate_backup::etcdbr::Compression;
use quorate_backup::plan::To;
use quorate_testkit::{Workload, newest};

use crate::ours::{Ours, served};
use crate::source::Source;

/// Four etcdbrctl watch one etcd, each compressing in its own way. Ours equals the source; what etcdbrctl itself
/// restores does not, because keys that came with deltas lose their leases.
#[test]
fn every_compression() {
    let mut source = Source::start("3.5");
    source.client.grant(77, 100_000);
    source.client.put_with_lease(b"leased/before", b"1", 77);
    source.puts(300);
    let ways: [(&str, Compression, &[&str]); 4] = [
        ("gzip", Compression::Gzip, &["--compression-policy=gzip"]),
        ("zlib", Compression::Zlib, &["--compression-policy=zlib"]),
        ("lzw", Compression::Lzw, &["--compression-policy=lzw"]),
        ("none", Compression::None, &["--compress-snapshots=false"]),
    ];
    let archives = ways.map(|(name, _, _)| source.archive(name));
    let mut writers: Vec<_> = archives
        .iter()
        .zip(ways)
        .map(|(a, way)| a.write(&source.server, way.2))
        .collect();
    for writer in &mut writers {
        writer.await_revision(1);
    }
    source.puts(400);
    Workload::Leases.run(&mut source.client);
    Workload::Txns.run(&mut source.client);
    source.txns(20, 64, 500);
    Workload::Large.run(&mut source.client);
    Workload::RangeDelete.run(&mut source.client);
    source.client.put_with_lease(b"leased/after", b"1", 77);
    let last = source.client.put(b"the end", b"");
    for writer in writers {
        writer.stop_at(last);
    }
    let said = source.hash(last);
    for (archive, (name, compression, _)) in archives.iter().zip(ways) {
        let ours = Ours::open(archive);
        let all = ours.listing.fulls.iter().chain(&ours.listing.deltas);
        assert!(all.clone().count() >= 2, "{:?}", ours.listing);
        assert!(
            all.clone().all(|object| object.name.compression == compression),
            "{name}"
        );
        let made = ours.make(To::End, source.path(&format!("{name}.etcd"))).unwrap();
        made.check(said);
        assert!(
            made.outcome.leases.ids.contains(&77) && !made.outcome.leases.more,
            "{:?}",
            made.outcome.leases
        );
        if compression == Compression::Gzip {
            made.serve_and_check(&newest("3.5"), said);
        }
    }
    // It cannot apply a deletion of many keys unless it is told how many; and keys of deltas lose their leases.
    let theirs = source.path("theirs");
    let run = archives[0].restore(&theirs, &[]);
    assert!(
        !run.succeeded && run.said.contains("too many operations"),
        "{}",
        run.said
    );
    std::fs::remove_dir_all(&theirs).expect("what it left can be removed");
    let run = archives[0].restore(&theirs, &["--max-txn-ops=100000"]);
    assert!(run.succeeded, "{}", run.said);
    let hash = served(&newest("3.5"), &theirs, last);
    assert_eq!(hash.revision, said.revision);
    assert_ne!(hash.hash, said.hash, "etcdbrctl keeps leases now?");
}

/// etcd 3.7 writes; the address is given with its `v2`, and names of other things lie about.
#[test]
fn a_newer_etcd_and_other_things_about() {
    let source = Source::start("3.7");
    source.puts(50);
    let archive = source.archive("a");
    let mut writer = archive.write(&source.server, &[]);
    writer.await_revision(1);
    source.client.compact(30);
    let last = source.txns(30, 10, 100);
    writer.stop_at(last);
    let v2 = archive.root().join("v2");
    let full = archive
        .names()
        .into_iter()
        .find(|name| name.contains("Full"))
        .unwrap();
    std::fs::create_dir(v2.join("Full-00000000-99999999-1700000000")).unwrap();
    std::fs::write(v2.join("Full-00000000-99999999-1700000000/0000000001"), b"piece").unwrap();
    std::fs::write(v2.join("checksums.txt"), b"x").unwrap();
    std::fs::create_dir_all(archive.root().join("other/v2")).unwrap();
    std::fs::copy(
        archive.root().join(&full),
        archive.root().join("other").join(&full),
    )
    .unwrap();
    // The older layout, with the same full: one archive.
    let old = archive.root().join("v1/Backup-1500000000");
    std::fs::create_dir_all(&old).unwrap();
    std::fs::rename(
        archive.root().join(&full),
        old.join(full.strip_prefix("v2/").unwrap()),
    )
    .unwrap();
    let ours = Ours::open(&archive);
    assert_eq!(
        (
            ours.listing.fulls.len(),
            ours.listing.chunks,
            ours.listing.foreign
        ),
        (1, 1, 2)
    );
    ours.make(To::End, source.path("a.etcd"))
        .unwrap()
        .check(source.hash(last));
    std::fs::rename(
        old.join(full.strip_prefix("v2/").unwrap()),
        archive.root().join(&full),
    )
    .unwrap();
    let ours = Ours::at(&v2);
    ours.make(To::End, source.path("b.etcd"))
        .unwrap()
        .check(source.hash(last));
}
