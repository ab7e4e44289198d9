//! Old data that was set aside: what there is of it, and how much room it takes.
//!
//! In: the root. Out: a list for the status. Never: a look that takes longer the more there is (it is bounded).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Root;

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
}
