//! Azure, as its own emulator implements it.

use quorate_backup::{CreateOnly, Credentials, StoreOptions, Trouble};
use quorate_testkit::{StoreKind, StoreServer};

use crate::conformance::{self, Lacks, noise};
use crate::{faults, open, open_with};

#[tokio::test]
async fn it_does_and_survives_what_every_store_does() {
    let server = StoreServer::start(StoreKind::Azure);
    server.make_bucket("bucket");
    let store = open(&server.url("bucket", "some/prefix")).await;
    assert_eq!(store.probe().await.unwrap(), CreateOnly::Kept);
    conformance::everything(&store, Lacks::default()).await;
    faults::everything(&server).await;
    refusals(&server).await;
}

/// Wrong credentials and wrong containers.
async fn refusals(server: &StoreServer) {
    // "not the right key", in base64.
    let secret = "bm90IHRoZSByaWdodCBrZXk=";
    let options = StoreOptions {
        credentials: Some(Credentials::Azure {
            account: Some("quorate".into()),
            key: secret.into(),
        }),
        ..StoreOptions::default()
    };
    let store = open_with(&server.url("bucket", "x"), &options).await;
    for error in [
        store.get("a", 1).await.unwrap_err(),
        store.create("a", noise(1, 1)).await.unwrap_err(),
        store.list("", None).await.unwrap_err(),
    ] {
        assert_eq!(error.trouble(), Some(Trouble::Denied), "{error}");
        assert!(error.to_string().contains("check the credentials"), "{error}");
        assert!(!format!("{error:?}").contains(secret), "{error:?}");
    }
    let store = open(&server.url("no-such-container", "x")).await;
    for error in [
        store.get("a", 1).await.unwrap_err(),
        store.create("a", noise(1, 1)).await.unwrap_err(),
        store.list("", None).await.unwrap_err(),
    ] {
        assert_eq!(error.trouble(), Some(Trouble::NoBucket), "{error}");
        assert!(
            error.to_string().contains("has no container no-such-container"),
            "{error}"
        );
    }
}
