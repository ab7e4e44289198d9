//! Stores: where archives are kept.
//!
//! In: an address (`file://`, `s3://`, `gs://`, `az://`). Out: objects by name, created once, read whole or in part,
//! listed in order, uploaded as they are made.
//! Never: a call without an end, more memory than was agreed, an object visible before it is whole, or an object that
//! was created twice without one of the two being told.

mod address;
mod credentials;
mod files;
mod listing;
mod objects;
mod open;
mod options;
mod patience;
mod probe;
mod root;
mod trouble;
mod trust;
mod upload;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;

use crate::{Error, Trouble};
use files::Files;
use objects::Objects;
use patience::{Limits, Travel, persist};
use trouble::Failure;

pub use address::StoreUrl;
pub use options::{Credentials, StoreOptions};
pub use probe::CreateOnly;
pub use upload::Upload;

/// How many objects are listed at most.
const LIST_LIMIT: usize = 2_000_000;
/// How much is read in one piece at most.
const RANGE_LIMIT: u64 = 1 << 30;

/// An open store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    describe: String,
    backend: Backend,
    limits: Limits,
    /// The server said once that it cannot create without overwriting.
    plain_puts: AtomicBool,
    /// Bytes of objects that were read.
    received: AtomicU64,
}

#[derive(Debug)]
enum Backend {
    Files(Files),
    Objects(Objects),
}

/// How creating an object ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    New,
    /// There was one of this name.
    Exists,
}

/// How deleting an object ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It is not there, now or before.
    Gone,
    /// The store keeps it: a lock or a retention rule is on it.
    Locked,
}

/// An object, from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Relative to the store.
    pub name: String,
    pub size: u64,
    /// When it was written, by the store's clock.
    pub modified: jiff::Timestamp,
}

impl Store {
    /// Opens a store. Nothing is asked of it yet, so whether it is there and knows us shows at the first call.
    pub async fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Store, Error> {
        open::open(url, options).await
    }

    fn new(describe: String, backend: Backend, options: &StoreOptions) -> Store {
        Store {
            shared: Arc::new(Shared {
                describe,
                backend,
                limits: Limits::of(options),
                plain_puts: AtomicBool::new(false),
                received: AtomicU64::new(0),
            }),
        }
    }

    /// The store's address, without its options, for messages.
    pub fn describe(&self) -> &str {
        &self.shared.describe
    }

    /// Bytes of objects that were read from it until now.
    pub fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Whether the second of two creations of one name fails here. It writes and removes an object below `probe/`.
    pub async fn probe(&self) -> Result<CreateOnly, Error> {
        probe::probe(self).await
    }

    /// Creates an object, unless there is one of this name. If it does not become known whether it was written, the
    /// object is read back: with these bytes it is ours. So bytes that two writers may write alike need something of
    /// their own in them.
    pub async fn create(&self, name: &str, content: Bytes) -> Result<Created, Error> {
        self.check("create", name)?;
        let unsure = AtomicBool::new(false);
        let travel = Travel::of(content.len() as u64);
        let created = persist(self.shared.limits, &travel, |_| async {
            // Before the attempt: one that is cut off by its time limit ends here without a word.
            let doubtful = unsure.swap(true, Ordering::Relaxed);
            match self.create_once(name, content.clone()).await? {
                Created::Exists if doubtful => self.compare(name, &content).await,
                created => Ok(created),
            }
        });
        created
            .await
            .map_err(|failure| self.error("create", name, failure))
    }

    async fn create_once(&self, name: &str, content: Bytes) -> Result<Created, Failure> {
        let objects = match &self.shared.backend {
            Backend::Files(files) => {
                let (files, name) = (files.clone(), name.to_owned());
                return blocking(move || files.create(&name, &content)).await;
            }
            Backend::Objects(objects) => objects,
        };
        if !self.has_plain_puts() {
            if let Some(created) = objects.create(name, content.clone()).await? {
                return Ok(created);
            }
            self.shared.plain_puts.store(true, Ordering::Relaxed);
        }
        // The best there is: the probe tells that this store has room for one writer only.
        match objects.head(name).await {
            Ok(_) => Ok(Created::Exists),
            Err(failure) if failure.trouble == Trouble::Missing => {
                objects.put(name, content).await.map(|()| Created::New)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Whether an object that is there is the one we may have written.
    async fn compare(&self, name: &str, ours: &Bytes) -> Result<Created, Failure> {
        let found = self.head_once(name).await?;
        if found.size != ours.len() as u64 {
            return Ok(Created::Exists);
        }
        let theirs = self.get_once(name, found.size, &Travel::default()).await?;
        match theirs == *ours {
            true => Ok(Created::New),
            false => Ok(Created::Exists),
        }
    }

    /// Writes an object, over one that is there.
    pub async fn put(&self, name: &str, content: Bytes) -> Result<(), Error> {
        self.check("write", name)?;
        let travel = Travel::of(content.len() as u64);
        let put = persist(self.shared.limits, &travel, |_| {
            self.put_once(name, content.clone())
        });
        put.await.map_err(|failure| self.error("write", name, failure))
    }

    async fn put_once(&self, name: &str, content: Bytes) -> Result<(), Failure> {
        match &self.shared.backend {
            Backend::Files(files) => {
                let (files, name) = (files.clone(), name.to_owned());
                blocking(move || files.put(&name, &content)).await
            }
            Backend::Objects(objects) => objects.put(name, content).await,
        }
    }

    /// Reads a whole object of at most `limit` bytes.
    pub async fn get(&self, name: &str, limit: u64) -> Result<Bytes, Error> {
        self.check("read", name)?;
        let travel = Travel::default();
        let get = persist(self.shared.limits, &travel, |_| {
            self.get_once(name, limit, &travel)
        });
        self.read(name, get.await)
    }

    async fn get_once(&self, name: &str, limit: u64, travel: &Travel) -> Result<Bytes, Failure> {
        match &self.shared.backend {
            Backend::Files(files) => {
                travel.set(limit.min(RANGE_LIMIT));
                let (files, name) = (files.clone(), name.to_owned());
                blocking(move || files.get(&name, limit)).await
            }
            Backend::Objects(objects) => objects.get(name, limit, travel).await,
        }
    }

    /// Reads exactly these bytes of an object; one that ends before is an error.
    pub async fn get_range(&self, name: &str, range: Range<u64>) -> Result<Bytes, Error> {
        self.check("read", name)?;
        let Range { start, end } = range;
        if start >= end {
            return Ok(Bytes::new());
        }
        if end - start > RANGE_LIMIT {
            let failure = Failure::other(format!("{} bytes are too many at once", end - start));
            return Err(self.error("read", name, failure));
        }
        let travel = &Travel::default();
        let get = persist(self.shared.limits, travel, |_| async move {
            match &self.shared.backend {
                Backend::Files(files) => {
                    travel.set(end - start);
                    let (files, name) = (files.clone(), name.to_owned());
                    blocking(move || files.get_range(&name, start, end)).await
                }
                Backend::Objects(objects) => objects.get_range(name, start, end, travel).await,
            }
        });
        self.read(name, get.await)
    }

    /// Looks at an object without reading it.
    pub async fn head(&self, name: &str) -> Result<Found, Error> {
        self.check("look at", name)?;
        let head = persist(self.shared.limits, Travel::none(), |_| self.head_once(name));
        head.await.map_err(|failure| self.error("look at", name, failure))
    }

    async fn head_once(&self, name: &str) -> Result<Found, Failure> {
        match &self.shared.backend {
            Backend::Files(files) => {
                let (files, name) = (files.clone(), name.to_owned());
                blocking(move || files.head(&name)).await
            }
            Backend::Objects(objects) => objects.head(name).await,
        }
    }

    /// Every object below a directory, `""` for all of them, sorted by name; of these those after a name.
    /// `x/etcd` does not include `x/etcd-2/…`, nor an object `x/etcd` itself.
    pub async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Found>, Error> {
        let prefix = prefix.trim_end_matches('/');
        let shown = if prefix.is_empty() { "everything" } else { prefix };
        if !prefix.is_empty() {
            self.check("list", prefix)?;
        }
        let listed = match &self.shared.backend {
            Backend::Files(files) => {
                let limits = self.shared.limits;
                persist(limits, Travel::none(), |_| {
                    let (files, prefix) = (files.clone(), prefix.to_owned());
                    blocking(move || files.list(&prefix))
                })
                .await
            }
            Backend::Objects(objects) => listing::list(objects, self.shared.limits, prefix, after).await,
        };
        let mut all = listed.map_err(|failure| self.error("list", shown, failure))?;
        if let Some(after) = after {
            all.retain(|found| found.name.as_str() > after);
        }
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Removes an object; one that is not there is gone too.
    pub async fn delete(&self, name: &str) -> Result<Deleted, Error> {
        self.check("delete", name)?;
        let delete = persist(self.shared.limits, Travel::none(), |_| async move {
            match &self.shared.backend {
                Backend::Files(files) => {
                    let (files, name) = (files.clone(), name.to_owned());
                    blocking(move || files.delete(&name)).await
                }
                Backend::Objects(objects) => objects.delete(name).await,
            }
        });
        delete
            .await
            .map_err(|failure| self.error("delete", name, failure))
    }

    /// Begins an object whose size is not known yet. It is not there until it is finished.
    pub async fn upload(&self, name: &str) -> Result<Upload, Error> {
        self.check("write", name)?;
        Upload::begin(self.clone(), name).await
    }

    /// Copies an object of another store here, under the same name, over one that is there. Its size in bytes.
    pub async fn copy_from(&self, other: &Store, name: &str) -> Result<u64, Error> {
        const PIECE: u64 = 8 << 20;
        let size = other.head(name).await?.size;
        let mut upload = self.upload(name).await?;
        let mut at = 0;
        while at < size {
            let end = size.min(at + PIECE);
            upload.write(other.get_range(name, at..end).await?).await?;
            at = end;
        }
        upload.finish().await
    }

    /// What came of reading an object.
    fn read(&self, name: &str, got: Result<Bytes, Failure>) -> Result<Bytes, Error> {
        let bytes = got.map_err(|failure| self.error("read", name, failure))?;
        self.shared
            .received
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes)
    }

    fn has_plain_puts(&self) -> bool {
        self.shared.plain_puts.load(Ordering::Relaxed)
    }

    fn check(&self, doing: &'static str, name: &str) -> Result<(), Error> {
        address::check_name(name).map_err(|why| self.error(doing, name, Failure::other(why)))
    }

    fn error(&self, doing: &'static str, object: &str, failure: Failure) -> Error {
        Error::Store {
            doing,
            object: object.to_owned(),
            store: self.shared.describe.clone(),
            trouble: failure.trouble,
            why: failure.why,
        }
    }
}

/// Runs what may wait for a disk where it disturbs nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Failure::other(error.to_string())),
    }
}
