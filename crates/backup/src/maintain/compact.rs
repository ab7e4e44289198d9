//! A new full copy made of an older one and the changes after it.
//!
//! In: an archive, a point, a directory to work in. Out: a full copy of that point in the archive, as if a member had
//! streamed it: put together in a file, read back, its pages, its history and its HashKV found right, uploaded, opened
//! again, and only then recorded. An agent may write meanwhile.
//! Never: a record of a copy that was not verified; a file left behind, but by a crash.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use quorate_datadir::{Fresh, Progress, write_snapshot};

use super::deposit::deposit;
use crate::format::names;
use crate::format::object::open;
use crate::format::record::{Entry, Full, Hash, Made};
use crate::restore::plan::{Plan, Wanted, plan};
use crate::restore::{Holding, carry_out, suffice};
use crate::{Archive, Error};

/// What becomes of the history in the new full copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// It is compacted up to the point: the copy holds the keys that are there, and is as small as can be.
    #[default]
    Keys,
    /// All that the older copy and the deltas have.
    History,
}

#[derive(Debug)]
pub struct Compaction<'a> {
    pub wanted: Wanted,
    pub keep: Keep,
    /// Where to work; it needs room for the database twice.
    pub scratch: &'a Path,
    /// Who does it, for the record.
    pub writer: &'a str,
}

pub struct Compacted {
    /// The record of it.
    pub full: Full,
    /// What it was made of.
    pub plan: Plan,
    /// The point is that of a full copy already: nothing was made.
    pub was_there: bool,
}

/// Makes the full copy.
pub async fn compact(
    archive: &Archive,
    wanted: &Compaction<'_>,
    progress: &Arc<Progress>,
    now: Timestamp,
) -> Result<Compacted, Error> {
    let plan = plan(archive, wanted.wanted).await?;
    if plan.deltas.is_empty() && plan.cut.is_none() {
        return Ok(Compacted {
            full: plan.full.clone(),
            plan,
            was_there: true,
        });
    }
    if let Some(consent) = plan.consents().first() {
        return Err(Error::refused(
            consent.clone(),
            "say up to which revision it is to go: --to-revision",
        ));
    }
    let work = Workshop::in_dir(wanted.scratch, "compact")?;
    let needed = plan.database_bytes().saturating_mul(2);
    suffice([(work.path(), needed)])?;
    let holding = Holding::begin(archive, "compact", now).await;
    let done = made(archive, plan, wanted, &work, progress, now).await;
    holding.end().await;
    done
}

async fn made(
    archive: &Archive,
    plan: Plan,
    wanted: &Compaction<'_>,
    work: &Workshop,
    progress: &Arc<Progress>,
    now: Timestamp,
) -> Result<Compacted, Error> {
    let file = work.path().join("full.db");
    let at = match wanted.keep {
        Keep::Keys => Some(plan.revision),
        Keep::History => None,
    };
    let written = file.clone();
    let (plan, fresh) = carry_out(plan, progress, &mut |_| {}, || {
        let file = written.clone();
        Box::new(move |mut assembly, progress| {
            assembly.compact = at;
            write_snapshot(assembly, &file, progress)
        })
    })
    .await?;
    let full = deposited(archive, &plan, &fresh, &file, progress).await?;
    let mut log = archive.log(plan.timeline, wanted.writer).await?;
    log.append(Entry::Full(full.clone()), now).await?;
    log.raise_head(now).await;
    Ok(Compacted {
        full,
        plan,
        was_there: false,
    })
}

/// Uploads the file, and opens what was uploaded.
async fn deposited(
    archive: &Archive,
    plan: &Plan,
    fresh: &Fresh,
    file: &Path,
    progress: &Arc<Progress>,
) -> Result<Full, Error> {
    let name = names::full(plan.timeline, fresh.revision, &names::unique());
    let facts = deposit(archive, &name, file, progress).await?;
    // What a record names can be opened.
    open(archive.store(), &facts, archive.key()).await?;
    let hash = fresh.verdict.hash_kv;
    Ok(Full {
        facts,
        revision: fresh.revision,
        compact_revision: fresh.compact_revision.unwrap_or(-1),
        made: Made::Compaction,
        // Nothing in it is newer than what was known then.
        taken: plan.known.unwrap_or(plan.full.taken),
        etcd_version: plan.full.etcd_version.clone(),
        auth_revision: plan.full.auth_revision,
        auth_from: Some(plan.full.auth()),
        hash: Some(Hash {
            hash: hash.hash,
            revision: hash.revision,
            compact_revision: hash.compact_revision,
        }),
    })
}

/// A directory to work in; gone when dropped.
#[derive(Debug)]
pub(crate) struct Workshop(tempfile::TempDir);

impl Workshop {
    pub(crate) fn in_dir(scratch: &Path, what: &str) -> Result<Workshop, Error> {
        let made = tempfile::Builder::new()
            .prefix(&format!(".quorate-{what}-"))
            .tempdir_in(scratch);
        made.map(Workshop).map_err(|source| Error::File {
            doing: "make a directory in",
            path: scratch.to_owned(),
            source,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
