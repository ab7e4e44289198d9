//! Long work on files, while a person watches how far it is and may stop it.
//!
//! In: the work, which reports its progress. Out: what came of it. Ctrl-C asks it to end, and waits until it has put
//! everything away. Never: a file that is half written because someone was impatient.

use std::path::Path;
use std::time::Duration;

use quorate_datadir::{Error, Progress, Source};
use tokio::signal::unix::{SignalKind, signal};

use crate::bar::Bar;
use crate::commands::runtime;
use crate::failure::Failure;

/// How often it is looked at how far the work is.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `work`, which is `doing` something to bytes.
pub fn run<T: Send>(
    doing: &'static str,
    work: impl FnOnce(&Progress) -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let runtime = runtime()?;
    let listening = runtime.enter();
    let hear = |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot hear signals: {error}")));
    // Before anything is begun: what ends the process from here on is only the end of the work.
    let (mut interrupt, mut terminate) = (hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?);
    drop(listening);
    let progress = &Progress::new();
    let (done, mut ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let result = work(progress);
            drop(done);
            result
        });
        runtime.block_on(async {
            let mut bar = Bar::new(doing);
            let mut ticks = tokio::time::interval(LOOK);
            loop {
                tokio::select! {
                    _ = &mut ended => return,
                    _ = interrupt.recv() => progress.cancel(),
                    _ = terminate.recv() => progress.cancel(),
                    _ = ticks.tick() => {
                        let total = progress.total();
                        bar.show(progress.done(), (total > 0).then_some(total));
                    }
                }
            }
        });
        let result = worker.join();
        result.unwrap_or_else(|_| Err(Failure::failed("the work ended without a word")))
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn an_interruption_ends_the_work_in_good_order() {
        for signal in [Signal::INT, Signal::TERM] {
            let outcome = run::<()>("done", |progress| {
                kill_process(getpid(), signal).unwrap();
                let until = Instant::now() + Duration::from_secs(60);
                while Instant::now() < until {
                    progress.add(1)?;
                    std::thread::yield_now();
                }
                panic!("nobody stopped it");
            });
            assert_eq!(outcome.unwrap_err().to_string(), "cancelled; nothing was changed");
        }
        assert_eq!(run("done", |_| Ok(7)).unwrap(), 7);
    }
}
