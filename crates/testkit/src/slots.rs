//! How many clusters run at once, over all test processes of the machine.

use std::fs::File;
use std::time::Duration;

use crate::{await_that, leases};

/// How many, unless `QUORATE_TEST_CLUSTERS` says otherwise.
const CLUSTERS: u32 = 4;
/// How long a test waits for its turn.
const PATIENCE: Duration = Duration::from_secs(600);

/// The right to run three or more etcds. Held while they run; given back when dropped.
///
/// A test takes one slot, whatever the number of its clusters: two tests that each hold one and want another would wait
/// for each other.
#[derive(Debug)]
pub struct ClusterSlot {
    _lock: File,
}

impl ClusterSlot {
    /// Waits for a slot.
    pub fn acquire() -> ClusterSlot {
        ClusterSlot::acquire_of(&leases::directory("clusters"), clusters(), PATIENCE)
    }

    fn acquire_of(directory: &std::path::Path, count: u32, patience: Duration) -> ClusterSlot {
        let what =
            format!("one of {count} cluster slots is free (QUORATE_TEST_CLUSTERS sets how many there are)");
        let lock = await_that(&what, patience, || {
            (0..count).find_map(|number| leases::try_lock(&directory.join(number.to_string())))
        });
        ClusterSlot { _lock: lock }
    }
}

fn clusters() -> u32 {
    match std::env::var("QUORATE_TEST_CLUSTERS") {
        Ok(text) => text
            .parse()
            .ok()
            .filter(|count| *count > 0)
            .unwrap_or_else(|| panic!("QUORATE_TEST_CLUSTERS is not a number from 1 on: {text:?}")),
        Err(_) => CLUSTERS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_slots_than_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let acquire = |patience| ClusterSlot::acquire_of(directory.path(), 2, patience);
        let (first, _second) = (acquire(PATIENCE), acquire(PATIENCE));
        let third = std::panic::catch_unwind(|| acquire(Duration::from_millis(50)));
        let words = third.unwrap_err().downcast::<String>().unwrap();
        assert!(words.contains("one of 2 cluster slots"), "{words}");
        drop(first);
        acquire(PATIENCE);
    }
}
