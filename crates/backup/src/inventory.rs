//! What an archive holds, and which points it leads back to; for whoever asks.
//!
//! In: an archive, what time it is. Out: its timelines with their full copies, the changes behind each, what can be
//! reached, what is missing or damaged, what was proven last and who writes. Deltas are summed up behind each full copy
//! unless each is asked for: there may be a million.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::format::object::KeyId;
use crate::format::record::{Delta, Full, Gap, Hash, Level, Made};
use crate::hold::{self, Mark};
use crate::log::History;
use crate::restore::chain::{Base, Link, reachable};
use crate::{Archive, Error, Origin, Point};

/// An agent that has not said for this many of its periods that it is there is silent.
const SILENT_PERIODS: u64 = 6;

/// What is wanted to be known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    pub timeline: Option<u32>,
    pub deltas: bool,
}

/// What an archive holds.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    pub store: String,
    pub id: String,
    /// When it was made.
    pub created: Timestamp,
    /// Its timelines, oldest first.
    pub timelines: Vec<Timeline>,
    /// What is being read just now.
    pub marks: Vec<Mark>,
}

/// What a timeline holds.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    pub timeline: u32,
    /// The etcd cluster's id.
    pub cluster_id: String,
    /// When it was begun.
    pub created: Timestamp,
    /// What it was restored from.
    pub parent: Option<Point>,
    /// Why it was begun.
    pub why: String,
    /// Revisions that can be reached, in order.
    pub reachable: Vec<Span>,
    /// Times that can be reached, from the first full copy on.
    pub times: Option<Times>,
    /// Full copies, oldest revision first.
    pub fulls: Vec<FullShown>,
    /// Deltas that no full copy leads to.
    pub before_first: Following,
    /// Each delta, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deltas: Vec<DeltaShown>,
    /// In the store, as records say.
    pub bytes: u64,
    /// Changes that are lost to the archive.
    pub gaps: Vec<GapShown>,
    /// What was proven last, the highest level first.
    pub proven: Vec<Proven>,
    /// Who writes, or wrote last.
    pub writer: Option<Writer>,
    /// When something was last recorded.
    pub last_record: Option<Timestamp>,
    /// What is wrong with its log.
    pub faults: Vec<FaultShown>,
}

/// Revisions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    pub from: i64,
    pub to: i64,
}

/// From when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Times {
    pub from: Timestamp,
    pub to: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FullShown {
    pub object: String,
    /// The revision it is of.
    pub revision: i64,
    /// History before this is not in it.
    pub compact_revision: i64,
    /// Its state was no newer than this.
    pub taken: Timestamp,
    /// How it came to be.
    pub made: Made,
    /// The etcd it came from.
    pub etcd_version: String,
    pub stored_bytes: u64,
    pub plain_bytes: u64,
    /// The key it is encrypted with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<Hash>,
    /// How far something was proven from it.
    pub proven: Option<Level>,
    /// The deltas behind it, up to the next full copy.
    pub following: Following,
}

/// Deltas in a row.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Following {
    pub deltas: u64,
    pub bytes: u64,
    pub rows: u64,
    /// From the first revision to the last.
    pub span: Option<Span>,
    /// When the last was written.
    pub until: Option<Timestamp>,
}

impl Following {
    fn add(&mut self, delta: &Delta, at: Timestamp) {
        self.deltas += 1;
        self.bytes += delta.facts.stored_bytes;
        self.rows += delta.rows;
        let span = self.span.get_or_insert(Span {
            from: delta.from,
            to: delta.to,
        });
        span.to = span.to.max(delta.to);
        self.until = Some(self.until.map_or(at, |until| until.max(at)));
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeltaShown {
    pub object: String,
    pub from: i64,
    pub to: i64,
    pub rows: u64,
    pub stored_bytes: u64,
    /// When it was recorded.
    pub at: Timestamp,
}

/// Changes that are lost to the archive.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GapShown {
    #[serde(flatten)]
    pub gap: Gap,
    /// When it was found.
    pub at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proven {
    pub level: Level,
    /// Up to which revision.
    pub revision: i64,
    /// From which full copy on.
    pub base: i64,
    pub at: Timestamp,
}

/// Who writes, or wrote last.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Writer {
    pub writer: String,
    pub epoch: u64,
    /// When it said so last.
    pub at: Timestamp,
    /// It is at work.
    pub writing: bool,
}

/// Something wrong with the log.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultShown {
    pub object: String,
    /// What is wrong with it.
    pub why: String,
}

impl Inventory {
    /// Looks at an archive. Only its logs are read.
    pub async fn take(archive: &Archive, wanted: Wanted, now: Timestamp) -> Result<Inventory, Error> {
        if wanted.timeline.is_some() {
            archive.timeline(wanted.timeline)?;
        }
        let mut timelines = Vec::new();
        for origin in archive.timelines() {
            if wanted.timeline.is_none_or(|number| number == origin.timeline) {
                let history = archive.history(origin.timeline).await?;
                timelines.push(timeline(origin, &history, wanted.deltas, now));
            }
        }
        Ok(Inventory {
            store: archive.store().describe().to_owned(),
            id: archive.identity().id.clone(),
            created: archive.identity().created,
            timelines,
            marks: hold::marks(archive, now).await?,
        })
    }

    /// Whether something is wrong with a log.
    pub fn is_faulty(&self) -> bool {
        self.timelines.iter().any(|timeline| !timeline.faults.is_empty())
    }
}

fn timeline(origin: &Origin, history: &History, each: bool, now: Timestamp) -> Timeline {
    let (fulls, deltas) = (history.fulls(), history.deltas());
    let mut levels: BTreeMap<i64, Level> = BTreeMap::new();
    let mut proven: BTreeMap<Level, Proven> = BTreeMap::new();
    for (record, proof) in history.proofs() {
        let level = levels.entry(proof.base).or_insert(proof.level);
        *level = (*level).max(proof.level);
        let shown = Proven {
            level: proof.level,
            revision: proof.revision,
            base: proof.base,
            at: record.at,
        };
        proven.insert(proof.level, shown);
    }
    let mut shown: Vec<FullShown> = fulls.iter().map(|(_, full)| full_shown(full, &levels)).collect();
    let mut before_first = Following::default();
    for (record, delta) in &deltas {
        // Behind the last full copy that it goes beyond.
        let behind = shown.partition_point(|full| full.revision < delta.to);
        match behind.checked_sub(1).and_then(|position| shown.get_mut(position)) {
            Some(full) => full.following.add(delta, record.at),
            None => before_first.add(delta, record.at),
        }
    }
    let bases: Vec<Base> = fulls.iter().map(|(_, full)| base(full)).collect();
    let links: Vec<Link> = deltas
        .iter()
        .map(|(_, delta)| Link {
            from: delta.from,
            to: delta.to,
        })
        .collect();
    let first = fulls.iter().map(|(_, full)| full.taken).min();
    let last = fulls.iter().map(|(_, full)| full.taken).max();
    let last_sample = deltas
        .iter()
        .filter_map(|(_, delta)| delta.samples.last())
        .filter_map(|sample| Timestamp::from_millisecond(sample.after).ok())
        .max();
    let to = last.into_iter().chain(last_sample).max();
    let stored = |(_, delta): &(_, &Delta)| delta.facts.stored_bytes;
    Timeline {
        timeline: origin.timeline,
        cluster_id: origin.cluster_id.clone(),
        created: origin.created,
        parent: origin.parent,
        why: origin.why.clone(),
        reachable: reachable(&bases, &links)
            .into_iter()
            .map(|(from, to)| Span { from, to })
            .collect(),
        times: first.zip(to).map(|(from, to)| Times { from, to }),
        bytes: shown.iter().map(|full| full.stored_bytes).sum::<u64>()
            + deltas.iter().map(stored).sum::<u64>(),
        fulls: shown,
        before_first,
        deltas: deltas
            .iter()
            .filter(|_| each)
            .map(|(record, delta)| delta_shown(delta, record.at))
            .collect(),
        gaps: history
            .gaps()
            .map(|(record, gap)| GapShown {
                gap: gap.clone(),
                at: record.at,
            })
            .collect(),
        proven: proven.into_values().rev().collect(),
        writer: history.head.as_ref().map(|head| Writer {
            writer: head.writer.clone(),
            epoch: head.epoch,
            at: head.at,
            writing: head.every > 0
                && now.duration_since(head.at).as_secs()
                    < i64::try_from(head.every * SILENT_PERIODS).unwrap_or(i64::MAX),
        }),
        last_record: history.records.last().map(|signed| signed.record.at),
        faults: history
            .faults
            .iter()
            .map(|fault| FaultShown {
                object: fault.object.clone(),
                why: fault.why.clone(),
            })
            .collect(),
    }
}

fn base(full: &Full) -> Base {
    Base {
        revision: full.revision,
        compact_revision: full.compact_revision,
    }
}

fn full_shown(full: &Full, levels: &BTreeMap<i64, Level>) -> FullShown {
    FullShown {
        object: full.facts.object.clone(),
        revision: full.revision,
        compact_revision: full.compact_revision,
        taken: full.taken,
        made: full.made,
        etcd_version: full.etcd_version.clone(),
        stored_bytes: full.facts.stored_bytes,
        plain_bytes: full.facts.plain_bytes,
        key: full.facts.key.clone(),
        hash: full.hash,
        proven: levels.get(&full.revision).copied(),
        following: Following::default(),
    }
}

fn delta_shown(delta: &Delta, at: Timestamp) -> DeltaShown {
    DeltaShown {
        object: delta.facts.object.clone(),
        from: delta.from,
        to: delta.to,
        rows: delta.rows,
        stored_bytes: delta.facts.stored_bytes,
        at,
    }
}
