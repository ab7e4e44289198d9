//! How far the log of a member comes that does not run. Reading a long log takes a while, so it is read again only when one of
//! its files has changed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The last index of logs that nothing writes to, by data directory.
#[derive(Debug, Default)]
pub(crate) struct LastIndexes {
    known: BTreeMap<PathBuf, (Vec<WalStamp>, Option<u64>)>,
}

/// A file of a log: its name, its number, its size, and when it last changed.
type WalStamp = (OsString, u64, u64, (i64, i64));

impl LastIndexes {
    /// The last index of the log in `dir`, on which nothing runs; `None` if it cannot be read.
    pub(crate) fn of(&mut self, dir: &Path) -> Option<u64> {
        let stamps = stamps(&dir.join("member").join("wal"))?;
        if let Some((known, index)) = self.known.get(dir)
            && *known == stamps
        {
            return *index;
        }
        let index = quorate_datadir::last_index(dir).ok().flatten();
        self.known.insert(dir.to_owned(), (stamps, index));
        index
    }

    /// Something runs in `dir`, or it is no longer asked for.
    pub(crate) fn forget(&mut self, dir: &Path) {
        self.known.remove(dir);
    }
}

fn stamps(wal: &Path) -> Option<Vec<WalStamp>> {
    let entries = std::fs::read_dir(wal).ok()?;
    let stamp = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let metadata = entry.metadata().ok()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Some((entry.file_name(), metadata.ino(), metadata.len(), changed))
    };
    let mut all = entries.map(stamp).collect::<Option<Vec<_>>>()?;
    all.sort();
    Some(all)
}
