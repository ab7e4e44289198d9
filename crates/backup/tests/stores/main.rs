//! Stores, as real servers implement them: one table of what every store does, and what each does alone.

mod azure;
mod conformance;
mod file;
mod google;
mod s3;

use quorate_backup::{Store, StoreOptions, StoreUrl};

/// Opens a store by its address.
async fn open(url: &str) -> Store {
    open_with(url, &StoreOptions::default()).await
}

async fn open_with(url: &str, options: &StoreOptions) -> Store {
    Store::open(&StoreUrl::parse(url).unwrap(), options)
        .await
        .unwrap()
}
