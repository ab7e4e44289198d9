//! `quorate snapshot save FILE`: a live member's database, as it streams in.
//!
//! In: one member. Out: the file, hash-checked, on the disk. Memory holds a few pieces of the stream, whatever its
//! length. Never: a file of that name that is not whole; an older one lost to a save that failed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate_client::Snapshot;
use quorate_datadir::Source;
use quorate_datadir::durable::Draft;
use serde::Serialize;
use tokio::sync::mpsc;

use super::choose::{Chosen, choose};
use super::form;
use crate::arguments::snapshot::Save;
use crate::bar::Bar;
use crate::failure::{Failure, chain};
use crate::output_file;
use crate::render::bytes::hex;
use crate::render::facts;
use crate::say;
use crate::signals::stop;

/// How long a member may take to catch up with what was acknowledged.
const CATCH_UP: Duration = Duration::from_secs(5);
/// How many pieces may wait for the disk: 32 KiB each.
const QUEUED_PIECES: usize = 32;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Saved {
    file: PathBuf,
    endpoint: String,
    member: Option<String>,
    size: u64,
    sha256: String,
    revision: i64,
    version: Option<String>,
    seconds: f64,
}

/// Saves it and says what it was.
pub async fn run(root: Option<PathBuf>, arguments: Save) -> Result<(), Failure> {
    tokio::select! {
        saved = save(root, &arguments) => {
            let saved = saved?;
            form::show(arguments.output, &saved, || page(&saved))
        }
        () = stop() => {
            let words = format!("stopped; {} is as it was", arguments.file.display());
            Err(Failure::failed(words))
        }
    }
}

async fn save(root: Option<PathBuf>, arguments: &Save) -> Result<Saved, Failure> {
    let began = Instant::now();
    let draft = begin(&arguments.file)?;
    let Chosen { endpoint, name } = choose(root, arguments).await?;
    // A member that reads for all has applied what was acknowledged before: then the snapshot has it, too.
    let caught_up = endpoint.within(CATCH_UP).linearizable_read().await;
    let snapshot = endpoint.snapshot().await;
    let snapshot = snapshot.map_err(|error| Failure::failed(chain(&error)).and("Nothing was saved."))?;
    if let Err(error) = caught_up {
        say::warning(&format!(
            "what was written last may be missing in it: {}",
            chain(&error)
        ));
    }
    let Received {
        draft,
        size,
        snapshot,
    } = receive(snapshot, draft).await?;
    // What the digest is of may still be no database; then the older file is worth more.
    let revision = Source::open(draft.temporary())
        .map_err(|error| Failure::failed(chain(&error)).and("Nothing was saved."))?
        .current_revision();
    draft
        .publish()
        .map_err(|error| unwritable(&arguments.file, &error))?;
    Ok(Saved {
        file: arguments.file.clone(),
        endpoint: endpoint.url().to_owned(),
        member: name,
        size,
        sha256: hex(&snapshot.digest().unwrap_or_default()),
        revision,
        version: snapshot.version().map(str::to_owned),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// A draft beside the file, before anything is asked of anyone.
fn begin(file: &Path) -> Result<Draft, Failure> {
    output_file::check(file)?;
    Draft::among_others(file).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {}", file.display(), chain(error)))
        .and("Nothing there was changed.")
}

/// All of a database.
struct Received {
    draft: Draft,
    size: u64,
    snapshot: Snapshot,
}

/// Receives all of it. The disk is written from a thread of its own, so that a slow one does not keep the connection
/// from being answered for; the queue between is short, so a slow one slows the stream.
async fn receive(mut snapshot: Snapshot, draft: Draft) -> Result<Received, Failure> {
    let (sender, mut pieces) = mpsc::channel::<bytes::Bytes>(QUEUED_PIECES);
    let writer = tokio::task::spawn_blocking(move || {
        while let Some(piece) = pieces.blocking_recv() {
            if let Err(error) = draft.file().write_all(&piece) {
                return Err(
                    Failure::failed(format!("cannot write the snapshot: {}", chain(&error)))
                        .and("Nothing there was changed."),
                );
            }
        }
        Ok(draft)
    });
    let mut bar = Bar::new("received");
    let mut size = 0;
    let mut outcome = Ok(());
    loop {
        let piece = match snapshot.next_chunk().await {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(error) => {
                outcome = Err(Failure::failed(chain(&error)).and("Nothing was saved."));
                break;
            }
        };
        size += piece.len() as u64;
        bar.show(size, snapshot.database_bytes());
        // A writer that is gone says itself why.
        if sender.send(piece).await.is_err() {
            break;
        }
    }
    drop((sender, bar));
    let draft = writer
        .await
        .map_err(|error| Failure::failed(format!("the writer of the snapshot ended: {error}")))??;
    outcome.map(|()| Received {
        draft,
        size,
        snapshot,
    })
}

fn page(saved: &Saved) -> String {
    let from = match &saved.member {
        Some(name) => format!("{name} ({})", saved.endpoint),
        None => saved.endpoint.clone(),
    };
    facts::page(&[
        ("saved", saved.file.display().to_string()),
        ("from", from),
        ("size", facts::size(saved.size)),
        ("sha256", saved.sha256.clone()),
        ("revision", saved.revision.to_string()),
        ("version", saved.version.clone().unwrap_or_else(|| "-".to_owned())),
        ("seconds", format!("{:.1}", saved.seconds)),
    ])
}
