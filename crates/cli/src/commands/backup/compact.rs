//! `quorate backup compact URL`: a new full copy of an old one and the changes after it.

use std::sync::Arc;

use jiff::Timestamp;
use quorate_backup::compact::{Compaction, Keep, compact};
use quorate_backup::plan::{To, Wanted};
use quorate_datadir::Progress;
use serde::Serialize;

use super::place::{self, Found};
use super::{etcdbr, watched};
use crate::arguments::backup::Compact;
use crate::commands::snapshot::form;
use crate::failure::Failure;
use crate::render::count::count;
use crate::render::facts;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    object: String,
    timeline: u32,
    revision: i64,
    /// It was there already: nothing was made.
    was_there: bool,
    from_full: i64,
    deltas: usize,
    stored_bytes: u64,
    plain_bytes: u64,
    hash: Option<u32>,
    seconds: f64,
}

/// Makes it and says what it is.
pub async fn run(arguments: &Compact) -> Result<(), Failure> {
    let began = std::time::Instant::now();
    let scratch = place::scratch(arguments.scratch.as_deref());
    let archive = match place::found(&arguments.place).await? {
        Found::Ours(archive) => archive,
        Found::Etcdbr(store, _) => return etcdbr::compacted(arguments, &store, &scratch).await,
    };
    let writer = place::writer();
    let wanted = Compaction {
        wanted: Wanted {
            timeline: arguments.timeline,
            to: arguments.to_revision.map_or(To::End, To::Revision),
        },
        keep: match arguments.keep_history {
            true => Keep::History,
            false => Keep::Keys,
        },
        scratch: &scratch,
        writer: &writer,
    };
    let progress = Arc::new(Progress::new());
    let work = compact(&archive, &wanted, &progress, Timestamp::now());
    let compacted = watched::watch("compacted", archive.store(), &progress, work).await?;
    let full = &compacted.full;
    let shown = Shown {
        object: full.facts.object.clone(),
        timeline: compacted.plan.timeline,
        revision: full.revision,
        was_there: compacted.was_there,
        from_full: compacted.plan.full.revision,
        deltas: compacted.plan.deltas.len(),
        stored_bytes: full.facts.stored_bytes,
        plain_bytes: full.facts.plain_bytes,
        hash: full.hash.map(|hash| hash.hash),
        seconds: began.elapsed().as_secs_f64(),
    };
    form::show(arguments.output, &shown, || page(&shown))
}

fn page(shown: &Shown) -> String {
    if shown.was_there {
        return format!(
            "Nothing to do: there is a full copy of revision {} already, {}.\n",
            shown.revision, shown.object
        );
    }
    facts::page(&[
        ("full copy", shown.object.clone()),
        ("revision", shown.revision.to_string()),
        (
            "made of",
            format!(
                "that of revision {}, and {}",
                shown.from_full,
                count(shown.deltas, "delta", "deltas")
            ),
        ),
        ("size", facts::size(shown.stored_bytes)),
        ("unpacked", facts::size(shown.plain_bytes)),
        (
            "hashkv",
            shown.hash.map_or("-".to_owned(), |hash| hash.to_string()),
        ),
        ("seconds", format!("{:.1}", shown.seconds)),
    ])
}
