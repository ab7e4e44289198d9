//! What goes into the archive, one thing after the other.
//!
//! In: deltas, gaps and full copies, in their order. Out: objects in the store and records that name them. A store that
//! fails is asked again for ever, with growing pauses, and nothing overtakes what waits.
//! Never: a record before its object is there; the same record twice; anything after another agent took over.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{Mutex, mpsc};

use super::decide;
use super::note::Note;
use super::status::Board;
use crate::format::record::Entry;
use crate::log::{Log, Tail};
use crate::{Error, Store};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Something to be written.
#[derive(Debug)]
pub struct Job {
    pub entry: Entry,
    /// The object that it names, unless that is there already.
    pub object: Option<(String, Bytes)>,
}

/// Writes until nobody sends any more, or another agent takes over.
pub async fn write(
    store: Store,
    log: Arc<Mutex<Log>>,
    mut jobs: mpsc::Receiver<Job>,
    notes: mpsc::Sender<Note>,
    board: Board,
) {
    while let Some(Job { entry, object }) = jobs.recv().await {
        if let Some((name, bytes)) = object {
            let mut tries = 0;
            while let Err(error) = store.put(&name, bytes.clone()).await {
                tries += 1;
                failed(&board, "writing a delta", &error, tries).await;
            }
        }
        let written = match append(&log, &entry, &board).await {
            Ok(tail) => Note::Written(Box::new((entry, tail))),
            Err(error) => Note::Relieved(error),
        };
        let over = matches!(written, Note::Relieved(_));
        if notes.send(written).await.is_err() || over {
            return;
        }
    }
}

async fn failed(board: &Board, doing: &'static str, error: &Error, tries: u32) {
    board.failed(doing, error, Timestamp::now());
    tokio::time::sleep(decide::pause(tries, FIRST_PAUSE, LONGEST_PAUSE)).await;
}

/// Appends until it is there. An error only if another agent has taken over.
async fn append(log: &Mutex<Log>, entry: &Entry, board: &Board) -> Result<Tail, Error> {
    let at = Timestamp::now();
    let mut tries = 1;
    loop {
        let appended = attempt(&mut *log.lock().await, entry, at, tries).await;
        match appended {
            Ok(tail) => return Ok(tail),
            Err(error @ Error::Fenced { .. }) => return Err(error),
            Err(error) => failed(board, "recording what was written", &error, tries).await,
        }
        tries = tries.saturating_add(1);
    }
}

async fn attempt(log: &mut Log, entry: &Entry, at: Timestamp, tries: u32) -> Result<Tail, Error> {
    if tries > 1 {
        // An attempt that seemed to fail may have succeeded.
        log.catch_up().await?;
        if is_recorded(log.tail(), entry) {
            return Ok(log.tail().clone());
        }
    }
    log.append(entry.clone(), at).await?;
    Ok(log.tail().clone())
}

/// Whether the log ends with this. Only the agent extends the sequence, and it writes one thing at a time.
fn is_recorded(tail: &Tail, entry: &Entry) -> bool {
    match entry {
        Entry::Delta(delta) => tail.end == Some(delta.to),
        Entry::Gap(gap) => tail.end == Some(gap.to),
        Entry::Full(full) => tail
            .last_full
            .as_ref()
            .is_some_and(|(last, _)| last.facts.object == full.facts.object),
        _ => false,
    }
}
