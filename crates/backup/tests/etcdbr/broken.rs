//! Archives that etcdbrctl cannot restore, or not wholly: restored by us wherever the data is there, refused with the
//! reason where it is not.

use quorate_backup::Error;
use quorate_backup::etcdbr::Object;
use quorate_backup::plan::To;
use quorate_testkit::EtcdbrArchive;

use crate::ours::Ours;
use crate::source::Source;

fn fails(archive: &EtcdbrArchive, source: &Source, name: &str) -> String {
    let run = archive.restore(&source.path(&format!("theirs-{name}")), &[]);
    assert!(!run.succeeded, "etcdbrctl restores this now? {}", run.said);
    run.said
}

fn full(archive: &EtcdbrArchive) -> String {
    let mut fulls = archive.names();
    fulls.retain(|name| name.contains("Full"));
    assert_eq!(fulls.len(), 1, "{fulls:?}");
    fulls.remove(0)
}

/// One history in three archives whose deltas are cut at different places, and then a few things that happen to them.
#[test]
fn chains_that_etcdbrctl_cannot_restore() {
    let source = Source::start("3.5");
    let before = source.puts(100);
    // One delta for each answer of the watch, one for each second, and one that begins later.
    let (fine, coarse) = (source.archive("fine"), source.archive("coarse"));
    let mut writers = [
        fine.write(&source.server, &["--delta-snapshot-memory-limit=1"]),
        coarse.write(&source.server, &[]),
    ];
    for writer in &mut writers {
        writer.await_revision(before);
    }
    let mut middle = 0;
    for count in [10, 20] {
        middle = source.txns(count, 64, 200);
        for writer in &mut writers {
            writer.await_revision(middle);
        }
    }
    let time = jiff::Timestamp::now();
    let late = source.archive("late");
    let mut late_writer = late.write(&source.server, &[]);
    late_writer.await_revision(middle);
    let last = source.puts(60);
    let [fine_writer, coarse_writer] = writers;
    fine_writer.stop_at(last);
    coarse_writer.stop_at(last);
    late_writer.stop_at(last);
    let said = source.hash(last);
    let run = fine.restore(&source.path("theirs-fine.etcd"), &[]);
    assert!(run.succeeded, "as it is etcdbrctl restores it: {}", run.said);

    // Two leaders wrote: every revision is there twice.
    let both = source.copy_of(&fine, "both");
    for name in coarse.names().into_iter().filter(|name| name.contains("Incr")) {
        std::fs::copy(coarse.root().join(&name), both.root().join(&name)).unwrap();
    }
    Ours::open(&both)
        .make(To::End, source.path("both.etcd"))
        .unwrap()
        .check(said);
    Ours::open(&both)
        .make(To::Revision(middle - 3), source.path("both-3.etcd"))
        .unwrap()
        .check(source.hash(middle - 3));
    fails(&both, &source, "both.etcd");
    // A time, though one of the deltas around it is damaged: the other leader's has the same.
    let listing = Ours::open(&both).listing;
    let around = |name: &&Object| name.name.start <= middle + 1 && name.name.last >= middle;
    let mut passed_over = 0;
    for delta in listing.deltas.iter().filter(around) {
        let path = both.root().join(&delta.key);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let way = Ours::open(&both).way(To::Time(time)).unwrap();
        assert_eq!(way.revision(), middle, "without {}", delta.key);
        passed_over += way.passed_over().count();
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(passed_over > 0, "{listing:?}");

    // A full that is newer than its name, and than several deltas.
    let newer = source.copy_of(&fine, "newer");
    std::fs::copy(late.root().join(full(&late)), newer.root().join(full(&fine))).unwrap();
    Ours::open(&newer)
        .make(To::End, source.path("newer.etcd"))
        .unwrap()
        .check(said);
    Ours::open(&newer)
        .make(To::Revision(middle - 3), source.path("newer-3.etcd"))
        .unwrap()
        .check(source.hash(middle - 3));
    fails(&newer, &source, "newer.etcd");

    // The newest full is half written: etcdbrctl has no other; the older one leads to the same end.
    let torn = source.copy_of(&fine, "torn");
    let whole = std::fs::read(late.root().join(full(&late))).unwrap();
    std::fs::write(torn.root().join(full(&late)), &whole[..whole.len() / 2]).unwrap();
    let made = Ours::open(&torn).make(To::End, source.path("torn.etcd")).unwrap();
    made.check(said);
    let over: Vec<(&str, &str)> = made.outcome.way.passed_over().collect();
    assert!(
        matches!(over[..], [(object, _)] if object == full(&late)),
        "{over:?}"
    );
    fails(&torn, &source, "torn.etcd");

    // A delta in the middle is lost: found before anything is written.
    let hole = source.copy_of(&fine, "hole");
    let listing = Ours::open(&hole).listing;
    let lost = &listing.deltas[listing.deltas.len() / 2];
    std::fs::remove_file(hole.root().join(&lost.key)).unwrap();
    let ours = Ours::open(&hole);
    let missing = ours.way(To::End).err().expect("a hole").to_string();
    let expected = format!("revisions {} to {} are missing", lost.name.start, lost.name.last);
    assert!(missing.contains(&expected), "{missing}");
    let reached = lost.name.start - 1;
    ours.make(To::Revision(reached), source.path("hole.etcd"))
        .unwrap()
        .check(source.hash(reached));

    // A bit of a delta is flipped.
    let flipped = source.copy_of(&coarse, "flipped");
    let listing = Ours::open(&flipped).listing;
    let victim = flipped.root().join(&listing.deltas[0].key);
    let mut bytes = std::fs::read(&victim).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 4;
    std::fs::write(&victim, bytes).unwrap();
    let make = |archive: &EtcdbrArchive, name: &str| Ours::open(archive).make(To::End, source.path(name));
    let error = make(&flipped, "flipped.etcd").err().expect("damage").to_string();
    assert!(error.contains(&listing.deltas[0].key), "{error}");
    // Unless another writer has the same revisions.
    for name in fine.names().into_iter().filter(|name| name.contains("Incr")) {
        std::fs::copy(fine.root().join(&name), flipped.root().join(&name)).unwrap();
    }
    make(&flipped, "flipped.etcd").unwrap().check(said);
}

/// A transaction of more than 2 MiB: etcdbrctl writes it and cannot apply it.
#[test]
fn a_revision_larger_than_a_message() {
    let source = Source::start("3.5");
    source.puts(10);
    let archive = source.archive("large");
    let mut writer = archive.write(&source.server, &[]);
    writer.await_revision(1);
    let last = source.txns(2, 5, 700_000);
    writer.stop_at(last);
    let ours = Ours::open(&archive);
    ours.make(To::End, source.path("large.etcd"))
        .unwrap()
        .check(source.hash(last));
    let said = fails(&archive, &source, "large.etcd");
    assert!(said.contains("2097152"), "{said}");
}

/// A full that is a database file without a hash: refused, unless it is wanted, and then looked through.
#[test]
fn a_full_without_a_hash() {
    let source = Source::start("3.4");
    let last = source.puts(30);
    let archive = source.archive("plain");
    let writer = archive.write(&source.server, &["--compress-snapshots=false"]);
    writer.stop_at(last);
    let path = archive.root().join(full(&archive));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 32);
    std::fs::write(&path, &bytes).unwrap();
    let mut ours = Ours::open(&archive);
    let error = ours
        .make(To::End, source.path("plain.etcd"))
        .err()
        .expect("no hash");
    assert!(error.to_string().contains("it has no hash at its end"), "{error}");
    ours.unhashed = true;
    ours.make(To::End, source.path("plain.etcd"))
        .unwrap()
        .check(source.hash(last));
    // Without a hash its pages are looked at.
    let at = bytes.len() / 2;
    bytes[at..].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let mut ours = Ours::open(&archive);
    ours.unhashed = true;
    let error = ours
        .make(To::End, source.path("spoilt.etcd"))
        .err()
        .expect("damage");
    assert!(matches!(error, Error::Data(_)), "{error}");
}
