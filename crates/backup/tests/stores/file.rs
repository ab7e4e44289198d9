//! A store that is a directory.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bytes::Bytes;
use quorate_backup::{CreateOnly, Created, Store, StoreOptions, StoreUrl, Trouble};

use crate::conformance::{self, Lacks, names, noise, trouble};

async fn open(directory: &Path) -> Store {
    let url = StoreUrl::parse(&format!("file://{}", directory.display())).unwrap();
    Store::open(&url, &StoreOptions::default()).await.unwrap()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_directory_does_what_every_store_does() {
    let home = tempfile::tempdir().unwrap();
    let store = open(&home.path().join("made/by/the first write")).await;
    assert_eq!(store.probe().await.unwrap(), CreateOnly::Kept);
    conformance::everything(&store, Lacks::default()).await;
}

#[tokio::test]
async fn the_first_write_makes_the_directory_for_us_alone() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("a/b");
    let store = open(&root).await;
    let missing = store.get("x", 1).await.unwrap_err();
    assert!(missing.is_missing(), "{missing}");
    assert!(missing.to_string().contains("there is no directory"), "{missing}");
    assert_eq!(store.list("", None).await.unwrap(), []);
    assert!(!root.exists(), "reading makes nothing");
    store.create("c/d", Bytes::from_static(b"x")).await.unwrap();
    let mut upload = store.upload("c/e").await.unwrap();
    upload.write(noise(10, 1)).await.unwrap();
    upload.finish().await.unwrap();
    assert_eq!(mode(&root), 0o700);
    assert_eq!(mode(&root.join("c")), 0o700);
    assert_eq!(mode(&root.join("c/d")), 0o600);
    assert_eq!(mode(&root.join("c/e")), 0o600);
}

/// What a crash leaves is a draft, and a draft is no object.
#[tokio::test]
async fn what_a_crash_leaves_is_not_seen() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path()).await;
    store.create("a", noise(10, 1)).await.unwrap();
    let drafts = home.path().join(".drafts");
    assert_eq!(
        drafts.read_dir().unwrap().count(),
        0,
        "nothing is left of what went well"
    );
    let mut upload = store.upload("b").await.unwrap();
    upload.write(noise(10, 2)).await.unwrap();
    assert_eq!(drafts.read_dir().unwrap().count(), 1);
    std::mem::forget(upload);
    assert_eq!(names(&store.list("", None).await.unwrap()), ["a"]);
    assert_eq!(store.create("b", noise(10, 3)).await.unwrap(), Created::New);
}

#[tokio::test]
async fn what_is_in_the_way_is_named() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), "x").unwrap();
    let store = open(&home.path().join("file")).await;
    let error = store.create("a", Bytes::new()).await.unwrap_err();
    assert_eq!(error.trouble(), Some(Trouble::NoBucket), "{error}");
    assert!(
        error
            .to_string()
            .contains("is a file where a directory should be"),
        "{error}"
    );
    assert_eq!(trouble(store.get("a", 1).await), Trouble::NoBucket);
}
