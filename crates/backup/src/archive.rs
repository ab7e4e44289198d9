//! An archive: one cluster's history under one prefix of a store.
//!
//! In: a store, and the key if objects are encrypted. Out: its identity, its timelines, their logs. A timeline is the
//! history of one etcd cluster id; a cluster that was restored goes on in a new one.
//! Never: two clusters' histories in one timeline; an archive made where something else is.

use bytes::Bytes;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::format::object::Key;
use crate::format::{lines, names};
use crate::log::{History, Log};
use crate::store::Created;
use crate::{Error, Store};

/// The layout that this version writes.
pub const FORMAT: u32 = 1;
/// The longest that the small objects here may be.
const SMALL: u64 = 1 << 20;
/// Timelines that an archive may have: a cluster is not restored every day.
const TIMELINES_MAX: u32 = 100_000;

/// What an archive is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    pub format: u32,
    /// Its own random name.
    pub id: String,
    /// When it was made.
    pub created: Timestamp,
}

/// Where a timeline comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Its number; the first is 1.
    pub timeline: u32,
    /// The id of the etcd cluster, as etcd prints it: hexadecimal.
    pub cluster_id: String,
    /// When it was begun.
    pub created: Timestamp,
    /// What it was restored from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Point>,
    /// Why it was begun.
    pub why: String,
}

impl Origin {
    pub fn cluster(&self) -> Option<u64> {
        u64::from_str_radix(&self.cluster_id, 16).ok()
    }
}

/// A point of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    pub timeline: u32,
    pub revision: i64,
}

/// The mark that a cluster was made from this archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    pub from: Point,
    pub at: Timestamp,
}

/// An archive that was opened.
#[derive(Clone)]
pub struct Archive {
    store: Store,
    key: Option<Key>,
    identity: Identity,
    timelines: Vec<Origin>,
}

impl Archive {
    /// Opens the archive in `store`, if there is one.
    pub async fn find(store: &Store, key: Option<Key>) -> Result<Option<Archive>, Error> {
        let Some(identity) = read_small::<Identity>(store, names::IDENTITY).await? else {
            return match store.list(names::TIMELINES, None).await?.is_empty() {
                true => Ok(None),
                false => Err(Error::damaged(
                    names::IDENTITY,
                    "it is gone, and the rest of the archive is there",
                )),
            };
        };
        if identity.format != FORMAT {
            return Err(Error::refused(
                format!(
                    "the archive in {} has layout {}",
                    store.describe(),
                    identity.format
                ),
                format!("this quorate reads layout {FORMAT}; use the version that wrote it, or a newer one"),
            ));
        }
        let mut archive = Archive {
            store: store.clone(),
            key,
            identity,
            timelines: Vec::new(),
        };
        archive.read_timelines().await?;
        Ok(Some(archive))
    }

    /// Opens the archive in `store`; refused if there is none.
    pub async fn open(store: &Store, key: Option<Key>) -> Result<Archive, Error> {
        Archive::find(store, key).await?.ok_or_else(|| {
            Error::refused(
                format!("there is no archive in {}", store.describe()),
                "check the address; `quorate backup run URL` begins one",
            )
        })
    }

    /// Opens the archive in `store`, or begins one.
    pub async fn open_or_begin(store: &Store, key: Option<Key>, now: Timestamp) -> Result<Archive, Error> {
        if let Some(archive) = Archive::find(store, key.clone()).await? {
            return Ok(archive);
        }
        let identity = Identity {
            format: FORMAT,
            id: names::unique(),
            created: now,
        };
        // If another one was faster, it is that one's.
        store
            .create(names::IDENTITY, Bytes::from(lines::write(&identity).0))
            .await?;
        Archive::open(store, key).await
    }

    async fn read_timelines(&mut self) -> Result<(), Error> {
        self.timelines.clear();
        for number in 1..=TIMELINES_MAX {
            match read_small::<Origin>(&self.store, &names::origin(number)).await? {
                Some(origin) if origin.timeline == number => self.timelines.push(origin),
                Some(_) => return Err(Error::damaged(names::origin(number), "it is another timeline's")),
                None => break,
            }
        }
        Ok(())
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The key of its objects.
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its timelines, oldest first.
    pub fn timelines(&self) -> &[Origin] {
        &self.timelines
    }

    pub fn newest(&self) -> Option<&Origin> {
        self.timelines.last()
    }

    /// This timeline; the newest if none is named. Refused if there is none.
    pub fn timeline(&self, number: Option<u32>) -> Result<&Origin, Error> {
        let found = match number {
            None => self.newest(),
            Some(number) => self.timelines.iter().find(|origin| origin.timeline == number),
        };
        found.ok_or_else(|| {
            let there = self.timelines.len();
            let what = match number {
                None => format!("the archive in {} is empty", self.store.describe()),
                Some(number) => format!("there is no timeline {number} in {}", self.store.describe()),
            };
            Error::refused(
                what,
                format!("it has {there} timelines; `quorate backup list` shows them"),
            )
        })
    }

    /// Begins a timeline for a cluster. If another one begins it at the same time, theirs is taken if it is of the same
    /// cluster.
    pub async fn begin_timeline(
        &mut self,
        cluster_id: u64,
        parent: Option<Point>,
        why: &str,
        now: Timestamp,
    ) -> Result<Origin, Error> {
        let number = u32::try_from(self.timelines.len()).unwrap_or(TIMELINES_MAX) + 1;
        if number > TIMELINES_MAX {
            return Err(Error::refused(
                "there are too many timelines",
                "begin another archive",
            ));
        }
        let origin = Origin {
            timeline: number,
            cluster_id: format!("{cluster_id:x}"),
            created: now,
            parent,
            why: why.to_owned(),
        };
        let bytes = Bytes::from(lines::write(&origin).0);
        let created = self.store.create(&names::origin(number), bytes).await?;
        self.read_timelines().await?;
        match (created, self.newest()) {
            (Created::New, _) => Ok(origin),
            (Created::Exists, Some(theirs)) if theirs.cluster() == Some(cluster_id) => Ok(theirs.clone()),
            (Created::Exists, _) => Err(Error::refused(
                format!(
                    "another cluster began timeline {number} of {}",
                    self.store.describe()
                ),
                "two clusters must not share an archive: give each one of its own",
            )),
        }
    }

    /// All of a timeline's log.
    pub async fn history(&self, timeline: u32) -> Result<History, Error> {
        History::read(&self.store, timeline).await
    }

    /// A timeline's log, to be appended to.
    pub async fn log(&self, timeline: u32, writer: &str) -> Result<Log, Error> {
        Log::open(&self.store, timeline, writer).await
    }

    /// Marks that a cluster with this id is being made from `from`, so that its agent knows where it comes from.
    pub async fn mark_restored(&self, cluster_id: u64, from: Point, now: Timestamp) -> Result<(), Error> {
        let mark = Restored { from, at: now };
        let bytes = Bytes::from(lines::write(&mark).0);
        // A second restore with the same members and token has the same id; the last one is what runs.
        self.store.put(&names::restored(cluster_id), bytes).await
    }

    /// What the cluster with this id was made from, if it was made from this archive.
    pub async fn restored(&self, cluster_id: u64) -> Result<Option<Restored>, Error> {
        read_small(&self.store, &names::restored(cluster_id)).await
    }
}

async fn read_small<T: DeserializeOwned>(store: &Store, name: &str) -> Result<Option<T>, Error> {
    match store.get(name, SMALL).await {
        Ok(bytes) => lines::read(&bytes)
            .map(Some)
            .map_err(|why| Error::damaged(name, why)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}
