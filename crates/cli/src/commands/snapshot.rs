//! `quorate snapshot …`: one snapshot or data directory, offline but for `save`.

pub(super) mod choose;
mod chosen;
mod dead;
mod defrag;
mod diff;
pub(super) mod form;
mod get;
mod hash;
mod keys;
mod offline;
pub(super) mod restore;
mod save;
mod status;
mod verify;

use std::path::PathBuf;

use super::in_runtime;
use crate::arguments::snapshot::SnapshotCommand;
use crate::failure::Failure;

/// Runs the command that was asked for. Only `save` may need a root.
pub fn run(root: Option<PathBuf>, command: SnapshotCommand) -> Result<(), Failure> {
    match command {
        SnapshotCommand::Save(arguments) => match &arguments.from_data_dir {
            Some(data_dir) => dead::run(root, data_dir, &arguments),
            None => in_runtime(save::run(root, arguments)),
        },
        SnapshotCommand::Status(arguments) => status::run(&arguments),
        SnapshotCommand::Verify(arguments) => verify::run(&arguments),
        SnapshotCommand::Hash(arguments) => hash::run(&arguments),
        SnapshotCommand::Get(arguments) => get::run(&arguments),
        SnapshotCommand::Keys(arguments) => keys::run(&arguments),
        SnapshotCommand::Diff(arguments) => diff::run(&arguments),
        SnapshotCommand::Defrag(arguments) => defrag::run(&arguments),
        SnapshotCommand::Restore(arguments) => restore::run(arguments),
    }
}
