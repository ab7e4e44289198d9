//! The root directory of one cluster: which file is where.
//!
//! In: a directory. Out: paths, and the directories themselves, 0700. Never: a relative path (members outlive the
//! supervisor's working directory), a directory others can enter.

pub(crate) mod asides;
pub(crate) mod disk;
pub(crate) mod journal;
pub(crate) mod log;
pub(crate) mod registry;

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use quorate_core::model::{Generation, MemberName};

use crate::Error;

/// A root directory, by absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// The root at `path`, whether it exists or not.
    pub fn at(path: &Path) -> Result<Root, Error> {
        let path = std::path::absolute(path).map_err(|source| Error::Root {
            path: path.to_owned(),
            source,
        })?;
        Ok(Root { path })
    }

    /// The root used where none is named: `$QUORATE_ROOT`, else `/var/lib/quorate` for the superuser, else
    /// `quorate` under `$XDG_STATE_HOME` or `~/.local/state`.
    pub fn default_path() -> Result<PathBuf, Error> {
        let variable = |name| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        if let Some(root) = variable("QUORATE_ROOT") {
            return Ok(root);
        }
        if rustix::process::geteuid().is_root() {
            return Ok(PathBuf::from("/var/lib/quorate"));
        }
        variable("XDG_STATE_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
            .map(|state| state.join("quorate"))
            .ok_or(Error::NoRoot)
    }

    /// Makes the directories, and proves that they can be written.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        let failed = |source| Error::Root {
            path: self.path.clone(),
            source,
        };
        for directory in [
            self.path.clone(),
            self.run(),
            self.logs(),
            self.members(),
            self.asides(),
            self.bin(),
        ] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&directory)
                .map_err(failed)?;
        }
        let mode = self.path.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            std::fs::set_permissions(&self.path, Permissions::from_mode(0o700)).map_err(failed)?;
        }
        let probe = self.run().join(".probe");
        std::fs::write(&probe, b"")
            .and_then(|()| std::fs::remove_file(&probe))
            .map_err(failed)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest, where no other was named.
    pub fn manifest(&self) -> PathBuf {
        self.path.join("cluster.yaml")
    }

    /// Locked by the supervisor for its life.
    pub(crate) fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    pub(crate) fn supervisor(&self) -> PathBuf {
        self.path.join("supervisor.json")
    }

    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.json")
    }

    pub(crate) fn status(&self) -> PathBuf {
        self.path.join("status.json")
    }

    pub fn pki(&self) -> PathBuf {
        self.path.join("pki")
    }

    /// Where users put etcd binaries.
    pub fn bin(&self) -> PathBuf {
        self.path.join("bin")
    }

    pub(crate) fn members(&self) -> PathBuf {
        self.path.join("members")
    }

    /// All volumes of one member.
    pub(crate) fn volumes(&self, member: &MemberName) -> PathBuf {
        self.members().join(member.as_str())
    }

    /// etcd's data directory of one generation of one member.
    pub fn volume(&self, member: &MemberName, generation: Generation) -> PathBuf {
        self.volumes(member).join(generation.to_string())
    }

    /// Records of processes and first starts.
    pub(crate) fn run(&self) -> PathBuf {
        self.path.join("run")
    }

    /// The record of a member's process.
    pub(crate) fn record(&self, member: &MemberName) -> PathBuf {
        self.run().join(format!("{member}.json"))
    }

    /// Locked by a member's launcher and then by its etcd, for the life of the process.
    pub(crate) fn alive(&self, member: &MemberName) -> PathBuf {
        self.run().join(format!("{member}.alive"))
    }

    /// What is known of the first start on one volume. Not in the volume, so that a wipe cannot take it along.
    pub(crate) fn first_start(&self, member: &MemberName, generation: Generation) -> PathBuf {
        self.run().join(format!("{member}-{generation}.first"))
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    pub fn log(&self, member: &MemberName) -> PathBuf {
        self.logs().join(format!("{member}.log"))
    }

    /// The log of something that is no member.
    pub(crate) fn log_of(&self, what: &str) -> PathBuf {
        self.logs().join(format!("{what}.log"))
    }

    /// The archive of backups, where no other was named.
    pub fn archive(&self) -> PathBuf {
        self.path.join("archive")
    }

    /// What the backup agent says of itself.
    pub(crate) fn backup_report(&self) -> PathBuf {
        self.run().join("backup.json")
    }

    /// Where volumes are moved to.
    pub(crate) fn asides(&self) -> PathBuf {
        self.path.join("aside")
    }

    /// The generations that have a directory, with or without data in it.
    pub(crate) fn generations(&self, member: &MemberName) -> std::io::Result<Vec<Generation>> {
        let entries = match self.volumes(member).read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let number = name
                .to_str()
                .and_then(|n| n.strip_prefix('g'))
                .and_then(|n| n.parse().ok());
            found.extend(number.map(Generation));
        }
        found.sort();
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_private_and_paths_absolute() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(&dir.path().join("deep/er")).unwrap();
        root.prepare().unwrap();
        std::fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        root.prepare().unwrap();
        assert_eq!(
            root.path().metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert!(Root::at(Path::new("relative")).unwrap().path().is_absolute());
    }

    #[test]
    fn a_root_that_is_a_file_is_refused_with_what_to_do() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Root::at(file.path()).unwrap().prepare().unwrap_err();
        assert!(error.to_string().contains("--root"), "{error}");
    }

    #[test]
    fn generations_are_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path()).unwrap();
        let member = MemberName("c-0".to_owned());
        assert_eq!(root.generations(&member).unwrap(), []);
        for name in ["g10", "g9", "lost+found", "gx"] {
            std::fs::create_dir_all(root.volumes(&member).join(name)).unwrap();
        }
        assert_eq!(
            root.generations(&member).unwrap(),
            [Generation(9), Generation(10)]
        );
    }
}
