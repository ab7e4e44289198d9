//! Long work on files, while a person watches how far it is and may stop it.
//!
//! In: the work, which tells its progress. Out: what came of it. Ctrl-C asks it to end, and waits until it has put
//! everything away. Never: a file that is half written because someone was impatient.

use std::path::Path;
use std::time::Duration;

use quorate_datadir::{Error, Progress, Source};
use tokio::signal::unix::{SignalKind, signal};

use crate::bar::Bar;
use crate::commands::in_runtime;
use crate::failure::Failure;

/// How often it is looked at how far the work is.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `work`, which is `doing` something to bytes.
pub fn run<T: Send>(
    doing: &'static str,
    work: impl FnOnce(&Progress) -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let progress = Progress::new();
    let (done, mut ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        let progress = &progress;
        let worker = scope.spawn(move || {
            let result = work(progress);
            drop(done);
            result
        });
        let watched = in_runtime(async {
            let hear = |kind| signal(kind).map_err(|e| Failure::failed(format!("cannot hear signals: {e}")));
            let (mut interrupt, mut terminate) =
                (hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?);
            let mut bar = Bar::new(doing);
            let mut ticks = tokio::time::interval(LOOK);
            loop {
                tokio::select! {
                    _ = &mut ended => return Ok(()),
                    _ = interrupt.recv() => progress.cancel(),
                    _ = terminate.recv() => progress.cancel(),
                    _ = ticks.tick() => {
                        let total = progress.total();
                        bar.show(progress.done(), (total > 0).then_some(total));
                    }
                }
            }
        });
        if watched.is_err() {
            progress.cancel();
        }
        let result = worker.join();
        let result = result.unwrap_or_else(|_| Err(Failure::failed("the work ended without a word")));
        watched.and(result)
    })
}

/// Opens a snapshot or a stopped member's data directory. That it is none is said in a person's words.
pub fn open(path: &Path) -> Result<Source, Failure> {
    Source::open(path).map_err(|error| match &error {
        Error::Read { path: file, source }
            if source.kind() == std::io::ErrorKind::NotFound && file != path =>
        {
            Failure::failed(format!(
                "{} is a directory without a database: there is no {}",
                path.display(),
                file.display()
            ))
            .and("Name a member's data directory, the one that etcd is given as --data-dir.")
        }
        _ => Failure::from(error),
    })
}
