//! Which timeline of which archive a cluster's history goes into, and who writes it.
//!
//! In: a store, a cluster. Out: an open log, and, for an agent, an epoch of its own.
//! Never: a foreign archive written to; a second agent beside one that lives.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::decide::{self, Claimant, Standing, Timeline};
use super::status::{Board, State};
use crate::format::object::Key;
use crate::log::Log;
use crate::{Archive, CreateOnly, Error, Origin, Store};

/// How often one that stands by looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Where a cluster's history goes.
pub struct Place {
    pub archive: Archive,
    pub origin: Origin,
    pub log: Log,
    /// What the cluster has come to.
    pub revision: i64,
    /// The store refuses to create one name twice.
    pub fenced: bool,
}

/// What is to be opened.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    pub store: &'a Store,
    /// The key of its objects.
    pub key: Option<&'a Key>,
    pub cluster: &'a Cluster,
    pub writer: &'a str,
    /// Go on in the archive of another cluster, in a new timeline.
    pub adopt: bool,
    /// A timeline that turned out to be of another history than the cluster's.
    pub other: Option<u32>,
}

/// Opens the archive of a cluster, or begins it. Refused if it is another's.
pub async fn open(opening: Opening<'_>) -> Result<Place, Error> {
    let Opening {
        store,
        key,
        cluster,
        writer,
        adopt,
        other,
    } = opening;
    let (id, mut revision) = cluster.identify().await?;
    let fenced = store.probe().await? == CreateOnly::Kept;
    let mut archive = Archive::open_or_begin(store, key.cloned(), Timestamp::now()).await?;
    let mark = archive.restored(id).await?;
    let origin = match decide::timeline(archive.timelines(), id, mark.as_ref(), adopt) {
        Timeline::Continue(number) => archive.timeline(Some(number))?.clone(),
        Timeline::Begin {
            parent,
            why,
            not_before,
        } => {
            let now = Timestamp::now().max(not_before);
            archive.begin_timeline(id, parent, &why, now).await?
        }
        Timeline::Foreign { theirs } => {
            return Err(Error::refused(
                format!(
                    "the archive in {} is that of cluster {theirs}, and this is cluster {id:x}",
                    store.describe()
                ),
                "give this cluster an archive of its own; if it is to go on in this one, say so with --new-timeline",
            ));
        }
    };
    let log = archive.log(origin.timeline, writer).await?;
    if decide::went_back(log.tail().end, revision).is_some() {
        // Another agent may have written meanwhile. What is asked for now is not older than what was read.
        let (now, at) = cluster.identify().await?;
        if now != id {
            return Err(Error::refused(
                format!("cluster {id:x} became cluster {now:x} while its archive was opened"),
                "try again once it is settled",
            ));
        }
        revision = at;
    }
    let why = match other == Some(origin.timeline) {
        true => Some(
            "the cluster tells its last revision otherwise than before: its history is another".to_owned(),
        ),
        false => decide::went_back(log.tail().end, revision),
    };
    let (origin, log) = match why {
        None => (origin, log),
        Some(why) => {
            tracing::warn!("{why}; a new timeline begins");
            let origin = archive.begin_timeline(id, None, &why, Timestamp::now()).await?;
            let log = archive.log(origin.timeline, writer).await?;
            (origin, log)
        }
    };
    cluster.expect(id);
    Ok(Place {
        archive,
        origin,
        log,
        revision,
        fenced,
    })
}

/// What came of wanting to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// This agent writes, under this epoch.
    Epoch(u64),
    /// It was told to stop first.
    Stopped,
    /// Meanwhile the cluster's history goes elsewhere: the archive has to be opened anew.
    Elsewhere,
}

/// Becomes the agent that writes, once no other does.
pub async fn claim(
    place: &mut Place,
    opening: Opening<'_>,
    mut claimant: Claimant<'_>,
    board: &Board,
    stop: &mut watch::Receiver<bool>,
) -> Result<Claimed, Error> {
    place.log.set_instance(claimant.instance.clone());
    let mut last: Option<(Timestamp, u64)> = None;
    let mut since = Instant::now();
    let mut waited = false;
    loop {
        place.log.catch_up().await?;
        let head = match place.log.head().await {
            Ok(head) => head,
            // Only a hint, and it is written anew.
            Err(Error::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        // Commands raise its number, which is no sign of life.
        let beat = head.as_ref().map(|head| (head.at, head.epoch));
        if beat != last {
            since = Instant::now();
            last = beat;
        }
        let other = head.as_ref().and_then(|head| head.instance.as_ref());
        let ended = other.is_some_and(|other| claimant.instance.sees_end_of(other));
        let now = Timestamp::now();
        match decide::standing(head.as_ref(), claimant, ended, since.elapsed(), now) {
            Standing::Claim(_) if waited && !is_still(place, opening).await? => {
                tracing::info!("the cluster's history goes elsewhere now; the archive is opened anew");
                return Ok(Claimed::Elsewhere);
            }
            Standing::Claim(why) => match place.log.claim(&why, now).await {
                Ok(epoch) => return Ok(Claimed::Epoch(epoch)),
                Err(error @ Error::Fenced { .. }) => {
                    tracing::info!(%error, "another agent was faster");
                    claimant.relieved = true;
                }
                Err(error) => return Err(error),
            },
            Standing::StandBy => {
                let writer = head.map(|head| head.writer).unwrap_or_default();
                let state = State::StandingBy { writer };
                board.update(|status| {
                    if status.state != state {
                        tracing::info!(
                            ?state,
                            silent_after = ?decide::SILENT,
                            "another agent writes this archive; this one stands by and takes over when that one is silent"
                        );
                        status.state = state;
                    }
                });
            }
        }
        waited = true;
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = stop.changed() => return Ok(Claimed::Stopped),
        }
    }
}

/// Whether this is still the place of the cluster's history. While one stands by, the cluster may have been restored, or
/// made anew.
async fn is_still(place: &mut Place, opening: Opening<'_>) -> Result<bool, Error> {
    let Opening {
        store,
        key,
        cluster,
        adopt,
        ..
    } = opening;
    let (id, revision) = cluster.identify().await?;
    let archive = Archive::open(store, key.cloned()).await?;
    let mark = archive.restored(id).await?;
    let now = decide::timeline(archive.timelines(), id, mark.as_ref(), adopt);
    let behind = decide::went_back(place.log.tail().end, revision);
    if now != Timeline::Continue(place.origin.timeline) || behind.is_some() {
        return Ok(false);
    }
    cluster.expect(id);
    (place.archive, place.revision) = (archive, revision);
    Ok(true)
}
