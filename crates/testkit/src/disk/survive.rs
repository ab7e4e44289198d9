//! What a power cut leaves of a disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::volume::{Body, Change, Disk, Now, ROOT};

/// What is kept of that which was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Survival {
    Synced,
    /// All: the disk happened to have written it, or only the process was killed.
    Everything,
    /// All names and no bytes: files that were renamed into place are found without their content.
    Names,
    /// All bytes and no names.
    Bytes,
    /// Some blocks of files, some lengths, some permissions and some names, chosen by this seed. Of names that depend
    /// on each other the earlier change is kept before the later one.
    Some(u64),
}

impl Survival {
    /// Every kind, and the last with this many seeds.
    pub fn each(seeds: u64) -> impl Iterator<Item = Survival> {
        [
            Survival::Synced,
            Survival::Everything,
            Survival::Names,
            Survival::Bytes,
        ]
        .into_iter()
        .chain((0..seeds).map(Survival::Some))
    }
}

impl Disk {
    /// The disk after the power went and came back; everything on it is synced.
    pub fn after_the_cut(&self, survival: Survival) -> Disk {
        let mut rng = fastrand::Rng::with_seed(match survival {
            Survival::Some(seed) => seed,
            _ => 0,
        });
        let kept: Vec<&Vec<Change>> = match survival {
            Survival::Synced | Survival::Bytes => Vec::new(),
            Survival::Everything | Survival::Names => self.pending.iter().map(|changes| &**changes).collect(),
            Survival::Some(_) => self.some_changes(&mut rng),
        };
        let mut found = self.clone();
        found.pending.clear();
        for node in found.nodes.values_mut() {
            let node = Arc::make_mut(node);
            (node.links, node.opens) = (0, 0);
            let keep_mode = match survival {
                Survival::Synced | Survival::Names => false,
                Survival::Everything | Survival::Bytes => true,
                Survival::Some(_) => rng.bool(),
            };
            if !keep_mode {
                node.mode.now = node.mode.synced;
            }
            node.mode.synced = node.mode.now;
            match &mut node.body {
                Body::Directory(entries) => entries.now = entries.synced.clone(),
                Body::File(content) => {
                    let content_found = match survival {
                        Survival::Synced | Survival::Names => content.synced.clone(),
                        Survival::Everything | Survival::Bytes => content.now.clone(),
                        Survival::Some(_) => content.now.torn(&content.synced, &mut rng),
                    };
                    *content = Now {
                        now: content_found.clone(),
                        synced: content_found,
                    };
                }
            }
        }
        for Change { directory, name, to } in kept.into_iter().flatten() {
            if let Some(node) = found.nodes.get_mut(directory)
                && let Body::Directory(entries) = &mut Arc::make_mut(node).body
            {
                match to {
                    Some(to) => entries.now.insert(name.clone(), *to),
                    None => entries.now.remove(name),
                };
            }
        }
        found.only_what_is_linked();
        found
    }

    /// Some of the changes that were not synced: as many as were made by a point in time, or any that do not build
    /// on one that is missing.
    fn some_changes(&self, rng: &mut fastrand::Rng) -> Vec<&Vec<Change>> {
        if rng.bool() {
            let kept = rng.usize(..=self.pending.len());
            return self.pending[..kept].iter().map(|changes| &**changes).collect();
        }
        let (mut kept, mut missing): (Vec<&Vec<Change>>, Vec<&Change>) = (Vec::new(), Vec::new());
        for changes in &self.pending {
            let builds_on_missing = changes
                .iter()
                .any(|change| missing.iter().any(|other| change.depends_on(other)));
            if !builds_on_missing && rng.bool() {
                kept.push(changes);
            } else {
                missing.extend(changes.iter());
            }
        }
        kept
    }

    /// Counts links anew from the root on, and drops what has none.
    fn only_what_is_linked(&mut self) {
        let mut links: BTreeMap<u64, u32> = BTreeMap::from([(ROOT, 1)]);
        let mut open = vec![ROOT];
        while let Some(number) = open.pop() {
            let Ok(entries) = self.entries(number) else {
                continue;
            };
            for to in entries.values() {
                let seen = links.entry(*to).or_default();
                *seen += 1;
                if *seen == 1 {
                    open.push(*to);
                }
            }
        }
        self.nodes.retain(|number, _| links.contains_key(number));
        for (number, node) in &mut self.nodes {
            let node = Arc::make_mut(node);
            node.links = links[number];
            if let Body::Directory(entries) = &mut node.body {
                entries.synced = entries.now.clone();
            }
        }
    }
}

impl Change {
    fn depends_on(&self, other: &Change) -> bool {
        let same_name = self.directory == other.directory && self.name == other.name;
        same_name || (self.to.is_some() && self.to == other.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::volume::Rename;
    use std::ffi::OsStr;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    fn content(disk: &Disk, file: &str) -> Option<Vec<u8>> {
        let number = disk.lookup(ROOT, name(file)).ok()?;
        Some(disk.file(number).unwrap().read(0, 1 << 20))
    }

    fn all(disk: &Disk) -> Vec<Disk> {
        Survival::each(100)
            .map(|survival| disk.after_the_cut(survival))
            .collect()
    }

    #[test]
    fn a_file_needs_its_own_sync_and_that_of_its_directory() {
        let mut disk = Disk::new();
        let file = disk.make(ROOT, name("a"), false, 0o600).unwrap();
        disk.write(file, 0, b"x").unwrap();
        assert_eq!(content(&disk.after_the_cut(Survival::Synced), "a"), None);
        disk.sync_file(file, true).unwrap();
        assert!(all(&disk).iter().any(|found| content(found, "a").is_none()));
        disk.sync_directory(ROOT).unwrap();
        for found in all(&disk) {
            assert_eq!(content(&found, "a").unwrap(), b"x");
        }
    }

    #[test]
    fn a_synced_name_does_not_vouch_for_bytes() {
        let mut disk = Disk::new();
        let file = disk.make(ROOT, name("a"), false, 0o600).unwrap();
        disk.write(file, 0, b"x").unwrap();
        disk.sync_directory(ROOT).unwrap();
        let seen: Vec<_> = all(&disk)
            .iter()
            .map(|found| content(found, "a").unwrap())
            .collect();
        for possible in [&b""[..], b"\0", b"x"] {
            assert!(
                seen.iter().any(|bytes| bytes == possible),
                "{possible:?} of {seen:?}"
            );
        }
    }

    #[test]
    fn a_renaming_is_kept_whole_or_not_at_all() {
        let mut disk = Disk::new();
        for (file, bytes) in [("old", b"1"), ("new", b"2")] {
            let number = disk.make(ROOT, name(file), false, 0o600).unwrap();
            disk.write(number, 0, bytes).unwrap();
        }
        disk.sync();
        disk.rename((ROOT, name("new")), (ROOT, name("old")), Rename::Replace)
            .unwrap();
        let mut seen: Vec<_> = all(&disk)
            .iter()
            .map(|found| (content(found, "old").unwrap(), content(found, "new")))
            .collect();
        seen.sort();
        seen.dedup();
        assert_eq!(
            seen,
            [(b"1".to_vec(), Some(b"2".to_vec())), (b"2".to_vec(), None)]
        );
    }

    #[test]
    fn a_move_between_directories_loses_nothing_and_doubles_nothing() {
        let mut disk = Disk::new();
        let directories = ["a", "b"].map(|it| disk.make(ROOT, name(it), true, 0o700).unwrap());
        disk.make(directories[0], name("x"), true, 0o700).unwrap();
        disk.sync();
        disk.rename(
            (directories[0], name("x")),
            (directories[1], name("y")),
            Rename::NoReplace,
        )
        .unwrap();
        disk.rename(
            (directories[1], name("y")),
            (directories[1], name("z")),
            Rename::Replace,
        )
        .unwrap();
        for found in all(&disk) {
            let names = directories.map(|it| found.entries(it).unwrap().len());
            assert_eq!(names.iter().sum::<usize>(), 1, "{found:?}");
        }
        disk.sync_directory(directories[0]).unwrap();
        for found in all(&disk) {
            assert!(found.entries(directories[0]).unwrap().is_empty());
        }
    }

    #[test]
    fn permissions_need_more_than_fdatasync() {
        let mut disk = Disk::new();
        let file = disk.make(ROOT, name("a"), false, 0o600).unwrap();
        disk.sync();
        disk.node_mut(file).unwrap().mode.now = 0o644;
        disk.sync_file(file, true).unwrap();
        let mode = |disk: &Disk| disk.after_the_cut(Survival::Synced).node(file).unwrap().mode.now;
        assert_eq!(mode(&disk), 0o600);
        disk.sync_file(file, false).unwrap();
        assert_eq!(mode(&disk), 0o644);
    }
}
