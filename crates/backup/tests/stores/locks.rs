//! Objects that a store keeps under a lock: prune tells them, and tries again next time.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use quorate_backup::prune::{Options, plan, run};
use quorate_backup::record::{Entry, Prune};
use quorate_backup::{Archive, names};
use quorate_testkit::{Fault, Proxy, StoreKind, StoreServer};

use super::open;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_locked_is_told_and_goes_next_time() {
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("locks");
    let proxy = Proxy::start(server.address());
    let store = open(&server.url_at(proxy.address(), "locks", "etcd")).await;
    let now = Timestamp::now();
    let mut archive = Archive::open_or_begin(&store, None, now).await.unwrap();
    archive.begin_timeline(7, None, "a test", now).await.unwrap();
    let objects = ["a", "b"].map(|unique| names::delta(1, 2, 3, unique));
    for name in &objects {
        store.put(name, Bytes::from_static(b"rows")).await.unwrap();
    }
    let mut log = archive.log(1, "a test").await.unwrap();
    let given_up = Prune {
        objects: objects.to_vec(),
        delete_after: now,
        why: "a test".to_owned(),
    };
    log.append(Entry::Prune(given_up), now).await.unwrap();
    log.say_head(0, now).await.unwrap();
    let options = Options {
        retention: None,
        grace: Duration::from_secs(3600),
        writer: "a test".to_owned(),
    };
    let planned = plan(&archive, &options, now).await.unwrap();
    assert_eq!(planned.due.len(), 2);
    proxy.set(Fault::Answer {
        status: 409,
        code: "BlobImmutableDueToPolicy",
    });
    let done = run(&archive, &options, &planned, now, |_| Ok(())).await.unwrap();
    let mut locked = done.locked.clone();
    locked.sort();
    assert_eq!((locked, done.deleted.objects), (objects.to_vec(), 0));
    proxy.heal();
    let planned = plan(&archive, &options, now).await.unwrap();
    let done = run(&archive, &options, &planned, now, |_| Ok(())).await.unwrap();
    assert_eq!((done.locked.len(), done.deleted.objects), (0, 2));
    assert!(store.list("t/00000001/delta", None).await.unwrap().is_empty());
}
