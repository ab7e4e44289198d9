//! `quorate backup now URL`: a full copy of a live cluster, now.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use quorate_backup::Error;
use quorate_backup::agent::{AtLeast, Opening, TakeFull, open, take_full};
use quorate_backup::record::Entry;
use quorate_datadir::Progress;
use serde::Serialize;

use super::run::hash;
use super::{place, reach, watched};
use crate::arguments::backup::Now;
use crate::commands::snapshot::form;
use crate::failure::Failure;
use crate::render::facts;
use crate::say;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    object: String,
    timeline: u32,
    revision: i64,
    compact_revision: i64,
    stored_bytes: u64,
    plain_bytes: u64,
    etcd_version: String,
    /// etcd's hash, if it was asked for.
    hash: Option<u32>,
    seconds: f64,
}

/// Takes it and says what it is.
pub async fn run(root: Option<PathBuf>, arguments: Now) -> Result<(), Failure> {
    let began = std::time::Instant::now();
    let key = place::key(&arguments.place)?;
    let store = place::store(&arguments.place.url, &arguments.place).await?;
    let cluster = reach::cluster(root, arguments.members)?;
    let writer = place::writer();
    let progress = Arc::new(Progress::new());
    let work = async {
        let opening = Opening {
            store: &store,
            key: key.as_ref(),
            cluster: &cluster,
            writer: &writer,
            adopt: arguments.new_timeline,
            other: None,
        };
        let mut place = open(opening).await?;
        let take = TakeFull {
            archive: &place.archive,
            timeline: place.origin.timeline,
            cluster: &cluster,
            hash: hash(arguments.hash),
            attempt: 0,
            at_least: AtLeast {
                revision: place.revision,
                ..AtLeast::default()
            },
        };
        let mut expected = false;
        let full = take_full(take, |bytes, total| {
            if !expected {
                progress.expect(total);
                expected = true;
            }
            let _ = progress.add(bytes.saturating_sub(progress.done()));
        });
        let full = full.await?;
        if progress.add(0).is_err() {
            return Err(Error::Cancelled);
        }
        place
            .log
            .append(Entry::Full(full.clone()), Timestamp::now())
            .await?;
        place.log.raise_head(Timestamp::now()).await;
        Ok((full, place.origin.timeline, place.fenced))
    };
    let (full, timeline, fenced) = watched::watch("copied", &store, &progress, work).await?;
    if !fenced {
        say::warning("this store creates one name twice: it cannot keep two agents apart, so run only one");
    }
    let shown = Shown {
        object: full.facts.object.clone(),
        timeline,
        revision: full.revision,
        compact_revision: full.compact_revision,
        stored_bytes: full.facts.stored_bytes,
        plain_bytes: full.facts.plain_bytes,
        etcd_version: full.etcd_version.clone(),
        hash: full.hash.map(|hash| hash.hash),
        seconds: began.elapsed().as_secs_f64(),
    };
    form::show(arguments.output, &shown, || page(&shown))
}

fn page(shown: &Shown) -> String {
    facts::page(&[
        ("full copy", shown.object.clone()),
        ("timeline", shown.timeline.to_string()),
        ("revision", shown.revision.to_string()),
        ("size", facts::size(shown.stored_bytes)),
        ("unpacked", facts::size(shown.plain_bytes)),
        ("etcd", shown.etcd_version.clone()),
        (
            "hashkv",
            shown
                .hash
                .map_or("not asked for".to_owned(), |hash| hash.to_string()),
        ),
        ("seconds", format!("{:.1}", shown.seconds)),
    ])
}
