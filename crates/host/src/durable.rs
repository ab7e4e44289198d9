//! Files that matter: temporary name, fsync, rename, fsync of the directory.
//!
//! In: a path and its new content. Out: after a crash at any point the old content or the new, never a mixture.
//! Never: a file that others can read where it could tell them something.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::Error;

/// Writes `content` to `path` so that it survives a power cut.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    replace(path, content, Sync::Yes).map_err(|source| Error::file("write", path, source))
}

/// Writes `content` to `path` whole or not at all; a power cut may lose it.
pub(crate) fn write_fast(path: &Path, content: &[u8]) -> Result<(), Error> {
    replace(path, content, Sync::No).map_err(|source| Error::file("write", path, source))
}

#[derive(Clone, Copy, PartialEq)]
enum Sync {
    Yes,
    No,
}

fn replace(path: &Path, content: &[u8], sync: Sync) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    // One name, so that what a crash leaves is overwritten next time: no two processes write one file at once.
    name.push(".tmp");
    let temporary = directory.join(name);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        if sync == Sync::Yes {
            file.sync_all()?;
        }
        std::fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The old content is untouched; a leftover temporary file would only puzzle people.
        let _ = std::fs::remove_file(&temporary);
    }
    written?;
    if sync == Sync::Yes {
        sync_directory(directory)
    } else {
        Ok(())
    }
}

/// Makes renames and deletions in `directory` survive a power cut.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Reads a file of at most `limit` bytes; `None` if there is none.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    use std::io::Read;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::file("open", path, source)),
    };
    let mut content = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut content)
        .map_err(|source| Error::file("read", path, source))?;
    if content.len() as u64 > limit {
        return Err(Error::file(
            "read",
            path,
            io::Error::other(format!("it is larger than {limit} bytes")),
        ));
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_replaced_whole_and_only_we_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        assert_eq!(read(&path, 10).unwrap(), None);
        write(&path, b"one").unwrap();
        write_fast(&path, b"two").unwrap();
        assert_eq!(read(&path, 3).unwrap().unwrap(), b"two");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(
            read(&path, 2)
                .unwrap_err()
                .chain()
                .contains("larger than 2 bytes")
        );
        assert_eq!(
            dir.path().read_dir().unwrap().count(),
            1,
            "no temporary file is left"
        );
    }
}
