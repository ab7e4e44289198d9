//! The watch, kept up.
//!
//! In: the cluster, and the last revision of which everything is known. Out: messages of events from there on, whichever
//! member tells them, and each time a watch was opened or history turned out to be compacted away. The channel holds one
//! message: what nobody takes stays in etcd.
//! Never: an event left out between two watches. Events may come twice; their order makes that plain.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use quorate_client::{Batch, Cut, Refusal, Watched, Watching};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use crate::Error;
use crate::agent::cluster::{Answering, Cluster};
use crate::agent::decide;
use crate::agent::status::Board;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// So often a watch may break before its first event until etcd is asked to cut its messages.
const BROKEN_BEFORE_CUT: u32 = 2;

/// What the watch brings.
#[derive(Debug)]
pub enum Read {
    /// A watch begins, with the first event of a revision.
    Opened,
    Batch(Batch),
    Quiet,
    /// What happened after the last event up to this revision cannot be told any more. The watch goes on behind it.
    Compacted {
        /// History is gone before this.
        compact_revision: i64,
    },
}

/// A watch that is kept up.
#[derive(Debug)]
pub struct Reader {
    messages: mpsc::Receiver<Read>,
    again: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Reader {
    /// Watches, after a pause, from a revision on of which everything is known.
    pub fn start(cluster: Cluster, known: i64, pause: Duration, board: Board) -> Reader {
        let (sender, messages) = mpsc::channel(1);
        let again = Arc::new(Notify::new());
        let keeping = Keeping {
            cluster,
            complete: known,
            out: sender,
            again: Arc::clone(&again),
            board,
            tries: 0,
            broken: 0,
        };
        let task = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            keeping.run().await;
        });
        Reader {
            messages,
            again,
            task,
        }
    }

    /// The next message; `None` only if something is badly wrong. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Read> {
        self.messages.recv().await
    }

    /// Gives the present watch up and opens another, if possible with another member.
    pub fn again(&self) {
        self.again.notify_one();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Keeping {
    cluster: Cluster,
    /// Every event up to this revision has been passed on.
    complete: i64,
    out: mpsc::Sender<Read>,
    again: Arc<Notify>,
    board: Board,
    tries: u32,
    broken: u32,
}

impl Keeping {
    async fn run(mut self) {
        loop {
            let watching = match self.open().await {
                Ok(watching) => watching,
                Err(error) => {
                    self.failed("watching the cluster", &error).await;
                    continue;
                }
            };
            if self.out.send(Read::Opened).await.is_err() {
                return;
            }
            match self.follow(watching).await {
                Followed::Nobody => return,
                Followed::Over => {}
                Followed::Broken(error) => self.failed("watching the cluster", &error).await,
            }
            self.board.update(|status| status.watching = None);
        }
    }

    async fn failed(&mut self, doing: &'static str, error: &Error) {
        self.board.failed(doing, error, Timestamp::now());
        self.tries = self.tries.saturating_add(1);
        tokio::time::sleep(decide::pause(self.tries, FIRST_PAUSE, LONGEST_PAUSE)).await;
    }

    async fn open(&mut self) -> Result<Watching, Error> {
        let members = self.cluster.survey().await?;
        let candidates: Vec<_> = members.iter().map(|member| member.candidate()).collect();
        let order = decide::stream_order(&candidates);
        let Some(place) = order.get(self.tries as usize % order.len().max(1)) else {
            return Err(Error::refused(
                "no voting member answers",
                "the cluster has to have a quorum to be watched",
            ));
        };
        let Answering { endpoint, status } = &members[*place];
        let cut = match self.broken {
            0..BROKEN_BEFORE_CUT => Cut::Here,
            _ => Cut::ByEtcd,
        };
        let watching = endpoint.watch(self.complete, cut).await?;
        if watching.cluster_id() != status.cluster_id {
            return Err(crate::agent::cluster::foreign(endpoint, watching.cluster_id()));
        }
        let url = endpoint.url().to_owned();
        tracing::debug!(url, from = self.complete, "watching");
        self.board.update(|status| status.watching = Some(url));
        Ok(watching)
    }

    async fn follow(&mut self, mut watching: Watching) -> Followed {
        let mut any = false;
        loop {
            let watched = tokio::select! {
                watched = watching.next() => watched,
                () = self.again.notified() => {
                    self.tries = self.tries.saturating_add(1);
                    return Followed::Over;
                }
                () = self.out.closed() => return Followed::Nobody,
            };
            let message = match watched {
                Ok(Watched::Events(batch)) => {
                    if let Err(error) = self.note(&batch) {
                        return Followed::Broken(error);
                    }
                    (any, self.broken, self.tries) = (true, 0, 0);
                    Read::Batch(batch)
                }
                Ok(Watched::Progress { .. }) => {
                    self.tries = 0;
                    Read::Quiet
                }
                Ok(Watched::Compacted { compact_revision }) => {
                    self.complete = compact_revision;
                    let sent = self.out.send(Read::Compacted { compact_revision }).await;
                    return if sent.is_ok() {
                        Followed::Over
                    } else {
                        Followed::Nobody
                    };
                }
                Ok(Watched::Cancelled { why }) => {
                    let what = format!("the member ended the watch: {why}");
                    return Followed::Broken(Error::refused(what, "another one is asked"));
                }
                Err(error) => {
                    let odd = matches!(error.refusal(), Refusal::Other | Refusal::Malformed);
                    self.broken += u32::from(odd && !any);
                    return Followed::Broken(Error::Etcd(error));
                }
            };
            if self.out.send(message).await.is_err() {
                return Followed::Nobody;
            }
        }
    }

    /// Remembers how far everything has been told.
    fn note(&mut self, batch: &Batch) -> Result<(), Error> {
        let last = batch.event(batch.len().saturating_sub(1));
        let last = match last {
            Some(Ok(event)) => event.mod_revision,
            Some(Err(why)) => return Err(Error::damaged("a message of the watch", why)),
            None => return Ok(()),
        };
        let whole = if batch.continues { last - 1 } else { last };
        self.complete = self.complete.max(whole);
        Ok(())
    }
}

enum Followed {
    /// The watch is over, and another is to be opened.
    Over,
    Broken(Error),
    /// Nobody listens any more.
    Nobody,
}
