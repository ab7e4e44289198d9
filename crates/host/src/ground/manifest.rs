//! The manifest on the disk: read, judged, and read again when it changes.
//!
//! In: a path, and the text that the journal remembers. Out: a checked [`Cluster`] with its warnings, or every fault as one
//! text. After an edit that breaks it, the last good one stays in force and the fault is shown: also by a supervisor that
//! begins with a broken file, or with none.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quorate_api::{Cluster, Ground};
use quorate_core::Spec;
use quorate_core::memory::Memory;
use quorate_core::model::{Frozen, Version};
use quorate_core::plan::BlockReason;
use quorate_datadir::durable;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::ground::build;

/// A manifest is a page or two.
const SIZE_MAX: u64 = 1024 * 1024;
/// A larger one is not remembered, so that nothing can go back to it.
const REMEMBERED_MAX: usize = 64 * 1024;

/// What a remembered manifest is called in messages.
const LAST: &str = "the manifest that was last in force";

/// A manifest file and what it last said.
#[derive(Debug)]
pub(crate) struct Manifest {
    path: PathBuf,
    stamp: Option<ManifestStamp>,
    /// The last good one.
    pub(crate) cluster: Cluster,
    /// What that was read from.
    pub(crate) text: String,
    /// What to know about it.
    pub(crate) warnings: Vec<String>,
    /// Why the file as it is now is not in force.
    fault: Option<String>,
}

/// Enough of a file's metadata to notice an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ManifestStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Manifest {
    /// Reads it for the first time. A fault is an error, unless a good manifest is `remembered`.
    pub(crate) fn open(path: &Path, remembered: Option<&str>) -> Result<Manifest, Error> {
        let path = std::path::absolute(path).map_err(|source| Error::file("find", path, source))?;
        let stamp = stamp(&path);
        let ((text, cluster, warnings), fault) = match (read(&path), remembered) {
            (Ok(read), _) => (read, None),
            (Err(error), Some(text)) => match judged(text, LAST) {
                Ok((cluster, warnings)) => ((text.to_owned(), cluster, warnings), Some(broken(&error))),
                Err(_) => return Err(error),
            },
            (Err(error), None) => return Err(error),
        };
        Ok(Manifest {
            path,
            stamp,
            cluster,
            text,
            warnings,
            fault,
        })
    }

    /// Where it gives the cluster another name than the manifest that is `remembered`, that stays in force.
    pub(crate) fn keep_name(&mut self, remembered: &str) {
        let Ok((cluster, warnings)) = judged(remembered, LAST) else {
            return;
        };
        if cluster.name != self.cluster.name {
            self.fault = Some(renamed(&self.path, &cluster, &self.cluster));
            (self.cluster, self.text, self.warnings) = (cluster, remembered.to_owned(), warnings);
        }
    }

    /// While the file is not in force nothing is changed, and what is lost is healed by the last good one.
    pub(crate) fn frozen(&self) -> Option<Frozen> {
        let detail = self.fault.clone()?;
        let reason = BlockReason::Invalid;
        Some(Frozen { reason, detail })
    }

    /// Where it is, absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Looks whether the file has changed, and if so reads it. True if what is in force, or the fault, changed.
    pub(crate) fn look(&mut self) -> bool {
        let stamp = stamp(&self.path);
        if stamp == self.stamp {
            return false;
        }
        self.stamp = stamp;
        match read(&self.path) {
            Ok((_, cluster, _)) if cluster.name != self.cluster.name => {
                self.fault = Some(renamed(&self.path, &self.cluster, &cluster));
            }
            Ok((text, cluster, warnings)) => {
                (self.text, self.cluster) = (text, cluster);
                self.warnings = warnings;
                self.fault = None;
            }
            Err(error) => self.fault = Some(broken(&error)),
        }
        true
    }
}

/// The same where it is another cluster's.
fn renamed(path: &Path, from: &Cluster, to: &Cluster) -> String {
    format!(
        "{}: the name was changed from {} to {}; a cluster keeps its name, so the former manifest stays in force",
        path.display(),
        from.name,
        to.name
    )
}

/// Why the file as it is now is not in force.
fn broken(error: &Error) -> String {
    format!("{}; the last good one stays in force", error.chain())
}

fn stamp(path: &Path) -> Option<ManifestStamp> {
    let metadata = path.metadata().ok()?;
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    Some(ManifestStamp {
        inode: metadata.ino(),
        size: metadata.size(),
        modified,
    })
}

fn read(path: &Path) -> Result<(String, Cluster, Vec<String>), Error> {
    let content = durable::read(path, SIZE_MAX)?.ok_or_else(|| Error::ManifestMissing {
        path: path.to_owned(),
    })?;
    let origin = path.display().to_string();
    let text = String::from_utf8(content).map_err(|_| Error::ManifestInvalid {
        faults: format!("{origin}: it is not UTF-8 text"),
    })?;
    let (cluster, warnings) = judged(&text, &origin)?;
    Ok((text, cluster, warnings))
}

fn judged(text: &str, origin: &str) -> Result<(Cluster, Vec<String>), Error> {
    let invalid = |invalid: quorate_api::Invalid| Error::ManifestInvalid {
        faults: invalid.to_string(),
    };
    let manifest = quorate_api::parse(text, origin).map_err(invalid)?;
    let (cluster, warnings) = quorate_api::resolve(&manifest, Ground::Host, text, origin).map_err(invalid)?;
    Ok((cluster, warnings.iter().map(ToString::to_string).collect()))
}

/// Stands for the CAs that members trust in their digest where they speak no TLS.
pub(crate) const NO_TLS: &str = "plain";

/// What the cluster last served with, if that is not `text`: the cluster of that manifest, and its digest by now.
pub(crate) fn fallback(memory: &Memory, text: Option<&str>, trusted: &str) -> Option<(Cluster, String)> {
    let served = memory.served_with(text)?;
    let (cluster, _) = judged(served, "the manifest that was in force before").ok()?;
    let config = digest(&cluster, trusted);
    Some((cluster, config))
}

/// The wanted cluster as the planner knows it, read from `text`. `trusted` says which CAs members trust.
pub(crate) fn spec(cluster: &Cluster, text: &str, trusted: &str) -> Spec {
    let number = |part: u64| u32::try_from(part).unwrap_or(u32::MAX);
    let version = &cluster.version;
    Spec {
        name: cluster.name.clone(),
        replicas: cluster.replicas,
        version: Version {
            major: number(version.major),
            minor: number(version.minor),
            patch: number(version.patch),
        },
        config: digest(cluster, trusted),
        paused: cluster.paused,
        accept_rolled_back: cluster.accept_rolled_back.clone(),
        frozen: None,
        storage: None,
        manifest: (text.len() <= REMEMBERED_MAX).then(|| text.to_owned()),
        fallback: None,
        own_configs: Default::default(),
        own_fallbacks: Default::default(),
    }
}

/// A digest of everything besides the version that a running member was started with.
fn digest(cluster: &Cluster, trusted: &str) -> String {
    let mut hash = Sha256::new();
    let mut add = |name: &str, value: &str| {
        // With their lengths, so that no two lists of parts read the same.
        for part in [name, value] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    };
    add("flags", &build::REVISION.to_string());
    // Another word here would restart the members of every cluster that is there.
    add("authority", trusted);
    for (name, value) in cluster.options.settings() {
        add(name, &value);
    }
    if let Some(quota) = cluster.quota_bytes {
        add("quota", &quota.to_string());
    }
    if let Some(reason) = &cluster.force_redeployment_reason {
        add("reason", reason);
    }
    hash.finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(extra: &str) -> String {
        let version = "3.6.1".parse().unwrap();
        format!("{}\n{extra}", quorate_api::default_manifest("c", 3, &version))
    }

    #[test]
    fn an_edit_is_noticed_and_a_broken_one_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.yaml");
        assert!(matches!(
            Manifest::open(&path, None).unwrap_err(),
            Error::ManifestMissing { .. }
        ));
        std::fs::write(&path, text("")).unwrap();
        let mut manifest = Manifest::open(&path, None).unwrap();
        assert!(!manifest.look());
        std::fs::write(&path, text("").replace("replicas: 3", "replicas: 5")).unwrap();
        assert!(manifest.look() && manifest.fault.is_none());
        assert_eq!(manifest.cluster.replicas, 5);
        std::fs::write(&path, text("").replace("replicas: 3", "replicas: none")).unwrap();
        assert!(manifest.look());
        assert!(
            manifest.fault.as_ref().unwrap().contains("last good one"),
            "{:?}",
            manifest.fault
        );
        assert_eq!(manifest.cluster.replicas, 5);
        std::fs::write(&path, text("").replace("name: c", "name: other")).unwrap();
        assert!(manifest.look() && manifest.fault.as_ref().unwrap().contains("keeps its name"));
        std::fs::write(&path, text("")).unwrap();
        assert!(manifest.look() && manifest.fault.is_none());
    }

    #[test]
    fn with_a_broken_file_the_remembered_manifest_is_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cluster.yaml");
        let remembered = text("").replace("replicas: 3", "replicas: 5");
        let open = |remembered| Manifest::open(&path, remembered);
        let missing = open(Some(remembered.as_str())).unwrap();
        assert_eq!(
            (missing.cluster.replicas, &missing.text),
            (5, &remembered),
            "what was last in force goes on"
        );
        let fault = missing.frozen().unwrap();
        assert_eq!(fault.reason, BlockReason::Invalid);
        assert!(
            fault.detail.contains("no manifest at") && fault.detail.contains("last good one"),
            "{fault:?}"
        );
        std::fs::write(&path, text("").replace("replicas: 3", "replicas: none")).unwrap();
        assert!(matches!(open(None).unwrap_err(), Error::ManifestInvalid { .. }));
        assert!(
            open(Some("{")).unwrap_err().chain().contains("spec.replicas"),
            "the file's fault, for what is remembered is no manifest"
        );
        let mut spoilt = open(Some(remembered.as_str())).unwrap();
        assert!(spoilt.frozen().unwrap().detail.contains("spec.replicas") && !spoilt.look());
        std::fs::write(&path, text("")).unwrap();
        assert!(spoilt.look() && spoilt.frozen().is_none());
        assert_eq!(spoilt.cluster.replicas, 3);
    }

    #[test]
    fn the_digest_tells_apart_what_a_member_must_be_restarted_for() {
        let manifest = quorate_api::parse(&text(""), "c").unwrap();
        let (cluster, _) = quorate_api::resolve(&manifest, Ground::Host, "", "c").unwrap();
        let base = digest(&cluster, "a");
        assert_eq!(base.len(), 16);
        assert_eq!(
            base,
            digest(
                &Cluster {
                    replicas: 5,
                    paused: true,
                    ..cluster.clone()
                },
                "a"
            )
        );
        assert_ne!(base, digest(&cluster, "b"));
        let reason = Some("again".to_owned());
        assert_ne!(
            base,
            digest(
                &Cluster {
                    force_redeployment_reason: reason,
                    ..cluster.clone()
                },
                "a"
            )
        );
        assert_ne!(
            base,
            digest(
                &Cluster {
                    quota_bytes: Some(1 << 31),
                    ..cluster
                },
                "a"
            )
        );
    }
}
