//! A store that is a directory, on a disk whose power goes or which fails at every operation.

use std::path::Path;

use bytes::Bytes;
use quorate_backup::{Created, Error, Found, Store, StoreOptions, StoreUrl, Trouble};
use quorate_testkit::disk::{Disk, Mount, every_cut, every_failure};

use crate::conformance::{names, noise};

const SEEDS: u64 = 10;
const NAME: &str = "log/000000000001.rec";

/// Runs a piece of work on the store in a directory.
fn with<T>(path: &Path, work: impl AsyncFnOnce(Store) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let url = StoreUrl::parse(&format!("file://{}/store", path.display())).unwrap();
        work(Store::open(&url, &StoreOptions::default()).await.unwrap()).await
    })
}

fn content() -> Bytes {
    noise(3 * 4096 + 1, 1)
}

/// What is there, each object read whole.
fn found(path: &Path) -> Vec<(String, Bytes)> {
    with(path, async |store| {
        let mut all = Vec::new();
        for Found { name, size, .. } in store.list("", None).await.unwrap() {
            let content = store.get(&name, size).await.unwrap();
            all.push((name, content));
        }
        all
    })
}

async fn upload(store: &Store, name: &str) -> Result<(), Error> {
    let mut upload = store.upload(name).await?;
    upload.write(content().slice(..5000)).await?;
    upload.write(content().slice(5000..)).await?;
    upload.finish().await.map(drop)
}

#[test]
fn an_object_is_there_whole_or_not_at_all() {
    let create = |path: &Path| {
        let created = with(path, async |store| store.create(NAME, content()).await.unwrap());
        assert_eq!(created, Created::New);
    };
    let uploaded = |path: &Path| with(path, async |store| upload(&store, NAME).await.unwrap());
    let works: [&dyn Fn(&Path); 2] = [&create, &uploaded];
    for act in works {
        let tally = every_cut(&Disk::new(), SEEDS, act, |cut, path| {
            let found = found(path);
            let whole = found == [(NAME.to_owned(), content())];
            assert!(
                whole || (found.is_empty() && !cut.is_after_the_end()),
                "{cut}: {}",
                found.len()
            );
        });
        // Three directories, a draft, its content, its name, and each of them synced.
        assert!(tally.operations >= 10, "{tally:?}");
    }
}

/// Of one that is overwritten, the old or the new.
#[test]
fn an_object_that_is_overwritten_is_there_all_along() {
    let mount = Mount::of(&Disk::new()).unwrap();
    with(mount.path(), async |store| {
        store.put("alive.json", noise(10, 2)).await.unwrap()
    });
    let mut start = mount.disk();
    start.sync();
    every_cut(
        &start,
        SEEDS,
        |path| {
            with(path, async |store| {
                store.put("alive.json", content()).await.unwrap()
            })
        },
        |cut, path| {
            let found = found(path);
            assert_eq!(found.len(), 1, "{cut}");
            let (old, new) = (found[0].1 == noise(10, 2), found[0].1 == content());
            assert!(new || (old && !cut.is_after_the_end()), "{cut}");
        },
    );
}

#[test]
fn a_disk_that_fails_is_an_error_and_leaves_no_half_object() {
    every_failure(
        &Disk::new(),
        |path| with(path, async |store| store.create(NAME, content()).await),
        |failed, result, path| {
            assert!(failed.is_some() || result.is_ok(), "{result:?}");
            let found = found(path);
            let whole = found == [(NAME.to_owned(), content())];
            assert!(whole || (found.is_empty() && result.is_err()), "{result:?}");
        },
    );
}

#[test]
fn a_full_disk_says_so_and_takes_small_things_again() {
    let mount = Mount::of(&Disk::new()).unwrap();
    mount.limit(2 * 4096);
    with(mount.path(), async |store| {
        let error = store.create("large", content()).await.unwrap_err();
        assert_eq!(error.trouble(), Some(Trouble::Full), "{error}");
        assert!(
            error.to_string().contains("make room, or prune the archive"),
            "{error}"
        );
        let error = upload(&store, "larger").await.unwrap_err();
        assert_eq!(error.trouble(), Some(Trouble::Full), "{error}");
        // What did not fit takes no room.
        store.create("small", noise(4096, 3)).await.unwrap();
        assert_eq!(names(&store.list("", None).await.unwrap()), ["small"]);
    });
}
