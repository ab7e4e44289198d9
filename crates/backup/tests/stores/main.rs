//! Stores, as real servers implement them: one table of what every store does, one of what every store survives, and what
//! each does alone.
//!
//! Nothing here can stand for Google itself. Its emulator does not check who asks, has no retention rules, and does not
//! speak the API that writes: that is translated in `tools/fake-gcs-server`, so what a real bucket answers to a condition is
//! taken from its documentation. The probe shows it for the bucket at hand.

mod azure;
mod conformance;
mod faults;
mod file;
mod google;
mod locks;
mod power;
mod s3;
mod surroundings;

use std::time::Duration;

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

/// With little patience, for what cannot be reached: on a busy machine any answer may come later than that.
fn hasty() -> StoreOptions {
    StoreOptions {
        patience: Duration::from_secs(6),
        tries: 3,
        stall: Duration::from_secs(2),
        ..StoreOptions::default()
    }
}
