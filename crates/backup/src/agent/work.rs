//! The agent at work: it holds an epoch, and one loop brings everything together.
//!
//! In: an open archive and an epoch. Out: the archive, kept up with the cluster, until it is told to stop, another agent
//! takes over, or the cluster turns out to be another. Only this loop decides; the watch, the writing, the questions and
//! the full copies run beside it and send notes.
//! Never: waiting for the store or for etcd where the other could be served, but for the one stream of a huge revision.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::ask::{self, Asked};
use super::changes::intake::{Intake, Taken};
use super::changes::reader::{Read, Reader};
use super::changes::recall::Recall;
use super::cluster::Cluster;
use super::decide::{self, Flush, Fulls};
use super::full::{AtLeast, TakeFull, take_full};
use super::heartbeat;
use super::note::Note;
use super::open::Place;
use super::status::{Board, State};
use super::writer::{self, Job};
use super::{Options, describe};
use crate::format::record::{Entry, Full, Sample};
use crate::log::{Log, Tail};
use crate::{Archive, Error};

const NOTES: usize = 256;
/// Lease ids that wait to be asked for, beyond those in [`super::ask::leases::Leases`].
const LEASE_IDS: usize = 64;
/// Nothing is left undecided for longer.
const TURN: Duration = Duration::from_secs(1);
/// How long a stop may take while there is something to flush.
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// A cluster that is another for so long is one that was made anew.
const FOREIGN_FOR: Duration = Duration::from_secs(5);
/// So many samples in a row that are behind what was seen.
const BEHIND_BEFORE_REOPEN: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was told to stop, and what could be flushed is.
    Stopped,
    /// Another agent has taken over.
    Relieved,
    /// The cluster is not what it was: the archive has to be opened anew.
    Reopen,
    /// So it is, and its history is another than the timeline's.
    Another,
}

struct Work<'a> {
    options: &'a Options,
    archive: Archive,
    timeline: u32,
    cluster: Cluster,
    board: Board,
    log: Arc<Mutex<Log>>,
    intake: Intake,
    reader: Reader,
    jobs: mpsc::Sender<Job>,
    /// The writer is at something.
    busy: bool,
    lease_ids: mpsc::Sender<i64>,
    notes: mpsc::Sender<Note>,
    tasks: JoinSet<()>,
    fulls: Fulls,
    failed_at: Option<(u32, Instant)>,
    /// The revision of users and roles when the full copy that is being taken was begun.
    auth_begun: Option<u64>,
    auth_now: Option<u64>,
    auth_full: Option<u64>,
    /// A full copy that waits for the sequence to reach it, since it is the first.
    early: Option<Full>,
    /// The newest sample, for the sign of life.
    clock: watch::Sender<Option<Sample>>,
    heard: Instant,
    behind: u32,
    /// Since when it has been ending, and how it is to end.
    stopping: Option<(Instant, End)>,
    end: Option<End>,
    /// How often in a row a watch was torn, or a stream into the store broke.
    anew: u32,
}

/// Works until there is a reason to end.
pub async fn work(
    options: &Options,
    cluster: &Cluster,
    place: Place,
    epoch: u64,
    stop: &mut watch::Receiver<bool>,
) -> Result<End, Error> {
    let Place {
        archive,
        origin,
        log,
        revision,
        fenced,
    } = place;
    let board = options.board.clone();
    let tail = log.tail().clone();
    let known = tail.end.unwrap_or(revision);
    board.update(|status| {
        status.state = State::Writing;
        status.timeline = Some(origin.timeline);
        status.epoch = Some(epoch);
        status.fenced = Some(fenced);
        heartbeat::show(status, &tail);
    });
    tracing::info!(
        timeline = origin.timeline,
        epoch,
        from = known,
        "writing the archive"
    );
    let (notes, mut incoming) = mpsc::channel(NOTES);
    let (jobs, jobs_in) = mpsc::channel(1);
    let (lease_ids, ids_in) = mpsc::channel(LEASE_IDS);
    let log = Arc::new(Mutex::new(log));
    let asked = Asked::new(cluster.clone());
    let mut tasks = JoinSet::new();
    let store = archive.store().clone();
    tasks.spawn(writer::write(
        store,
        log.clone(),
        jobs_in,
        notes.clone(),
        board.clone(),
    ));
    let (clock, clock_out) = watch::channel(None);
    tasks.spawn(heartbeat::keep(
        log.clone(),
        epoch,
        clock_out,
        notes.clone(),
        board.clone(),
    ));
    tasks.spawn(ask::sample(
        asked.clone(),
        options.pace.period,
        notes.clone(),
        board.clone(),
    ));
    tasks.spawn(ask::leases(asked, ids_in, notes.clone()));
    let begun = tail.end.is_some();
    let mut work = Work {
        options,
        timeline: origin.timeline,
        cluster: cluster.clone(),
        log,
        intake: Intake::new(
            &archive,
            origin.timeline,
            known,
            begun,
            options.pace,
            tail.last_sample,
        )?,
        archive,
        reader: Reader::start(cluster.clone(), known, Duration::ZERO, board.clone()),
        board,
        jobs,
        busy: false,
        lease_ids,
        notes,
        tasks,
        fulls: Fulls {
            last: tail
                .last_full
                .as_ref()
                .map(|(full, _)| (full.revision, full.taken)),
            gap_to: tail.last_gap,
            ..Fulls::default()
        },
        failed_at: None,
        auth_begun: None,
        auth_now: None,
        auth_full: tail.last_full.as_ref().map(|(full, _)| full.auth_revision),
        early: None,
        clock,
        heard: Instant::now(),
        behind: 0,
        stopping: None,
        end: None,
        anew: 0,
    };
    let imprint = tail.end_imprint.map(|imprint| (known, imprint));
    work.intake.recall = Recall::of_archive(imprint);
    let end = work.run(&mut incoming, stop).await?;
    work.close(&end).await;
    Ok(end)
}

impl Work<'_> {
    async fn run(
        &mut self,
        incoming: &mut mpsc::Receiver<Note>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<End, Error> {
        let mut stopped = false;
        loop {
            let wake = self.turn().await?;
            if let Some(end) = self.end.take() {
                return Ok(end);
            }
            let waiting = self.intake.waiting(self.busy, self.winding_down());
            let reading = !self.intake.is_held() && decide::may_read(&waiting, &self.options.pace);
            if !reading {
                self.heard = Instant::now();
            }
            tokio::select! {
                Some(note) = incoming.recv() => self.note(note),
                read = self.reader.next(), if reading => match read {
                    Some(read) => self.read(read).await?,
                    None => self.watch_anew(self.intake.complete()),
                },
                _ = stop.changed(), if !stopped => {
                    stopped = true;
                    self.wind_down(End::Stopped);
                }
                () = tokio::time::sleep(wake) => {}
            }
        }
    }

    /// Ends, once what has come is flushed.
    fn wind_down(&mut self, end: End) {
        let since = self.stopping.take().map_or_else(Instant::now, |(since, _)| since);
        self.stopping = Some((since, end));
    }

    /// It stops, and what has come is whole: nothing more is read.
    fn winding_down(&self) -> bool {
        self.stopping.is_some() && self.intake.waiting(false, false).whole
    }

    /// Does all that can be done now. How long nothing more need be done.
    async fn turn(&mut self) -> Result<Duration, Error> {
        let flushed = self.push_on().await?;
        self.place_early_full().await?;
        self.send_jobs();
        self.ask_leases();
        self.begin_full();
        let from = self.intake.building().from();
        let ahead = self.fulls.last.is_some_and(|(revision, _)| revision >= from);
        self.intake.leases.full_under_way(self.fulls.running || ahead);
        self.show();
        if self.cluster.foreign_for() >= FOREIGN_FOR {
            self.reopen("the cluster is another than before", End::Reopen);
        }
        if let Some((since, end)) = self.stopping {
            let rest = self.intake.building().rows() > 0 || !self.intake.outbox.is_empty() || self.busy;
            if !rest || since.elapsed() > STOP_WITHIN {
                self.end.get_or_insert(end);
            }
        }
        Ok(match flushed {
            Flush::Wait(left) => left.min(TURN),
            _ => TURN,
        })
    }

    /// What has come is of the cluster as it was: flushed, before the archive is opened anew.
    fn reopen(&mut self, why: &str, end: End) {
        if self.stopping.is_none() {
            tracing::warn!("{why}; the archive is opened anew");
            self.wind_down(end);
        }
    }

    /// A message was taken, or why not.
    fn taken(&mut self, taken: Taken) -> Result<(), Error> {
        match taken {
            Taken::Well => {}
            Taken::Torn => self.torn(),
            Taken::Another => {
                if !self.intake.waiting(false, false).whole {
                    // The rest of it would be of the other history.
                    self.intake.give_up()?;
                }
                self.early = None;
                self.reopen(
                    "the cluster tells its last revision otherwise than before",
                    End::Another,
                );
            }
        }
        Ok(())
    }

    /// It ends because this is another history: full copies are of that one.
    fn is_another(&self) -> bool {
        matches!(self.stopping, Some((_, End::Another)))
    }

    /// Goes on with a message that waits, and flushes. What streams into a store that fails is begun anew.
    async fn push_on(&mut self) -> Result<Flush, Error> {
        let went = async {
            let flushed = self.intake.flush(self.busy, self.winding_down()).await?;
            let taken = self.intake.go_on(self.busy).await?;
            Ok((flushed, taken))
        };
        match went.await {
            Ok((flushed, taken)) => {
                self.taken(taken)?;
                Ok(flushed)
            }
            Err(error) => {
                self.give_up(&error)?;
                Ok(Flush::Nothing)
            }
        }
    }

    fn give_up(&mut self, error: &Error) -> Result<(), Error> {
        self.board
            .failed("writing a large delta", error, Timestamp::now());
        let known = self.intake.give_up()?;
        self.anew = self.anew.saturating_add(1);
        self.watch_anew(known);
        Ok(())
    }

    fn torn(&mut self) {
        let error = Error::damaged(
            "the sequence of changes",
            "the watch does not continue what came before",
        );
        self.board
            .failed("watching the cluster", &error, Timestamp::now());
        self.anew = self.anew.saturating_add(1);
        self.watch_anew(self.intake.complete());
    }

    fn watch_anew(&mut self, known: i64) {
        let pause = match self.anew {
            0 => Duration::ZERO,
            tries => decide::pause(tries, FIRST_PAUSE, LONGEST_PAUSE),
        };
        self.reader = Reader::start(self.cluster.clone(), known, pause, self.board.clone());
    }

    async fn read(&mut self, read: Read) -> Result<(), Error> {
        self.heard = Instant::now();
        if matches!(read, Read::Compacted { .. }) && self.intake.recall.is_untold() {
            tracing::warn!("etcd was compacted: whether its history is still the archive's cannot be told");
            self.intake.recall.pass();
        }
        match read {
            Read::Opened => self.intake.opened(),
            Read::Quiet => self.intake.recall.pass(),
            Read::Batch(batch) => match self.intake.take(batch, self.busy).await {
                Ok(taken) => self.taken(taken)?,
                Err(error) => self.give_up(&error)?,
            },
            Read::Compacted { compact_revision } => match self.intake.compacted(compact_revision).await {
                Ok(()) => {}
                Err(error) => self.give_up(&error)?,
            },
        }
        Ok(())
    }

    fn send_jobs(&mut self) {
        if self.busy {
            return;
        }
        if let Some(job) = self.intake.outbox.pop_front() {
            match self.jobs.try_send(job) {
                Ok(()) => self.busy = true,
                // The writer ends only when another agent took over, and has told.
                Err(error) => self.intake.outbox.push_front(error.into_inner()),
            }
        }
    }

    fn ask_leases(&mut self) {
        while self.lease_ids.capacity() > 0 {
            let Some(id) = self.intake.leases.ask() else {
                return;
            };
            let _ = self.lease_ids.try_send(id);
        }
    }

    fn begin_full(&mut self) {
        self.fulls.gap_to = self.fulls.gap_to.max(self.intake.lost_to());
        self.fulls.auth = self.auth_full.zip(self.auth_now);
        self.fulls.failed = self.failed_at.map(|(tries, at)| (tries, at.elapsed()));
        // Until it is known whose copy it would be, none is taken.
        if self.stopping.is_some() || self.intake.recall.is_untold() {
            return;
        }
        let now = Timestamp::now();
        let Some(why) = decide::full(&self.fulls, &self.options.schedule, now) else {
            return;
        };
        tracing::info!(why = why.text(), "a full copy is due");
        self.fulls.running = true;
        self.auth_begun = self.auth_now;
        let (archive, cluster, timeline) = (self.archive.clone(), self.cluster.clone(), self.timeline);
        let (hash, notes, board) = (self.options.hash, self.notes.clone(), self.board.clone());
        let attempt = self.failed_at.map_or(0, |(tries, _)| tries);
        // What the sequence has come to: its beginning, where there is none yet, and the end of what was lost.
        let at_least = AtLeast {
            revision: self.intake.building().from() - 1,
            auth_revision: self.auth_begun.unwrap_or_default(),
        };
        self.tasks.spawn(async move {
            let take = TakeFull {
                archive: &archive,
                timeline,
                cluster: &cluster,
                hash,
                attempt,
                at_least,
            };
            let taken = take_full(take, |bytes, _| {
                board.update(|status| status.full_running = Some(bytes))
            });
            let taken = taken.await;
            board.update(|status| status.full_running = None);
            let _ = notes.send(Note::Full(Box::new(taken))).await;
        });
    }

    /// The first full copy of all is recorded once the sequence of changes has come to it, so that it has no hole.
    async fn place_early_full(&mut self) -> Result<(), Error> {
        let Some(full) = &self.early else { return Ok(()) };
        if full.revision < self.intake.start() {
            let what = format!(
                "history was compacted past the first full copy, of {}",
                full.revision
            );
            self.early = None;
            self.no_full(&Error::refused(what, "another is taken"));
            return Ok(());
        }
        if !self.intake.has_begun() {
            if self.intake.complete() < full.revision {
                return Ok(());
            }
            if self.intake.building().rows() > 0 {
                if !self.intake.waiting(false, false).whole || self.busy {
                    return Ok(());
                }
                if let Err(error) = self.intake.seal().await {
                    return self.give_up(&error);
                }
            }
        }
        if let Some(full) = self.early.take() {
            self.intake.begin();
            self.intake.outbox.push_back(Job {
                entry: Entry::Full(full),
                object: None,
            });
        }
        Ok(())
    }

    fn note(&mut self, note: Note) {
        match note {
            Note::Written(written) => self.written(&written.0, &written.1),
            Note::Relieved(error) => {
                tracing::warn!(%error, "this agent writes no more");
                self.board.failed("writing the archive", &error, Timestamp::now());
                self.end = Some(End::Relieved);
            }
            Note::Sample(sample) => self.sampled(sample),
            Note::Auth(auth) => self.auth_now = Some(auth.revision),
            Note::Lease { id, ttl } => self.intake.leases.answered(id, ttl),
            Note::LeaseUnknown { id } => self.intake.leases.ask_again(id),
            Note::Full(taken) => match *taken {
                Ok(_) if self.is_another() => {}
                Ok(full) => self.early = Some(full),
                Err(error) => self.no_full(&error),
            },
        }
    }

    fn no_full(&mut self, error: &Error) {
        let tries = self.failed_at.map_or(1, |(tries, _)| tries.saturating_add(1));
        self.failed_at = Some((tries, Instant::now()));
        self.fulls.running = false;
        self.board.failed("taking a full copy", error, Timestamp::now());
    }

    fn sampled(&mut self, sample: Sample) {
        // A read that a quorum agreed to is never behind what a watch told, unless history was cut.
        self.behind = match sample.revision < self.intake.complete() {
            true => self.behind + 1,
            false => 0,
        };
        if self.behind >= BEHIND_BEFORE_REOPEN {
            self.reopen("the cluster's history was cut", End::Reopen);
            return;
        }
        self.intake.samples.take(sample);
        self.clock.send_replace(self.intake.samples.newest());
        if sample.revision > self.intake.newest() && self.heard.elapsed() > decide::STALLED {
            tracing::warn!("the watch tells nothing although there is something to tell; another is opened");
            self.heard = Instant::now();
            self.reader.again();
        }
    }

    fn written(&mut self, entry: &Entry, tail: &Tail) {
        self.busy = false;
        match entry {
            Entry::Delta(delta) => {
                self.anew = 0;
                self.intake.samples.forget_until(delta.to);
                self.board.update(|status| {
                    status.deltas += 1;
                    status.delta_bytes += delta.facts.stored_bytes;
                    status.row_bytes += delta.row_bytes;
                });
            }
            Entry::Full(full) => {
                self.fulls.running = false;
                self.fulls.last = Some((full.revision, Timestamp::now()));
                self.failed_at = None;
                self.auth_full = self.auth_begun.or(Some(full.auth_revision));
                self.board.update(|status| {
                    status.fulls += 1;
                    status.full_bytes += full.facts.stored_bytes;
                });
            }
            _ => {}
        }
        self.board.update(|status| heartbeat::show(status, tail));
    }

    fn show(&self) {
        let building = self.intake.building();
        let samples = &self.intake.samples;
        self.board.update(|status| {
            status.unflushed = building.rows();
            status.oldest_unflushed = building.began().map(|(_, at)| at);
            if let Some(newest) = samples.newest() {
                status.revision = Some(newest.revision);
            }
            let since = samples.known_beyond(status.archived.unwrap_or(i64::MAX));
            status.behind_since = since.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        });
    }

    /// Ends the tasks; says that it writes here no more, unless another does.
    async fn close(mut self, end: &End) {
        self.tasks.shutdown().await;
        if *end != End::Relieved {
            let mut log = self.log.lock().await;
            if let Some(sample) = self.intake.samples.newest() {
                log.set_sample(sample);
            }
            if let Err(error) = log.say_head(0, Timestamp::now()).await {
                tracing::debug!(error = describe(&error), "the end was not told");
            }
        }
    }
}
