//! Where an archive is, as the command line says it.

use std::path::{Path, PathBuf};

use quorate_backup::etcdbr::Listing;
use quorate_backup::object::Key;
use quorate_backup::{Archive, Store, StoreOptions, StoreUrl};

use crate::arguments::backup::Place;
use crate::failure::Failure;

/// The key file, if one is named.
pub fn key(place: &Place) -> Result<Option<Key>, Failure> {
    Ok(place.key_file.as_deref().map(Key::read).transpose()?)
}

/// Opens the store at `url`. Nothing is asked of it yet.
pub async fn store(url: &str, place: &Place) -> Result<Store, Failure> {
    let url = StoreUrl::parse(url).map_err(|error| Failure::usage(error.to_string()))?;
    let options = StoreOptions {
        patience: place.patience,
        ..StoreOptions::default()
    };
    Ok(Store::open(&url, &options).await?)
}

/// Opens the archive that was named.
pub async fn archive(place: &Place) -> Result<Archive, Failure> {
    let key = key(place)?;
    let store = store(&place.url, place).await?;
    Ok(Archive::open(&store, key).await?)
}

/// What lies at an address.
pub enum Found {
    /// An archive of ours.
    Ours(Archive),
    /// One that etcdbrctl wrote.
    Etcdbr(Store, Listing),
}

/// Opens the archive that was named, ours or etcdbrctl's.
pub async fn found(place: &Place) -> Result<Found, Failure> {
    let key = key(place)?;
    let store = store(&place.url, place).await?;
    if let Some(archive) = Archive::find(&store, key.clone()).await? {
        return Ok(Found::Ours(archive));
    }
    let listing = Listing::read(&store).await?;
    match listing.is_empty() {
        true => Ok(Found::Ours(Archive::open(&store, key).await?)),
        false => Ok(Found::Etcdbr(store, listing)),
    }
}

/// Who writes into an archive: this host, this process.
pub fn writer() -> String {
    crate::arguments::whoami()
}

/// Where a database may be put together.
pub fn scratch(named: Option<&Path>) -> PathBuf {
    named.map_or_else(std::env::temp_dir, Path::to_owned)
}
