//! `quorate snapshot …`: one snapshot or data directory, offline but for `save`.

mod choose;
mod form;
mod save;

use std::path::PathBuf;

use super::in_runtime;
use crate::arguments::snapshot::SnapshotCommand;
use crate::failure::Failure;

/// Runs the command that was asked for. Only `save` may need a root.
pub fn run(root: Option<PathBuf>, command: SnapshotCommand) -> Result<(), Failure> {
    match command {
        SnapshotCommand::Save(arguments) => in_runtime(save::run(root, arguments)),
        _ => Err(Failure::failed("not yet")),
    }
}
