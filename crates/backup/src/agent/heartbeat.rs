//! The agent's heartbeat, and what others have written.
//!
//! In: the log. Out: every ten seconds how far the agent is and who writes; proofs, full copies and claims of
//! others, as they appear.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::time::MissedTickBehavior;

use super::note::Note;
use super::status::{Board, Mark, Status};
use crate::Error;
use crate::format::record::Sample;
use crate::log::{Log, Tail};

/// How often, in seconds.
pub const EVERY: u64 = 10;

/// Gives signs of life for ever, or until another agent has taken over.
pub async fn keep(
    log: Arc<Mutex<Log>>,
    epoch: u64,
    clock: watch::Receiver<Option<Sample>>,
    notes: mpsc::Sender<Note>,
    board: Board,
) {
    let mut every = tokio::time::interval(Duration::from_secs(EVERY));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let mut log = log.lock().await;
        if let Some(sample) = *clock.borrow() {
            log.set_sample(sample);
        }
        match turn(&mut log, epoch).await {
            Ok(()) => board.update(|status| show(status, log.tail())),
            Err(error @ Error::Fenced { .. }) => {
                let _ = notes.send(Note::Relieved(error)).await;
                return;
            }
            Err(error) => board.failed("giving a sign of life", &error, Timestamp::now()),
        }
    }
}

async fn turn(log: &mut Log, epoch: u64) -> Result<(), Error> {
    log.catch_up().await?;
    if let Some((claim, writer, since)) = &log.tail().claim
        && claim.epoch > epoch
    {
        return Err(Error::Fenced {
            writer: writer.clone(),
            since: since.to_string(),
        });
    }
    log.say_head(EVERY, Timestamp::now()).await
}

/// Shows what the log has come to.
pub fn show(status: &mut Status, tail: &Tail) {
    status.archived = tail.end;
    status.missing = tail.missing;
    status.delta = tail.last_delta.map(|(revision, at)| Mark { revision, at });
    status.full = tail.last_full.as_ref().map(|(full, at)| Mark {
        revision: full.revision,
        at: *at,
    });
    status.proof = tail.last_proof.as_ref().map(|(proof, at)| {
        let mark = Mark {
            revision: proof.revision,
            at: *at,
        };
        (mark, proof.level)
    });
}
