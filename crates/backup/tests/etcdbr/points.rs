//! Points in between: revisions inside deltas, inside a full, and times.

use quorate_backup::etcdbr::Wanted;

use crate::ours::Ours;
use crate::source::Source;

#[test]
fn any_revision_and_time() {
    let source = Source::start("3.6");
    let before = source.puts(200);
    let archive = source.archive("a");
    let mut writer = archive.write(&source.server, &[]);
    writer.await_revision(before);
    let first = source.txns(20, 7, 50);
    writer.await_revision(first);
    // All of it was seen and is written; nothing that follows was.
    let time = jiff::Timestamp::now();
    let second = source.puts(100);
    writer.await_revision(second);
    source.client.delete(b"key/", b"key0");
    let last = source.client.put(b"end", b"end");
    writer.stop_at(last);

    let ours = Ours::open(&archive);
    assert_eq!(ours.revision_at(time), Some(first));
    assert_eq!(ours.revision_at(jiff::Timestamp::now()), Some(last));
    for (number, revision) in [
        before,
        before + 1,
        before + 13,
        first,
        first + 1,
        second,
        last - 1,
        last,
        before - 30,
        2,
    ]
    .into_iter()
    .enumerate()
    {
        let made = ours
            .make(Wanted::Revision(revision), source.path(&format!("{number}.db")))
            .unwrap();
        made.check(source.hash(revision));
    }
    let past = ours.plan(Wanted::Revision(last + 1)).unwrap_err();
    assert_eq!(past.reaches, Some(last));
}
