//! Where the bytes of a bbolt file are: in a file of this machine, or somewhere that can be asked for ranges.
//!
//! In: an offset. Out: bytes from there. Never: a file read through anything but the file where there is one.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Something that holds a bbolt file and can be read by position.
pub trait Pages: Debug + Send + Sync {
    /// How long it is, the hash behind the pages of a snapshot included.
    fn length(&self) -> io::Result<u64>;

    /// Reads from `offset` on, at most `buffer.len()` bytes. Out: how many; none is the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl Pages for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

/// The bytes of an open bbolt file.
#[derive(Debug)]
pub(crate) enum Held {
    File(File),
    Elsewhere(Box<dyn Pages>),
}

impl Held {
    pub(crate) fn pages(&self) -> &dyn Pages {
        match self {
            Held::File(file) => file,
            Held::Elsewhere(pages) => &**pages,
        }
    }
}

/// Fills `buffer` from `offset` on; the end ends it early. Out: how much is filled.
pub(crate) fn fill(pages: &dyn Pages, buffer: &mut [u8], mut offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match pages.read_at(rest, offset) {
            Ok(0) => break,
            Ok(read) => {
                filled += read;
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
