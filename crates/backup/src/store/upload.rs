//! An object written as it is made.
//!
//! In: bytes, piece by piece. Out: one object, there whole once it is finished, never before.
//! Never: more than 32 MiB in memory. A small object is one plain request. A larger one goes in parts of 8 MiB, two on
//! their way while the third fills; a very large one in parts of 16 MiB, one on its way, for at most 10,000 parts.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use object_store::MultipartId;
use object_store::multipart::PartId;
use tokio::task::JoinSet;

use super::files::{Draft, Replace};
use super::objects::Objects;
use super::patience::{Limits, Travel, persist};
use super::trouble::Failure;
use super::{Backend, Store, blocking};
use crate::{Error, Trouble};

const MIB: usize = 1 << 20;
/// So many parts are small; with the rest an object may have 117 GiB.
const SMALL_PARTS: usize = 5_000;
const PARTS: usize = 10_000;
/// How long parts of an upload that is given up may go on.
const ARRIVAL: Duration = Duration::from_secs(10);

fn part_size(index: usize) -> usize {
    if index < SMALL_PARTS { 8 * MIB } else { 16 * MIB }
}

fn at_once(index: usize) -> usize {
    if index < SMALL_PARTS { 2 } else { 1 }
}

/// An object on its way. Dropped, it is given up.
#[derive(Debug)]
pub struct Upload {
    store: Store,
    name: String,
    written: u64,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// To a file. `None` while a write is under way, and for good after one that was cut short.
    Draft(Option<Draft>),
    Parts(Box<Parts>),
    Done,
}

impl Upload {
    pub(super) async fn begin(store: Store, name: &str) -> Result<Upload, Error> {
        let way = match &store.shared.backend {
            Backend::Files(files) => {
                let (files, own) = (files.clone(), name.to_owned());
                let begun = blocking(move || files.draft(&own)).await;
                let draft = begun.map_err(|failure| store.error("write", name, failure))?;
                Way::Draft(Some(draft))
            }
            Backend::Objects(objects) => Way::Parts(Box::new(Parts {
                objects: objects.clone(),
                limits: store.shared.limits,
                name: name.to_owned(),
                filling: BytesMut::new(),
                id: None,
                next: 0,
                under_way: JoinSet::new(),
                done: Vec::new(),
            })),
        };
        Ok(Upload {
            store,
            name: name.to_owned(),
            written: 0,
            way,
        })
    }

    /// Adds bytes. After an error nothing but giving up is left.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(MIB));
            self.written += piece.len() as u64;
            let put = match &mut self.way {
                Way::Draft(slot) => write_draft(slot, piece).await,
                Way::Parts(parts) => parts.write(&piece).await,
                Way::Done => Err(broken()),
            };
            if let Err(failure) = put {
                let error = self.store.error("write", &self.name, failure);
                self.give_up().await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes it an object. Its size in bytes.
    pub async fn finish(mut self) -> Result<u64, Error> {
        let size = self.written;
        let done = match &mut self.way {
            Way::Draft(slot) => match slot.take() {
                Some(draft) => blocking(move || draft.publish(Replace::Yes).map(drop)).await,
                None => Err(broken()),
            },
            Way::Parts(parts) => parts.finish(&self.store, size).await,
            Way::Done => Err(broken()),
        };
        match done {
            Ok(()) => {
                self.way = Way::Done;
                Ok(size)
            }
            Err(failure) => {
                let error = self.store.error("write", &self.name, failure);
                self.give_up().await;
                Err(error)
            }
        }
    }

    /// Gives it up, and takes back what was sent.
    pub async fn abort(mut self) -> Result<(), Error> {
        let Way::Parts(parts) = &mut self.way else {
            self.way = Way::Done;
            return Ok(());
        };
        let aborted = parts.abort().await;
        self.way = Way::Done;
        aborted.map_err(|failure| self.store.error("give up writing", &self.name, failure))
    }

    /// As [`Upload::abort`], where something failed already and is what counts.
    async fn give_up(&mut self) {
        if let Way::Parts(parts) = &mut self.way {
            let _ = parts.abort().await;
        }
        self.way = Way::Done;
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Way::Parts(parts) = std::mem::replace(&mut self.way, Way::Done) else {
            return;
        };
        // What stays behind is invisible; a rule of the bucket's that removes unfinished uploads takes care of it.
        if let (Some(_), Ok(runtime)) = (&parts.id, tokio::runtime::Handle::try_current()) {
            let mut parts = parts;
            drop(runtime.spawn(async move { parts.abort().await }));
        }
    }
}

fn broken() -> Failure {
    Failure::other("a write before it was cut short")
}

async fn write_draft(slot: &mut Option<Draft>, piece: Bytes) -> Result<(), Failure> {
    let mut draft = slot.take().ok_or_else(broken)?;
    let draft = blocking(move || draft.write(&piece).map(|()| draft)).await?;
    *slot = Some(draft);
    Ok(())
}

#[derive(Debug)]
struct Parts {
    objects: Objects,
    limits: Limits,
    name: String,
    filling: BytesMut,
    id: Option<Arc<MultipartId>>,
    next: usize,
    under_way: JoinSet<Result<(usize, PartId), Failure>>,
    done: Vec<(usize, PartId)>,
}

impl Parts {
    async fn write(&mut self, mut piece: &[u8]) -> Result<(), Failure> {
        while !piece.is_empty() {
            let size = part_size(self.next);
            // Only with bytes beyond it is a full part sent: what is left at the end must not be empty.
            if self.filling.len() == size {
                self.send().await?;
                continue;
            }
            let fits = piece.len().min(size - self.filling.len());
            self.filling.extend_from_slice(&piece[..fits]);
            piece = &piece[fits..];
        }
        Ok(())
    }

    /// Sends what has filled up, once there is room on the way.
    async fn send(&mut self) -> Result<(), Failure> {
        if self.next >= PARTS {
            return Err(Failure::new(
                Trouble::Full,
                format!("it has more than {PARTS} parts, and no store takes more"),
            ));
        }
        while self.under_way.len() >= at_once(self.next) {
            self.arrive().await?;
        }
        let id = match &self.id {
            Some(id) => id.clone(),
            None => {
                let begun = persist(self.limits, Travel::none(), |_| {
                    self.objects.begin_parts(&self.name)
                })
                .await?;
                self.id.insert(Arc::new(begun)).clone()
            }
        };
        let (objects, name, limits, index) =
            (self.objects.clone(), self.name.clone(), self.limits, self.next);
        let data = std::mem::take(&mut self.filling).freeze();
        self.next += 1;
        self.under_way.spawn(async move {
            let travel = Travel::of(data.len() as u64);
            let put = persist(limits, &travel, |_| {
                objects.put_part(&name, &id, index, data.clone())
            });
            put.await.map(|part| (index, part))
        });
        Ok(())
    }

    /// Waits for one part that is on its way.
    async fn arrive(&mut self) -> Result<(), Failure> {
        match self.under_way.join_next().await {
            Some(Ok(part)) => self.done.push(part?),
            Some(Err(error)) => return Err(Failure::other(error.to_string())),
            None => {}
        }
        Ok(())
    }

    async fn finish(&mut self, store: &Store, size: u64) -> Result<(), Failure> {
        if self.id.is_none() {
            let content = std::mem::take(&mut self.filling).freeze();
            let travel = Travel::of(size);
            let put = persist(self.limits, &travel, |_| {
                self.objects.put(&self.name, content.clone())
            });
            return put.await;
        }
        self.send().await?;
        while !self.under_way.is_empty() {
            self.arrive().await?;
        }
        self.done.sort_by_key(|(index, _)| *index);
        let Some(id) = self.id.clone() else {
            return Err(broken());
        };
        let parts: Vec<PartId> = self.done.iter().map(|(_, part)| part.clone()).collect();
        persist(self.limits, Travel::none(), |n| {
            let (parts, id) = (parts.clone(), id.clone());
            let (objects, name) = (&self.objects, &self.name);
            async move {
                match objects.complete(name, &id, parts).await {
                    // It may have been put together although the answer got lost.
                    Err(failure) if n > 1 && failure.trouble != Trouble::Unreachable => {
                        match store.head_once(name).await {
                            Ok(found) if found.size == size => Ok(()),
                            _ => Err(failure),
                        }
                    }
                    other => other,
                }
            }
        })
        .await?;
        self.id = None;
        Ok(())
    }

    async fn abort(&mut self) -> Result<(), Failure> {
        self.filling = BytesMut::new();
        let Some(id) = self.id.take() else { return Ok(()) };
        // A part that the server has half of when its upload is given up may stay, so those on their way may arrive.
        let arrivals = async { while self.under_way.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(ARRIVAL, arrivals).await;
        self.under_way.shutdown().await;
        persist(self.limits, Travel::none(), |_| {
            self.objects.abort(&self.name, &id)
        })
        .await
    }
}
