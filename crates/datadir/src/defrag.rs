//! A database or a snapshot written anew, without the room that deletions left.
//!
//! In: a data directory that nothing runs on, or a snapshot file. Out: the same rows in a smaller file in its place. The
//! new file is read back and its rows held against those of the old one before it takes its name.
//! Never: the old file gone before the new one is whole and on the disk; a database that an etcd has.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::assemble::rewrite::{Changes, Nothing, rewrite};
use crate::bolt::Bolt;
use crate::examine::look::db_path;
use crate::files::digest;
use crate::files::durable::Draft;
use crate::files::lock::{Attempt, DbLock};
use crate::mvcc::Source;
use crate::progress::Progress;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defragmented {
    pub path: PathBuf,
    pub before: u64,
    pub after: u64,
    /// The size of its pages, before and now.
    pub page_size: u32,
}

/// Defragments a data directory or a snapshot file.
pub fn defrag(path: &Path, progress: &Progress) -> Result<Defragmented, Error> {
    if !fs::metadata(path).map_err(Error::read(path))?.is_dir() {
        return defrag_file(path, progress);
    }
    let db = db_path(path);
    match DbLock::try_hold(path)? {
        Attempt::Held(lock) => {
            let done = defrag_file(&db, progress)?;
            lock.retire(done.page_size).map_err(Error::write(&db))?;
            Ok(done)
        }
        Attempt::Busy { holder } => Err(Error::InUse {
            path: path.to_owned(),
            holder,
        }),
        Attempt::NoDb => Err(Error::refused(
            format!("{} is not there", db.display()),
            "name a data directory of etcd, or a snapshot file",
        )),
    }
}

fn defrag_file(path: &Path, progress: &Progress) -> Result<Defragmented, Error> {
    let source = Source::of(Bolt::open(path)?)?;
    let metadata = fs::metadata(path).map_err(Error::read(path))?;
    progress.expect(source.bolt().size().saturating_mul(2));
    if let Some(recorded) = digest::recorded(source.bolt())? {
        let length = source.bolt().length() - crate::bolt::DIGEST;
        progress.expect(length);
        if digest::sha256(source.bolt().file()?, path, length, progress)? != recorded {
            return Err(digest::mismatch(path));
        }
    }
    // etcd clears away what it finds under such a name.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp.quorate");
    let draft = Draft::named(path, path.with_file_name(name)).map_err(Error::write(path))?;
    let file = draft.file().try_clone().map_err(Error::write(path))?;
    let written = rewrite(&source, &Changes::default(), &mut Nothing, file, path, progress)?;
    written.file.sync_data().map_err(Error::write(path))?;
    let again = hash_of(&Bolt::from_file(written.file, path)?, progress)?;
    if again != written.hash {
        return Err(Error::Write {
            path: path.to_owned(),
            source: std::io::Error::other("what was written is not what is read back; the old file stays"),
        });
    }
    if source.bolt().has_digest() {
        digest::append(draft.file(), path, progress)?;
    }
    let finish = || {
        // Whoever has it must be able to open the new one.
        if rustix::process::geteuid().is_root() {
            let (user, group) = (metadata.uid(), metadata.gid());
            let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
            rustix::fs::fchown(draft.file(), Some(user), Some(group))?;
        }
        draft.set_mode(metadata.mode() & 0o7777)?;
        let after = draft.file().metadata()?.len();
        draft.publish()?;
        Ok(after)
    };
    let after = finish().map_err(Error::write(path))?;
    Ok(Defragmented {
        path: path.to_owned(),
        before: metadata.len(),
        after,
        page_size: source.bolt().page_size(),
    })
}

/// CRC-32C of all buckets, every page checked.
fn hash_of(bolt: &Bolt, progress: &Progress) -> Result<u32, Error> {
    let mut hash = 0;
    bolt.check(|name, row| match row {
        None => {
            hash = crc32c::crc32c_append(hash, name);
            Ok(())
        }
        Some(row) => {
            hash = crc32c::crc32c_append(crc32c::crc32c_append(hash, row.key), row.value);
            progress.add((row.key.len() + row.value.len()) as u64)
        }
    })?;
    Ok(hash)
}
