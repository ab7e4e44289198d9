//! Small questions to the cluster, asked beside the watch: the revision each second, users and roles, terms of leases.
//!
//! In: a cluster. Out: notes. A member that does not answer is left for another.
//! Never: more than a handful of requests at once; the watch held up by one of them.

pub mod leases;
pub mod sample;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use quorate_client::Endpoint;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, MissedTickBehavior};

use super::cluster::Cluster;
use super::note::Note;
use super::status::Board;
use crate::Error;
use crate::format::record::Sample;

/// How often the revision is read.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// How often users and roles are looked at, at least and at most: in 3.5 that is an entry of the log.
const AUTH_EVERY: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));
/// How often the members' addresses are learned anew.
const LEARN_EVERY: Duration = Duration::from_secs(30);
/// Leases asked for at once.
const LEASES_AT_ONCE: usize = 4;
/// How long a lease that could not be asked for waits, and holds up others.
const LEASE_PAUSE: Duration = Duration::from_secs(1);
/// A failure each second need not be told each second.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// An endpoint for questions, changed when it fails.
#[derive(Clone)]
pub struct Asked {
    cluster: Cluster,
    current: Arc<Mutex<(Option<Endpoint>, usize)>>,
}

impl Asked {
    pub fn new(cluster: Cluster) -> Asked {
        Asked {
            cluster,
            current: Arc::default(),
        }
    }

    pub async fn endpoint(&self) -> Result<Endpoint, Error> {
        let mut current = self.current.lock().await;
        if let Some(endpoint) = &current.0 {
            return Ok(endpoint.clone());
        }
        let members = self.cluster.survey().await?;
        let voters: Vec<_> = members.iter().filter(|one| !one.status.is_learner).collect();
        current.1 = current.1.wrapping_add(1);
        let chosen = voters.get(current.1 % voters.len().max(1));
        let chosen =
            chosen.ok_or_else(|| Error::refused("no voting member answers", "the cluster needs a quorum"))?;
        current.0 = Some(chosen.endpoint.clone());
        Ok(chosen.endpoint.clone())
    }

    /// Learns the members' addresses anew: those known may all be gone one day.
    async fn learn(&self) {
        if let Ok(endpoint) = self.endpoint().await {
            self.cluster.learn(&endpoint).await;
        }
    }

    /// It did not answer.
    pub async fn failed(&self, endpoint: &Endpoint) {
        let mut current = self.current.lock().await;
        if current
            .0
            .as_ref()
            .is_some_and(|held| held.url() == endpoint.url())
        {
            current.0 = None;
        }
    }
}

/// Samples the clock and the revision, and looks at users and roles about as often as there is a flush, for ever.
pub async fn sample(asked: Asked, period: Duration, notes: mpsc::Sender<Note>, board: Board) {
    let auth_every = period.clamp(AUTH_EVERY.0, AUTH_EVERY.1);
    let mut every = tokio::time::interval(SAMPLE_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut auth_at: Option<Instant> = None;
    let mut learned = Instant::now();
    let mut told: Option<Instant> = None;
    loop {
        every.tick().await;
        let mut problem = None;
        match read(&asked).await {
            // Where the reader is behind, a sample less is no loss.
            Ok(sample) => drop(notes.try_send(Note::Sample(sample))),
            Err(error) => problem = Some(("reading the cluster's revision", error)),
        }
        if problem.is_none() && auth_at.is_none_or(|at| at.elapsed() >= auth_every) {
            auth_at = Some(Instant::now());
            match auth(&asked).await {
                Ok(Some(status)) => drop(notes.send(status).await),
                Ok(None) => {}
                Err(error) => problem = Some(("looking at users and roles", error)),
            }
        }
        if problem.is_none() && learned.elapsed() >= LEARN_EVERY {
            learned = Instant::now();
            asked.learn().await;
        }
        match problem {
            None => told = None,
            Some((doing, error)) if told.is_none_or(|at| at.elapsed() >= TELL_EVERY) => {
                told = Some(Instant::now());
                board.failed(doing, &error, Timestamp::now());
            }
            Some(_) => {}
        }
    }
}

/// The clock, the revision, the clock again.
async fn read(asked: &Asked) -> Result<Sample, Error> {
    let endpoint = asked.endpoint().await?;
    let before = Timestamp::now().as_millisecond();
    let receipt = match endpoint.linearizable_read().await {
        Ok(receipt) => receipt,
        Err(error) => {
            asked.failed(&endpoint).await;
            return Err(Error::Etcd(error));
        }
    };
    let revision = receipt.revision.ok_or_else(|| {
        Error::refused(
            format!("{} does not let this user read", endpoint.url()),
            "the agent needs a user with the role root, or one that may read every key",
        )
    })?;
    Ok(Sample {
        before,
        revision,
        after: Timestamp::now().as_millisecond(),
    })
}

async fn auth(asked: &Asked) -> Result<Option<Note>, Error> {
    let endpoint = asked.endpoint().await?;
    match endpoint.auth_status().await {
        Ok(status) => Ok(status.map(Note::Auth)),
        Err(error) => {
            asked.failed(&endpoint).await;
            Err(Error::Etcd(error))
        }
    }
}

/// Asks for the terms of leases, as their ids come.
pub async fn leases(asked: Asked, ids: mpsc::Receiver<i64>, notes: mpsc::Sender<Note>) {
    let ids = futures::stream::unfold(ids, |mut ids| async move { ids.recv().await.map(|id| (id, ids)) });
    let answers = ids
        .map(|id| lease(asked.clone(), id))
        .buffer_unordered(LEASES_AT_ONCE);
    let mut answers = std::pin::pin!(answers);
    while let Some(note) = answers.next().await {
        if notes.send(note).await.is_err() {
            return;
        }
    }
}

async fn lease(asked: Asked, id: i64) -> Note {
    if let Ok(endpoint) = asked.endpoint().await {
        match endpoint.lease_term(id).await {
            Ok(term) => {
                let ttl = term.map(|term| term.granted_seconds);
                return Note::Lease { id, ttl };
            }
            Err(_) => asked.failed(&endpoint).await,
        }
    }
    // It is asked for again as soon as this is told, and members that are down refuse at once.
    tokio::time::sleep(LEASE_PAUSE).await;
    Note::LeaseUnknown { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While nobody can be asked, the same lease is not asked for again and again without a pause.
    #[tokio::test(start_paused = true)]
    async fn questions_that_fail_are_asked_at_a_walk() {
        let cluster = Cluster::new(Arc::new(|| Err("nobody is there".to_owned())));
        let (ids, ids_in) = mpsc::channel(1);
        let (notes, mut told) = mpsc::channel(1);
        let asking = tokio::spawn(leases(Asked::new(cluster), ids_in, notes));
        let began = Instant::now();
        for _ in 0..5 {
            ids.send(7).await.unwrap();
            let note = told.recv().await.unwrap();
            assert!(matches!(note, Note::LeaseUnknown { id: 7 }), "{note:?}");
        }
        // The clock is the test's own: it goes only where something waits for it.
        assert!(began.elapsed() >= 5 * LEASE_PAUSE);
        drop(ids);
        asking.await.unwrap();
    }
}
