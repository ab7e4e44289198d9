//! Points in between: revisions inside deltas, inside a full, and times.

use std::time::Duration;

use quorate_backup::plan::To;
use quorate_testkit::await_that;

use crate::ours::Ours;
use crate::source::Source;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn any_revision_and_time() {
    let source = Source::start("3.6");
    let before = source.puts(200);
    let archive = source.archive("a");
    let mut writer = archive.write(&source.server, &[]);
    writer.await_revision(before);
    let first = source.txns(20, 7, 50);
    writer.await_revision(first);
    // All of it was seen and is written; nothing that follows was. A full counts from the second after that in its name.
    let written = jiff::Timestamp::now().as_second();
    let time = await_that("the next second", PATIENCE, || {
        let now = jiff::Timestamp::now();
        (now.as_second() > written).then_some(now).ok_or("not yet")
    });
    let second = source.puts(100);
    writer.await_revision(second);
    source.client.delete(b"key/", b"key0");
    let last = source.client.put(b"end", b"end");
    writer.stop_at(last);

    let ours = Ours::open(&archive);
    let made = ours.make(To::Time(time), source.path("time.etcd")).unwrap();
    assert_eq!(made.outcome.way.revision(), first);
    assert!(made.outcome.way.seen().unwrap() <= time);
    made.check(source.hash(first));
    let now = ours.way(To::Time(jiff::Timestamp::now())).unwrap();
    assert_eq!(now.revision(), last);
    // What is known of a time ends with the archive.
    assert_eq!(ours.way(To::Time(time)).unwrap().consents(), [""; 0]);
    let late = ours
        .way(To::Time("2099-01-01T00:00:00Z".parse().unwrap()))
        .unwrap();
    assert_eq!(late.revision(), last);
    let consents = late.consents();
    let said = format!("what is known of 2099-01-01T00:00:00Z is revision {last}");
    assert!(
        matches!(&consents[..], [one] if one.contains(&said)),
        "{consents:?}"
    );
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
            .make(To::Revision(revision), source.path(&format!("{number}.etcd")))
            .unwrap();
        made.check(source.hash(revision));
    }
    let past = ours
        .way(To::Revision(last + 1))
        .err()
        .expect("not there")
        .to_string();
    assert!(past.contains(&format!("{last} can be reached")), "{past}");
    let early = "2020-01-01T00:00:00Z".parse().unwrap();
    assert!(ours.way(To::Time(early)).is_err());
    // What the full no longer has is refused, and said.
    let made = ours.make(To::Revision(1), source.path("one.etcd"));
    assert!(made.is_ok_and(|made| made.outcome.members[0].revision == 1));
}
