//! What every store survives, and how it fails when it does not. A proxy between us and a real server breaks things.

use std::time::Duration;

use quorate_backup::{Created, Deleted, Store, StoreOptions, Trouble};
use quorate_testkit::{Fault, Proxy, StoreServer};

use crate::conformance::{names, noise, trouble};
use crate::{hasty, open_with};

const MIB: usize = 1 << 20;
/// Longer than what gives up by itself takes, for a machine that has other things to do.
const IN_TIME: Duration = Duration::from_secs(60);
const BUSY: Fault = Fault::Answer {
    status: 503,
    code: "SlowDown",
};

/// The whole table, on a server of any kind with a bucket `bucket`.
pub async fn everything(server: &StoreServer) {
    let proxy = Proxy::start(server.address());
    let url = server.url_at(proxy.address(), "bucket", "faults");
    let store = open_with(&url, &StoreOptions::default()).await;
    throttled(&proxy, &store).await;
    cut_while_reading(&proxy, &store).await;
    unknown_outcomes(&proxy, &store).await;
    cut_while_uploading(&proxy, &store).await;
    slow(&proxy, &store).await;
    outage(&proxy, &open_with(&url, &hasty()).await).await;
    assert_eq!(
        store.get("slow", 1000).await.unwrap(),
        noise(1000, 8),
        "it is well again"
    );
    // Few tries, for what is to fail; all the time in the world, for what is not.
    let few_tries = StoreOptions {
        tries: 3,
        ..StoreOptions::default()
    };
    outage_while_uploading(&proxy, &open_with(&url, &few_tries).await).await;
    told_no(&proxy, &store).await;
}

/// A few refusals for being busy are waited out.
async fn throttled(proxy: &Proxy, store: &Store) {
    for (status, code) in [
        (503, "SlowDown"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
    ] {
        let before = proxy.struck();
        proxy.set_times(Fault::Answer { status, code }, 3);
        store.put("busy", noise(100, 1)).await.unwrap();
        assert_eq!(proxy.struck(), before + 3, "{status}");
    }
    proxy.set_times(BUSY, 1);
    assert_eq!(store.get("busy", 100).await.unwrap(), noise(100, 1));
    proxy.set_times(BUSY, 1);
    assert_eq!(store.head("busy").await.unwrap().size, 100);
    proxy.set_times(BUSY, 1);
    assert_eq!(names(&store.list("", None).await.unwrap()), ["busy"]);
    proxy.set_times(BUSY, 1);
    assert_eq!(
        store.create("busy-too", noise(10, 2)).await.unwrap(),
        Created::New
    );
    proxy.set_times(BUSY, 1);
    store.delete("busy-too").await.unwrap();
    // Another's conditional write was under way; that says nothing of how it ends.
    let conflict = Fault::Answer {
        status: 409,
        code: "ConditionalRequestConflict",
    };
    proxy.set_times(conflict, 1);
    assert_eq!(
        store.create("busy-too", noise(10, 2)).await.unwrap(),
        Created::New
    );
}

/// A connection that breaks in the middle of an object is made again.
async fn cut_while_reading(proxy: &Proxy, store: &Store) {
    let content = noise(3 * MIB, 3);
    store.put("cut", content.clone()).await.unwrap();
    for after in [0, 100, 200_000, 2 * MIB as u64] {
        let before = proxy.struck();
        proxy.set_times(Fault::CutAnswer { after }, 2);
        assert!(
            store.get("cut", 3 * MIB as u64).await.unwrap() == content,
            "after {after}"
        );
        assert_eq!(proxy.struck(), before + 2, "after {after}");
        proxy.set_times(Fault::CutAnswer { after }, 1);
        let range = store.get_range("cut", 1000..3 * MIB as u64).await.unwrap();
        assert!(range == content.slice(1000..), "after {after}");
    }
    proxy.heal();
}

/// What was written although the answer got lost is ours; what somebody else wrote is not.
async fn unknown_outcomes(proxy: &Proxy, store: &Store) {
    proxy.set_times(Fault::CutAnswer { after: 0 }, 1);
    assert_eq!(
        store.create("lost/answer", noise(50, 4)).await.unwrap(),
        Created::New
    );
    assert_eq!(store.get("lost/answer", 50).await.unwrap(), noise(50, 4));

    proxy.set_times(Fault::CutAnswer { after: 0 }, 2);
    assert_eq!(
        store.create("lost/answer", noise(50, 5)).await.unwrap(),
        Created::Exists
    );
    assert_eq!(store.get("lost/answer", 50).await.unwrap(), noise(50, 4));

    // The server never saw the whole of it.
    let large = noise(2 * MIB, 6);
    proxy.set_times(Fault::CutRequest { after: MIB as u64 }, 1);
    assert_eq!(
        store.create("lost/request", large.clone()).await.unwrap(),
        Created::New
    );
    assert!(store.get("lost/request", 2 * MIB as u64).await.unwrap() == large);

    proxy.set_times(Fault::CutAnswer { after: 0 }, 1);
    store.delete("lost/request").await.unwrap();
    assert_eq!(trouble(store.head("lost/request").await), Trouble::Missing);
}

/// Parts that break on their way are sent again, and so is the end.
async fn cut_while_uploading(proxy: &Proxy, store: &Store) {
    let content = noise(20 * MIB, 7);
    for (name, fault) in [
        (
            "up/request",
            Fault::CutRequest {
                after: 5 * MIB as u64,
            },
        ),
        ("up/answer", Fault::CutAnswer { after: 0 }),
        ("up/busy", BUSY),
    ] {
        let before = proxy.struck();
        proxy.set_times(fault, 3);
        let mut upload = store.upload(name).await.unwrap();
        upload.write(content.clone()).await.unwrap();
        assert_eq!(upload.finish().await.unwrap(), 20 * MIB as u64);
        assert_eq!(proxy.struck(), before + 3, "{name}");
        assert!(
            store.get(name, 20 * MIB as u64).await.unwrap() == content,
            "{name}"
        );
    }
    // The end itself: the parts are put together, and nobody hears of it.
    let mut upload = store.upload("up/end").await.unwrap();
    upload.write(content.clone()).await.unwrap();
    proxy.set_times(Fault::CutAnswer { after: 0 }, 2);
    assert_eq!(upload.finish().await.unwrap(), 20 * MIB as u64);
    assert!(store.get("up/end", 20 * MIB as u64).await.unwrap() == content);
}

async fn slow(proxy: &Proxy, store: &Store) {
    proxy.set(Fault::Latency(Duration::from_millis(150)));
    store.put("slow", noise(1000, 8)).await.unwrap();
    assert_eq!(store.get("slow", 1000).await.unwrap(), noise(1000, 8));
    proxy.heal();
}

/// An outage that lasts longer than the patience is an error, and nobody waits longer than agreed.
async fn outage(proxy: &Proxy, store: &Store) {
    for fault in [Fault::Refuse, Fault::Hang, BUSY] {
        let wanted = if fault == BUSY {
            Trouble::Throttled
        } else {
            Trouble::Unreachable
        };
        proxy.set(fault.clone());
        let calls = async {
            let (read, written, created, listed) = tokio::join!(
                store.get("slow", 1000),
                store.put("new", noise(10, 9)),
                store.create("new", noise(10, 9)),
                store.list("", None),
            );
            assert_eq!(trouble(read), wanted, "{fault:?}");
            assert_eq!(trouble(written), wanted, "{fault:?}");
            assert_eq!(trouble(created), wanted, "{fault:?}");
            assert_eq!(trouble(listed), wanted, "{fault:?}");
        };
        tokio::time::timeout(IN_TIME, calls)
            .await
            .expect("an error in time");
    }
    proxy.heal();
}

/// Nothing goes out any more, so nothing more may come in than memory was agreed for.
async fn outage_while_uploading(proxy: &Proxy, store: &Store) {
    let mut upload = store.upload("up/never").await.unwrap();
    upload.write(noise(12 * MIB, 10)).await.unwrap();
    proxy.set(Fault::Refuse);
    let mut taken = 12;
    let failed = async {
        loop {
            match upload.write(noise(MIB, 10)).await {
                Ok(()) => taken += 1,
                Err(error) => break error.trouble().unwrap(),
            }
        }
    };
    let failed = tokio::time::timeout(IN_TIME, failed)
        .await
        .expect("an error in time");
    assert_eq!(failed, Trouble::Unreachable);
    // The first part may have arrived; two on their way, and one that fills.
    assert!(taken <= 8 + 24, "{taken} MiB");
    proxy.heal();
    assert_eq!(trouble(store.head("up/never").await), Trouble::Missing);
}

/// Refusals that no patience helps against come at once, and are told apart.
async fn told_no(proxy: &Proxy, store: &Store) {
    for (status, code, wanted, advice) in [
        (507, "StorageFull", Trouble::Full, "make room"),
        (403, "QuotaExceeded", Trouble::Full, "make room"),
        (403, "AccessDenied", Trouble::Denied, "check the credentials"),
        (403, "RequestTimeTooSkewed", Trouble::Denied, "set its clock"),
        (404, "NoSuchBucket", Trouble::NoBucket, "create it"),
        (409, "BlobImmutableDueToPolicy", Trouble::Locked, "retention rule"),
        (418, "Teapot", Trouble::Other, "418, Teapot"),
    ] {
        let before = proxy.struck();
        proxy.set(Fault::Answer { status, code });
        let error = store.put("no", noise(10, 11)).await.unwrap_err();
        assert_eq!(error.trouble(), Some(wanted), "{error}");
        assert!(error.to_string().contains(advice), "{error}");
        assert_eq!(proxy.struck(), before + 1, "once is enough: {error}");
    }
    proxy.set(Fault::Answer {
        status: 409,
        code: "BlobImmutableDueToPolicy",
    });
    assert_eq!(store.delete("slow").await.unwrap(), Deleted::Locked);
    proxy.heal();
    assert_eq!(store.head("slow").await.unwrap().size, 1000);
}
