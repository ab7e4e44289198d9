//! `quorate prepare`: the init containers of a member's pod. One looks, the other is the gate.
//!
//! Whatever ends it, and whenever, does no harm: it is started again and finds what it has done.

use std::path::Path;

use quorate_core::model::Generation;
use quorate_pod::contract::REPORT_BYTES_MAX;
use quorate_pod::gate::{self, Gate};
use quorate_pod::look::{self, LookOptions};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::Prepare;
use crate::failure::Failure;
use crate::say;

/// Looks, or waits at the gate. A failure is left for the operator to read.
pub async fn run(arguments: Prepare) -> Result<(), Failure> {
    let report = arguments.report.clone();
    let done = until_told_to_stop(move || {
        if arguments.look {
            look_at(&arguments)
        } else {
            pass(&arguments)
        }
    })
    .await;
    if let (Err(failure), Some(path)) = (&done, &report) {
        last_words(path, &failure.to_string());
    }
    done
}

fn look_at(arguments: &Prepare) -> Result<(), Failure> {
    let looking = LookOptions {
        volume: &arguments.volume,
        generation: Generation(arguments.generation),
        foretell: arguments.foretell,
        patience: arguments.patience.unwrap_or(look::PATIENCE),
    };
    let report = look::look(looking, say::note);
    let message = report.to_message();
    say::line(&message);
    match &arguments.report {
        None => Ok(()),
        Some(path) => std::fs::write(path, message).map_err(|source| {
            let path = path.display();
            Failure::failed(format!("cannot write the report to {path}: {source}"))
        }),
    }
}

fn pass(arguments: &Prepare) -> Result<(), Failure> {
    let (Some(version), Some(config), Some(pod)) = (arguments.version, &arguments.config, &arguments.pod_uid)
    else {
        return Err(Failure::usage(
            "without --look it needs --version, --config and --pod-uid",
        ));
    };
    let gate = Gate {
        volume: &arguments.volume,
        generation: Generation(arguments.generation),
        version,
        config,
        pod,
        member: arguments.member.as_ref(),
        go: &arguments.go,
        reached: arguments.reached.as_deref(),
        shared: &arguments.shared,
        program: Path::new("/proc/self/exe"),
        owner: arguments.owner,
        patience: arguments.patience.unwrap_or(gate::PATIENCE),
    };
    let passed = gate::pass(&gate, say::note)?;
    if let Some(path) = &arguments.report {
        last_words(path, &passed.to_message());
    }
    Ok(())
}

/// Does `work` on a thread of its own, and ends this process when it is asked to: the first process of a container is
/// not ended by a signal that it does not listen for, and then a pod takes half a minute to go.
pub async fn until_told_to_stop<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let listen =
        |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let worker = tokio::task::spawn_blocking(work);
    let signal = tokio::select! {
        done = worker => {
            return done.unwrap_or_else(|error| Err(Failure::failed(format!("stopped unexpectedly: {error}"))));
        }
        _ = terminate.recv() => 15,
        _ = interrupt.recv() => 2,
    };
    say::note("Asked to stop.");
    std::process::exit(128 + signal);
}

/// Leaves a container's last words, if there is a place for them.
pub fn last_words(path: &Path, words: &str) {
    let mut end = words.len().min(REPORT_BYTES_MAX);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    // Never made: on a machine that is no container this would put a file into /dev.
    if path.exists() {
        let _ = std::fs::write(path, &words[..end]);
    }
}
