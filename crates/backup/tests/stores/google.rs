//! Google, as far as an emulator shows it.

use quorate_backup::{CreateOnly, Trouble};
use quorate_testkit::{StoreKind, StoreServer};

use crate::conformance::{self, Lacks, noise};
use crate::{faults, open};

#[tokio::test]
async fn it_does_and_survives_what_every_store_does() {
    let server = StoreServer::start(StoreKind::Google);
    server.make_bucket("bucket");
    let store = open(&server.url("bucket", "some/prefix")).await;
    assert_eq!(store.probe().await.unwrap(), CreateOnly::Kept);
    conformance::everything(&store, Lacks::default()).await;
    faults::everything(&server).await;
    let store = open(&server.url("no-such-bucket", "x")).await;
    let error = store.create("a", noise(1, 1)).await.unwrap_err();
    assert_eq!(error.trouble(), Some(Trouble::NoBucket), "{error}");
}

/// A store in which every write overwrites is found out, and does everything else.
#[tokio::test]
async fn a_store_that_forgets_conditions_is_found_out() {
    let server = StoreServer::start(StoreKind::Forgetful);
    server.make_bucket("bucket");
    let store = open(&server.url("bucket", "x")).await;
    assert_eq!(store.probe().await.unwrap(), CreateOnly::Ignored);
    let lacks = Lacks { create_only: true };
    conformance::everything(&store, lacks).await;
}
