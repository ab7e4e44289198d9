//! A full copy, streamed from a member into the store.
//!
//! In: a cluster, an archive. Out: an object, and what its record is to say. It goes through memory frame by frame and
//! never onto a disk of this machine. A follower is asked if there is one. A member tells what it has, be it cut off from
//! the others: how old that is, is looked at before and after.
//! Never: a copy that counts although its stream ended early, or older than it may be; a revision that is only guessed.

mod look;
pub mod schedule;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;
use jiff::Timestamp;
use quorate_client::{Endpoint, Snapshot};
use tokio::task::JoinHandle;

use super::cluster::{Answering, Cluster};
use super::decide;
use crate::format::names;
use crate::format::object::{Assembler, Facts, Frame, Kind, pack};
use crate::format::record::{Full, Hash, Made};
use crate::{Archive, Error, Upload};
use look::Seen;

/// A frame of a full copy, unpacked: small, since several are in memory beside the deltas.
const FRAME_BYTES: usize = 2 << 20;
/// Frames that are packed at once.
const PACKED_AT_ONCE: usize = 2;
/// How long a member may take over a hash.
const HASH_WITHIN: Duration = Duration::from_secs(120);

/// Of whom a hash may be asked, which stalls that member's writes for seconds when there is much data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AskHash {
    #[default]
    Follower,
    /// Of whoever gave the copy, be it the leader or the only member.
    Anyone,
    Nobody,
}

/// How new a full copy has to be, at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AtLeast {
    pub revision: i64,
    /// The revision of users and roles.
    pub auth_revision: u64,
}

/// What a full copy is taken for.
#[derive(Clone, Copy)]
pub struct TakeFull<'a> {
    pub archive: &'a Archive,
    pub timeline: u32,
    /// Where it comes from.
    pub cluster: &'a Cluster,
    /// Whether etcd's hash is asked for.
    pub hash: AskHash,
    /// How many attempts failed before: another member is asked then.
    pub attempt: u32,
    /// One that is older is refused.
    pub at_least: AtLeast,
}

/// Takes a full copy. It counts once it is recorded: `log.append(Entry::Full(full), now)`. `seen` hears of bytes as they
/// come, and of how many there are in all.
pub async fn take_full(take: TakeFull<'_>, mut seen: impl FnMut(u64, u64)) -> Result<Full, Error> {
    let members = take.cluster.survey().await?;
    let candidates: Vec<_> = members.iter().map(Answering::candidate).collect();
    let mut order = decide::stream_order(&candidates);
    order.retain(|place| candidates[*place].led);
    if order.is_empty() {
        return Err(Error::refused(
            "no voting member that has a leader answers",
            "a full copy needs a member that is up and a cluster that has a quorum",
        ));
    }
    order.retain(|place| members[*place].status.revision >= take.at_least.revision);
    let place = order.get(take.attempt as usize % order.len().max(1)).copied();
    let place = place.ok_or_else(|| {
        Error::refused(
            format!(
                "no member that answers has come to revision {}",
                take.at_least.revision
            ),
            "they are behind and catch up, or the one that is not has to be reached",
        )
    })?;
    let Answering { endpoint, status } = &members[place];
    tracing::info!(from = endpoint.url(), "taking a full copy");
    let snapshot = endpoint.snapshot().await?;
    let store = take.archive.store();
    let name = names::full(take.timeline, status.revision, &names::unique());
    let mut upload = store.upload(&name).await?;
    let copied = copy(take.archive, &name, snapshot, &mut upload, &mut seen).await;
    let (facts, taken) = match copied {
        Ok(copied) => copied,
        Err(error) => {
            // What fails now is gone anyway; the reason is what counts.
            let _ = upload.abort().await;
            return Err(error);
        }
    };
    upload.finish().await?;
    let looked = look::look(store, &facts, take.archive.key()).await?;
    new_enough(&looked, &take.at_least, endpoint.url())?;
    let hash = match take.hash {
        AskHash::Nobody => None,
        asked => {
            let anyone = asked == AskHash::Anyone;
            let may = decide::may_hash(&candidates[place], members.len(), anyone);
            if may {
                hash(endpoint, looked.revision).await
            } else {
                None
            }
        }
    };
    Ok(Full {
        facts,
        revision: looked.revision,
        compact_revision: looked.compact_revision,
        made: Made::Snapshot,
        taken,
        etcd_version: status.version.clone(),
        auth_revision: looked.auth_revision,
        auth_from: None,
        hash,
    })
}

/// Refuses what is older than it may be.
fn new_enough(looked: &Seen, at_least: &AtLeast, url: &str) -> Result<(), Error> {
    let behind = |what: &str, is: &dyn std::fmt::Display, least: &dyn std::fmt::Display| {
        Error::refused(
            format!("the full copy that {url} gave is of {what} {is}, and {least} is known of already"),
            "that member is behind the others; another is asked the next time",
        )
    };
    if looked.revision < at_least.revision {
        return Err(behind("revision", &looked.revision, &at_least.revision));
    }
    if looked.auth_revision < at_least.auth_revision {
        let what = "the users and roles of revision";
        return Err(behind(what, &looked.auth_revision, &at_least.auth_revision));
    }
    Ok(())
}

/// etcd's hash of the same revision; `None` if it was compacted away meanwhile, or could not be told.
async fn hash(endpoint: &Endpoint, revision: i64) -> Option<Hash> {
    match endpoint.within(HASH_WITHIN).hash_kv(revision).await {
        Ok(hash) => Some(Hash {
            hash: hash.hash,
            revision,
            compact_revision: hash.compact_revision,
        }),
        Err(error) => {
            tracing::debug!(error = error.chain(), "no hash was told");
            None
        }
    }
}

async fn copy(
    archive: &Archive,
    name: &str,
    mut snapshot: Snapshot,
    upload: &mut Upload,
    seen: &mut impl FnMut(u64, u64),
) -> Result<(Facts, Timestamp), Error> {
    let (assembler, head) = Assembler::new(name, Kind::Full, archive.key())?;
    upload.write(head).await?;
    let mut line = Line {
        assembler,
        under_way: VecDeque::new(),
        offset: 0,
        number: 0,
    };
    let mut plain = BytesMut::with_capacity(FRAME_BYTES);
    let mut taken = None;
    let mut came = 0;
    while let Some(chunk) = snapshot.next_chunk().await? {
        // The state is that of the moment the stream began, which was before its first piece came.
        taken.get_or_insert_with(Timestamp::now);
        came += chunk.len() as u64;
        seen(came, snapshot.database_bytes().unwrap_or(0));
        let mut chunk = &chunk[..];
        while !chunk.is_empty() {
            let (fits, rest) = chunk.split_at(chunk.len().min(FRAME_BYTES - plain.len()));
            plain.extend_from_slice(fits);
            chunk = rest;
            if plain.len() == FRAME_BYTES {
                let full = std::mem::replace(&mut plain, BytesMut::with_capacity(FRAME_BYTES));
                line.send(full, upload).await?;
            }
        }
    }
    if !plain.is_empty() {
        line.send(plain, upload).await?;
    }
    while !line.under_way.is_empty() {
        line.arrive(upload).await?;
    }
    let (tail, facts) = line.assembler.finish();
    upload.write(tail).await?;
    Ok((facts, taken.unwrap_or_else(Timestamp::now)))
}

/// Frames that are packed by other threads and put in a row here.
struct Line {
    assembler: Assembler,
    under_way: VecDeque<JoinHandle<Option<Frame>>>,
    offset: u64,
    number: u32,
}

impl Line {
    async fn send(&mut self, plain: BytesMut, upload: &mut Upload) -> Result<(), Error> {
        if self.under_way.len() >= PACKED_AT_ONCE {
            self.arrive(upload).await?;
        }
        let packer = self.assembler.packer();
        let (number, first) = (self.number, self.offset);
        self.number += 1;
        self.offset += plain.len() as u64;
        let packed = tokio::task::spawn_blocking(move || pack(&packer, number, first, &plain));
        self.under_way.push_back(packed);
        Ok(())
    }

    async fn arrive(&mut self, upload: &mut Upload) -> Result<(), Error> {
        let Some(packed) = self.under_way.pop_front() else {
            return Ok(());
        };
        let frame = packed.await.ok().flatten();
        let frame = frame.ok_or_else(|| Error::refused("a frame could not be packed", "try again"))?;
        let bytes = self.assembler.add(frame)?;
        upload.write(bytes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_it_may_be_is_refused() {
        let seen = Seen {
            revision: 88,
            compact_revision: -1,
            auth_revision: 3,
        };
        for (revision, auth_revision, refused) in [
            (88, 3, None),
            (0, 0, None),
            (89, 3, Some("is of revision 88, and 89")),
            (88, 4, Some("the users and roles of revision 3, and 4")),
        ] {
            let at_least = AtLeast {
                revision,
                auth_revision,
            };
            let told = new_enough(&seen, &at_least, "http://m1").map_err(|error| error.to_string());
            match refused {
                None => assert_eq!(told, Ok(())),
                Some(why) => assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{told:?}"),
            }
        }
    }
}
