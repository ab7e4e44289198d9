//! Leases that end while an archive is replayed. etcdbrctl replays into an etcd that counts their time: the keys of those
//! that the full has are deleted, and each deletion takes a revision that a change of a delta had.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use quorate_backup::plan::To;
use quorate_datadir::Source as Database;
use quorate_testkit::{Client, EtcdbrArchive, Start, newest};
use quorate_wire::etcdserverpb::{RangeRequest, RangeResponse};

use crate::ours::{Ours, served};
use crate::source::Source;

const LEASE: i64 = 7;
/// Longer than a busy machine takes to start two etcdbrctl and to apply a delta.
const SECONDS: i64 = 30;
const KEEP_EVERY: Duration = Duration::from_millis(250);

fn has(client: &Client, key: &str) -> bool {
    let request = RangeRequest {
        key: key.as_bytes().to_vec(),
        ..RangeRequest::default()
    };
    let response: RangeResponse = client.call("KV/Range", request);
    response.count == 1
}

/// Keeps the lease alive until nobody is there to end it.
fn keep(client: &Client, ended: &Receiver<()>) {
    while ended.recv_timeout(KEEP_EVERY) == Err(RecvTimeoutError::Timeout) {
        client.keep_alive(LEASE);
    }
}

/// A full and two deltas or more; its last revision.
fn write(source: &Source, archive: &EtcdbrArchive) -> i64 {
    source.client.put_with_lease(b"leased/full", b"x", LEASE);
    let before = source.puts(20);
    let mut writer = archive.write(&source.server, &[]);
    writer.await_revision(before);
    for key in ["first/0", "first/1", "first/2"] {
        source.client.put(key.as_bytes(), b"first");
    }
    let middle = source.client.put_with_lease(b"leased/delta", b"x", LEASE);
    writer.await_revision(middle);
    source.client.put(b"second/0", b"second");
    let last = source.client.put(b"second/1", b"second");
    writer.stop_at(last);
    last
}

#[test]
fn leases_that_end_during_a_replay() {
    let source = Source::start("3.5");
    let archive = source.archive("leases");
    let keeper = source.server.client();
    source.client.grant(LEASE, SECONDS);
    let (last, said) = std::thread::scope(|scope| {
        let (end, ended) = channel();
        scope.spawn(move || keep(&keeper, &ended));
        let last = write(&source, &archive);
        let said = source.hash(last);
        for key in ["leased/full", "leased/delta"] {
            assert!(has(&source.client, key), "{key} lives");
        }
        drop(end);
        (last, said)
    });
    let listing = Ours::open(&archive).listing;
    let [full] = &listing.fulls[..] else {
        panic!("one full: {listing:?}");
    };
    assert!(listing.deltas.len() >= 2, "{listing:?}");
    let (slow, slower) = (
        source.copy_of(&archive, "slow"),
        source.copy_of(&archive, "slower"),
    );
    let (theirs, aborted) = (source.path("theirs.etcd"), source.path("aborted.etcd"));
    let is_gone = |client: &Client| !has(client, "leased/full");
    let (run, later) = std::thread::scope(|scope| {
        let later = scope.spawn(|| slower.restore_slowly(&aborted, &listing.deltas[1].key, is_gone));
        let run = slow.restore_slowly(&theirs, &listing.deltas[0].key, is_gone);
        (run, later.join().expect("it was waited for"))
    });

    // It goes before the first delta is there: the first change of it counts as one that was there already. All is well,
    // says etcdbrctl.
    assert!(run.succeeded, "etcdbrctl notices it now? {}", run.said);
    let server = Start::new(&newest("3.5"), &theirs)
        .flag("--unsafe-no-fsync")
        .serve();
    let client = server.client();
    let found = ["first/0", "first/1", "leased/full", "second/1"].map(|key| has(&client, key));
    assert_eq!(found, [false, true, false, true], "etcdbrctl loses nothing now?");
    // Its revision is the right one: nothing shows that something is missing.
    assert_eq!(client.put(b"next", b""), last + 1);
    drop(server);

    // It goes between two deltas: the second one ends a revision too late.
    let expected = listing.deltas[1].name.last;
    let words = format!("expected {expected} but applied {}", expected + 1);
    assert!(
        !later.succeeded && later.said.contains(&words),
        "etcdbrctl restores this now? {}",
        later.said
    );

    // Nobody counts here: all of it is there, at every revision.
    let ours = Ours::open(&archive);
    let made = ours.make(To::End, source.path("ours.etcd")).unwrap();
    made.check(said);
    let middle = listing.deltas[0].name.last;
    ours.make(To::Revision(middle), source.path("middle.etcd"))
        .unwrap()
        .check(source.hash(middle));
    ours.make(To::Revision(full.name.last), source.path("full.etcd"))
        .unwrap()
        .check(source.hash(full.name.last));
    assert_eq!(Database::open(&made.data_dir).unwrap().current_revision(), last);
    // A real etcd says the same of that revision, whatever ends later.
    assert_eq!(served(&newest("3.5"), &made.data_dir, last).hash, said.hash);
}
