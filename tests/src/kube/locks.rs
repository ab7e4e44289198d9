//! Which tests may run at the same time on the one Kubernetes of this machine, across processes.
//!
//! In: a directory of lock files beside that of the bed, which `scripts/kube down` removes. Out: guards; a process that
//! ends lets go of what it held. Never: a wait without end, and a test that wants the bed alone and never gets it:
//! everyone passes through one turnstile, which such a test holds while it waits for the others to end.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// Longer than all tests that run when one begins to wait take together.
const PATIENCE: Duration = Duration::from_secs(12 * 60);
/// A wait that is longer is reported.
const REPORTED_AFTER: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// The lock files of one bed.
pub(super) struct Locks {
    dir: PathBuf,
}

/// A lock that is held until this is dropped.
#[derive(Debug)]
#[must_use = "the lock is let go of when this is dropped"]
pub struct Guard {
    _file: File,
}

impl Locks {
    /// The lock files of the bed that is kept in `bed`.
    pub(super) fn of(bed: &Path) -> Locks {
        let mut dir = bed.as_os_str().to_owned();
        dir.push(".locks");
        Locks { dir: dir.into() }
    }

    /// To start the bed, or install into it.
    pub(super) fn setup(&self) -> Guard {
        self.take("setup", FlockOperation::NonBlockingLockExclusive, PATIENCE)
    }

    /// A share of the bed, beside other tests.
    pub(super) fn share(&self) -> Guard {
        self.through_turnstile(FlockOperation::NonBlockingLockShared)
    }

    /// The bed for one test alone.
    pub(super) fn alone(&self) -> Guard {
        self.through_turnstile(FlockOperation::NonBlockingLockExclusive)
    }

    fn through_turnstile(&self, how: FlockOperation) -> Guard {
        let _turnstile = self.take("turnstile", FlockOperation::NonBlockingLockExclusive, PATIENCE);
        self.take("tests", how, PATIENCE)
    }

    fn take(&self, name: &str, how: FlockOperation, patience: Duration) -> Guard {
        let path = self.dir.join(name);
        let file = std::fs::create_dir_all(&self.dir).and_then(|()| {
            // Rust opens files so that no child inherits them.
            File::options().create(true).append(true).open(&path)
        });
        let file = file.unwrap_or_else(|e| panic!("lock file {}: {e}", path.display()));
        let began = Instant::now();
        let mut reported = false;
        loop {
            match flock(&file, how) {
                Ok(()) => return Guard { _file: file },
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(e) => panic!("lock file {}: {e}", path.display()),
            }
            let waited = began.elapsed();
            assert!(
                waited < patience,
                "{} was not free within {patience:?}; held by:\n{}",
                path.display(),
                holders(&file)
            );
            if waited > REPORTED_AFTER && !reported {
                reported = true;
                println!("waiting for {}, held by:\n{}", path.display(), holders(&file));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// The processes that hold a lock on a file, with their command lines.
fn holders(file: &File) -> String {
    let named = || -> io::Result<String> {
        let inode = format!(":{}", file.metadata()?.ino());
        let locks = std::fs::read_to_string("/proc/locks")?;
        // 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
        let pids = locks.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let held = words.get(1) == Some(&"FLOCK") && words.get(5)?.ends_with(&inode);
            held.then(|| (*words.get(4).unwrap_or(&"?")).to_owned())
        });
        let lines = pids.map(|pid| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            format!("  {pid} {command}")
        });
        Ok(lines.collect::<Vec<_>>().join("\n"))
    };
    named().unwrap_or_else(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    fn is_free(locks: &Locks, how: FlockOperation) -> bool {
        let path = locks.dir.join("tests");
        let file = File::options().append(true).open(path).expect("a lock file");
        flock(&file, how).is_ok()
    }

    #[test]
    fn shares_are_held_side_by_side_and_an_exclusive_one_by_itself() {
        let dir = tempfile::tempdir().expect("a directory");
        let locks = Locks::of(&dir.path().join("bed"));
        let first = locks.share();
        let second = locks.share();
        assert!(is_free(&locks, FlockOperation::NonBlockingLockShared));
        drop(first);
        assert!(!is_free(&locks, FlockOperation::NonBlockingLockExclusive));
        drop(second);
        let alone = locks.alone();
        assert!(!is_free(&locks, FlockOperation::NonBlockingLockShared));
        drop(alone);
        assert!(is_free(&locks, FlockOperation::NonBlockingLockExclusive));
    }

    /// Sharers that come after it wait behind it, though there are always some that hold the lock.
    #[test]
    fn a_test_that_wants_the_bed_alone_is_not_starved() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("bed");
        let first = Locks::of(&path).share();
        let alone = std::thread::spawn({
            let path = path.clone();
            move || drop(Locks::of(&path).alone())
        });
        let turnstile = || {
            let file = File::options()
                .create(true)
                .append(true)
                .open(Locks::of(&path).dir.join("turnstile"));
            flock(
                file.expect("a lock file"),
                FlockOperation::NonBlockingLockExclusive,
            )
            .is_err()
        };
        while !turnstile() {
            std::thread::sleep(PAUSE);
        }
        let late = std::thread::spawn({
            let path = path.clone();
            move || drop(Locks::of(&path).share())
        });
        std::thread::sleep(SOON);
        assert!(
            !alone.is_finished() && !late.is_finished(),
            "both wait for the first"
        );
        drop(first);
        alone.join().expect("the bed alone");
        late.join().expect("a share of it");
    }

    #[test]
    fn a_wait_ends_and_names_the_holder() {
        let dir = tempfile::tempdir().expect("a directory");
        let locks = Locks::of(&dir.path().join("bed"));
        let _held = locks.setup();
        let waited = std::panic::catch_unwind(|| {
            let locks = Locks::of(&dir.path().join("bed"));
            locks.take("setup", FlockOperation::NonBlockingLockExclusive, SOON)
        });
        let said = waited.expect_err("it is held");
        let said = said.downcast_ref::<String>().expect("a message");
        assert!(said.contains(&std::process::id().to_string()), "{said}");
    }
}
