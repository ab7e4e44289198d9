//! What became of a key that is not there: when it was last written, and when it was deleted.

use std::ops::ControlFlow;

use super::sweep::sweep;
use crate::{Error, Progress, Source};

/// What the rows of a store tell about one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trail {
    /// The first revision after the one asked about that wrote it.
    pub written_later: Option<i64>,
    /// The revision that deleted it, before or at the one asked about.
    pub deleted_at: Option<i64>,
    /// A revision that still shows its last value before that.
    pub last_seen_at: Option<i64>,
}

/// Looks for traces of `key`, which is not there at `revision`.
pub fn trail(source: &Source, key: &[u8], revision: i64, progress: &Progress) -> Result<Trail, Error> {
    let mut trail = Trail::default();
    let mut written: Option<i64> = None;
    sweep(source, i64::MAX, progress, |row, there| {
        if there.key != key {
            return ControlFlow::Continue(());
        }
        let main = row.revision.main;
        match (main > revision, row.tombstone) {
            (true, false) => {
                trail.written_later = Some(main);
                return ControlFlow::Break(());
            }
            (true, true) => {}
            (false, true) => {
                trail.deleted_at = Some(main);
                // The moment before it was deleted, if that is not compacted away.
                trail.last_seen_at = written
                    .map(|_| main - 1)
                    .filter(|seen| Some(*seen) >= source.compact_revision());
                written = None;
            }
            (false, false) => written = Some(main),
        }
        ControlFlow::Continue(())
    })?;
    Ok(trail)
}
