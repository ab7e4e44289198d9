//! `quorate launch-in-pod`: hidden; the etcd container of a pod runs it, and it becomes etcd.

use quorate_pod::launch::Launching;

use super::in_runtime;
use super::prepare::{last_words, until_told_to_stop};
use crate::arguments::LaunchInPod;
use crate::failure::Failure;
use crate::say;

/// Becomes etcd. Returns only if that failed.
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
        Ok(ready) => Failure::from(ready.become_etcd()),
        Err(failure) => failure,
    }
}
