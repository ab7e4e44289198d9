//! Data directories from an archive: a plan carried out.
//!
//! In: a plan, and who the members are. Out: a directory for each, at the revision of the plan. If an object turns out to
//! be damaged on the way, another way to the same revision is taken if there is one.
//! Never: anything written before room and place were judged; a directory under its name that is not whole; another
//! revision than the plan's.

pub mod chain;
pub mod clock;
pub(crate) mod fetch;
pub mod plan;
mod room;

use std::sync::Arc;

use jiff::Timestamp;
use quorate_datadir::{Members, Progress, restore_members};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::archive::Point;
use crate::hold::{Hold, RENEW};
use crate::{Archive, Error};
use plan::Plan;

pub(crate) use room::suffice;
pub use room::{Room, room};

/// How many objects may turn out to be damaged on the way.
const DAMAGED_MAX: usize = 64;

/// What came of it.
pub struct Outcome {
    /// The members, in the order of their seats.
    pub members: Vec<quorate_datadir::Restored>,
    /// The plan that was carried out in the end.
    pub plan: Plan,
    /// What one should know.
    pub notes: Vec<String>,
}

/// Can the plan be carried out here: is nothing in the way, and is there room? Out: the new cluster's id.
pub fn judge(plan: &Plan, members: &Members) -> Result<u64, Error> {
    let cluster_id = members.judge().map_err(fetch::told)?;
    for room in room(plan, members)? {
        room.suffices()?;
    }
    Ok(cluster_id)
}

/// Carries the plan out. `tell` hears of another plan that had to be taken.
pub async fn restore(
    plan: Plan,
    members: &Members,
    progress: &Arc<Progress>,
    now: Timestamp,
    tell: &mut (dyn FnMut(&Plan) + Send),
) -> Result<Outcome, Error> {
    let cluster_id = judge(&plan, members)?;
    let mut notes = Vec::new();
    let archive = plan.book.archive().clone();
    let holding = Holding::begin(&archive, "restore", now).await;
    let wanted = members.clone();
    let done = carry_out(plan, progress, tell, || {
        let wanted = wanted.clone();
        Box::new(move |assembly, progress| restore_members(&wanted, assembly, progress))
    })
    .await;
    let marked = match &done {
        Ok((plan, _)) => {
            let from = Point {
                timeline: plan.timeline,
                revision: plan.revision,
            };
            archive.mark_restored(cluster_id, from, now).await
        }
        Err(_) => Ok(()),
    };
    holding.end().await;
    let (plan, made) = done?;
    if let Err(error) = marked {
        notes.push(format!(
            "the archive was not told of the new cluster, so its agent will not know where it comes from: {error}"
        ));
    }
    if let Some(same) = archive
        .timelines()
        .iter()
        .find(|origin| origin.cluster() == Some(cluster_id))
    {
        notes.push(format!(
            "the new cluster has the id of the one that timeline {} is of; if that one is to go on, restore with another \
             --initial-cluster-token, or its agent takes it for the restored one",
            same.timeline
        ));
    }
    Ok(Outcome {
        members: made,
        plan,
        notes,
    })
}

/// Carries a plan out, by another way if an object turns out to be damaged.
pub(crate) async fn carry_out<T: Send + 'static>(
    mut plan: Plan,
    progress: &Arc<Progress>,
    tell: &mut (dyn FnMut(&Plan) + Send),
    work: impl Fn() -> fetch::Work<T>,
) -> Result<(Plan, T), Error> {
    for _ in 0..DAMAGED_MAX {
        let error = match fetch::assemble(&plan, progress, work()).await {
            Ok(made) => return Ok((plan, made)),
            Err(error) => error,
        };
        let (object, why) = plan.blame(error).await?;
        plan = plan.without(&object, &why).await?;
        tell(&plan);
    }
    Err(Error::refused(
        format!("{DAMAGED_MAX} objects turned out to be damaged"),
        "`quorate backup verify` tells what is still sound",
    ))
}

/// A mark that the archive is being read, renewed as long as this lives.
pub(crate) struct Holding {
    hold: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Holding {
    pub(crate) async fn begin(archive: &Archive, what: &str, now: Timestamp) -> Holding {
        let who = format!("{what}, process {}", std::process::id());
        let hold = Hold::take(archive, &who, now).await.map(|hold| {
            let (send, mut ended) = oneshot::channel();
            let task = tokio::spawn(async move {
                while tokio::time::timeout(RENEW, &mut ended).await.is_err() {
                    if let Err(error) = hold.renew(Timestamp::now()).await {
                        tracing::debug!(%error, "the mark that the archive is being read was not renewed");
                    }
                }
                hold.release().await;
            });
            (send, task)
        });
        Holding { hold }
    }

    /// Takes it away. Dropped, it goes a little later.
    pub(crate) async fn end(self) {
        let Some((send, task)) = self.hold else { return };
        drop(send);
        // It has told of what went wrong itself.
        let _ = task.await;
    }
}
