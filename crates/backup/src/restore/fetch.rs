//! The pieces of a plan on their way: frames of the full copy in any order, rows of the deltas in theirs.
//!
//! ```text
//! store ─ frames of the full ──▶ channel ──▶ two threads: check, unpack, write where the database will be
//!       └ frames of deltas ─ check, unpack (side by side) ─▶ channel ──▶ rows, in order ─▶ behind the database
//! ```
//!
//! In: a plan. Out: what a database can be put together from ([`Assembly`]), while it comes. Memory: a few frames.
//! Never: a frame that is not what was written; a delta whose rows are not those its record tells of.

mod full;
mod rows;

use std::sync::Arc;

use quorate_datadir::{Assembly, Base, LaterRows, Progress};

use super::plan::Plan;
use crate::Error;
use full::FullArrival;
use rows::DeltaRows;

/// Work on a database that is being put together, on a thread of its own.
pub(crate) type Work<T> =
    Box<dyn FnOnce(Assembly<'_>, &Progress) -> Result<T, quorate_datadir::Error> + Send + 'static>;

/// Fetches what `plan` names, and has `work` make something of it.
pub(crate) async fn assemble<T: Send + 'static>(
    plan: &Plan,
    progress: &Arc<Progress>,
    work: Work<T>,
) -> Result<T, Error> {
    let (arrival, fetching) = FullArrival::begin(&plan.base, plan.full.facts.plain_bytes, progress);
    let (rows, following) = DeltaRows::begin(&plan.deltas, progress);
    let (leases, cut, to) = (plan.lease_rows(), plan.cut, plan.revision);
    let progress = Arc::clone(progress);
    let working = tokio::task::spawn_blocking(move || {
        let (mut arrival, mut rows) = (arrival, rows);
        let assembly = Assembly {
            to_revision: cut,
            // Also where none follow: the base must end where they would begin.
            later: Some(LaterRows {
                rows: &mut rows,
                to: Some(to),
            }),
            leases,
            ..Assembly::of(Base::Arriving(&mut arrival))
        };
        work(assembly, &progress)
    });
    let done = working.await;
    drop((fetching, following));
    match done {
        Ok(done) => done.map_err(told),
        Err(_) => Err(Error::refused(
            "the work was broken off",
            "this is a fault of quorate; please report it",
        )),
    }
}

/// An error of files, or the one of the store that it stands for.
pub(crate) fn told(error: quorate_datadir::Error) -> Error {
    match error {
        quorate_datadir::Error::Cancelled => Error::Cancelled,
        quorate_datadir::Error::Supply { source } => match source.downcast::<Error>() {
            Ok(error) => *error,
            Err(source) => Error::Data(quorate_datadir::Error::Supply { source }),
        },
        other => Error::Data(other),
    }
}

/// A task that ends when nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct Task(tokio::task::JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Task {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(tokio::spawn(work))
    }
}

/// Waits until the work is no longer wanted.
pub(crate) async fn cancelled(progress: &Progress) {
    while progress.add(0).is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}
