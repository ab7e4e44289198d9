//! What every store does, whatever it is. Run against each real server, and against a directory.

use bytes::Bytes;
use quorate_backup::{Created, Deleted, Error, Found, Store, Trouble};

const MIB: usize = 1 << 20;

/// What a server does not do, though the real service does.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lacks {
    /// The second of two creations overwrites the first.
    pub create_only: bool,
}

/// Bytes that no other test has.
pub fn noise(size: usize, seed: u64) -> Bytes {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; size];
    random.fill(&mut bytes);
    Bytes::from(bytes)
}

pub fn names(found: &[Found]) -> Vec<&str> {
    found.iter().map(|found| found.name.as_str()).collect()
}

#[track_caller]
pub fn trouble<T: std::fmt::Debug>(answer: Result<T, Error>) -> Trouble {
    let error = answer.unwrap_err();
    error.trouble().unwrap_or_else(|| panic!("{error}"))
}

/// The whole table. The store is empty before and after.
pub async fn everything(store: &Store, lacks: Lacks) {
    assert_eq!(store.list("", None).await.unwrap(), []);
    whole_objects(store).await;
    creation(store, lacks).await;
    ranges(store).await;
    lists(store).await;
    names_that_are_none(store).await;
    // Nothing, little, one request, a part exactly, one byte more, and several parts.
    for size in [0, 1, MIB, 8 * MIB, 8 * MIB + 1, 40 * MIB] {
        upload(store, size).await;
    }
    given_up(store).await;
    for found in store.list("", None).await.unwrap() {
        assert_eq!(
            store.delete(&found.name).await.unwrap(),
            Deleted::Gone,
            "{}",
            found.name
        );
    }
    assert_eq!(store.list("", None).await.unwrap(), []);
}

async fn whole_objects(store: &Store) {
    let before = jiff::Timestamp::now();
    store.put("whole/one", noise(1000, 1)).await.unwrap();
    assert_eq!(store.get("whole/one", 1000).await.unwrap(), noise(1000, 1));
    let found = store.head("whole/one").await.unwrap();
    assert_eq!((found.name.as_str(), found.size), ("whole/one", 1000));
    // Servers keep whole seconds, and have clocks of their own.
    let slack = jiff::SignedDuration::from_mins(5);
    assert!(found.modified.duration_since(before).abs() < slack, "{found:?}");
    store.put("whole/one", noise(500, 2)).await.unwrap();
    assert_eq!(store.get("whole/one", 1000).await.unwrap(), noise(500, 2));
    assert_eq!(store.head("whole/one").await.unwrap().size, 500);

    let large = store.get("whole/one", 499).await.unwrap_err().to_string();
    assert!(large.contains("it has 500 bytes, and at most 499"), "{large}");

    store.put("whole/empty", Bytes::new()).await.unwrap();
    assert_eq!(store.get("whole/empty", 0).await.unwrap(), Bytes::new());

    let missing = store.get("whole/two", 10).await.unwrap_err();
    assert!(missing.is_missing(), "{missing}");
    assert!(missing.to_string().contains("whole/two"), "{missing}");
    assert!(missing.to_string().contains(store.describe()), "{missing}");
    assert_eq!(trouble(store.head("whole/two").await), Trouble::Missing);
    assert_eq!(
        trouble(store.get_range("whole/two", 0..1).await),
        Trouble::Missing
    );

    assert_eq!(store.delete("whole/one").await.unwrap(), Deleted::Gone);
    assert_eq!(store.delete("whole/one").await.unwrap(), Deleted::Gone);
    assert_eq!(trouble(store.get("whole/one", 1000).await), Trouble::Missing);
}

async fn creation(store: &Store, lacks: Lacks) {
    assert_eq!(store.create("new/a", noise(10, 3)).await.unwrap(), Created::New);
    let again = store.create("new/a", noise(10, 4)).await.unwrap();
    if lacks.create_only {
        assert_eq!(again, Created::New);
    } else {
        assert_eq!(again, Created::Exists);
        assert_eq!(
            store.get("new/a", 10).await.unwrap(),
            noise(10, 3),
            "the first stays"
        );
        // The same bytes are no excuse: nothing was unknown.
        assert_eq!(
            store.create("new/a", noise(10, 3)).await.unwrap(),
            Created::Exists
        );
        many_create_one(store).await;
    }
    store.delete("new/a").await.unwrap();
    assert_eq!(store.create("new/a", noise(10, 5)).await.unwrap(), Created::New);
}

/// Of many at once exactly one wins, and what is read is what it wrote.
async fn many_create_one(store: &Store) {
    let mut tasks = tokio::task::JoinSet::new();
    for seed in 100..116 {
        let store = store.clone();
        tasks.spawn(async move { (seed, store.create("new/race", noise(2000, seed)).await.unwrap()) });
    }
    let ends = tasks.join_all().await;
    let won: Vec<u64> = ends
        .iter()
        .filter(|end| end.1 == Created::New)
        .map(|end| end.0)
        .collect();
    assert_eq!(won.len(), 1, "{ends:?}");
    assert_eq!(store.get("new/race", 2000).await.unwrap(), noise(2000, won[0]));
}

async fn ranges(store: &Store) {
    let content = noise(10_000, 6);
    store.put("range/a", content.clone()).await.unwrap();
    let received = store.received();
    for range in [0..1, 0..10_000, 9_999..10_000, 5_000..7_000] {
        let wanted = content.slice(range.start as usize..range.end as usize);
        assert_eq!(
            store.get_range("range/a", range.clone()).await.unwrap(),
            wanted,
            "{range:?}"
        );
    }
    assert_eq!(store.get_range("range/a", 5..5).await.unwrap(), Bytes::new());
    for range in [9_999..10_001, 10_000..10_001, 20_000..20_001] {
        let short = store.get_range("range/a", range.clone()).await;
        assert_eq!(trouble(short), Trouble::Other, "{range:?}");
    }
    let huge = store
        .get_range("range/a", 0..u64::MAX)
        .await
        .unwrap_err()
        .to_string();
    assert!(huge.contains("too many at once"), "{huge}");
    assert_eq!(store.received() - received, 1 + 10_000 + 1 + 2_000);
}

async fn lists(store: &Store) {
    let all = ["x/etcd-2/b", "x/etcd/a", "x/etcd/a.b/c", "x/etcd/b", "x/etcd0"];
    for name in all {
        store.put(name, noise(name.len(), 7)).await.unwrap();
    }
    let found = store.list("x", None).await.unwrap();
    assert_eq!(names(&found), all);
    assert!(
        found.iter().all(|found| found.size == found.name.len() as u64),
        "{found:?}"
    );
    let below = ["x/etcd/a", "x/etcd/a.b/c", "x/etcd/b"];
    assert_eq!(names(&store.list("x/etcd", None).await.unwrap()), below);
    assert_eq!(names(&store.list("x/etcd/", None).await.unwrap()), below);
    assert_eq!(
        names(&store.list("x/etcd", Some("x/etcd/a")).await.unwrap()),
        below[1..]
    );
    assert_eq!(
        names(&store.list("x/etcd", Some("x/etcd/a.a")).await.unwrap()),
        below[1..]
    );
    assert_eq!(
        names(&store.list("x/etcd", Some("x/etcd/b")).await.unwrap()),
        [""; 0]
    );
    assert_eq!(
        names(&store.list("x/etcd-2", None).await.unwrap()),
        ["x/etcd-2/b"]
    );
    assert_eq!(names(&store.list("x/etc", None).await.unwrap()), [""; 0]);
    assert_eq!(
        names(&store.list("x/etcd0", None).await.unwrap()),
        [""; 0],
        "an object is no directory"
    );
}

async fn names_that_are_none(store: &Store) {
    for name in [
        "",
        "/a",
        "a/",
        "a//b",
        "../a",
        "a/../b",
        ".a",
        "a\nb",
        &"a".repeat(1000),
    ] {
        assert_eq!(
            trouble(store.put(name, Bytes::new()).await),
            Trouble::Other,
            "{name:?}"
        );
    }
}

async fn upload(store: &Store, size: usize) {
    let name = format!("up/{size}");
    let content = noise(size, size as u64);
    let mut upload = store.upload(&name).await.unwrap();
    // Pieces of odd sizes, as compression gives them.
    let mut rest = content.clone();
    while !rest.is_empty() {
        upload
            .write(rest.split_to(rest.len().min(777_777)))
            .await
            .unwrap();
    }
    assert_eq!(
        trouble(store.head(&name).await),
        Trouble::Missing,
        "not before it is whole"
    );
    assert_eq!(upload.finish().await.unwrap(), size as u64);
    assert_eq!(store.head(&name).await.unwrap().size, size as u64);
    assert!(
        store.get(&name, size as u64).await.unwrap() == content,
        "{size} bytes come back as they were"
    );
    let middle = size as u64 / 2..size as u64;
    let read = store.get_range(&name, middle.clone()).await.unwrap();
    assert!(
        read == content.slice(middle.start as usize..),
        "half of {size} bytes"
    );
}

/// Given up or dropped, an upload leaves nothing to see.
async fn given_up(store: &Store) {
    let mut upload = store.upload("up/aborted").await.unwrap();
    upload.write(noise(20 * MIB, 8)).await.unwrap();
    upload.abort().await.unwrap();
    let mut upload = store.upload("up/dropped").await.unwrap();
    upload.write(noise(20 * MIB, 9)).await.unwrap();
    drop(upload);
    let listed = store.list("up", None).await.unwrap();
    assert!(
        !names(&listed).iter().any(|name| name.contains("ed")),
        "{listed:?}"
    );
    assert_eq!(trouble(store.get("up/aborted", 10).await), Trouble::Missing);
    // The name can be used. Not for a creation: Azure's emulator counts parts that were sent and never put together.
    store.put("up/aborted", noise(3, 10)).await.unwrap();
    assert_eq!(store.get("up/aborted", 10).await.unwrap(), noise(3, 10));
}
