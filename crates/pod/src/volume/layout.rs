//! Where things lie on a member's volume.
//!
//! ```text
//! VOLUME/.quorate/volume.json   who the volume is, and what was let through on it: record
//! VOLUME/.quorate/alive         locked by the etcd that runs on it, for as long as it runs: hold
//! VOLUME/g0, g1, …              one data directory per generation of the member's slot
//! VOLUME/aside/g0-1700000000000 a data directory that was given up
//! ```
//!
//! Anything else on the volume is not ours, and is left alone.

use std::io;
use std::path::{Path, PathBuf};

use quorate_core::model::Generation;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout of the volume mounted at `root`.
    pub fn new(root: &Path) -> Layout {
        Layout {
            root: root.to_owned(),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of what quorate writes about it.
    pub fn own(&self) -> PathBuf {
        self.root.join(".quorate")
    }

    /// Who the volume is.
    pub fn record(&self) -> PathBuf {
        self.own().join("volume.json")
    }

    /// The lock of the process that runs on it.
    pub fn alive(&self) -> PathBuf {
        self.own().join("alive")
    }

    /// Where the last log is put in which nothing was promised.
    pub fn blank(&self) -> PathBuf {
        self.own().join("blank")
    }

    /// The data directory of a generation.
    pub fn data(&self, generation: Generation) -> PathBuf {
        self.root.join(generation.to_string())
    }

    /// Where the older operator had its data: in the volume itself.
    pub fn older(&self) -> PathBuf {
        self.root.join("member")
    }

    /// Where data is put that was given up.
    pub fn asides(&self) -> PathBuf {
        self.root.join("aside")
    }

    /// The generations that have a directory, in order.
    pub fn generations(&self) -> io::Result<Vec<Generation>> {
        let mut found = Vec::new();
        for entry in self.root.read_dir()? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            found.extend(entry.file_name().to_str().and_then(generation_of));
        }
        found.sort();
        Ok(found)
    }
}

/// The generation whose directory has this name.
fn generation_of(name: &str) -> Option<Generation> {
    let generation = Generation(name.strip_prefix('g')?.parse().ok()?);
    // Not "g01" or "g+1": such a directory is not ours.
    (generation.to_string() == name).then_some(generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_ours_are_generations() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["g10", "g9", "g01", "g+1", "g", "go", "lost+found", "aside"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("g7"), "").unwrap();
        let found = Layout::new(dir.path()).generations().unwrap();
        assert_eq!(found, [Generation(9), Generation(10)]);
    }
}
