//! Old data that was set aside: what there is of it, how much room it takes, and how it goes.
//!
//! In: the root. Out: a list for the status. Never: a look that takes longer the more there is (it is bounded); somebody who
//! waits until gigabytes are deleted.

use std::path::PathBuf;
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

use crate::{Error, Root};

/// Sets listed at most.
const SETS_MAX: usize = 64;

/// The old data of a member, as a whole directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Aside {
    pub path: PathBuf,
    /// The room it takes on the disk.
    pub bytes: u64,
}

/// Where sets go that nobody needs any more: they count for nothing there. What is left of them is listed, too.
const DROPPED: &str = ".dropped";

/// Takes these sets out of the way. [`delete_dropped`] deletes them.
pub(crate) fn drop_sets(root: &Root, sets: &[PathBuf]) -> Result<(), Error> {
    let dropped = root.asides().join(DROPPED);
    std::fs::create_dir_all(&dropped).map_err(|source| Error::file("create", &dropped, source))?;
    for set in sets {
        let target = dropped.join(set.file_name().unwrap_or_default());
        std::fs::rename(set, target).map_err(|source| Error::file("move", set, source))?;
    }
    Ok(())
}

/// Deletes what was dropped, and what is left of earlier times, in a thread of its own. What cannot be deleted stays listed.
pub(crate) fn delete_dropped(root: &Root) -> Option<JoinHandle<std::io::Result<()>>> {
    let dropped = root.asides().join(DROPPED);
    dropped
        .exists()
        .then(|| std::thread::spawn(move || std::fs::remove_dir_all(dropped)))
}

/// All of it, by name. What cannot be read is left out.
pub(crate) fn list(root: &Root) -> Vec<Aside> {
    let entries = root.asides().read_dir().into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path()).take(SETS_MAX);
    let mut all: Vec<Aside> = paths
        .map(|path| Aside {
            bytes: quorate_datadir::room_of(&path),
            path,
        })
        .collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_aside_is_listed_with_the_room_it_takes() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path()).unwrap();
        assert_eq!(list(&root), []);
        let wal = root.asides().join("c-1-g0-77/member/wal");
        std::fs::create_dir_all(&wal).unwrap();
        std::fs::create_dir_all(root.asides().join("c-0-g0-5")).unwrap();
        std::fs::write(wal.join("0.wal"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/", wal.join("elsewhere")).unwrap();
        let all = list(&root);
        assert!(all[0].path.ends_with("c-0-g0-5") && all[1].path.ends_with("c-1-g0-77"));
        assert!((100_000..1_000_000).contains(&all[1].bytes), "{all:?}");
    }

    #[test]
    fn what_is_dropped_is_out_of_the_way_at_once_and_deleted_also_after_a_kill() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path()).unwrap();
        let sets = ["c-0-g0-5", "c-0-g1-6"].map(|name| root.asides().join(name));
        for set in &sets {
            std::fs::create_dir_all(set.join("member")).unwrap();
        }
        drop_sets(&root, &sets[..1]).unwrap();
        let paths = |root: &Root| list(root).into_iter().map(|aside| aside.path).collect::<Vec<_>>();
        assert_eq!(paths(&root), [root.asides().join(DROPPED), sets[1].clone()]);
        // The next one to come deletes what is left.
        delete_dropped(&root).unwrap().join().unwrap().unwrap();
        assert_eq!(paths(&root), [sets[1].clone()]);
        assert!(delete_dropped(&root).is_none());
    }
}
