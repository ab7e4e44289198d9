//! The roots of this machine, so that a cluster that is stopped keeps its ports.
//!
//! In: roots as they are brought up. Out: the ports that belong to others. The journal of a root says which ports it has; a
//! record here says only where that root is. So a record that is lost or left over does no harm: a port is then found to be
//! taken when both run, as without it.
//! Never: a cluster that does not start because of this; more records than [`RECORDS_MAX`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use quorate_datadir::durable;
use rustix::fs::FlockOperation;
use serde::Deserialize;

use crate::ground::ports::Ports;
use crate::{Error, Root};

/// Records kept at most; those of roots that are gone make room, the oldest first.
const RECORDS_MAX: usize = 256;
/// Linux has no longer paths.
const PATH_MAX: u64 = 4096;
const JOURNAL_MAX: u64 = 16 << 20;
/// Choosing ports takes milliseconds; who holds the lock for longer is not waited for.
const LOCK_TRIES: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(25);

#[derive(Clone, Debug)]
pub(crate) struct Registry {
    directory: PathBuf,
}

impl Registry {
    /// The one named, or the usual one of this user: `$QUORATE_REGISTRY`, `/var/lib/quorate-roots` for the superuser, else
    /// `quorate-roots` under `$XDG_STATE_HOME` or `~/.local/state`.
    pub(crate) fn at(named: Option<PathBuf>) -> Option<Registry> {
        let variable = |name| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let usual = || {
            if rustix::process::geteuid().is_root() {
                return Some(PathBuf::from("/var/lib/quorate-roots"));
            }
            let state = variable("XDG_STATE_HOME");
            let state = state.or_else(|| variable("HOME").map(|home| home.join(".local/state")));
            state.map(|state| state.join("quorate-roots"))
        };
        let directory = named.or_else(|| variable("QUORATE_REGISTRY")).or_else(usual)?;
        Some(Registry { directory })
    }

    /// Enters a root that exists. Its name is that of its directory's inode: a root that is moved is the same root.
    pub(crate) fn enter(&self, root: &Root) -> Result<(), Error> {
        let failed = |source| Error::file("write", &self.directory, source);
        let mut builder = std::fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(failed)?;
        let name = name(root.path()).map_err(failed)?;
        durable::write_fast(&self.directory.join(name), root.path().as_os_str().as_bytes())?;
        self.sweep().map_err(failed)
    }

    /// Held while ports are chosen and written down: two new clusters must not choose the same. `None` where that cannot
    /// be had in a second.
    pub(crate) async fn lock(&self) -> Option<File> {
        let directory = File::open(&self.directory).ok()?;
        for _ in 0..LOCK_TRIES {
            if rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Some(directory);
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        None
    }

    /// The ports of all roots but this one.
    pub(crate) fn ports_of_others(&self, root: &Root) -> BTreeSet<u16> {
        let own = name(root.path()).ok();
        let records = self.records().unwrap_or_default();
        let others = records
            .into_iter()
            .filter(|record| Some(&record.name) != own.as_ref());
        let others = others.filter(|record| record.root != root.path());
        others.flat_map(|record| ports_of(&record.root)).collect()
    }

    fn records(&self) -> io::Result<Vec<Entry>> {
        let entries = match self.directory.read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries.flatten().take(2 * RECORDS_MAX) {
            let Ok(Some(path)) = durable::read(&entry.path(), PATH_MAX) else {
                continue;
            };
            let written = entry.metadata().and_then(|metadata| metadata.modified());
            found.push(Entry {
                name: entry.file_name().to_string_lossy().into_owned(),
                root: PathBuf::from(std::ffi::OsString::from_vec(path)),
                written: written.unwrap_or(SystemTime::UNIX_EPOCH),
            });
        }
        Ok(found)
    }

    /// Records of roots that are gone are kept while there is room: their disk may only not be mounted.
    fn sweep(&self) -> io::Result<()> {
        let mut records = self.records()?;
        let surplus = records.len().saturating_sub(RECORDS_MAX);
        records.retain(|record| !record.root.exists());
        records.sort_by_key(|record| record.written);
        for record in records.into_iter().take(surplus) {
            std::fs::remove_file(self.directory.join(record.name))?;
        }
        Ok(())
    }
}

struct Entry {
    name: String,
    root: PathBuf,
    written: SystemTime,
}

fn name(root: &Path) -> io::Result<String> {
    let metadata = root.metadata()?;
    Ok(format!("{:x}-{}", metadata.dev(), metadata.ino()))
}

/// The ports that the journal of a root has given to its members; none where there is no journal that can be read.
fn ports_of(root: &Path) -> Vec<u16> {
    #[derive(Deserialize)]
    struct Journal {
        ports: BTreeMap<String, Ports>,
    }
    let journal = Root::at(root).ok().map(|root| root.journal());
    let content = journal.and_then(|path| durable::read(&path, JOURNAL_MAX).ok().flatten());
    let journal: Option<Journal> = content.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let ports = journal
        .into_iter()
        .flat_map(|journal| journal.ports.into_values());
    ports.flat_map(|ports| [ports.client, ports.peer]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::journal::Journal;
    use quorate_core::model::Ordinal;

    fn root(dir: &Path, name: &str, ports: &[(u16, u16)]) -> Root {
        let root = Root::at(&dir.join(name)).unwrap();
        root.prepare().unwrap();
        let mut journal = Journal::new(name, true);
        for (ordinal, (client, peer)) in (0..).zip(ports) {
            let (client, peer) = (*client, *peer);
            journal.ports.insert(Ordinal(ordinal), Ports { client, peer });
        }
        journal.store(&root).unwrap();
        root
    }

    #[tokio::test]
    async fn ports_belong_to_a_root_for_as_long_as_it_exists() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::at(Some(dir.path().join("registry"))).unwrap();
        assert!(registry.lock().await.is_none(), "nothing was entered yet");
        let a = root(dir.path(), "a", &[(1001, 1002), (1003, 1004)]);
        let b = root(dir.path(), "b", &[(2001, 2002)]);
        assert!(registry.ports_of_others(&b).is_empty());
        for _ in 0..2 {
            registry.enter(&a).unwrap();
            registry.enter(&b).unwrap();
        }
        assert_eq!(registry.records().unwrap().len(), 2);
        assert_eq!(registry.ports_of_others(&b), [1001, 1002, 1003, 1004].into());
        assert_eq!(registry.ports_of_others(&a), [2001, 2002].into());
        // Moved, and then up again.
        let moved = Root::at(&dir.path().join("moved")).unwrap();
        std::fs::rename(a.path(), moved.path()).unwrap();
        registry.enter(&moved).unwrap();
        assert_eq!(registry.ports_of_others(&b).len(), 4);
        assert!(!registry.ports_of_others(&moved).contains(&1001), "its own");
        std::fs::remove_dir_all(moved.path()).unwrap();
        assert!(registry.ports_of_others(&b).is_empty());
        let held = registry.lock().await.unwrap();
        assert!(registry.lock().await.is_none());
        drop(held);
        assert!(registry.lock().await.is_some());
    }

    #[test]
    fn records_of_roots_that_are_gone_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::at(Some(dir.path().join("registry"))).unwrap();
        let here = root(dir.path(), "here", &[]);
        registry.enter(&here).unwrap();
        for number in 0..RECORDS_MAX + 20 {
            std::fs::write(registry.directory.join(format!("0-{number}")), "/no/such/root").unwrap();
        }
        registry.enter(&here).unwrap();
        let left = registry.records().unwrap();
        assert_eq!(left.len(), RECORDS_MAX);
        assert!(left.iter().any(|record| record.root == here.path()));
    }
}
