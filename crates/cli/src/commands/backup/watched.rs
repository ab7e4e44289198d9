//! Long work on an archive, while a person watches how far it is and may stop it.
//!
//! In: the work, which reports its progress. Out: what came of it. Ctrl-C asks it to end and waits until everything is put
//! away; a second one does not wait.

use std::sync::Arc;
use std::time::Duration;

use quorate_backup::{Error, Store};
use quorate_datadir::Progress;
use tokio::signal::unix::{SignalKind, signal};

use crate::bar::Bar;
use crate::failure::Failure;
use crate::say;
use crate::signals::stop;

/// How often it is looked at how far the work is.
const LOOK: Duration = Duration::from_millis(100);

/// Said when somebody asked to stop.
const STOPPED: &str = "stopped; what was not done is left for the next time";

/// Awaits `work`, which is `doing` something to bytes. Until it knows to how many, it is shown how much came from `store`.
pub async fn watch<T>(
    doing: &'static str,
    store: &Store,
    progress: &Arc<Progress>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    let hear = |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot hear signals: {error}")));
    let (mut interrupt, mut terminate) = (hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?);
    let mut work = std::pin::pin!(work);
    let before = store.received();
    let (mut bar, mut begun) = (Bar::new("read").with_lines(), false);
    let mut ticks = tokio::time::interval(LOOK);
    let mut asked = false;
    loop {
        tokio::select! {
            done = &mut work => return done.map_err(|error| match error {
                Error::Cancelled if asked => Failure::failed(STOPPED),
                error => error.into(),
            }),
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = ticks.tick() => {
                let (done, total) = (progress.done(), progress.total());
                if !begun && done + total > 0 {
                    (bar, begun) = (Bar::new(doing).with_lines(), true);
                }
                match begun {
                    true => bar.show(done, (total > 0).then_some(total)),
                    false => bar.show(store.received().saturating_sub(before), None),
                }
                continue;
            }
        }
        if asked {
            return Err(Failure::failed("stopped at once"));
        }
        asked = true;
        progress.cancel();
        say::note("Stopping; once more stops at once.");
    }
}

/// Awaits what reads in `store` and writes nothing: how much came is shown, and Ctrl-C ends it.
pub async fn reading<T>(store: &Store, work: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    let mut work = std::pin::pin!(work);
    let mut stopped = std::pin::pin!(stop());
    let before = store.received();
    let mut bar = Bar::new("read").with_lines();
    let mut ticks = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            done = &mut work => return done.map_err(Failure::from),
            () = &mut stopped => return Err(Failure::failed(STOPPED)),
            _ = ticks.tick() => bar.show(store.received().saturating_sub(before), None),
        }
    }
}

/// Asks `question` and awaits the line that a person types: without its end, or nothing at all, if Ctrl-C comes first.
pub async fn typed(question: impl FnOnce()) -> String {
    // Heard from before the question is seen: an answer may come at once.
    let stopped = stop();
    question();
    let (send, typed) = tokio::sync::oneshot::channel();
    // Not a task of the runtime, which would not end before somebody types.
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = std::io::stdin().read_line(&mut line);
        let _ = send.send(line);
    });
    tokio::select! {
        line = typed => line.unwrap_or_default(),
        () = stopped => String::new(),
    }
}
