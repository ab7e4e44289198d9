//! Deletions, once everything that must stand in records does.

use futures::StreamExt as _;

use super::{Done, Item, Plan, plan};
use crate::{Archive, Deleted, Error};

const AT_ONCE: usize = 8;

pub(super) async fn run(
    archive: &Archive,
    plan: &Plan,
    done: &mut Done,
    seen: &mut impl FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let due = delete(archive, &plan.due, done, seen).await?;
    done.deleted.objects += due.objects;
    done.deleted.bytes += due.bytes;
    let orphans = still_orphans(archive, &plan.orphans).await?;
    done.orphans = delete(archive, &orphans, done, seen).await?;
    let spare: Vec<Item> = plan
        .spare
        .iter()
        .map(|name| Item {
            object: name.clone(),
            bytes: 0,
        })
        .collect();
    done.spare += delete(archive, &spare, done, seen).await?.objects;
    for trimmed in &plan.trimmed {
        for name in &trimmed.objects {
            match archive.store().delete(name).await? {
                Deleted::Gone => done.spare += 1,
                // What is behind it must stay, or there would be a hole.
                Deleted::Locked => {
                    done.locked.push(name.clone());
                    break;
                }
            }
            seen(0)?;
        }
    }
    Ok(())
}

async fn delete(
    archive: &Archive,
    items: &[Item],
    done: &mut Done,
    seen: &mut impl FnMut(u64) -> Result<(), Error>,
) -> Result<super::Tally, Error> {
    let mut tally = super::Tally::default();
    let deletions = items
        .iter()
        .map(|item| async move { (item, archive.store().delete(&item.object).await) });
    let mut deletions = futures::stream::iter(deletions).buffer_unordered(AT_ONCE);
    while let Some((item, deleted)) = deletions.next().await {
        match deleted? {
            Deleted::Gone => tally.add(item.bytes),
            Deleted::Locked => done.locked.push(item.object.clone()),
        }
        seen(item.bytes)?;
    }
    Ok(tally)
}

/// Those that still no record names: the plan is some time old.
async fn still_orphans(archive: &Archive, orphans: &[Item]) -> Result<Vec<Item>, Error> {
    let mut left = orphans.to_vec();
    if left.is_empty() {
        return Ok(left);
    }
    for origin in archive.timelines() {
        let history = archive.history(origin.timeline).await?;
        let named = plan::named(&history);
        let sound = history.faults.is_empty();
        let own = |item: &Item| crate::format::names::timeline_of(&item.object) == Some(origin.timeline);
        left.retain(|item| !own(item) || (sound && !named.contains(item.object.as_str())));
    }
    Ok(left)
}
