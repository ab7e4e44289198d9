//! `quorate launch-in-pod`: hidden; the etcd container of a pod runs it, and it becomes etcd. At a first start it stays
//! beside etcd instead, and ends as that does.

use quorate_pod::first;
use quorate_pod::launch::{Launching, Ready};
use tokio::signal::unix::{SignalKind, signal};

use super::prepare::{last_words, until_told_to_stop};
use crate::arguments::LaunchInPod;
use crate::commands::in_runtime;
use crate::failure::Failure;
use crate::say;

/// Becomes etcd, or ends with it. Returns only if etcd could not be started.
pub fn run(arguments: &LaunchInPod) -> Result<(), Failure> {
    let failure = launch(arguments);
    last_words(&arguments.report, &failure.to_string());
    Err(failure)
}

fn launch(arguments: &LaunchInPod) -> Failure {
    let [program, rest @ ..] = arguments.etcd.as_slice() else {
        return Failure::usage("no etcd was named after --");
    };
    let (shared, program, rest) = (arguments.shared.clone(), program.into(), rest.to_vec());
    let patience = arguments.patience;
    let ready = in_runtime(until_told_to_stop(move || {
        let launching = Launching {
            shared: &shared,
            program,
            arguments: rest,
            patience,
        };
        launching.ready(say::note).map_err(Failure::from)
    }));
    match ready {
        // Without the runtime, whose threads and signals are not etcd's business.
        Ok(ready) if !ready.is_first() => Failure::from(ready.become_etcd()),
        Ok(ready) => match in_runtime(stay_beside(ready)) {
            Ok(code) => std::process::exit(code),
            Err(failure) => failure,
        },
        Err(failure) => failure,
    }
}

/// Starts etcd, passes on the signals that this process gets, and says with which code to end.
async fn stay_beside(ready: Ready) -> Result<i32, Failure> {
    let listen =
        |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let unknown = |error: std::io::Error| Failure::failed(format!("cannot watch etcd: {error}"));
    let etcd = ready.watch_etcd()?;
    let handle = etcd.handle().map_err(unknown)?;
    let mut end = tokio::task::spawn_blocking(move || etcd.until_its_end());
    loop {
        tokio::select! {
            ended = &mut end => {
                let status = ended.map_err(std::io::Error::other).and_then(|status| status);
                return Ok(first::exit_code(status.map_err(unknown)?));
            }
            _ = terminate.recv() => handle.terminate(),
            _ = interrupt.recv() => handle.interrupt(),
        }
    }
}
