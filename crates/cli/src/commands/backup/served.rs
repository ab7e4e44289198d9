//! A real etcd for `verify --level served`: started on what was rebuilt, asked for its hash, ended.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use quorate_backup::Error;
use quorate_backup::record::Hash;
use quorate_backup::verify::{Serve, Staged};
use quorate_datadir::Progress;
use quorate_host::etcd::find::Places;
use quorate_host::etcd::hash_kv;

use crate::failure::chain;

/// Starts etcds that are found in these places.
pub struct Etcds {
    places: Places,
    progress: Arc<Progress>,
}

impl Etcds {
    /// The one that was named, or those of the root, the path and the cache.
    pub fn of(root: Option<&Path>, named: Option<&Path>, progress: &Arc<Progress>) -> Etcds {
        Etcds {
            places: Places::of(root, named, None),
            progress: Arc::clone(progress),
        }
    }
}

impl Serve for Etcds {
    fn serve<'a>(
        &'a self,
        staged: &'a Staged<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Hash, Error>> + Send + 'a>> {
        Box::pin(async move {
            let (places, progress) = (self.places.clone(), Arc::clone(&self.progress));
            let wanted = Wanted {
                data_dir: staged.data_dir.to_owned(),
                work: staged.data_dir.with_extension("work"),
                name: staged.name.to_owned(),
                minor: minor(staged.etcd_version)?,
                revision: staged.revision,
            };
            let asked = tokio::task::spawn_blocking(move || wanted.ask(&places, &progress));
            asked.await.map_err(|_| Error::Cancelled)?
        })
    }
}

struct Wanted {
    data_dir: PathBuf,
    work: PathBuf,
    name: String,
    minor: u32,
    revision: i64,
}

impl Wanted {
    fn ask(&self, places: &Places, progress: &Progress) -> Result<Hash, Error> {
        let made = std::fs::DirBuilder::new().mode(0o700).create(&self.work);
        made.map_err(|source| Error::File {
            doing: "make",
            path: self.work.clone(),
            source,
        })?;
        let wanted = hash_kv::HashKvRequest {
            data_dir: &self.data_dir,
            work: &self.work,
            name: &self.name,
            minor: self.minor,
            revision: self.revision,
        };
        let said = hash_kv::hash_kv_of(&wanted, places, progress).map_err(|error| {
            Error::refused(
                chain(&error),
                "name an etcd of the version that wrote the archive with --etcd, or verify with --level rebuilt",
            )
        })?;
        Ok(Hash {
            hash: said.hash,
            revision: self.revision,
            compact_revision: said.compact_revision,
        })
    }
}

/// The minor of a version such as `3.6.16`.
fn minor(version: &str) -> Result<u32, Error> {
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok());
    minor.ok_or_else(|| {
        Error::refused(
            format!("{version:?} is no version of etcd"),
            "verify with --level rebuilt",
        )
    })
}
