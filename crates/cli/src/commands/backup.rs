//! `quorate backup …`: an archive of a cluster's history.

mod compact;
mod list;
mod place;
mod prune;
mod restore;
mod watched;

use std::path::PathBuf;

use super::in_runtime;
use crate::arguments::backup::BackupCommand;
use crate::failure::Failure;

/// Runs the command that was asked for.
pub fn run(_root: Option<PathBuf>, command: BackupCommand) -> Result<(), Failure> {
    match command {
        BackupCommand::List(arguments) => in_runtime(list::run(&arguments)),
        BackupCommand::Prune(arguments) => in_runtime(prune::run(&arguments)),
        BackupCommand::Restore(arguments) => in_runtime(restore::run(*arguments)),
        BackupCommand::Compact(arguments) => in_runtime(compact::run(&arguments)),
        _ => Err(Failure::failed("not yet")),
    }
}
