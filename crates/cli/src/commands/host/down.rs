//! `quorate down`: stops the supervisor, which stops its members; without one, the members it left.

use quorate_host::Root;
use quorate_host::control::{self, Down};

use crate::failure::Failure;
use crate::say;

/// Stops what runs, and waits for it.
pub async fn run(root: &Root) -> Result<(), Failure> {
    if let Some(supervisor) = control::supervisor(root.path())?.filter(|supervisor| supervisor.running) {
        say::note(&format!(
            "Stopping the supervisor (pid {}) and its members …",
            supervisor.pid()
        ));
    }
    let here = root.path().display();
    say::line(&match control::down(root.path()).await? {
        Down::Stopped { .. } => format!("Stopped. The data stays in {here}."),
        Down::Leftovers { members: 1 } => {
            format!("No supervisor ran; stopped the member it had left. The data stays in {here}.")
        }
        Down::Leftovers { members } => {
            format!("No supervisor ran; stopped the {members} members it had left. The data stays in {here}.")
        }
        Down::NothingRan => format!("Nothing runs under {here}."),
    });
    Ok(())
}
