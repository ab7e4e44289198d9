//! Undo: what vanished or changed under a prefix between two points, put back on a live cluster.
//!
//! In: an archive, two points of one timeline, a live cluster. Out: first what would be done, key by key; then guarded
//! transactions: a key is written only if it is still as it was at the second point. Whatever was changed since is left
//! alone and told. A key that had a lease comes back without one.
//! Never: a key outside the prefix; a later change overwritten; a cluster written whose history this is not.

mod apply;
mod compare;
mod lineage;

use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use quorate_client::{Endpoint, Keys, Range};
use quorate_datadir::view::Found;
use quorate_datadir::{Progress, Source};
use serde::Serialize;

use crate::agent::Cluster;
use crate::maintain::compact::Workshop;
use crate::restore::fetch;
use crate::restore::plan::{To, Wanted};
use crate::{Archive, Error};

pub use apply::Done;

/// Keys that may be undone at once.
pub const KEYS_MAX: usize = 1_000_000;
/// Keys that a live cluster is asked for at a time.
const PAGE: i64 = 5_000;
/// Keys whose values it is asked for at once.
const ASKED_AT_ONCE: usize = 16;

/// What is to be undone.
#[derive(Debug, Clone, Copy)]
pub struct Undo<'a> {
    /// Keys that begin so.
    pub prefix: &'a [u8],
    /// Of which timeline; the newest if none is named.
    pub timeline: Option<u32>,
    pub from: To,
    pub to: To,
    /// What becomes of keys that are new.
    pub new_keys: NewKeys,
    /// Where the states are rebuilt.
    pub scratch: &'a Path,
}

/// What becomes of keys that were not there at the first point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NewKeys {
    #[default]
    Stay,
    Go,
}

/// What happened to the value of a key between the points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Happened {
    Vanished,
    /// It has another value.
    Changed,
    Appeared,
}

/// What will become of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// It is put back as it was.
    PutBack,
    Deleted,
    /// It is as it was already.
    Already,
    /// It was changed again since, and is left alone.
    ChangedSince,
    /// It is new, and stays.
    Stays,
}

/// A key that differs between the points.
#[derive(Debug, Clone)]
pub struct Item {
    pub key: Vec<u8>,
    /// What happened to it.
    pub happened: Happened,
    /// What will become of it, or became of it.
    pub fate: Fate,
    /// It had a lease, and comes back without one.
    pub had_lease: bool,
    /// How long the value is that comes back.
    pub value_bytes: u64,
    /// Its revision at the second point; 0 if it was not there.
    expected: i64,
    /// Where its value is, at the first point.
    found: Option<Found>,
}

/// What would be done.
pub struct Undoing {
    pub timeline: u32,
    /// The revision of the first point.
    pub from: i64,
    /// The revision of the second.
    pub to: i64,
    /// What one should know about how these were found.
    pub notes: Vec<String>,
    /// What has to be agreed to.
    pub consents: Vec<String>,
    pub items: Vec<Item>,
    before: Arc<Source>,
    _work: Workshop,
}

impl Undoing {
    /// How many keys have this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.items.iter().filter(|item| item.fate == fate).count()
    }

    /// How many keys come back without the lease that they had.
    pub fn without_lease(&self) -> usize {
        let back = |item: &&Item| item.had_lease && item.fate == Fate::PutBack;
        self.items.iter().filter(back).count()
    }
}

/// Finds out what is to be done. Nothing is written but in the scratch directory.
pub async fn plan(
    archive: &Archive,
    wanted: &Undo<'_>,
    cluster: &Cluster,
    progress: &Arc<Progress>,
    now: Timestamp,
) -> Result<Undoing, Error> {
    let timeline = archive.timeline(wanted.timeline)?;
    let live = lineage::of(archive, cluster).await?;
    live.comes_from(timeline.timeline)?;
    let point = |to: To| Wanted {
        timeline: Some(timeline.timeline),
        to,
    };
    let first = crate::restore::plan::plan(archive, point(wanted.from)).await?;
    let second = crate::restore::plan::plan(archive, point(wanted.to)).await?;
    if first.revision >= second.revision {
        return Err(Error::refused(
            format!(
                "the first point is revision {}, the second revision {}: there is nothing between them",
                first.revision, second.revision
            ),
            "name the point before the mistake with --from, and one after it with --to",
        ));
    }
    live.went_through(timeline.timeline, second.revision)?;
    let endpoint = voting(cluster).await?;
    let mut notes = first.notes();
    notes.extend(second.notes());
    notes.dedup();
    let mut consents = first.consents();
    consents.extend(second.consents());
    let (from, to) = (first.revision, second.revision);
    let work = Workshop::in_dir(wanted.scratch, "undo")?;
    let states = compare::rebuild(archive, (first, second), work.path(), progress, now).await?;
    let mut items = compare::differences(&states, (from, to), wanted, progress).await?;
    judge(&endpoint, &states.before, wanted.prefix, &mut items, progress).await?;
    Ok(Undoing {
        timeline: timeline.timeline,
        from,
        to,
        notes,
        consents,
        items,
        before: states.before,
        _work: work,
    })
}

/// Carries it out: what [`plan`] found is put back.
pub async fn apply(
    undoing: &mut Undoing,
    cluster: &Cluster,
    progress: &Arc<Progress>,
) -> Result<Done, Error> {
    apply::run(undoing, cluster, progress).await
}

/// A member that can be asked for anything.
async fn voting(cluster: &Cluster) -> Result<Endpoint, Error> {
    let members = cluster.survey().await?;
    let one = members
        .into_iter()
        .find(|one| !one.status.is_learner && one.status.leader.is_some());
    one.map(|one| one.endpoint).ok_or_else(|| {
        Error::refused(
            "no voting member that has a leader answers",
            "the cluster needs a quorum",
        )
    })
}

/// Holds the keys against the live cluster.
async fn judge(
    endpoint: &Endpoint,
    before: &Arc<Source>,
    prefix: &[u8],
    items: &mut [Item],
    progress: &Progress,
) -> Result<(), Error> {
    let mut keys = Keys::prefix(prefix);
    let mut live: Vec<i64> = vec![0; items.len()];
    loop {
        let page = endpoint.read_range(Range {
            limit: PAGE,
            keys_only: true,
            ..Range::of(keys.clone())
        });
        let page = page.await?;
        progress.add(0).map_err(fetch::told)?;
        for pair in &page.pairs {
            if let Some(position) = compare::place(items, &pair.key) {
                live[position] = pair.mod_revision;
            }
        }
        match page.pairs.last() {
            Some(last) if page.more => keys = keys.after(&last.key),
            _ => break,
        }
    }
    let due = |item: &Item| matches!(item.fate, Fate::PutBack | Fate::Deleted);
    let changed = items.iter().zip(live).enumerate();
    let changed = changed.filter(|(_, (item, live))| *live != item.expected && due(item));
    let fates = futures::stream::iter(changed).map(async |(position, (item, _))| {
        progress.add(0).map_err(fetch::told)?;
        let fate = match apply::is_as_before(endpoint, before, item).await? {
            true => Fate::Already,
            false => Fate::ChangedSince,
        };
        Ok::<_, Error>((position, fate))
    });
    let fates: Vec<(usize, Fate)> = fates.buffer_unordered(ASKED_AT_ONCE).try_collect().await?;
    for (position, fate) in fates {
        items[position].fate = fate;
    }
    Ok(())
}
