//! A file that a command writes as a whole, under a temporary name that is renamed.
//!
//! In: its path from the command line. Never: a device, a pipe, a socket, a directory or a link replaced by a file.

use std::path::Path;

use crate::failure::Failure;

/// Refuses a path at which something other than a regular file exists.
pub fn check(path: &Path) -> Result<(), Failure> {
    // What cannot be looked at cannot be written either, which says why.
    let Ok(found) = path.symlink_metadata() else {
        return Ok(());
    };
    let kind = match found.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_symlink() => " but a symbolic link",
        kind if kind.is_dir() => " but a directory",
        _ => "",
    };
    let path = path.display();
    Err(Failure::usage(format!(
        "{path} exists and is not a regular file{kind}"
    )))
}
