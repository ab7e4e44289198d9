//! `journal.json`: the planner's memory and what the host decided once (ports, TLS), on the disk before any effect.
//!
//! In and out: one versioned file. Never: a journal made up where data says that there was one; one that is guessed
//! at because it cannot be read; an effect before the write has reached the disk.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use quorate_core::Memory;
use quorate_core::model::{MemberName, Ordinal};
use quorate_datadir::durable;
use serde::{Deserialize, Serialize};

use crate::ground::ports::Ports;
use crate::run::evidence;
use crate::{Error, Root};

const VERSION: u32 = 1;
/// Larger than any journal: a few hundred bytes a member.
const SIZE_MAX: u64 = 16 * 1024 * 1024;
/// Directories named in a refusal.
const SHOWN_MAX: usize = 8;

/// Everything that must survive the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Journal {
    version: u32,
    /// Whose root this is.
    pub(crate) cluster: String,
    /// Whether members speak TLS; part of their URLs, so it cannot change.
    pub(crate) tls: bool,
    /// The ports, by member.
    pub(crate) ports: BTreeMap<Ordinal, Ports>,
    pub(crate) memory: Memory,
}

impl Journal {
    /// The journal of a cluster that does not exist yet.
    pub(crate) fn new(cluster: &str, tls: bool) -> Journal {
        let (cluster, ports, memory) = (cluster.to_owned(), BTreeMap::new(), Memory::default());
        Journal {
            version: VERSION,
            cluster,
            tls,
            ports,
            memory,
        }
    }

    /// The same journal with another memory.
    pub(crate) fn with(&self, memory: Memory) -> Journal {
        Journal {
            memory,
            ..self.clone()
        }
    }

    /// The manifest that was last in force, if the cluster has begun: where its file is broken, the cluster goes on with this.
    pub(crate) fn manifest(&self) -> Option<&str> {
        let begun = self.memory.bootstrap.is_some();
        self.memory.manifest.as_deref().filter(|_| begun)
    }

    /// Reads the journal; `None` if there is none and no data either.
    pub(crate) fn load(root: &Root) -> Result<Option<Journal>, Error> {
        let path = root.journal();
        let Some(content) = durable::read(&path, SIZE_MAX)? else {
            let data = volumes_with_data(root)?;
            return if data.is_empty() {
                Ok(None)
            } else {
                Err(Error::JournalMissing { journal: path, data })
            };
        };
        let unusable = |why: String| Error::JournalUnusable {
            journal: path.clone(),
            why,
        };
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let head: Head = serde_json::from_slice(&content).map_err(|error| unusable(error.to_string()))?;
        if head.version != VERSION {
            return Err(unusable(format!(
                "it is of form {}, and this quorate knows form {VERSION}",
                head.version
            )));
        }
        let journal: Journal =
            serde_json::from_slice(&content).map_err(|error| unusable(error.to_string()))?;
        journal.is_not_behind(root).map_err(unusable)?;
        Ok(Some(journal))
    }

    /// An old copy of the journal would take a volume for fresh that is not.
    fn is_not_behind(&self, root: &Root) -> Result<(), String> {
        for (ordinal, slot) in &self.memory.slots {
            let member = MemberName::of(&self.cluster, *ordinal);
            let newest = root.generations(&member).ok().and_then(|all| all.last().copied());
            if let Some(newest) = newest.filter(|newest| *newest > slot.generation) {
                let volume = root.volume(&member, newest);
                return Err(format!(
                    "it is older than the data: it does not know {}",
                    volume.display()
                ));
            }
        }
        Ok(())
    }

    /// Puts the journal on the disk.
    pub(crate) fn store(&self, root: &Root) -> Result<(), Error> {
        let path = root.journal();
        let content = serde_json::to_vec(self);
        let content = content.map_err(|error| Error::file("encode", &path, io::Error::other(error)))?;
        Ok(durable::write(&path, &content)?)
    }
}

/// Volumes that hold a write-ahead log (or cannot be looked at).
fn volumes_with_data(root: &Root) -> Result<Vec<PathBuf>, Error> {
    let members = root.members();
    let entries = match members.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::file("read", &members, source)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| Error::file("read", &members, source))?;
        let volumes = entry
            .path()
            .read_dir()
            .map_err(|source| Error::file("read", &entry.path(), source))?;
        let volumes = volumes.flatten().map(|volume| volume.path());
        found.extend(
            volumes
                .filter(|volume| evidence::has_wal(volume))
                .take(SHOWN_MAX - found.len()),
        );
        if found.len() == SHOWN_MAX {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::memory::Slot;
    use quorate_core::model::Generation;

    fn root() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path()).unwrap();
        root.prepare().unwrap();
        (dir, root)
    }

    fn volume(root: &Root, generation: u32) {
        let volume = root.volume(&MemberName("c-0".to_owned()), Generation(generation));
        std::fs::create_dir_all(volume.join("member/wal")).unwrap();
        std::fs::write(volume.join("member/wal/0-0.wal"), "x").unwrap();
    }

    #[test]
    fn it_comes_back_as_it_was_stored() {
        let (_dir, root) = root();
        assert_eq!(Journal::load(&root).unwrap(), None);
        let mut journal = Journal::new("c", true);
        journal.ports.insert(Ordinal(10), Ports { client: 1, peer: 2 });
        journal.memory.slots.insert(Ordinal(10), Slot::default());
        journal.store(&root).unwrap();
        assert_eq!(Journal::load(&root).unwrap(), Some(journal));
    }

    #[test]
    fn a_missing_journal_over_data_is_refused() {
        let (_dir, root) = root();
        volume(&root, 0);
        let error = Journal::load(&root).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains("members/c-0/g0"), "{error}");
    }

    #[test]
    fn a_journal_that_cannot_be_trusted_is_refused() {
        let (_dir, root) = root();
        for (text, expected) in [
            ("{", "cannot be used"),
            ("", "cannot be used"),
            (r#"{"version":2}"#, "form 2"),
        ] {
            std::fs::write(root.journal(), text).unwrap();
            let error = Journal::load(&root).unwrap_err();
            assert!(
                error.exit_code() == 3 && error.to_string().contains(expected),
                "{error}"
            );
        }
        volume(&root, 1);
        let mut journal = Journal::new("c", true);
        journal.memory.slots.insert(Ordinal(0), Slot::default());
        journal.store(&root).unwrap();
        let error = Journal::load(&root).unwrap_err();
        assert!(error.to_string().contains("older than the data"), "{error}");
    }
}
