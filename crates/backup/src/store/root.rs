//! The directory of a store, and whether it is still the one it was.
//!
//! In: a path. Out: a directory that is there, or words on why it is not the one it was. A file system that is mounted
//! there may go away under a running agent, and what is left, an empty directory or none, must not be taken for the
//! store. The directory is known by its device and number; mounted anew these may be others, so a mark in it counts, too.
//! Never: a directory made again that was there before.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::trouble::Failure;
use crate::Trouble;

/// The mark: a random word, written once. Hidden, so never listed.
const MARK: &str = ".store";
/// No mark is longer.
const MARK_MAX: u64 = 64;

/// A store's directory. Clones know what one of them learns.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    path: PathBuf,
    known: Arc<Mutex<Option<Known>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    device: u64,
    inode: u64,
    mark: Option<Vec<u8>>,
}

impl Root {
    pub fn new(path: PathBuf) -> Root {
        Root {
            path,
            known: Arc::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn known(&self) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn know(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::of_file(&self.path, &self.path, error)
    }

    /// Fails if it is not the directory that it was. One that was never there may be missing.
    pub fn check(&self) -> Result<(), Failure> {
        let known = self.known();
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) if metadata.is_dir() => metadata,
            // What else is there shows when it is used.
            Ok(_) if known.is_none() => return Ok(()),
            Err(_) if known.is_none() => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.failed(&error)),
            _ => return Err(self.gone("is gone")),
        };
        let (device, inode) = (metadata.dev(), metadata.ino());
        if let Some(known) = &known
            && (known.device, known.inode) == (device, inode)
        {
            return Ok(());
        }
        let mark = match (self.read_mark(), &known) {
            (Ok(mark), _) => mark,
            // Whoever only reads may do without.
            (Err(_), None) => None,
            (Err(error), Some(_)) => return Err(self.failed(&error)),
        };
        if known.is_some_and(|known| known.mark.is_none() || known.mark != mark) {
            return Err(self.gone("is another directory than before"));
        }
        self.know(Known { device, inode, mark });
        Ok(())
    }

    fn gone(&self, how: &str) -> Failure {
        let why = format!(
            "{} {how}: was it unmounted? Mount it again; to begin anew in what is there now, start this again",
            self.path.display()
        );
        Failure::new(Trouble::Unreachable, why)
    }

    /// The same before a write: made and marked, if it is the first.
    pub fn ready(&self) -> Result<(), Failure> {
        self.check()?;
        if self.known().is_none() {
            make_directory(&self.path, Path::new("/")).map_err(|error| self.failed(&error))?;
            self.check()?;
        }
        if let Some(known) = self.known()
            && known.mark.is_none()
        {
            let mark = Some(self.mark().map_err(|error| self.failed(&error))?);
            self.know(Known { mark, ..known });
        }
        Ok(())
    }

    fn read_mark(&self) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.path.join(MARK)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut mark = Vec::new();
        file.take(MARK_MAX).read_to_end(&mut mark)?;
        Ok(Some(mark))
    }

    /// Marks it; if another was faster, that one's mark counts.
    fn mark(&self) -> io::Result<Vec<u8>> {
        let word = format!("{:016x}{:016x}\n", fastrand::u64(..), fastrand::u64(..)).into_bytes();
        let draft = self.path.join(format!("{MARK}-{:016x}", fastrand::u64(..)));
        let marked = (|| {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(&word)?;
            file.sync_all()?;
            super::files::name_new(&draft, &self.path.join(MARK))?;
            sync_directory(&self.path)
        })();
        let _ = fs::remove_file(&draft);
        marked?;
        self.read_mark().map(|mark| mark.unwrap_or(word))
    }
}

/// Makes a directory and all above it that are missing, each there for good; but nothing outside of `within`, nor that.
pub(super) fn make_directory(path: &Path, within: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut at = path;
    while !at.is_dir() {
        if at == within {
            return Err(io::ErrorKind::NotFound.into());
        }
        missing.push(at);
        at = parent(at);
    }
    for directory in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Made by somebody else in the meantime, or no directory at all.
                if !directory.is_dir() {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
            }
            Err(error) => return Err(error),
        }
        sync_directory(parent(directory))?;
    }
    Ok(())
}

pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::files::Files;

    /// What is there instead of it, or nothing at all, is left alone; back in its place it goes on.
    #[test]
    fn a_store_that_went_away_is_not_made_anew() {
        let home = tempfile::tempdir().unwrap();
        let [path, aside] = ["store", "aside"].map(|name| home.path().join(name));
        let files = Files::new(path.clone());
        files.create("a/1", b"1").unwrap();
        let begun = files.draft("a/2").unwrap();
        fs::rename(&path, &aside).unwrap();
        for there in [false, true] {
            if there {
                fs::create_dir(&path).unwrap();
            }
            let failures = [
                files.create("a/3", b"3").unwrap_err(),
                files.put("b", b"3").unwrap_err(),
                files.draft("c").map(drop).unwrap_err(),
                files.get("a/1", 10).unwrap_err(),
                files.get_range("a/1", 0, 1).unwrap_err(),
                files.head("a/1").unwrap_err(),
                files.list("").unwrap_err(),
                files.delete("a/1").unwrap_err(),
            ];
            for failure in failures {
                assert_eq!(failure.trouble, Trouble::Unreachable, "{failure:?}");
                assert!(failure.why.contains("was it unmounted?"), "{failure:?}");
            }
        }
        let failure = begun.publish(crate::store::files::Replace::Yes).unwrap_err();
        assert_eq!(failure.trouble, Trouble::Unreachable, "{failure:?}");
        assert_eq!(path.read_dir().unwrap().count(), 0);
        fs::remove_dir(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
        files.create("a/3", b"3").unwrap();
        assert_eq!(files.list("").unwrap().len(), 2);
    }

    /// As a file system that is mounted again with another device number.
    #[test]
    fn a_store_is_known_by_its_mark() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("store");
        let files = Files::new(path.clone());
        files.create("a", b"1").unwrap();
        let root = Root::new(path.clone());
        root.check().unwrap();
        let known = root.known().unwrap();
        assert!(
            known.mark.as_ref().is_some_and(|mark| mark.len() == 33),
            "{known:?}"
        );
        let elsewhere = Known {
            device: known.device + 1,
            ..known.clone()
        };
        root.know(elsewhere.clone());
        root.check().unwrap();
        assert_eq!(root.known(), Some(known));
        fs::write(path.join(MARK), "another").unwrap();
        root.know(elsewhere);
        assert_eq!(root.check().unwrap_err().trouble, Trouble::Unreachable);
    }
}
