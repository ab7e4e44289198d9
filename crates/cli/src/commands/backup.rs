//! `quorate backup …`: an archive of a cluster's history.

mod list;
mod place;
mod prune;

use std::path::PathBuf;

use super::in_runtime;
use crate::arguments::backup::BackupCommand;
use crate::failure::Failure;

/// Runs the command that was asked for.
pub fn run(_root: Option<PathBuf>, command: BackupCommand) -> Result<(), Failure> {
    match command {
        BackupCommand::List(arguments) => in_runtime(list::run(&arguments)),
        BackupCommand::Prune(arguments) => in_runtime(prune::run(&arguments)),
        _ => Err(Failure::failed("not yet")),
    }
}
