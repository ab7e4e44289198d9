//! Prune: what an archive no longer needs is given up, and later deleted.
//!
//! In: an archive, how long what is to stay reachable. Out: first a plan, which only reads; then records that objects no
//! longer count, and after a grace the deletions. Whoever ends in between loses nothing: the next one finds the records
//! and goes on. An agent may write meanwhile.
//! Never: an object deleted that counts, that something marked as being read may use, or whose record may be one that
//! cannot be read.

mod delete;
mod plan;
#[cfg(test)]
mod tests;
mod trim;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::retention::{Retention, Why};
use crate::format::record::{Entry, Full, Prune};
use crate::hold::Mark;
use crate::log::Log;
use crate::{Archive, Error, Found};

pub use plan::plan;
pub(crate) use plan::plan_copy;

/// How long after its record an object is deleted, unless told otherwise: readers that could leave no mark have so long.
pub const GRACE: Duration = Duration::from_secs(3600);
/// Names in one record.
const NAMES_MAX: usize = 20_000;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// What stays reachable; none: nothing is given up, and what was given up before is deleted.
    pub retention: Option<Retention>,
    /// How long after its record an object is deleted.
    pub grace: Duration,
    /// Who does it, for the records.
    pub writer: String,
}

/// What would be done.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub timelines: Vec<TimelinePlan>,
    /// Given up before, and due.
    pub due: Vec<Item>,
    /// Given up before, and not due yet.
    pub waiting: Tally,
    /// When the first of those are due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// Given up before and due, and something that is being read may use them.
    pub held: Tally,
    /// What is being read.
    pub marks: Vec<Mark>,
    /// Objects that no record names, old enough for none to come.
    pub orphans: Vec<Item>,
    /// Records that segments hold, too, and other small things that are of no use any more.
    #[serde(skip)]
    pub spare: Vec<String>,
    #[serde(skip)]
    pub(super) trimmed: Vec<Trimmed>,
}

/// What would be done to a timeline.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelinePlan {
    pub timeline: u32,
    /// What would be given up.
    pub going: Vec<Item>,
    pub staying: Vec<Staying>,
    /// Names of segments of the log that would be given up.
    pub segments: Vec<String>,
    /// What is wrong with its log: then objects that no record names, and the log itself, stay as they are.
    pub faults: Vec<String>,
    #[serde(skip)]
    pub(super) told_again: Vec<Full>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    pub object: String,
    pub bytes: u64,
}

/// Objects that stay for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Staying {
    pub why: Why,
    pub fulls: Tally,
    pub deltas: Tally,
}

/// How many, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    pub objects: u64,
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }

    pub fn of(items: &[Item]) -> Tally {
        let mut tally = Tally::default();
        items.iter().for_each(|item| tally.add(item.bytes));
        tally
    }
}

/// Objects of a log that may be deleted, in this order.
#[derive(Debug, Clone, Default)]
pub(super) struct Trimmed {
    objects: Vec<String>,
}

impl From<&Found> for Item {
    fn from(found: &Found) -> Item {
        Item {
            object: found.name.clone(),
            bytes: found.size,
        }
    }
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.due.is_empty()
            && self.orphans.is_empty()
            && self.spare.is_empty()
            && self.trimmed.is_empty()
            && self.timelines.iter().all(TimelinePlan::is_idle)
    }

    /// What would be given up, in all.
    pub fn going(&self) -> Tally {
        let mut tally = Tally::default();
        let going = self.timelines.iter().flat_map(|timeline| &timeline.going);
        going.for_each(|item| tally.add(item.bytes));
        tally
    }
}

impl TimelinePlan {
    fn is_idle(&self) -> bool {
        self.going.is_empty() && self.segments.is_empty()
    }
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// Given up: recorded, and deleted after the grace.
    pub given_up: Tally,
    /// They are deleted by the next prune after this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_after: Option<Timestamp>,
    /// Deleted, of what was given up.
    pub deleted: Tally,
    /// Deleted, of what no record names.
    pub orphans: Tally,
    /// Spare records and marks deleted.
    pub spare: u64,
    /// The store keeps these; they are tried again next time.
    pub locked: Vec<String>,
    /// What could not be done, and why.
    pub troubles: Vec<String>,
}

/// Does what a plan says. `seen` hears of each record and of the bytes of each deletion; what it refuses ends it.
pub async fn run(
    archive: &Archive,
    options: &Options,
    plan: &Plan,
    now: Timestamp,
    mut seen: impl FnMut(u64) -> Result<(), Error>,
) -> Result<Done, Error> {
    let mut done = Done::default();
    let grace = SignedDuration::try_from(options.grace).unwrap_or(SignedDuration::from_hours(1));
    let delete_after = now.checked_add(grace).unwrap_or(Timestamp::MAX);
    for timeline in plan.timelines.iter().filter(|timeline| !timeline.is_idle()) {
        match record(archive, options, timeline, (now, delete_after), &mut seen).await {
            Ok(()) => {
                timeline
                    .going
                    .iter()
                    .for_each(|item| done.given_up.add(item.bytes));
                done.delete_after = Some(delete_after);
            }
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) => done
                .troubles
                .push(format!("timeline {}: {error}", timeline.timeline)),
        }
    }
    if options.grace.is_zero() && done.delete_after.is_some() {
        // What was given up just now is due, unless something reads.
        let again = plan::plan(
            archive,
            &Options {
                retention: None,
                ..options.clone()
            },
            now,
        )
        .await?;
        delete::run(archive, &again, &mut done, &mut seen).await?;
    } else {
        delete::run(archive, plan, &mut done, &mut seen).await?;
    }
    Ok(done)
}

/// Records what a timeline gives up. Full copies whose records go with the oldest of the log are told again first.
async fn record(
    archive: &Archive,
    options: &Options,
    timeline: &TimelinePlan,
    (now, delete_after): (Timestamp, Timestamp),
    seen: &mut impl FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut log: Log = archive.log(timeline.timeline, &options.writer).await?;
    for full in &timeline.told_again {
        log.append(Entry::Full(full.clone()), now).await?;
        seen(0)?;
    }
    let names: Vec<String> = timeline.going.iter().map(|item| item.object.clone()).collect();
    let names: Vec<String> = names
        .into_iter()
        .chain(timeline.segments.iter().cloned())
        .collect();
    let why = match &options.retention {
        Some(retention) => format!("older than {retention}"),
        None => "no longer needed".to_owned(),
    };
    for names in names.chunks(NAMES_MAX) {
        let prune = Prune {
            objects: names.to_vec(),
            delete_after,
            why: why.clone(),
        };
        log.append(Entry::Prune(prune), now).await?;
        seen(0)?;
    }
    log.raise_head(now).await;
    Ok(())
}
