//! `quorate backup …`: an archive of a cluster's history.

mod compact;
mod consent;
mod copy;
mod etcdbr;
mod list;
mod now;
mod place;
mod prune;
mod reach;
mod restore;
mod run;
mod served;
mod undo;
mod verify;
mod watched;

use std::path::PathBuf;

use super::in_runtime;
use crate::arguments::backup::BackupCommand;
use crate::failure::Failure;

/// Runs the command that was asked for.
pub fn run(root: Option<PathBuf>, command: BackupCommand) -> Result<(), Failure> {
    match command {
        BackupCommand::Run(arguments) => in_runtime(run::run(root, *arguments)),
        BackupCommand::Now(arguments) => in_runtime(now::run(root, arguments)),
        BackupCommand::List(arguments) => in_runtime(list::run(&arguments)),
        BackupCommand::Prune(arguments) => in_runtime(prune::run(&arguments)),
        BackupCommand::Restore(arguments) => in_runtime(restore::run(*arguments)),
        BackupCommand::Copy(arguments) => in_runtime(copy::run(&arguments)),
        BackupCommand::Compact(arguments) => in_runtime(compact::run(&arguments)),
        BackupCommand::Verify(arguments) => in_runtime(verify::run(root, &arguments)),
        BackupCommand::Undo(arguments) => in_runtime(undo::run(*arguments)),
    }
}
