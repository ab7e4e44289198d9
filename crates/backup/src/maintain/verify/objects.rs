//! Every object that counts, read to its last byte.
//!
//! In: a timeline. Out: what is damaged or gone. Of a full copy every frame and the hash that etcd put behind it; of a
//! delta every row: none missing, none twice, its checksum that of the record.
//! Memory: a few frames.

use std::sync::Arc;

use futures::StreamExt as _;
use quorate_datadir::{KeyValue, Progress, Revision};
use sha2::{Digest as _, Sha256};

use super::Report;
use crate::format::delta::{Content, rows};
use crate::format::object::{Facts, Kind, Opened, open};
use crate::format::record::{Delta, Full};
use crate::log::History;
use crate::restore::fetch;
use crate::{Archive, Error};

/// Frames of one object fetched at once.
const FETCHED: usize = 2;
/// Frames of one object unpacked at once.
const UNPACKED: usize = 2;
/// Deltas looked at at once.
const DELTAS: usize = 2;
/// The length of the hash behind a snapshot.
const DIGEST: usize = 32;

/// Reads all objects of a timeline that count by its log.
pub(super) async fn check(
    archive: &Archive,
    history: &History,
    progress: &Arc<Progress>,
    report: &mut Report,
) -> Result<(), Error> {
    let (fulls, deltas) = (history.fulls(), history.deltas());
    let stored = fulls.iter().map(|(_, full)| full.facts.stored_bytes);
    progress.expect(
        stored
            .chain(deltas.iter().map(|(_, delta)| delta.facts.stored_bytes))
            .sum(),
    );
    for (_, full) in fulls {
        report.fulls += 1;
        report.bytes += full.facts.stored_bytes;
        let checked = check_full(archive, full, progress).await;
        judged(archive, &full.facts, checked, report).await?;
    }
    let checking = futures::stream::iter(deltas)
        .map(|(_, delta)| async move { (delta, check_delta(archive, delta, progress).await) });
    let mut checking = std::pin::pin!(checking.buffer_unordered(DELTAS));
    while let Some((delta, checked)) = checking.next().await {
        report.deltas += 1;
        report.bytes += delta.facts.stored_bytes;
        judged(archive, &delta.facts, checked, report).await?;
    }
    Ok(())
}

/// Damage is a finding, trouble with the store an error.
async fn judged(
    archive: &Archive,
    facts: &Facts,
    checked: Result<(), Error>,
    report: &mut Report,
) -> Result<(), Error> {
    if let Err(error) = checked {
        if matches!(error, Error::Cancelled) {
            return Err(error);
        }
        let why = crate::restore::plan::fault(archive.store(), facts, error).await?;
        // It may have been given up meanwhile.
        let history = archive
            .history(crate::format::names::timeline_of(&facts.object).unwrap_or(0))
            .await?;
        if !history.pruned().contains(facts.object.as_str()) {
            report.wrong(facts.object.clone(), why);
        }
    }
    Ok(())
}

async fn opened(archive: &Archive, facts: &Facts, kind: Kind) -> Result<Opened, Error> {
    let damaged = |why: String| Error::damaged(facts.object.clone(), why);
    let size = archive.store().head(&facts.object).await?.size;
    if size != facts.stored_bytes {
        return Err(damaged(format!(
            "it has {size} bytes, and {} were written",
            facts.stored_bytes
        )));
    }
    let object = open(archive.store(), facts, archive.key()).await?;
    let plain: u64 = (0..object.frames())
        .map(|number| object.plain_bytes(number))
        .sum();
    match object.kind() == kind && plain == facts.plain_bytes {
        true => Ok(object),
        false => Err(damaged("it is not what its record says".to_owned())),
    }
}

/// Frames in order, unpacked: `take` gets each.
async fn each_frame(
    object: &Opened,
    progress: &Progress,
    mut take: impl FnMut(u32, Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    let fetching = futures::stream::iter(0..object.frames()).map(|number| async move {
        let stored = object.fetch(number).await?;
        Ok::<_, Error>((number, stored))
    });
    let unpacking = fetching.buffered(FETCHED).map(|fetched| async move {
        let (number, stored) = fetched?;
        let (object, length) = (object.clone(), stored.len() as u64);
        let unpacking = tokio::task::spawn_blocking(move || object.unpack(number, &stored));
        let plain = unpacking.await.map_err(|_| Error::Cancelled)??;
        Ok::<_, Error>((number, plain, length))
    });
    let mut plain = std::pin::pin!(unpacking.buffered(UNPACKED));
    while let Some(frame) = plain.next().await {
        let (number, bytes, length) = frame?;
        progress.add(length).map_err(fetch::told)?;
        take(number, bytes)?;
    }
    Ok(())
}

async fn check_full(archive: &Archive, full: &Full, progress: &Progress) -> Result<(), Error> {
    let object = opened(archive, &full.facts, Kind::Full).await?;
    let damaged = |why: &str| Error::damaged(full.facts.object.clone(), why);
    let (mut hash, mut at) = (Sha256::new(), 0u64);
    let digest_at = full.facts.plain_bytes.saturating_sub(DIGEST as u64);
    let mut behind = Vec::with_capacity(DIGEST);
    each_frame(&object, progress, |number, plain| {
        if object.first(number) != at {
            return Err(damaged("its frames do not lie one behind the other"));
        }
        let pages = usize::try_from(digest_at.saturating_sub(at))
            .unwrap_or(usize::MAX)
            .min(plain.len());
        let (pages, rest) = plain.split_at(pages);
        hash.update(pages);
        behind.extend_from_slice(rest);
        at += plain.len() as u64;
        Ok(())
    })
    .await?;
    // Every page size is a multiple of 512; without a hash there is nothing behind the pages.
    if full.facts.plain_bytes % 512 == DIGEST as u64 && hash.finalize().as_slice() != behind {
        return Err(damaged(
            "the hash that etcd put behind it is not that of its pages",
        ));
    }
    Ok(())
}

async fn check_delta(archive: &Archive, delta: &Delta, progress: &Progress) -> Result<(), Error> {
    let object = opened(archive, &delta.facts, Kind::Delta).await?;
    let damaged = |why: &str| Error::damaged(delta.facts.object.clone(), why);
    let mut read: Option<Content> = None;
    let mut last: Option<Revision> = None;
    each_frame(&object, progress, |number, plain| {
        let first = object.first(number);
        for (index, row) in rows(&plain).map_err(damaged)?.enumerate() {
            let row = row.map_err(damaged)?;
            let main = row.revision.main;
            if index == 0 && u64::try_from(main) != Ok(first) {
                return Err(damaged(
                    "a frame does not begin with the revision that its index says",
                ));
            }
            let follows = match last {
                None => row.revision.sub == 0,
                Some(last) if main == last.main => row.revision.sub == last.sub + 1,
                Some(last) => main == last.main + 1 && row.revision.sub == 0,
            };
            if !follows {
                return Err(damaged("revisions are missing, or come twice"));
            }
            let kv = KeyValue::read(row.value).map_err(damaged)?;
            if !row.tombstone && kv.mod_revision != main {
                return Err(damaged("a row is of another revision than it says"));
            }
            last = Some(row.revision);
            let content = read.get_or_insert(Content {
                from: main,
                to: main,
                rows: 0,
                bytes: 0,
                crc: 0,
            });
            content.to = main;
            content.rows += 1;
            content.bytes += (row.key().1 + row.value.len()) as u64;
            content.crc = row.crc(content.crc);
        }
        Ok(())
    })
    .await?;
    let expected = Content {
        from: delta.from,
        to: delta.to,
        rows: delta.rows,
        bytes: delta.row_bytes,
        crc: delta.crc,
    };
    match read == Some(expected) {
        true => Ok(()),
        false => Err(damaged("its rows are not those that its record tells of")),
    }
}
