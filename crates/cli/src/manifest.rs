//! A manifest file, changed in place.
//!
//! In: the file and one edit. Out: the same file with one field changed, whole or not at all (temporary name, fsync,
//! rename, fsync of the directory), with its mode and, where that is allowed, its owner.
//! Never: a manifest written that would then be refused; a change to a file that was refused already.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use quorate_api::{Cluster, Ground, edit};
use quorate_datadir::durable::{self, Draft};
use quorate_host::{Root, control};

use crate::failure::{Failure, chain};
use crate::{roots, say};

/// A manifest is a page or two.
const SIZE_MAX: u64 = 1024 * 1024;

/// A manifest, read and accepted.
#[derive(Debug)]
pub struct Manifest {
    path: PathBuf,
    text: String,
    cluster: Cluster,
    warnings: Vec<String>,
}

impl Manifest {
    /// The manifest that the cluster in `root` runs by.
    pub fn of(root: &Root) -> Result<Manifest, Failure> {
        let path = control::manifest_path(root.path()).map_err(|error| match error {
            quorate_host::Error::ManifestMissing { .. } => roots::nothing_here(root),
            other => other.into(),
        })?;
        Manifest::read(&path)
    }

    /// Reads and judges the manifest at `path`.
    pub fn read(path: &Path) -> Result<Manifest, Failure> {
        // An editor's rename must not replace a link by a file.
        let path = path.canonicalize().map_err(|source| unreadable(path, &source))?;
        let size = path
            .metadata()
            .map_err(|source| unreadable(&path, &source))?
            .len();
        if size > SIZE_MAX {
            let words = format!(
                "{} has {size} bytes; a manifest has at most {SIZE_MAX}",
                path.display()
            );
            return Err(Failure::usage(words).and("Check that this is the right file."));
        }
        let text = std::fs::read_to_string(&path).map_err(|source| unreadable(&path, &source))?;
        let (cluster, warnings) = judged(&text, &path)?;
        Ok(Manifest {
            path,
            text,
            cluster,
            warnings,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Changes it by `edit`. What is to be warned of because of that is said; false if there was nothing to change.
    pub fn change(&self, edit: impl Fn(&str) -> Result<String, edit::Error>) -> Result<bool, Failure> {
        let changed = edit(&self.text)
            .map_err(|error| Failure::usage(format!("cannot change {}: {error}", self.path.display())))?;
        let (_, warnings) = judged(&changed, &self.path)?;
        warnings
            .iter()
            .filter(|text| !self.warnings.contains(text))
            .for_each(|text| say::warning(text));
        if changed == self.text {
            return Ok(false);
        }
        replace(&self.path, &self.text, &changed).map_err(|source| {
            Failure::failed(format!(
                "cannot write {}: {}",
                self.path.display(),
                chain(&source)
            ))
            .and("It is as it was; the file and its directory must be writable by this user.")
        })?;
        Ok(true)
    }
}

fn unreadable(path: &Path, source: &io::Error) -> Failure {
    Failure::usage(format!(
        "cannot read the manifest {}: {}",
        path.display(),
        chain(source)
    ))
    .and("Name a readable EtcdCluster manifest, or run `quorate up` without -f for one to start from.")
}

fn judged(text: &str, path: &Path) -> Result<(Cluster, Vec<String>), Failure> {
    let origin = path.display().to_string();
    let refused = |invalid: quorate_api::Invalid| Failure::usage(invalid.to_string());
    let manifest = quorate_api::parse(text, &origin).map_err(refused)?;
    let (cluster, warnings) =
        quorate_api::resolve(&manifest, Ground::Host, text, &origin).map_err(refused)?;
    Ok((cluster, warnings.iter().map(ToString::to_string).collect()))
}

/// Replaces `path`, which was last seen to hold `old`, by `new`.
fn replace(path: &Path, old: &str, new: &str) -> io::Result<()> {
    let metadata = path.metadata()?;
    let draft = Draft::among_others(path)?;
    draft.file().write_all(new.as_bytes())?;
    draft.set_mode(metadata.mode() & 0o7777)?;
    // Only the superuser may give files away; for others it is theirs already.
    let _ = std::os::unix::fs::fchown(draft.file(), Some(metadata.uid()), Some(metadata.gid()));
    draft.file().sync_all()?;
    if std::fs::read_to_string(path)? != old {
        return Err(io::Error::other(
            "someone else changed it at the same moment; try again",
        ));
    }
    draft.publish()
}

/// Writes a first manifest to `path`, where there is none.
pub fn create(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written?;
    durable::sync_directory(directory)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn sample() -> String {
        quorate_api::default_manifest("etcd", 3, &semver::Version::new(3, 6, 1))
    }

    #[test]
    fn one_field_changes_and_the_mode_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.yaml");
        create(&path, &sample()).unwrap();
        assert!(create(&path, "").is_err(), "what is there is never written over");
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let link = dir.path().join("link.yaml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let manifest = Manifest::read(&link).unwrap();
        assert!(manifest.change(|text| edit::set_replicas(text, 5)).unwrap());
        let changed = std::fs::read_to_string(&path).unwrap();
        assert_eq!(changed, sample().replace("replicas: 3", "replicas: 5"));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(
            !Manifest::read(&path)
                .unwrap()
                .change(|text| edit::set_replicas(text, 5))
                .unwrap()
        );
        assert_eq!(
            dir.path().read_dir().unwrap().count(),
            2,
            "no temporary file is left"
        );
    }

    #[test]
    fn a_change_that_would_be_refused_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.yaml");
        create(&path, &sample()).unwrap();
        let manifest = Manifest::read(&path).unwrap();
        let failure = manifest.change(|text| edit::set_replicas(text, 0)).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().contains("spec.replicas"), "{failure}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), sample());
    }

    #[test]
    fn an_edit_made_meanwhile_is_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.yaml");
        create(&path, &sample()).unwrap();
        let manifest = Manifest::read(&path).unwrap();
        let other = sample().replace("replicas: 3", "replicas: 1");
        std::fs::write(&path, &other).unwrap();
        let failure = manifest.change(|text| edit::set_replicas(text, 5)).unwrap_err();
        assert!(
            failure.to_string().contains("someone else changed it"),
            "{failure}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
    }
}
