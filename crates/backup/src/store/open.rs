//! From an address to a store that can be asked.

use super::address::{Place, StoreUrl};
use super::files::Files;
use super::options::StoreOptions;
use super::{Backend, Store};
use crate::Error;

pub(super) async fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Store, Error> {
    let backend = match &url.place {
        Place::Directory(path) => Backend::Files(Files::new(path.clone())),
        _ => return Err(Error::refused("not yet", "use file://")),
    };
    Ok(Store::new(url.to_string(), backend, options))
}
