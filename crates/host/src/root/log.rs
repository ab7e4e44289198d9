//! Members' logs, kept within bounds.
//!
//! In: a log that etcd appends to. Out: at most [`SIZE_MAX`] in it and the last part of what was cut off beside it.
//! etcd writes in append mode, so the file can be cut under it: its next line lands at the new end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// A log larger than this is cut.
const SIZE_MAX: u64 = 16 * 1024 * 1024;
/// How much of the end of a log is read for why it ended: a stack of Go is long.
const TAIL: u64 = 64 * 1024;

/// Cuts `path` if it has grown too large; its content goes to `<path>.1`.
pub(crate) fn bound(path: &Path) -> Result<bool, Error> {
    bound_to(path, SIZE_MAX).map_err(|source| Error::file("cut the log", path, source))
}

fn bound_to(path: &Path, size_max: u64) -> io::Result<bool> {
    let size = match path.metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if size <= size_max {
        return Ok(false);
    }
    let mut log = File::open(path)?;
    log.seek(SeekFrom::Start(size - size_max))?;
    let old = older(path);
    let mut temporary = old.clone().into_os_string();
    temporary.push(".tmp");
    let mut copy = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    io::copy(&mut log.take(size_max), &mut copy)?;
    std::fs::rename(&temporary, &old)?;
    OpenOptions::new().write(true).open(path)?.set_len(0)?;
    Ok(true)
}

/// Where the cut-off part of a log lies.
fn older(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(".1");
    PathBuf::from(name)
}

/// Why the program that wrote a log ended, as its end says it.
pub(crate) fn last_words(path: &Path) -> Option<String> {
    let mut log = File::open(path).ok()?;
    let size = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(size.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    log.take(TAIL).read_to_end(&mut tail).ok()?;
    quorate_core::last_words(&String::from_utf8_lossy(&tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_log_is_cut_under_its_writer_and_its_end_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c-0.log");
        assert!(!bound_to(&path, 100).unwrap());
        let mut writer = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        for number in 0..30 {
            writeln!(writer, "line {number:04}").unwrap();
        }
        assert!(bound_to(&path, 100).unwrap());
        assert_eq!(path.metadata().unwrap().len(), 0);
        let kept = std::fs::read_to_string(older(&path)).unwrap();
        assert_eq!((kept.len(), kept.ends_with("line 0029\n")), (100, true));
        writeln!(writer, "after").unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "after\n",
            "no hole is left where the old end was"
        );
        assert!(!bound_to(&path, 100).unwrap());
    }

    #[test]
    fn the_last_words_are_read_from_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c-0.log");
        assert_eq!(last_words(&path), None);
        std::fs::write(
            &path,
            "x\n{\"level\":\"fatal\",\"msg\":\"cannot listen\",\"error\":\"in use\"}\n\n",
        )
        .unwrap();
        assert_eq!(last_words(&path).unwrap(), "cannot listen: in use");
        std::fs::write(&path, format!("{}\nplain words\n", "x".repeat(100_000))).unwrap();
        assert_eq!(last_words(&path).unwrap(), "plain words");
    }
}
