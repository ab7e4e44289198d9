//! Objects out of a store, read from front to back by threads that know nothing of its waiting.
//!
//! In: a store, and the runtime that its calls run on. Out: an object's bytes, the next piece fetched while one is used.
//! It is for threads outside of the runtime: one inside would wait for itself.
//! Never: more of an object in memory than two pieces; an end before all bytes came that the listing promised.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::list::{Listing, Object};
use super::rows::Open;
use crate::{Error, Store};

const PIECE: u64 = 2 << 20;

/// A store that etcdbrctl's objects lie in.
#[derive(Debug, Clone)]
pub struct StoreObjects {
    store: Store,
    runtime: Handle,
}

impl StoreObjects {
    /// Of `store`; its calls run on the runtime that this is called on.
    pub fn new(store: &Store) -> StoreObjects {
        StoreObjects {
            store: store.clone(),
            runtime: Handle::current(),
        }
    }
}

impl Listing {
    /// What lies in a store, given with or without the `v2` at the end of its address.
    pub async fn read(store: &Store) -> Result<Listing, Error> {
        let found = store.list("", None).await?;
        Ok(Listing::of(
            found.into_iter().map(|found| (found.name, found.size)),
        ))
    }
}

impl Open for StoreObjects {
    fn open(&self, object: &Object) -> Result<Box<dyn Read + Send>, Error> {
        let mut pieces = Pieces {
            objects: self.clone(),
            key: object.key.clone(),
            size: object.size,
            asked: 0,
            coming: None,
            held: Bytes::new(),
        };
        pieces.ask();
        Ok(Box::new(pieces))
    }
}

/// An object being read.
struct Pieces {
    objects: StoreObjects,
    key: String,
    size: u64,
    asked: u64,
    coming: Option<JoinHandle<Result<Bytes, Error>>>,
    held: Bytes,
}

impl Pieces {
    fn ask(&mut self) {
        let end = self.asked.saturating_add(PIECE).min(self.size);
        if self.asked < end {
            let (store, key, range) = (self.objects.store.clone(), self.key.clone(), self.asked..end);
            let get = async move { store.get_range(&key, range).await };
            self.coming = Some(self.objects.runtime.spawn(get));
            self.asked = end;
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.held.is_empty()
            && let Some(coming) = self.coming.take()
        {
            let came = self.objects.runtime.block_on(coming);
            self.held = came.map_err(io::Error::other)?.map_err(io::Error::other)?;
            self.ask();
        }
        let length = self.held.len().min(into.len());
        let (now, _) = into.split_at_mut(length);
        self.held.copy_to_slice(now);
        Ok(length)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if let Some(coming) = self.coming.take() {
            coming.abort();
        }
    }
}
