//! Files that matter: temporary name, fsync, rename, fsync of the directory.
//!
//! In: a path and its new content. Out: after a crash at any point the old content or the new, never a mixture.
//! Never: a file that others can read where it could tell them something, unless a mode says so.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}", path.display())]
pub struct Error {
    /// What was being done, e.g. `read`.
    pub doing: &'static str,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

fn failed<'a>(doing: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Error + 'a {
    move |source| Error {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// Writes `content` to `path`, for this user alone, so that it survives a power cut.
pub fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    write_with_mode(path, content, 0o600)
}

/// Writes `content` to `path` with these permissions, so that it survives a power cut.
pub fn write_with_mode(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    let put = || {
        let draft = Draft::of(path)?;
        draft.file().write_all(content)?;
        draft.set_mode(mode)?;
        draft.publish()
    };
    put().map_err(failed("write", path))
}

/// Writes `content` to `path` whole or not at all; a power cut may lose it.
pub fn write_fast(path: &Path, content: &[u8]) -> Result<(), Error> {
    let put = || {
        let draft = Draft::of(path)?;
        draft.file().write_all(content)?;
        draft.publish_fast()
    };
    put().map_err(failed("write", path))
}

/// Makes renames and deletions in `directory` survive a power cut.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Reads a file of at most `limit` bytes; `None` if there is none.
pub fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed("open", path)(source)),
    };
    let mut content = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut content)
        .map_err(failed("read", path))?;
    if content.len() as u64 > limit {
        let long = io::Error::other(format!("it is larger than {limit} bytes"));
        return Err(failed("read", path)(long));
    }
    Ok(Some(content))
}

/// The next content of a file, under a temporary name beside it. Dropped unpublished, it is gone.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    temporary: PathBuf,
    file: File,
}

impl Draft {
    /// A draft for `path`, which no other process writes: what a crash leaves is overwritten next time.
    pub fn of(path: &Path) -> io::Result<Draft> {
        let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        name.push(".tmp");
        Draft::named(path, path.with_file_name(name))
    }

    /// A draft for `path`, which another process may be about to write too.
    pub fn among_others(path: &Path) -> io::Result<Draft> {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
        name.push(format!(".quorate-{}", std::process::id()));
        Draft::named(path, path.with_file_name(name))
    }

    /// A draft for `path` under the name `temporary`, in the same directory.
    pub(crate) fn named(path: &Path, temporary: PathBuf) -> io::Result<Draft> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600);
        let file = options.open(&temporary)?;
        Ok(Draft {
            path: path.to_owned(),
            temporary,
            file,
        })
    }

    /// Where it is until then, for who wants to look at it before.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Sets the permissions, whatever a crash left under the temporary name.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(mode))
    }

    /// Puts it in its place, so that it survives a power cut.
    pub fn publish(self) -> io::Result<()> {
        self.file.sync_all()?;
        self.rename()?;
        sync_directory(parent(&self.path))
    }

    /// Puts it in its place; a power cut may lose it.
    pub fn publish_fast(self) -> io::Result<()> {
        self.rename()
    }

    fn rename(&self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // The old content is untouched; a leftover beside it would only puzzle people. Published, it has gone already.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// The directory that `path` is in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn content_is_replaced_whole_and_only_we_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        assert_eq!(read(&path, 10).unwrap(), None);
        write(&path, b"one").unwrap();
        write_fast(&path, b"two").unwrap();
        assert_eq!(read(&path, 3).unwrap().unwrap(), b"two");
        assert_eq!(mode(&path), 0o600);
        let long = read(&path, 2).unwrap_err();
        assert!(
            long.source.to_string().contains("larger than 2 bytes"),
            "{long:?}"
        );
        write_with_mode(&path, b"three", 0o644).unwrap();
        assert_eq!(mode(&path), 0o644);
        assert_eq!(
            dir.path().read_dir().unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn a_draft_that_is_not_published_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write(&path, b"old").unwrap();
        for draft in [Draft::of(&path), Draft::among_others(&path)] {
            draft.unwrap().file().write_all(b"new").unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn what_failed_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = write(&dir.path().join("missing/a"), b"").unwrap_err();
        assert!(error.to_string().starts_with("cannot write "), "{error}");
        assert!(error.to_string().ends_with("missing/a"), "{error}");
    }
}
