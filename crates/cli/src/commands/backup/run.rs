//! `quorate backup run URL`: the agent, until it is stopped.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use quorate_backup::agent::{self, Board, Options, Pace, Schedule, State, default_writer};
use quorate_backup::object::Key;
use quorate_backup::retention::Retention;
use quorate_backup::{Archive, Error, Store, prune};
use quorate_datadir::durable;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::prune::retention;
use super::{place, reach, watched};
use crate::arguments::backup::{AskHash, Run};
use crate::failure::{Failure, chain};
use crate::log_lines;

/// How often what it says of itself is written.
const STATUS_PAUSE: Duration = Duration::from_secs(1);
/// How often it prunes, and how long after its start it does so first.
const PRUNE_PAUSE: Duration = Duration::from_secs(3600);
const PRUNE_FIRST: Duration = Duration::from_secs(60);

/// Runs it.
pub async fn run(root: Option<PathBuf>, arguments: Run) -> Result<(), Failure> {
    if arguments.supervised {
        set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(|error| Failure::failed(format!("cannot end with the supervisor: {error}")))?;
    }
    log_lines::begin();
    let keep = retention(&arguments.keep)?;
    let schedule = Schedule::parse(&arguments.schedule).map_err(|error| Failure::usage(chain(&error)))?;
    let key = place::key(&arguments.place)?;
    let store = place::store(&arguments.place.url, &arguments.place).await?;
    let cluster = reach::cluster(root, arguments.members)?;
    let board = Board::default();
    let options = Options {
        key: key.clone(),
        writer: arguments.writer.unwrap_or_else(default_writer),
        pace: Pace {
            period: arguments.period,
            size: arguments.max_bytes,
        },
        schedule,
        hash: hash(arguments.hash),
        adopt: arguments.new_timeline,
        listen: arguments.metrics_listen,
        board: board.clone(),
        ..Options::new(store.clone(), cluster)
    };
    let writer = options.writer.clone();
    let file = arguments.status_file.as_deref();
    let ended = tokio::select! {
        ended = agent::run(options, watched::stop()) => ended,
        () = report(file, &board) => Ok(()),
        () = keep_pruned(keep, &store, key, &writer, &board) => Ok(()),
    };
    if let Some(file) = file {
        write(file, &board);
    }
    Ok(ended?)
}

/// Of whom a hash is asked.
pub fn hash(asked: AskHash) -> agent::AskHash {
    match asked {
        AskHash::Follower => agent::AskHash::Follower,
        AskHash::Anyone => agent::AskHash::Anyone,
        AskHash::Nobody => agent::AskHash::Nobody,
    }
}

/// Writes how it is whenever that changes. Never ends.
async fn report(file: Option<&Path>, board: &Board) {
    let Some(file) = file else {
        return std::future::pending().await;
    };
    let mut last = None;
    let mut ticks = tokio::time::interval(STATUS_PAUSE);
    loop {
        ticks.tick().await;
        let status = board.status();
        if last.as_ref() != Some(&status) {
            write(file, board);
            last = Some(status);
        }
    }
}

fn write(file: &Path, board: &Board) {
    let text = serde_json::to_vec_pretty(&board.status()).unwrap_or_default();
    if let Err(error) = durable::write_fast(file, &text) {
        tracing::debug!(error = chain(&error), "the status was not written");
    }
}

/// Prunes now and then while this agent writes. Never ends.
async fn keep_pruned(keep: Option<Retention>, store: &Store, key: Option<Key>, writer: &str, board: &Board) {
    if keep.is_none() {
        return std::future::pending().await;
    }
    let options = prune::Options {
        retention: keep,
        grace: prune::GRACE,
        writer: writer.to_owned(),
    };
    tokio::time::sleep(PRUNE_FIRST).await;
    loop {
        if matches!(board.status().state, State::Writing) {
            match prune_once(store, key.clone(), &options).await {
                Ok(done) => tracing::info!(
                    given_up = done.given_up.objects,
                    deleted = done.deleted.objects + done.orphans.objects,
                    locked = done.locked.len(),
                    "pruned"
                ),
                Err(error) => tracing::warn!(error = chain(&error), "pruning failed; it will be tried again"),
            }
        }
        tokio::time::sleep(PRUNE_PAUSE).await;
    }
}

async fn prune_once(store: &Store, key: Option<Key>, options: &prune::Options) -> Result<prune::Done, Error> {
    let archive = Archive::open(store, key).await?;
    let now = Timestamp::now();
    let plan = prune::plan(&archive, options, now).await?;
    prune::run(&archive, options, &plan, now, |_| Ok(())).await
}
