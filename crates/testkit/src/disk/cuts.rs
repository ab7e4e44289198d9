//! Code run on a disk whose power goes, or which fails, at every operation.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use super::mount::Mount;
use super::survive::Survival;
use super::volume::Disk;

/// When the power went, and what was left then.
#[derive(Debug, Clone)]
pub struct Cut {
    /// After so many operations.
    pub operation: usize,
    /// Of so many that the code makes in all.
    pub operations: usize,
    /// What was kept of that which was not synced.
    pub survival: Survival,
    /// The disk as it was found afterwards.
    pub disk: Disk,
}

impl Cut {
    /// Whether the code had returned: what it promised then holds.
    pub fn is_after_the_end(&self) -> bool {
        self.operation == self.operations
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cut {
            operation,
            operations,
            survival,
            ..
        } = self;
        write!(
            f,
            "cut after operation {operation} of {operations}, kept {survival:?}"
        )
    }
}

/// How much was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Operations of the code.
    pub operations: usize,
    /// States of the disk that were checked; equal ones once.
    pub states: usize,
}

/// Runs `act` once on a disk that begins as `start`, and shows `check` every state the disk may be found in had the
/// power gone at any operation, each copied into a directory. `seeds` is how many torn states are tried at each
/// operation besides the plain ones. States that are equal are shown once, and once more after the end.
pub fn every_cut(
    start: &Disk,
    seeds: u64,
    act: impl FnOnce(&Path),
    mut check: impl FnMut(&Cut, &Path),
) -> Tally {
    let mount = Mount::of(start).expect("a mount");
    mount.record();
    act(mount.path());
    let history = mount.history();
    drop(mount);
    let operations = history.len() - 1;
    assert!(operations > 0, "nothing was done on the disk: is the path used?");
    let mut seen = HashSet::new();
    for (operation, disk) in history.iter().enumerate() {
        for survival in Survival::each(seeds) {
            // Other choices at each operation.
            let survival = match survival {
                Survival::Some(seed) => Survival::Some(operation as u64 * seeds + seed),
                plain => plain,
            };
            let cut = Cut {
                operation,
                operations,
                survival,
                disk: disk.after_the_cut(survival),
            };
            if seen.insert((cut.disk.fingerprint(), cut.is_after_the_end())) {
                let found = tempfile::tempdir().expect("a temporary directory");
                cut.disk.copy_to(found.path()).expect("a copy of the disk");
                naming(&cut, || check(&cut, found.path()));
            }
        }
    }
    Tally {
        operations,
        states: seen.len(),
    }
}

/// Runs `act` again and again, each time on a disk that begins as `start` and answers every operation with an I/O
/// error from one operation later on, until it no longer gets that far. Shows `check` what `act` returned and what is
/// then on the disk; `None` after the last, which was not disturbed.
pub fn every_failure<T>(
    start: &Disk,
    mut act: impl FnMut(&Path) -> T,
    mut check: impl FnMut(Option<usize>, T, &Path),
) -> Tally {
    /// More than any code here makes.
    const MOST: usize = 1_000_000;
    for operation in 0..MOST {
        let mount = Mount::of(start).expect("a mount");
        mount.fail_from(operation);
        let result = act(mount.path());
        let failed = mount.has_failed().then_some(operation);
        let found = tempfile::tempdir().expect("a temporary directory");
        mount.disk().copy_to(found.path()).expect("a copy of the disk");
        drop(mount);
        naming(&format!("failing from operation {operation} on"), || {
            check(failed, result, found.path());
        });
        if failed.is_none() {
            return Tally {
                operations: operation,
                states: operation + 1,
            };
        }
    }
    panic!("the code makes more than {MOST} operations");
}

/// Says where a check was when it panicked.
fn naming<T>(place: &impl fmt::Display, check: impl FnOnce() -> T) -> T {
    struct Place<'a>(&'a dyn fmt::Display);
    impl Drop for Place<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{}", self.0);
            }
        }
    }
    let _place = Place(place);
    check()
}
