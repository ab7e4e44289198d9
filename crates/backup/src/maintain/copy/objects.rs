//! Data objects on their way from one store to the other.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use jiff::Timestamp;
use quorate_datadir::Progress;
use sha2::{Digest as _, Sha256};

use super::{Damage, Way};
use crate::format::names::{self, LogObject};
use crate::format::object::{Facts, rehash};
use crate::log::{History, SEGMENT};
use crate::{Error, Store};

/// What is read at a time.
const PIECE: u64 = 2 << 20;
/// Small objects are copied so many at once; others one by one.
const AT_ONCE: usize = 8;

/// What is in the copy already.
pub(super) struct There {
    sizes: BTreeMap<String, u64>,
    recorded: BTreeSet<u64>,
    /// When each object of the log came to be: by its first and its last record.
    log: BTreeMap<(u64, u64), Timestamp>,
    /// What is wrong with the log is wrong with these.
    faulty: BTreeSet<String>,
}

impl There {
    pub(super) async fn look(to: &Store, timeline: u32, history: &History) -> Result<There, Error> {
        let mut sizes = BTreeMap::new();
        for part in ["full", "delta"] {
            let below = format!("{}/{part}", names::timeline(timeline));
            for found in to.list(&below, None).await? {
                sizes.insert(found.name, found.size);
            }
        }
        let log = to.list(&names::log(timeline), None).await?;
        let numbers = |name: &str| match LogObject::parse(name)? {
            LogObject::Record(number) => Some((number, number)),
            LogObject::Segment(first, last) => Some((first, last)),
        };
        Ok(There {
            sizes,
            recorded: history
                .records
                .iter()
                .map(|signed| signed.record.number)
                .collect(),
            log: log
                .iter()
                .filter_map(|found| Some((numbers(&found.name)?, found.modified)))
                .collect(),
            faulty: history.faults.iter().map(|fault| fault.object.clone()).collect(),
        })
    }

    fn has(&self, facts: &Facts) -> bool {
        self.sizes.get(&facts.object) == Some(&facts.stored_bytes)
    }

    /// It is there, and was hashed before its record was written.
    pub(super) fn is_sure(&self, number: u64, facts: &Facts) -> bool {
        self.recorded.contains(&number) && self.has(facts)
    }

    /// This record is there, by itself or in a segment.
    pub(super) fn is_recorded(&self, number: u64) -> bool {
        self.recorded.contains(&number)
    }

    /// A segment of these records is there, and it was read.
    pub(super) fn has_segment(&self, timeline: u32, (first, last): (u64, u64)) -> bool {
        self.log.contains_key(&(first, last)) && !self.faulty.contains(&names::segment(timeline, first, last))
    }

    /// Since when this record is there, by the store's clock.
    pub(super) fn since(&self, number: u64) -> Option<Timestamp> {
        let first = (number - 1) / SEGMENT * SEGMENT + 1;
        let places = [(number, number), (first, first + SEGMENT - 1)];
        places
            .iter()
            .filter_map(|place| self.log.get(place))
            .min()
            .copied()
    }
}

enum Outcome {
    Copied(u64),
    WasThere,
    Damaged(Damage),
}

impl Way<'_> {
    /// Copies objects that are not known to be there.
    pub(super) async fn objects(&mut self, wanted: Vec<(u64, Facts)>, there: &There) -> Result<(), Error> {
        let (small, large): (Vec<_>, Vec<_>) =
            wanted.iter().partition(|(_, facts)| facts.stored_bytes <= PIECE);
        let (from, to, progress) = (self.from, self.to, self.progress);
        let one = |(_, facts): &(u64, Facts)| {
            let (facts, has) = (facts.clone(), there.has(facts));
            async move { object(from, to, &facts, has, progress).await }
        };
        for (wanted, at_once) in [(small, AT_ONCE), (large, 1)] {
            let mut outcomes = futures::stream::iter(wanted.into_iter().map(one)).buffer_unordered(at_once);
            while let Some(outcome) = outcomes.next().await {
                match outcome? {
                    Outcome::Copied(bytes) => {
                        self.copied.objects += 1;
                        self.copied.bytes += bytes;
                    }
                    Outcome::WasThere => self.copied.were_there += 1,
                    Outcome::Damaged(damage) => self.copied.damaged.push(damage),
                }
            }
        }
        Ok(())
    }
}

/// Copies one. What is there under its name with its size is read again, and believed if its hash is right.
async fn object(
    from: &Store,
    to: &Store,
    facts: &Facts,
    has: bool,
    progress: &Progress,
) -> Result<Outcome, Error> {
    if has && rehash(to, facts, |_| ()).await.is_ok() {
        progress.add(facts.stored_bytes)?;
        return Ok(Outcome::WasThere);
    }
    let damaged = |why: String| {
        Ok(Outcome::Damaged(Damage {
            object: facts.object.clone(),
            why,
        }))
    };
    match from.head(&facts.object).await {
        Ok(found) if found.size == facts.stored_bytes => {}
        Ok(found) => {
            return damaged(format!(
                "it has {} bytes, and {} were written",
                found.size, facts.stored_bytes
            ));
        }
        Err(error) if error.is_missing() => return damaged("it is gone".to_owned()),
        Err(error) => return Err(error),
    }
    let mut upload = to.upload(&facts.object).await?;
    let mut sum = Sha256::new();
    let mut at = 0;
    while at < facts.stored_bytes {
        let end = (at + PIECE).min(facts.stored_bytes);
        let piece = match from.get_range(&facts.object, at..end).await {
            Ok(piece) => piece,
            Err(error) => {
                let _ = upload.abort().await;
                return match error.is_missing() {
                    true => damaged("it is gone".to_owned()),
                    false => Err(error),
                };
            }
        };
        sum.update(&piece);
        if let Err(cancelled) = progress.add(end - at) {
            let _ = upload.abort().await;
            return Err(cancelled.into());
        }
        upload.write(piece).await?;
        at = end;
    }
    let found: [u8; 32] = sum.finalize().into();
    if found != facts.sha256.0 {
        upload.abort().await?;
        return damaged("its bytes are not those that were written".to_owned());
    }
    upload.finish().await?;
    Ok(Outcome::Copied(facts.stored_bytes))
}
