//! Keys put back, in transactions that a later change makes void.

use std::sync::Arc;

use quorate_client::{Condition, Consistency, Endpoint, Keys, Op, Txn};
use quorate_datadir::view::Values;
use quorate_datadir::{Progress, Source};
use serde::Serialize;

use super::{Fate, Item, Undoing, voting};
use crate::Error;
use crate::agent::Cluster;
use crate::restore::fetch;

/// Keys in one transaction; etcd takes 128 operations unless it is told otherwise.
const BATCH_KEYS: usize = 64;
/// Bytes of values in one; etcd takes a request of 1.5 MiB unless it is told otherwise.
const BATCH_BYTES: u64 = 512 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// Keys that were put back.
    pub put_back: u64,
    /// Keys that were deleted.
    pub deleted: u64,
    pub transactions: u64,
    /// The cluster's revision after the last of them; 0 if there was none.
    pub revision: i64,
}

pub(super) async fn run(
    undoing: &mut Undoing,
    cluster: &Cluster,
    progress: &Arc<Progress>,
) -> Result<Done, Error> {
    let endpoint = voting(cluster).await?;
    let before = Arc::clone(&undoing.before);
    let due = |item: &Item| matches!(item.fate, Fate::PutBack | Fate::Deleted);
    progress.expect(
        undoing
            .items
            .iter()
            .filter(|item| due(item))
            .map(|item| item.value_bytes)
            .sum(),
    );
    let mut done = Done::default();
    let mut batch: Vec<usize> = Vec::new();
    let mut bytes = 0;
    for position in 0..undoing.items.len() {
        if !due(&undoing.items[position]) {
            continue;
        }
        let more = undoing.items[position].value_bytes;
        if batch.len() >= BATCH_KEYS || (!batch.is_empty() && bytes + more > BATCH_BYTES) {
            write(&endpoint, &before, &mut undoing.items, &batch, &mut done).await?;
            progress.add(bytes).map_err(fetch::told)?;
            (batch, bytes) = (Vec::new(), 0);
        }
        batch.push(position);
        bytes += more;
    }
    write(&endpoint, &before, &mut undoing.items, &batch, &mut done).await?;
    Ok(done)
}

/// All of a batch in one transaction; if a key in it was changed meanwhile, each by itself.
async fn write(
    endpoint: &Endpoint,
    before: &Arc<Source>,
    items: &mut [Item],
    batch: &[usize],
    done: &mut Done,
) -> Result<(), Error> {
    if batch.is_empty() {
        return Ok(());
    }
    let chosen: Vec<&Item> = batch.iter().map(|position| &items[*position]).collect();
    if transact(endpoint, before, &chosen, done).await? {
        chosen.iter().for_each(|item| count(item, done));
        return Ok(());
    }
    for position in batch {
        let item = &items[*position];
        if transact(endpoint, before, &[item], done).await? {
            count(item, done);
            continue;
        }
        // It may have been this, and the answer got lost.
        items[*position].fate = match is_as_before(endpoint, before, item).await? {
            true => Fate::Already,
            false => Fate::ChangedSince,
        };
    }
    Ok(())
}

fn count(item: &Item, done: &mut Done) {
    match item.fate {
        Fate::PutBack => done.put_back += 1,
        _ => done.deleted += 1,
    }
}

/// Whether all of them still were as expected, and are as they were now.
async fn transact(
    endpoint: &Endpoint,
    before: &Arc<Source>,
    items: &[&Item],
    done: &mut Done,
) -> Result<bool, Error> {
    let mut txn = Txn::default();
    let values = values(before, items).await?;
    for (item, value) in items.iter().zip(values) {
        txn.conditions.push(Condition::ModRevision {
            key: item.key.clone(),
            revision: item.expected,
        });
        txn.then.push(match value {
            Some(value) => Op::Put {
                key: item.key.clone(),
                value,
                lease: 0,
            },
            None => Op::Delete(Keys::one(&item.key)),
        });
    }
    let outcome = endpoint.txn(txn).await?;
    if outcome.held {
        done.transactions += 1;
        done.revision = outcome.revision;
    }
    Ok(outcome.held)
}

/// The values at the first point; none of a key that was not there.
async fn values(before: &Arc<Source>, items: &[&Item]) -> Result<Vec<Option<Vec<u8>>>, Error> {
    let before = Arc::clone(before);
    let found: Vec<_> = items.iter().map(|item| item.found.clone()).collect();
    let work = tokio::task::spawn_blocking(move || {
        let mut values = Values::of(&before)?;
        found
            .iter()
            .map(|found| found.as_ref().map(|found| values.get(found)).transpose())
            .collect::<Result<Vec<_>, quorate_datadir::Error>>()
    });
    work.await.map_err(|_| Error::Cancelled)?.map_err(fetch::told)
}

/// Whether a key is on the live cluster as it was at the first point.
pub(super) async fn is_as_before(
    endpoint: &Endpoint,
    before: &Arc<Source>,
    item: &Item,
) -> Result<bool, Error> {
    let live = endpoint.get(&item.key, Consistency::Linearizable).await?;
    let mut values = values(before, &[item]).await?;
    Ok(live.map(|pair| pair.value) == values.pop().flatten())
}
