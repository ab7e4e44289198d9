//! A directory for each thread, in memory where there is one: the readers take paths.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

thread_local! {
    static SCRATCH: TempDir = {
        let memory = Path::new("/dev/shm");
        let made = match memory.is_dir() {
            true => TempDir::with_prefix_in("quorate-fuzz-", memory),
            false => TempDir::with_prefix("quorate-fuzz-"),
        };
        made.expect("a temporary directory")
    };
}

/// The bytes in a file of this name; what was there before is replaced.
pub(crate) fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = SCRATCH.with(|scratch| scratch.path().join(name));
    let directory = path.parent().expect("it is in the scratch directory");
    fs::create_dir_all(directory).expect("a directory");
    fs::write(&path, bytes).expect("a file");
    path
}
