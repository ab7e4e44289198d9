//! A store that is a directory: one object, one file.
//!
//! In: names and bytes. Out: files of mode 0600 below a directory of mode 0700, made by the first write.
//! Never: an object that is half there, whenever the machine stops. An object is written as a draft in a hidden directory
//! beside all others, synced, and then gets its name in one step, which fails if the name is taken and it was to be new.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::root::{Root, make_directory, parent, sync_directory};
use super::trouble::Failure;
use super::{Created, Deleted, Found, LIST_LIMIT};

/// Where drafts are. Hidden, so never listed; what a crash leaves is here alone.
const DRAFTS: &str = ".drafts";
/// A draft that nobody wrote to for so long was left by a crash.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 3600);
/// Directories within directories that are listed.
const DEPTH: usize = 32;

/// A directory of objects.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    root: Root,
}

impl Files {
    pub fn new(root: PathBuf) -> Files {
        Files {
            root: Root::new(root),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn failed<'a>(&'a self, path: &'a Path) -> impl Fn(io::Error) -> Failure + 'a {
        move |error| Failure::of_file(self.root.path(), path, &error)
    }

    pub fn create(&self, name: &str, content: &[u8]) -> Result<Created, Failure> {
        self.root.check()?;
        let path = self.path(name);
        // Not needed for the answer, but for most losers of a race it saves writing a draft.
        if path.symlink_metadata().is_ok() {
            return Ok(Created::Exists);
        }
        let mut draft = self.draft(name)?;
        draft.write(content)?;
        draft.publish(Replace::No)
    }

    pub fn put(&self, name: &str, content: &[u8]) -> Result<(), Failure> {
        let mut draft = self.draft(name)?;
        draft.write(content)?;
        draft.publish(Replace::Yes).map(drop)
    }

    pub fn get(&self, name: &str, limit: u64) -> Result<Bytes, Failure> {
        self.root.check()?;
        let path = self.path(name);
        let read = || {
            let file = File::open(&path)?;
            let size = file.metadata()?.len();
            if size > limit {
                return Ok(Err(Failure::too_large(size, limit)));
            }
            let mut content = Vec::with_capacity(size as usize);
            file.take(limit + 1).read_to_end(&mut content)?;
            match content.len() as u64 == size {
                true => Ok(Ok(Bytes::from(content))),
                false => Ok(Err(Failure::short(content.len() as u64, size))),
            }
        };
        read().map_err(self.failed(&path))?
    }

    pub fn get_range(&self, name: &str, start: u64, end: u64) -> Result<Bytes, Failure> {
        self.root.check()?;
        let path = self.path(name);
        let read = || {
            let file = File::open(&path)?;
            let size = file.metadata()?.len();
            if end > size {
                return Ok(Err(Failure::short(size.saturating_sub(start), end - start)));
            }
            let mut content = vec![0; (end - start) as usize];
            file.read_exact_at(&mut content, start)?;
            Ok(Ok(Bytes::from(content)))
        };
        read().map_err(self.failed(&path))?
    }

    pub fn head(&self, name: &str) -> Result<Found, Failure> {
        self.root.check()?;
        let path = self.path(name);
        let read = || {
            let metadata = fs::metadata(&path)?;
            match metadata.is_file() {
                true => found(name.to_owned(), &metadata),
                false => Err(io::ErrorKind::NotFound.into()),
            }
        };
        read().map_err(self.failed(&path))
    }

    pub fn list(&self, prefix: &str) -> Result<Vec<Found>, Failure> {
        self.root.check()?;
        let mut all = Vec::new();
        self.walk(prefix, DEPTH, &mut all)?;
        Ok(all)
    }

    fn walk(&self, below: &str, depth: usize, all: &mut Vec<Found>) -> Result<(), Failure> {
        let path = if below.is_empty() {
            self.root.path().to_owned()
        } else {
            self.path(below)
        };
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            // The store is made by its first write; a prefix may also be the name of an object.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(());
            }
            Err(error) => return Err(self.failed(&path)(error)),
        };
        if depth == 0 {
            return Err(Failure::other(format!(
                "{} is more than {DEPTH} directories deep",
                path.display()
            )));
        }
        for entry in entries {
            let entry = entry.map_err(self.failed(&path))?;
            // A name that is not text was not written by this crate; neither was what is hidden.
            let Some(own) = entry.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            if own.starts_with('.') {
                continue;
            }
            let name = if below.is_empty() {
                own
            } else {
                format!("{below}/{own}")
            };
            let metadata = match fs::metadata(entry.path()) {
                Ok(metadata) => metadata,
                // It went while we looked.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(self.failed(&entry.path())(error)),
            };
            if metadata.is_dir() {
                self.walk(&name, depth - 1, all)?;
            } else if metadata.is_file() {
                if all.len() >= LIST_LIMIT {
                    return Err(Failure::too_many());
                }
                all.push(found(name, &metadata).map_err(self.failed(&entry.path()))?);
            }
        }
        Ok(())
    }

    pub fn delete(&self, name: &str) -> Result<Deleted, Failure> {
        self.root.check()?;
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => {
                sync_directory(parent(&path)).map_err(self.failed(&path))?;
                Ok(Deleted::Gone)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Deleted::Gone),
            // An immutable file, which not even its owner can remove; an unwritable directory says EACCES.
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => Ok(Deleted::Locked),
            Err(error) => Err(self.failed(&path)(error)),
        }
    }

    /// The beginning of an object.
    pub fn draft(&self, name: &str) -> Result<Draft, Failure> {
        self.root.ready()?;
        let drafts = self.root.path().join(DRAFTS);
        if !drafts.is_dir() {
            make_directory(&drafts, self.root.path()).map_err(self.failed(&drafts))?;
        }
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        if count.is_multiple_of(256) {
            sweep(&drafts);
        }
        let unique = format!("{}-{count}-{:016x}", std::process::id(), fastrand::u64(..));
        let temporary = drafts.join(unique);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(self.failed(&temporary))?;
        Ok(Draft {
            root: self.root.clone(),
            path: self.path(name),
            temporary,
            file: Some(file),
        })
    }
}

/// Removes drafts that a crash left. They hurt nobody but the disk, so what fails here is tried again another time.
fn sweep(drafts: &Path) {
    let Ok(entries) = fs::read_dir(drafts) else { return };
    for entry in entries.flatten().take(10_000) {
        let touched = entry.metadata().and_then(|metadata| metadata.modified());
        let age = touched
            .ok()
            .and_then(|touched| SystemTime::now().duration_since(touched).ok());
        if age.is_some_and(|age| age > LEFT_BEHIND) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether what is there already may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replace {
    Yes,
    No,
}

/// An object on its way. Dropped unpublished, it is gone.
#[derive(Debug)]
pub(crate) struct Draft {
    root: Root,
    path: PathBuf,
    temporary: PathBuf,
    file: Option<File>,
}

impl Draft {
    fn failed(&self, error: io::Error) -> Failure {
        Failure::of_file(self.root.path(), &self.path, &error)
    }

    pub fn write(&mut self, content: &[u8]) -> Result<(), Failure> {
        let file = self.file.as_mut().expect("a draft is open until it is published");
        file.write_all(content).map_err(|error| self.failed(error))
    }

    /// Gives it its name, for good.
    pub fn publish(mut self, replace: Replace) -> Result<Created, Failure> {
        let file = self.file.take().expect("a draft is published once");
        self.root.check()?;
        let put = || {
            file.sync_all()?;
            drop(file);
            let directory = parent(&self.path);
            if !directory.is_dir() {
                make_directory(directory, self.root.path())?;
            }
            let created = match replace {
                Replace::Yes => fs::rename(&self.temporary, &self.path).map(|()| Created::New),
                Replace::No => name_new(&self.temporary, &self.path),
            }?;
            if created == Created::New {
                sync_directory(directory)?;
            }
            Ok(created)
        };
        put().map_err(|error| self.failed(error))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a rename it is not there any more.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Gives a file a name that nothing has. Either of the two ways is one step; file systems know one or the other.
pub(super) fn name_new(from: &Path, to: &Path) -> io::Result<Created> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => return Ok(Created::New),
        Err(Errno::EXIST) => return Ok(Created::Exists),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        Err(errno) => return Err(errno.into()),
    }
    link_new(from, to)
}

fn link_new(from: &Path, to: &Path) -> io::Result<Created> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(Created::New),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Created::Exists),
        Err(error) => Err(error),
    }
}

fn found(name: String, metadata: &fs::Metadata) -> io::Result<Found> {
    let modified = jiff::Timestamp::try_from(metadata.modified()?).map_err(io::Error::other)?;
    Ok(Found {
        name,
        size: metadata.len(),
        modified,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trouble;

    /// The kernel's own full disk takes the draft's place.
    #[test]
    fn a_full_disk_is_said_to_be_full_and_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(home.path().to_owned());
        let mut draft = files.draft("a").unwrap();
        draft.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
        let failure = draft.write(b"x").unwrap_err();
        assert_eq!(failure.trouble, Trouble::Full, "{failure:?}");
        assert!(failure.why.contains("make room"), "{failure:?}");
        drop(draft);
        assert_eq!(home.path().join(DRAFTS).read_dir().unwrap().count(), 0);
        assert_eq!(files.list("").unwrap(), []);
    }

    #[test]
    fn old_drafts_are_swept_and_young_ones_kept() {
        let home = tempfile::tempdir().unwrap();
        let files = Files::new(home.path().to_owned());
        let [old, young] = [(); 2].map(|()| files.draft("a").unwrap());
        let long_ago = SystemTime::now() - LEFT_BEHIND * 2;
        old.file.as_ref().unwrap().set_modified(long_ago).unwrap();
        sweep(&home.path().join(DRAFTS));
        assert!(!old.temporary.exists());
        assert!(young.temporary.exists());
    }

    /// Either way of naming keeps what has the name.
    #[test]
    fn a_name_is_given_once() {
        for name_it in [name_new, link_new] {
            let home = tempfile::tempdir().unwrap();
            let [a, b, c] = ["a", "b", "c"].map(|name| home.path().join(name));
            fs::write(&a, "a").unwrap();
            fs::write(&b, "b").unwrap();
            assert_eq!(name_it(&a, &b).unwrap(), Created::Exists);
            assert_eq!(fs::read(&b).unwrap(), b"b");
            assert_eq!(name_it(&a, &c).unwrap(), Created::New);
            assert_eq!(fs::read(&c).unwrap(), b"a");
        }
    }
}
