//! Watches on every version: exact events in their order, huge revisions, compaction, restarts, silence, users.

use std::time::Duration;

use quorate_client::{
    Batch, Condition, Credentials, Cut, Endpoint, EventKind, Keys, LeaseTerm, Op, Range, Refusal, Timeouts,
    Txn, TxnDone, Watched, Watching,
};
use quorate_testkit::{minor, newest, versions};

use crate::member::{Member, PATIENCE, PATIENT, Plan, eventually};

/// So many keys of a kilobyte that no message holds the deletion of all of them; so few that etcd answers in time on a
/// machine with much else to do.
const MANY: usize = 4_000;
const AT_ONCE: usize = 500;

/// Revision, kind, key, value, create revision, version.
type Seen = (i64, EventKind, String, String, i64, i64);

fn put(key: &str, value: &str) -> Op {
    Op::Put {
        key: key.into(),
        value: value.into(),
        lease: 0,
    }
}

async fn next(watching: &mut Watching) -> Watched {
    tokio::time::timeout(PATIENCE, watching.next())
        .await
        .expect("in time")
        .unwrap_or_else(|error| panic!("{}", error.chain()))
}

async fn next_batch(watching: &mut Watching) -> Batch {
    loop {
        match next(watching).await {
            Watched::Events(batch) => return batch,
            Watched::Progress { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// All events up to a revision, in order.
async fn up_to(watching: &mut Watching, revision: i64) -> Vec<Seen> {
    let mut seen = Vec::new();
    loop {
        let batch = next_batch(watching).await;
        for event in batch.events() {
            let event = event.unwrap();
            let (key, value) = (text(event.key), text(event.value));
            seen.push((
                event.mod_revision,
                event.kind,
                key,
                value,
                event.create_revision,
                event.version,
            ));
        }
        let last = seen.last().expect("a batch has events").0;
        if last >= revision && !batch.continues {
            assert_eq!(last, revision);
            return seen;
        }
    }
}

fn seen(revision: i64, kind: EventKind, key: &str, value: &str, create: i64, version: i64) -> Seen {
    (revision, kind, key.to_owned(), value.to_owned(), create, version)
}

#[tokio::test]
async fn watches_tell_all_in_order() {
    for version in versions() {
        eprintln!("etcd {version}");
        let plan = Plan::new(&version).flags([format!("--max-txn-ops={AT_ONCE}")]);
        let mut member = plan.single().await;
        let endpoint = member.endpoint();
        exact_events(&endpoint).await;
        leases(&endpoint).await;
        pages(&endpoint).await;
        unread(&endpoint).await;
        many_in_one(&endpoint.within(PATIENCE)).await;
        compacted(&endpoint).await;
        restart(&mut member).await;
    }
}

async fn exact_events(endpoint: &Endpoint) {
    let first = endpoint.put(b"a", b"1").await.unwrap();
    assert_eq!(first, 2);
    // One watch that sees what was before it, one that is told as it happens.
    let mut live = endpoint.watch(first, Cut::Here).await.unwrap();
    let status = endpoint.status().await.unwrap();
    assert_eq!(
        (live.member_id(), live.cluster_id()),
        (status.member_id, status.cluster_id)
    );
    endpoint.put(b"a", b"2").await.unwrap();
    // Not in the order of keys; the deletion of a range among puts.
    let txn = Txn {
        conditions: vec![
            Condition::ModRevision {
                key: b"a".to_vec(),
                revision: 3,
            },
            Condition::CreateRevision {
                key: b"nothing".to_vec(),
                revision: 0,
            },
            Condition::Value {
                key: b"a".to_vec(),
                value: b"2".to_vec(),
            },
        ],
        then: vec![put("z", "1"), put("d", "1"), put("c", "1"), put("y", "1")],
        otherwise: vec![put("never", "")],
    };
    let done = endpoint.txn(txn.clone()).await.unwrap();
    assert_eq!(
        done,
        TxnDone {
            held: true,
            revision: 4
        }
    );
    let mixed = Txn {
        then: vec![
            put("x", "1"),
            Op::Delete(Keys::between(b"c", b"e")),
            put("a", "3"),
        ],
        ..Txn::default()
    };
    assert_eq!(endpoint.txn(mixed).await.unwrap().revision, 5);
    // Its conditions hold no more; the other side does nothing but delete.
    let other = Txn {
        otherwise: vec![Op::Delete(Keys::one(b"z"))],
        ..txn
    };
    let done = endpoint.txn(other).await.unwrap();
    assert_eq!(
        done,
        TxnDone {
            held: false,
            revision: 6
        }
    );
    assert_eq!(endpoint.delete_range(Keys::all()).await.unwrap().keys, 3);

    use EventKind::{Delete, Put};
    let expected = vec![
        seen(2, Put, "a", "1", 2, 1),
        seen(3, Put, "a", "2", 2, 2),
        seen(4, Put, "z", "1", 4, 1),
        seen(4, Put, "d", "1", 4, 1),
        seen(4, Put, "c", "1", 4, 1),
        seen(4, Put, "y", "1", 4, 1),
        seen(5, Put, "x", "1", 5, 1),
        seen(5, Delete, "c", "", 0, 0),
        seen(5, Delete, "d", "", 0, 0),
        seen(5, Put, "a", "3", 2, 3),
        seen(6, Delete, "z", "", 0, 0),
        seen(7, Delete, "a", "", 0, 0),
        seen(7, Delete, "x", "", 0, 0),
        seen(7, Delete, "y", "", 0, 0),
    ];
    assert_eq!(up_to(&mut live, 7).await, expected);
    let mut late = endpoint.watch(2, Cut::ByEtcd).await.unwrap();
    assert_eq!(up_to(&mut late, 7).await, expected);

    // Asked for, what the member has come to is told.
    live.request_progress();
    assert!(matches!(next(&mut live).await, Watched::Progress { revision: 7 }));
}

/// Seconds of a lease that ends while the test waits for it.
const SHORT: i64 = 10;

/// Until nobody waits for it any more.
async fn keep_alive(endpoint: &Endpoint, lease: i64) {
    loop {
        assert_eq!(endpoint.lease_keep_alive(lease).await.unwrap(), Some(SHORT));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Both leases are known, and have keys.
async fn written(endpoint: &Endpoint, long: i64, short: i64) {
    let term = endpoint.lease_term(long).await.unwrap().unwrap();
    assert!(
        matches!(term, LeaseTerm { granted_seconds: 1000, left_seconds } if left_seconds <= 1000),
        "{term:?}"
    );
    let mut known = endpoint.leases().await.unwrap();
    known.sort_unstable();
    let mut granted = [long, short];
    granted.sort_unstable();
    assert_eq!(known, granted);
    assert_eq!(endpoint.lease_keep_alive(long).await.unwrap(), Some(1000));
    for (key, lease) in [("leased/b", short), ("leased/c", long), ("leased/a", short)] {
        endpoint.put_leased(key.as_bytes(), b"1", lease).await.unwrap();
    }
}

async fn leases(endpoint: &Endpoint) {
    let from = endpoint.put(b"leased/none", b"").await.unwrap() + 1;
    let mut watching = endpoint.watch(from, Cut::Here).await.unwrap();
    let long = endpoint.lease_grant(0, 1000).await.unwrap();
    // Short, and kept alive until its keys are written.
    let short = endpoint.lease_grant(4711, SHORT).await.unwrap();
    assert_eq!(short, 4711);
    tokio::select! {
        () = keep_alive(endpoint, short) => {}
        () = written(endpoint, long, short) => {}
    }
    let mut leases = Vec::new();
    while leases.len() < 3 {
        let batch = next_batch(&mut watching).await;
        leases.extend(batch.events().map(|event| event.unwrap().lease));
    }
    assert_eq!(leases, [short, long, short]);
    // It ends by itself and takes its keys along in one revision.
    let ended = up_to(&mut watching, from + 3).await;
    let keys: Vec<&str> = ended.iter().map(|seen| seen.2.as_str()).collect();
    assert_eq!(keys, ["leased/a", "leased/b"]);
    assert_eq!(endpoint.lease_term(short).await.unwrap(), None);
    assert_eq!(endpoint.lease_keep_alive(short).await.unwrap(), None);
    endpoint.lease_revoke(long).await.unwrap();
    assert_eq!(up_to(&mut watching, from + 4).await.len(), 1);
    let error = endpoint.lease_revoke(long).await.unwrap_err();
    assert_eq!(error.refusal(), Refusal::LeaseNotFound);
}

async fn pages(endpoint: &Endpoint) {
    for key in ["p/1", "p/2", "p/3", "q"] {
        endpoint.put(key.as_bytes(), key.as_bytes()).await.unwrap();
    }
    let before = endpoint.put(b"p/2", b"new").await.unwrap() - 1;
    let mut range = Range {
        limit: 2,
        revision: Some(before),
        ..Range::of(Keys::prefix(b"p/"))
    };
    let page = endpoint.read_range(range.clone()).await.unwrap();
    assert_eq!((page.pairs.len(), page.more, page.count), (2, true, 3));
    assert_eq!(page.pairs[1].value, b"p/2");
    range.keys = Keys::between(b"p/2\0", b"p0");
    let page = endpoint.read_range(range).await.unwrap();
    assert_eq!((page.pairs.len(), page.more), (1, false));
    assert_eq!(page.pairs[0].key, b"p/3");
}

/// What is not read stays where it is, and nothing of it is lost.
async fn unread(endpoint: &Endpoint) {
    let first = endpoint.put(b"unread", b"").await.unwrap();
    let mut watching = endpoint.watch(first, Cut::Here).await.unwrap();
    let value = vec![b'v'; 256 * 1024];
    let mut last = first;
    for _ in 0..80 {
        last = endpoint.put(b"unread", &value).await.unwrap();
    }
    let events = up_to(&mut watching, last).await;
    assert_eq!(events.len(), 81);
    assert!(events.iter().map(|seen| seen.0).eq(first..=last));
}

async fn many_in_one(endpoint: &Endpoint) {
    let key = |number: usize| format!("many/{number:01000}");
    for piece in 0..MANY / AT_ONCE {
        let ops = (0..AT_ONCE).map(|n| put(&key(piece * AT_ONCE + n), ""));
        let txn = Txn {
            then: ops.collect(),
            ..Txn::default()
        };
        endpoint.txn(txn).await.unwrap();
    }
    let deleted = endpoint.delete_range(Keys::prefix(b"many/")).await.unwrap();
    assert_eq!(deleted.keys, MANY as i64);
    let mut watching = endpoint.watch(deleted.revision, Cut::Here).await.unwrap();
    let (mut messages, mut events) = (0, 0);
    loop {
        let batch = next_batch(&mut watching).await;
        assert!(batch.bytes() < 4 << 20, "{}", batch.bytes());
        for event in batch.events() {
            let event = event.unwrap();
            assert_eq!(
                (event.kind, event.mod_revision),
                (EventKind::Delete, deleted.revision)
            );
            assert_eq!(event.key, key(events).as_bytes());
            events += 1;
        }
        messages += 1;
        if !batch.continues {
            break;
        }
    }
    assert_eq!(events, MANY);
    assert!(messages > 1);
}

async fn compacted(endpoint: &Endpoint) {
    let revision = endpoint.put(b"compacted", b"1").await.unwrap();
    endpoint.put(b"compacted", b"2").await.unwrap();
    endpoint.compact(revision).await.unwrap();
    assert!(!endpoint.remembers_since(revision - 1).await.unwrap());
    assert!(endpoint.remembers_since(revision).await.unwrap());
    assert!(endpoint.remembers_since(revision + 1000).await.unwrap());
    let mut watching = endpoint.watch(revision - 1, Cut::Here).await.unwrap();
    let end = next(&mut watching).await;
    assert!(
        matches!(end, Watched::Compacted { compact_revision } if compact_revision == revision),
        "{end:?}"
    );
}

async fn restart(member: &mut Member) {
    let endpoint = member.endpoint();
    let first = endpoint.put(b"restart", b"1").await.unwrap();
    let mut watching = endpoint.watch(first, Cut::Here).await.unwrap();
    assert_eq!(up_to(&mut watching, first).await.len(), 1);
    member.kill();
    let ended = tokio::time::timeout(PATIENCE, watching.next()).await;
    let error = ended.expect("a watch ends with its member").unwrap_err();
    assert_eq!(error.refusal(), Refusal::Disconnected, "{}", error.chain());
    member.start();
    // It goes on at a revision that is still to come.
    let mut watching = eventually(|| endpoint.watch(first + 1, Cut::Here)).await.unwrap();
    let second = eventually(|| endpoint.put(b"restart", b"2")).await.unwrap();
    let events = up_to(&mut watching, second).await;
    assert_eq!(events.first().unwrap().0, first + 1);
}

/// A member that has nothing to tell says so when it is asked; one that hangs does not.
#[tokio::test]
async fn a_quiet_member_is_not_a_silent_one() {
    let member = Plan::new(&newest("3.6")).single().await;
    // Silence is what it is to users: a busy member may take seconds to answer, and is not silent for that.
    let timeouts = Timeouts {
        stream_idle: Timeouts::default().stream_idle,
        ..PATIENT
    };
    let endpoint = Endpoint::connect_lazy(&member.url, None, timeouts).unwrap();
    let revision = endpoint.put(b"silence", b"").await.unwrap();
    let mut watching = endpoint.watch(revision, Cut::Here).await.unwrap();
    assert_eq!(up_to(&mut watching, revision).await.len(), 1);
    for _ in 0..2 {
        assert!(matches!(next(&mut watching).await, Watched::Progress { revision: r } if r == revision));
    }
    member.server().pause();
    let ended = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Err(error) = watching.next().await {
                return error;
            }
        }
    });
    let error = ended.await;
    member.server().resume();
    let error = error.expect("a watch on a silent member ends");
    assert_eq!(error.refusal(), Refusal::DeadlineExceeded, "{}", error.chain());
}

#[tokio::test]
async fn watches_know_users() {
    for version in versions() {
        let mut member = Plan::new(&version).single().await;
        let nobody = member.endpoint();
        let user = |name: &str| Credentials {
            user: name.into(),
            password: "password".into(),
        };
        let tells = minor(&version) >= 5;
        let before = nobody.auth_status().await.unwrap();
        assert_eq!(before.is_some(), tells, "{version}");
        assert!(before.is_none_or(|status| !status.enabled));
        nobody.user_add(&user("root")).await.unwrap();
        nobody.role_add("root").await.unwrap();
        nobody.user_grant_role(&user("root"), "root").await.unwrap();
        nobody.user_add(&user("guest")).await.unwrap();
        nobody.auth_enable().await.unwrap();

        let root = nobody.with_credentials(user("root"));
        let after = root.auth_status().await.unwrap();
        assert!(after.is_none_or(|status| status.enabled));
        assert!(after.map(|status| status.revision) > before.map(|status| status.revision) || !tells);
        let guest = nobody.with_credentials(user("guest"));
        for endpoint in [&nobody, &guest] {
            let error = endpoint.watch(2, Cut::Here).await.err().expect("it may not");
            assert!(
                matches!(error.refusal(), Refusal::PermissionDenied | Refusal::UserEmpty),
                "{}: {}",
                version,
                error.chain()
            );
        }
        let first = root.put(b"a", b"1").await.unwrap();
        let mut watching = root.watch(first, Cut::Here).await.unwrap();
        assert_eq!(up_to(&mut watching, first).await.len(), 1);
        // A change of users ends tokens, not watches.
        root.user_add(&user("another")).await.unwrap();
        let second = root.put(b"a", b"2").await.unwrap();
        assert_eq!(up_to(&mut watching, second).await.len(), 1);
        // A new watch with an old token, and with one that the member forgot.
        root.user_add(&user("a third")).await.unwrap();
        let mut watching = root.watch(second, Cut::Here).await.unwrap();
        assert_eq!(up_to(&mut watching, second).await.len(), 1);
        member.kill();
        member.start();
        member.await_quorum().await;
        let mut watching = root.watch(second, Cut::Here).await.unwrap();
        assert_eq!(up_to(&mut watching, second).await.len(), 1);
    }
}
