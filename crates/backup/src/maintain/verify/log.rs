//! The log of a timeline, every copy of every record; and whether an archive's small objects are all there.
//!
//! In: an archive. Out: what is damaged, gone or odd. A log is stored twice where segments were written; both are read.
//! Never: a copy left unread because the other one is sound.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;

use super::{Finding, Report};
use crate::format::names::{self, LogObject};
use crate::format::record::{Entry, RECORD_BYTES_MAX, Signed};
use crate::log::History;
use crate::{Archive, Error};

/// Objects read at once.
const AT_ONCE: usize = 8;
/// A segment, at most.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Is everything there that an archive has besides its timelines' content?
pub(super) async fn shape(
    archive: &Archive,
    timeline: Option<u32>,
    report: &mut Report,
) -> Result<(), Error> {
    let known: BTreeSet<u32> = archive.timelines().iter().map(|origin| origin.timeline).collect();
    let mut lost = BTreeSet::new();
    for found in archive.store().list(names::TIMELINES, None).await? {
        match names::timeline_of(&found.name) {
            Some(number) if known.contains(&number) => {}
            Some(number) => {
                lost.insert(number);
            }
            None => report
                .notes
                .push(Finding::new(found.name, "it is no object of an archive")),
        }
    }
    for number in lost {
        if timeline.is_none_or(|wanted| wanted == number) {
            report.wrong(
                names::origin(number),
                "it is gone, and objects of its timeline are there",
            );
        }
    }
    for origin in archive.timelines() {
        let (Some(cluster), Some(parent)) = (origin.cluster(), origin.parent) else {
            continue;
        };
        match archive.restored(cluster).await {
            Ok(Some(mark)) if mark.from == parent => {}
            Ok(Some(_)) => report.notes.push(Finding::new(
                names::restored(cluster),
                "it tells of another restore than the timeline does",
            )),
            Ok(None) => report
                .notes
                .push(Finding::new(names::restored(cluster), "it is gone")),
            Err(Error::Damaged { object, why }) => report.wrong(object, why),
            Err(error) => return Err(error),
        }
    }
    small(archive, names::RESTORED, report).await?;
    small(archive, names::HOLDS, report).await
}

async fn small(archive: &Archive, below: &str, report: &mut Report) -> Result<(), Error> {
    for found in archive.store().list(below, None).await? {
        match archive.store().get(&found.name, 1 << 20).await {
            Ok(bytes) => {
                if let Err(why) = crate::format::lines::read::<serde_json::Value>(&bytes) {
                    report.wrong(found.name, why);
                }
            }
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the log of a timeline. Out: the log.
pub(super) async fn check(archive: &Archive, timeline: u32, report: &mut Report) -> Result<History, Error> {
    let history = archive.history(timeline).await?;
    report.records += history.records.len() as u64;
    for fault in &history.faults {
        report.wrong(fault.object.clone(), fault.why.clone());
    }
    copies(archive, timeline, &history, report).await?;
    holes(timeline, &history, report);
    Ok(history)
}

/// Every copy of every record says the same.
async fn copies(
    archive: &Archive,
    timeline: u32,
    history: &History,
    report: &mut Report,
) -> Result<(), Error> {
    let numbers = history
        .records
        .iter()
        .map(|signed| (signed.record.number, signed.hash));
    let expected: BTreeMap<u64, _> = numbers.collect();
    let (mut single, mut segments) = (BTreeSet::new(), Vec::new());
    for found in archive.store().list(&names::log(timeline), None).await? {
        match LogObject::parse(&found.name) {
            Some(LogObject::Record(number)) => drop(single.insert(number)),
            Some(LogObject::Segment(first, last)) => segments.push((first, last)),
            None => report
                .notes
                .push(Finding::new(found.name, "it is no part of a log")),
        }
    }
    let ranges = single
        .iter()
        .map(|number| (*number, *number, names::record(timeline, *number)));
    let of_segments = segments
        .iter()
        .map(|(first, last)| (*first, *last, names::segment(timeline, *first, *last)));
    let all: Vec<(u64, u64, String)> = ranges.chain(of_segments).collect();
    let reading = futures::stream::iter(all).map(|(first, last, name)| async move {
        let limit = match first == last {
            true => RECORD_BYTES_MAX as u64,
            false => SEGMENT_BYTES_MAX,
        };
        let read = archive.store().get(&name, limit).await;
        (first, last, name, read)
    });
    let mut reading = std::pin::pin!(reading.buffered(AT_ONCE));
    while let Some((first, last, name, read)) = reading.next().await {
        let bytes = match read {
            Ok(bytes) => bytes,
            // Pruned meanwhile.
            Err(error) if error.is_missing() => continue,
            Err(error) => return Err(error),
        };
        let judged = Signed::read_all(&bytes, last - first + 1).and_then(|records| {
            let told = |(number, signed): (u64, &Signed)| {
                signed.record.number == number
                    && expected.get(&number).is_none_or(|hash| *hash == signed.hash)
            };
            match (first..=last).zip(&records).all(told) {
                true => Ok(()),
                false => Err("it says something else than the log does"),
            }
        });
        if let Err(why) = judged
            && !report.findings.iter().any(|finding| finding.object == name)
        {
            report.wrong(name, why);
        }
    }
    // A record whose only copy is one of the two is no loss; but somebody took the other away.
    for (first, last) in &segments {
        let there = single.range(*first..=*last).count() as u64;
        if there > 0 && there < last - first + 1 {
            let name = names::segment(timeline, *first, *last);
            report.notes.push(Finding::new(
                name,
                "some of its records lie beside it, and some do not",
            ));
        }
    }
    for block in 0.. {
        let (first, last) = (block * crate::log::SEGMENT + 1, (block + 1) * crate::log::SEGMENT);
        if expected.last_key_value().is_none_or(|(end, _)| *end <= last) {
            break;
        }
        let whole = single.range(first..=last).count() as u64 == crate::log::SEGMENT;
        if whole && !segments.contains(&(first, last)) {
            let name = names::segment(timeline, first, last);
            report
                .notes
                .push(Finding::new(name, "it is not there; its records are"));
        }
    }
    Ok(())
}

/// Revisions that no record accounts for.
fn holes(timeline: u32, history: &History, report: &mut Report) {
    let mut next: Option<i64> = None;
    for signed in &history.records {
        let (from, to) = match &signed.record.entry {
            Entry::Delta(delta) => (delta.from, delta.to),
            Entry::Gap(gap) => {
                let why = format!(
                    "revisions {} to {} were never archived: {}",
                    gap.from, gap.to, gap.why
                );
                report
                    .notes
                    .push(Finding::new(names::record(timeline, signed.record.number), why));
                (gap.from, gap.to)
            }
            _ => continue,
        };
        if let Some(next) = next.filter(|next| from > *next) {
            let why = format!(
                "revisions {next} to {} are in no delta, and no record says so",
                from - 1
            );
            report.wrong(names::record(timeline, signed.record.number), why);
        }
        next = Some(next.map_or(to + 1, |next| next.max(to + 1)));
    }
}
