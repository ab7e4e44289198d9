//! Locks on files that all tests of one user share, whatever their process or checkout.
//!
//! A lock lasts until its file is dropped or its process dies. The descriptor is closed on exec, so no etcd that a test
//! starts can keep one.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::getuid;

/// Not `TMPDIR`, which may differ between processes that must see the same locks.
const TEMPORARY: &str = "/tmp";

/// Where the lock files of this user are; the same in every process.
pub(crate) fn directory(kind: &str) -> PathBuf {
    let path = Path::new(TEMPORARY)
        .join(format!("quorate-tests-{}", getuid().as_raw()))
        .join(kind);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    made.unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
    path
}

/// The exclusive lock on a file, which is created if it is missing; none if another holds it.
pub(crate) fn try_lock(path: &Path) -> Option<File> {
    let file = open(path);
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Some(file),
        Err(Errno::WOULDBLOCK) => None,
        Err(error) => panic!("cannot lock {}: {error}", path.display()),
    }
}

fn open(path: &Path) -> File {
    let opened = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path);
    match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("{} vanished while tests ran", path.display())
        }
        Err(error) => panic!("cannot open {}: {error}", path.display()),
    }
}
