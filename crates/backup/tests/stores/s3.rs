//! S3.

use quorate_backup::CreateOnly;
use quorate_workloads::{StoreKind, StoreServer};

use crate::conformance::{self, Lacks};
use crate::open;

#[tokio::test]
async fn it_does_what_every_store_does() {
    let server = StoreServer::start(StoreKind::S3);
    server.make_bucket("bucket");
    let store = open(&server.url("bucket", "some/prefix")).await;
    assert_eq!(store.probe().await.unwrap(), CreateOnly::Kept);
    conformance::everything(&store, Lacks::default()).await;
}
