//! Files that are costly to make, made once for all test processes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{await_that, leases};

/// How long one process may take to make a directory that others wait for.
const PATIENCE: Duration = Duration::from_secs(600);

/// The directory below `tmpdir` (`CARGO_TARGET_TMPDIR`) that `make` filled, in this process or an earlier one.
///
/// `key` is all that the content depends on: versions, and the text of the code that makes it. One process makes it
/// while others wait; it gets its name when it is whole.
pub fn shared_directory(tmpdir: &Path, name: &str, key: &[&str], make: impl FnOnce(&Path)) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let path = tmpdir.join(format!("{name}-{:016x}", hasher.finish()));
    if path.exists() {
        return path;
    }
    std::fs::create_dir_all(tmpdir).expect("a directory for shared files");
    let lock = path.with_extension("lock");
    let what = format!("another process has made {}", path.display());
    let _lock = await_that(&what, PATIENCE, || leases::try_lock(&lock));
    if !path.exists() {
        let making = tempfile::Builder::new().prefix(name).tempdir_in(tmpdir);
        let making = making.expect("a directory beside the shared one");
        make(making.path());
        std::fs::rename(making.keep(), &path).expect("a new name for a directory of ours");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_for_each_key() {
        let tmpdir = tempfile::tempdir().unwrap();
        let made = std::cell::Cell::new(0);
        let get = |key: &str| {
            let path = shared_directory(tmpdir.path(), "number", &[key], |path| {
                made.set(made.get() + 1);
                std::fs::write(path.join("file"), key).unwrap();
            });
            std::fs::read_to_string(path.join("file")).unwrap()
        };
        assert_eq!([get("a"), get("a"), get("b"), get("a")], ["a", "a", "b", "a"]);
        assert_eq!(made.get(), 2);
    }
}
