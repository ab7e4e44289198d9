//! Which minor could replay a member's log, looked at only when it matters: when a newer minor is wanted than has
//! served. Reading a log takes a moment, so a verdict holds for a while.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate_core::memory::Slot;
use quorate_core::model::{Spec, Volume};

/// How long a verdict holds.
const HOLDS: Duration = Duration::from_secs(2);

/// Verdicts by data directory.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    known: BTreeMap<PathBuf, (Instant, Option<u32>)>,
}

impl Replays {
    /// The newest minor that could replay the log in `dir`, if there is such a limit and a newer one is wanted. A log
    /// that cannot be read is taken for one that only the present minor can replay.
    pub(crate) fn limit(&mut self, dir: &Path, volume: &Volume, slot: &Slot, spec: &Spec) -> Option<u32> {
        let present = slot.served.or(slot.version)?.minor;
        if spec.version.minor <= present || !matches!(volume, Volume::Data { .. }) {
            self.known.remove(dir);
            return None;
        }
        if let Some((since, limit)) = self.known.get(dir)
            && since.elapsed() < HOLDS
        {
            return *limit;
        }
        let limit = match quorate_datadir::replay(dir) {
            Ok(replay) => replay.newest_minor(),
            Err(_) => Some(present),
        };
        self.known.insert(dir.to_owned(), (Instant::now(), limit));
        limit
    }
}
