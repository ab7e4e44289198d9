//! The two states, rebuilt and held against each other.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use quorate_datadir::view::{Compared, Kind, Selection, Side, diff, find_those};
use quorate_datadir::{Progress, Source, write_snapshot};

use super::{Fate, Happened, Item, KEYS_MAX, NewKeys, Undo};
use crate::restore::fetch;
use crate::restore::plan::Plan;
use crate::restore::{Holding, carry_out, suffice};
use crate::{Archive, Error};

/// The states at both points; often one database that holds them both.
pub(super) struct States {
    pub(super) before: Arc<Source>,
    pub(super) after: Arc<Source>,
}

/// Rebuilds the second state, and the first where that does not hold it.
pub(super) async fn rebuild(
    archive: &Archive,
    (first, second): (Plan, Plan),
    scratch: &Path,
    progress: &Arc<Progress>,
    now: Timestamp,
) -> Result<States, Error> {
    let needed = first.database_bytes().saturating_add(second.database_bytes());
    suffice([(scratch, needed)])?;
    let holding = Holding::begin(archive, "undo", now).await;
    let states = async {
        let revision = first.revision;
        let (after, compacted) = database(second, scratch.join("after.db"), progress).await?;
        let before = match compacted.is_some_and(|compacted| compacted > revision) {
            false => Arc::clone(&after),
            true => database(first, scratch.join("before.db"), progress).await?.0,
        };
        Ok(States { before, after })
    }
    .await;
    holding.end().await;
    states
}

/// A database at the revision of a plan, with all the history that there is; and up to where that is compacted.
async fn database(
    plan: Plan,
    file: std::path::PathBuf,
    progress: &Arc<Progress>,
) -> Result<(Arc<Source>, Option<i64>), Error> {
    let written = file.clone();
    let (_, fresh) = carry_out(plan, progress, &mut |_| {}, || {
        let file = written.clone();
        Box::new(move |assembly, progress| write_snapshot(assembly, &file, progress))
    })
    .await?;
    let source = Source::open(&file).map_err(fetch::told)?;
    Ok((Arc::new(source), fresh.compact_revision))
}

/// Every key under the prefix that has another value, in the order of their bytes. What differs in its lease alone does
/// not count: leases do not come back, and the one that it has is the one that somebody keeps alive.
pub(super) async fn differences(
    states: &States,
    (from, to): (i64, i64),
    wanted: &Undo<'_>,
    progress: &Arc<Progress>,
) -> Result<Vec<Item>, Error> {
    let (before, after) = (Arc::clone(&states.before), Arc::clone(&states.after));
    let (selection, new_keys) = (Selection::Prefix(wanted.prefix.to_vec()), wanted.new_keys);
    let progress = Arc::clone(progress);
    let work = tokio::task::spawn_blocking(move || {
        let mut items: Vec<Item> = Vec::new();
        let mut too_many = false;
        let sides = [
            Side {
                source: &before,
                revision: from,
            },
            Side {
                source: &after,
                revision: to,
            },
        ];
        diff(sides, &selection, Compared::Value, &progress, |change| {
            too_many = items.len() >= KEYS_MAX;
            if too_many {
                return ControlFlow::Break(());
            }
            let (happened, fate) = match (change.kind, new_keys) {
                (Kind::Deleted, _) => (Happened::Vanished, Fate::PutBack),
                (Kind::Changed, _) => (Happened::Changed, Fate::PutBack),
                (Kind::Added, NewKeys::Go) => (Happened::Appeared, Fate::Deleted),
                (Kind::Added, NewKeys::Stay) => (Happened::Appeared, Fate::Stays),
            };
            items.push(Item {
                key: change.key.to_vec(),
                happened,
                fate,
                had_lease: false,
                value_bytes: 0,
                expected: change.after.unwrap_or(0),
                found: None,
            });
            ControlFlow::Continue(())
        })
        .map_err(fetch::told)?;
        if too_many {
            return Err(Error::refused(
                format!("more than {KEYS_MAX} keys differ under this prefix"),
                "undo it in parts, with longer prefixes",
            ));
        }
        items.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let due = |key: &[u8]| place(&items, key).filter(|at| items[*at].happened != Happened::Appeared);
        let values = find_those(&before, |key| due(key).is_some(), from, &progress).map_err(fetch::told)?;
        for found in values {
            if let Some(at) = place(&items, &found.key) {
                let item = &mut items[at];
                (item.had_lease, item.value_bytes) = (found.lease != 0, found.value_bytes);
                item.found = Some(found);
            }
        }
        Ok(items)
    });
    work.await.map_err(|_| Error::Cancelled)?
}

/// Where a key is among items in the order of their keys.
pub(super) fn place(items: &[Item], key: &[u8]) -> Option<usize> {
    items.binary_search_by(|item| item.key.as_slice().cmp(key)).ok()
}
