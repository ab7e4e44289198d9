//! A store that is reached over HTTP: one attempt of each call.
//!
//! In: names and bytes. Out: what the server answered, or a [`Failure`]. Who calls decides whether to try again.
//! Never: more bytes taken than were asked for, or an answer waited for without an end.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, GetResult, MultipartId, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, PutPayload,
};

use super::patience::Travel;
use super::trouble::{Failure, Whereabouts, not_implemented, status};
use super::{Created, Deleted, Found};
use crate::Trouble;

/// A bucket or container, and a prefix in it.
#[derive(Clone)]
pub(crate) struct Objects {
    pub store: Arc<dyn ObjectStore>,
    pub parts: Arc<dyn MultipartStore>,
    pub prefix: String,
    pub at: Whereabouts,
    pub stall: Duration,
}

impl Objects {
    fn path(&self, name: &str) -> Result<Path, Failure> {
        let full = match (self.prefix.as_str(), name) {
            ("", name) => name.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, name) => format!("{prefix}/{name}"),
        };
        Path::parse(&full).map_err(|error| Failure::other(error.to_string()))
    }

    fn failed(&self, error: &Error) -> Failure {
        Failure::of_object(&self.at, error)
    }

    /// `None`: the server does not know how to create without overwriting.
    pub async fn create(&self, name: &str, content: Bytes) -> Result<Option<Created>, Failure> {
        let options = PutOptions::from(PutMode::Create);
        let path = self.path(name)?;
        match self
            .store
            .put_opts(&path, PutPayload::from_bytes(content), options)
            .await
        {
            Ok(_) => Ok(Some(Created::New)),
            Err(error @ Error::AlreadyExists { .. }) => match self.failed(&error).trouble {
                // Of S3 a conflict says that another write is under way, not how it ends.
                Trouble::Throttled => Err(self.failed(&error)),
                Trouble::NoBucket | Trouble::Locked => Err(self.failed(&error)),
                _ if status(&error) == Some(409) && self.at.kind == "bucket" => Err(Failure::new(
                    Trouble::Throttled,
                    "another write of the same name is under way",
                )),
                _ => Ok(Some(Created::Exists)),
            },
            Err(Error::Precondition { .. }) => Ok(Some(Created::Exists)),
            Err(error) if not_implemented(&error) => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    pub async fn put(&self, name: &str, content: Bytes) -> Result<(), Failure> {
        let path = self.path(name)?;
        let put = self.store.put(&path, PutPayload::from_bytes(content)).await;
        put.map(drop).map_err(|error| self.failed(&error))
    }

    pub async fn get(&self, name: &str, limit: u64, travel: &Travel) -> Result<Bytes, Failure> {
        let path = self.path(name)?;
        let answer = self.store.get(&path).await.map_err(|error| self.failed(&error))?;
        let size = answer.meta.size;
        if size > limit {
            return Err(Failure::too_large(size, limit));
        }
        travel.set(size);
        self.body(answer, size).await
    }

    pub async fn get_range(
        &self,
        name: &str,
        start: u64,
        end: u64,
        travel: &Travel,
    ) -> Result<Bytes, Failure> {
        let path = self.path(name)?;
        let options = GetOptions {
            range: Some(GetRange::Bounded(start..end)),
            ..GetOptions::default()
        };
        let answer = self
            .store
            .get_opts(&path, options)
            .await
            .map_err(|error| self.failed(&error))?;
        if answer.range != (start..end) {
            let got = answer.range.end.saturating_sub(start);
            return Err(Failure::short(got, end - start));
        }
        travel.set(end - start);
        self.body(answer, end - start).await
    }

    /// The body of an answer, of exactly so many bytes, each piece of it in time.
    async fn body(&self, answer: GetResult, size: u64) -> Result<Bytes, Failure> {
        let mut stream = answer.into_stream();
        let mut whole: Option<Bytes> = None;
        let mut joined = BytesMut::new();
        let mut got = 0;
        while let Some(piece) = self.next(&mut stream).await? {
            got += piece.len() as u64;
            if got > size {
                return Err(Failure::other(format!(
                    "the server sends more than the {size} bytes it has"
                )));
            }
            match whole.take() {
                None if joined.is_empty() => whole = Some(piece),
                None => joined.extend_from_slice(&piece),
                Some(first) => {
                    joined.extend_from_slice(&first);
                    joined.extend_from_slice(&piece);
                }
            }
        }
        if got < size {
            let short = Failure::short(got, size).why;
            return Err(Failure::new(Trouble::Unreachable, short));
        }
        Ok(whole.unwrap_or_else(|| joined.freeze()))
    }

    async fn next<T>(
        &self,
        stream: &mut (impl Stream<Item = object_store::Result<T>> + Unpin),
    ) -> Result<Option<T>, Failure> {
        match tokio::time::timeout(self.stall, stream.next()).await {
            Ok(piece) => piece.transpose().map_err(|error| self.failed(&error)),
            Err(_) => Err(Failure::no_answer(self.stall)),
        }
    }

    pub async fn head(&self, name: &str) -> Result<Found, Failure> {
        let path = self.path(name)?;
        let meta = match self.store.head(&path).await {
            Ok(meta) => meta,
            Err(error) => match self.failed(&error) {
                // Such an answer has no body to say whether it is the object that is missing, or the bucket, or we.
                failure if matches!(failure.trouble, Trouble::Missing | Trouble::Denied) => {
                    let read = self.store.get(&path).await;
                    read.map_err(|error| self.failed(&error))?.meta
                }
                failure => return Err(failure),
            },
        };
        self.found(meta)
            .ok_or_else(|| Failure::other("the server answers for another object"))
    }

    /// Gives each object below a prefix to `each`, in the order of the server, until that says no.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        mut each: impl FnMut(Found) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let path = self.path(prefix)?;
        let path = (!path.as_ref().is_empty()).then_some(path);
        let mut stream = match after {
            Some(after) => self.store.list_with_offset(path.as_ref(), &self.path(after)?),
            None => self.store.list(path.as_ref()),
        };
        while let Some(meta) = self.next(&mut stream).await? {
            if let Some(found) = self.found(meta) {
                each(found)?;
            }
        }
        Ok(())
    }

    pub async fn delete(&self, name: &str) -> Result<Deleted, Failure> {
        let path = self.path(name)?;
        let Err(error) = self.store.delete(&path).await else {
            return Ok(Deleted::Gone);
        };
        let failure = self.failed(&error);
        match failure.trouble {
            Trouble::Missing => Ok(Deleted::Gone),
            Trouble::Locked => Ok(Deleted::Locked),
            _ => Err(failure),
        }
    }

    pub async fn begin_parts(&self, name: &str) -> Result<MultipartId, Failure> {
        let begun = self.parts.create_multipart(&self.path(name)?).await;
        begun.map_err(|error| self.failed(&error))
    }

    pub async fn put_part(
        &self,
        name: &str,
        id: &MultipartId,
        index: usize,
        data: Bytes,
    ) -> Result<PartId, Failure> {
        let payload = PutPayload::from_bytes(data);
        let put = self.parts.put_part(&self.path(name)?, id, index, payload).await;
        put.map_err(|error| self.failed(&error))
    }

    pub async fn complete(&self, name: &str, id: &MultipartId, parts: Vec<PartId>) -> Result<(), Failure> {
        let done = self.parts.complete_multipart(&self.path(name)?, id, parts).await;
        done.map(drop).map_err(|error| self.failed(&error))
    }

    pub async fn abort(&self, name: &str, id: &MultipartId) -> Result<(), Failure> {
        match self.parts.abort_multipart(&self.path(name)?, id).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// In this crate's terms. `None` if it is not below our prefix.
    fn found(&self, meta: ObjectMeta) -> Option<Found> {
        let full = meta.location.as_ref();
        let name = match self.prefix.as_str() {
            "" => full,
            prefix => full.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        Some(Found {
            name: name.to_owned(),
            size: meta.size,
            modified: jiff::Timestamp::from_millisecond(meta.last_modified.timestamp_millis()).ok()?,
        })
    }
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects")
            .field("at", &self.at)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
