//! Would it restore? Looked at, rebuilt, served.
//!
//! ```text
//! read      every object is there and is what was written; the log is whole; rows follow one another
//! rebuilt   the newest point was put together in a scratch directory, and its hashes are those that were recorded;
//!           the newest full copy is what the one before it and the deltas between come to
//! served    a real etcd started on that and told the same hash
//! ```
//!
//! In: an archive, how far to go. Out: what was found wrong, and, if nothing was, a record of what is proven. An agent may
//! write meanwhile.
//! Never: a proof of more than was looked at; a proof beside anything found wrong.

mod log;
mod objects;
pub(crate) mod rebuild;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use jiff::Timestamp;
use quorate_datadir::Progress;
use serde::Serialize;

use crate::format::names;
use crate::format::record::{Entry, Hash, Level, Proof};
use crate::restore::Holding;
use crate::restore::fetch::cancelled;
use crate::restore::plan::{To, Wanted};
use crate::{Archive, Error};

pub use rebuild::Rebuilt;

/// What to look at.
pub struct Options<'a> {
    /// Which timeline; all of them are read, the newest is rebuilt, if none is named.
    pub timeline: Option<u32>,
    /// How far to go.
    pub level: Level,
    /// Which full copies are held against the ones before them.
    pub fulls: Fulls,
    pub scratch: &'a Path,
    /// What starts a real etcd; needed to go that far.
    pub serve: Option<&'a dyn Serve>,
    /// Who does it, for the record.
    pub writer: &'a str,
    /// Whether what was proven is recorded in the archive.
    pub record: Recording,
}

/// Which full copies are held against the ones before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fulls {
    #[default]
    Newest,
    All,
}

/// Whether a proof is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recording {
    #[default]
    Recorded,
    Told,
}

/// Starts a real etcd on a directory, privately, and asks it for its hash.
pub trait Serve: Send + Sync {
    /// Starts it, asks, ends it.
    fn serve<'a>(&'a self, staged: &'a Staged<'a>) -> BoxFuture<'a, Result<Hash, Error>>;
}

/// A directory that etcd is to be started on.
#[derive(Debug, Clone, Copy)]
pub struct Staged<'a> {
    pub data_dir: &'a Path,
    pub name: &'a str,
    /// Its only peer URL: a socket in the directory that etcd is started in.
    pub peer_url: &'a str,
    /// The version of etcd that it came from.
    pub etcd_version: &'a str,
    /// The revision to ask the hash of.
    pub revision: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub object: String,
    pub why: String,
}

impl Finding {
    fn new(object: impl Into<String>, why: impl Into<String>) -> Finding {
        Finding {
            object: object.into(),
            why: why.into(),
        }
    }
}

/// What was looked at, and what came of it.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What is wrong. Nothing is proven if there is anything.
    pub findings: Vec<Finding>,
    /// What is odd and harms nothing.
    pub notes: Vec<Finding>,
    /// Timelines that were read.
    pub timelines: Vec<u32>,
    /// Full copies that were read.
    pub fulls: u64,
    /// Deltas that were read.
    pub deltas: u64,
    /// Records that were read.
    pub records: u64,
    /// Bytes that were read of objects.
    pub bytes: u64,
    pub rebuilt: Option<Rebuilt>,
    pub proof: Option<Proof>,
}

impl Report {
    fn wrong(&mut self, object: impl Into<String>, why: impl Into<String>) {
        self.findings.push(Finding::new(object, why));
    }
}

/// Looks at an archive. What is wrong with it is in the report; an error is that something could not be looked at.
pub async fn verify(
    archive: &Archive,
    options: &Options<'_>,
    progress: &Arc<Progress>,
    now: Timestamp,
) -> Result<Report, Error> {
    if options.level == Level::Served && options.serve.is_none() {
        return Err(Error::refused(
            "no etcd can be started here",
            "verify up to the level `rebuilt`, or where there is an etcd",
        ));
    }
    let holding = Holding::begin(archive, "verify", now).await;
    let done = look(archive, options, progress, now).await;
    holding.end().await;
    done
}

async fn look(
    archive: &Archive,
    options: &Options<'_>,
    progress: &Arc<Progress>,
    now: Timestamp,
) -> Result<Report, Error> {
    let begun = Instant::now();
    let mut report = Report::default();
    log::shape(archive, options.timeline, &mut report).await?;
    if archive.timelines().is_empty() && !report.findings.is_empty() {
        return Ok(report);
    }
    let newest = archive.timeline(options.timeline)?.timeline;
    let chosen: Vec<u32> = match options.timeline {
        Some(timeline) => vec![timeline],
        None => archive.timelines().iter().map(|origin| origin.timeline).collect(),
    };
    // As far as it was read: what is written meanwhile is not.
    let mut read_to = None;
    for timeline in &chosen {
        report.timelines.push(*timeline);
        let history = tokio::select! {
            read = log::check(archive, *timeline, &mut report) => read?,
            () = cancelled(progress) => return Err(Error::Cancelled),
        };
        objects::check(archive, &history, progress, &mut report).await?;
        if *timeline == newest {
            read_to = rebuild::end(&history);
        }
    }
    // What is proven of a timeline is proven by its own objects.
    let own = names::timeline(newest);
    let sound = |report: &Report| {
        !report
            .findings
            .iter()
            .any(|it| !it.object.starts_with("t/") || it.object.starts_with(&own))
    };
    let mut proven = None;
    if options.level == Level::Read {
        proven = read_to.map(|base| (Level::Read, base, None));
    } else if sound(&report) {
        let wanted = Wanted {
            timeline: Some(newest),
            to: To::End,
        };
        let rebuilt = rebuild::check(archive, wanted, options, progress, &mut report).await?;
        proven = rebuilt.map(|rebuilt| {
            let level = match rebuilt.served {
                true => Level::Served,
                false => Level::Rebuilt,
            };
            let found = ((rebuilt.revision, rebuilt.base), Some(rebuilt.hash));
            report.rebuilt = Some(rebuilt);
            (level, found.0, found.1)
        });
    }
    if let Some((level, (revision, base), hash)) = proven.filter(|_| sound(&report)) {
        let proof = Proof {
            level,
            revision,
            base,
            hash,
            seconds: begun.elapsed().as_secs_f64(),
        };
        if options.record == Recording::Recorded {
            let mut log = archive.log(newest, options.writer).await?;
            log.append(Entry::Proof(proof.clone()), now).await?;
            log.raise_head(now).await;
        }
        report.proof = Some(proof);
    }
    Ok(report)
}
