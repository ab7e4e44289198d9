//! Where new pages go: a file that is written from front to back.
//!
//! In: pages without their numbers. Out: the numbers they got.
//! Never: a seek back; a page that another one overlaps.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::page::{HEADER, Header};
use crate::Error;
use crate::files::push::Push;

const CHUNK: usize = 1 << 20;

/// A file of pages that grows.
#[derive(Debug)]
pub(crate) struct Out {
    file: File,
    path: PathBuf,
    page_size: u32,
    /// The next page's number.
    next: u64,
    buffer: Vec<u8>,
    /// Where the buffer goes.
    offset: u64,
    push: Push,
}

impl Out {
    /// Pages from `next` on go to `file`, which is called `path`.
    pub(crate) fn new(file: File, path: &Path, page_size: u32, next: u64) -> Out {
        let offset = next.saturating_mul(u64::from(page_size));
        Out {
            file,
            path: path.to_owned(),
            page_size,
            next,
            buffer: Vec::with_capacity(CHUNK + page_size as usize),
            offset,
            push: Push::from(offset),
        }
    }

    /// What is written need not survive a power cut.
    pub(crate) fn pass(&mut self) {
        self.push = Push::never();
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Writes a page: its elements, what they point to, zeros up to its end.
    pub(crate) fn page(
        &mut self,
        flags: u16,
        count: usize,
        elements: &[u8],
        data: &[u8],
    ) -> Result<u64, Error> {
        let size = self.page_size as usize;
        let length = HEADER + elements.len() + data.len();
        let pages = length.div_ceil(size).max(1);
        let id = self.next;
        let (Ok(count), Ok(overflow)) = (u16::try_from(count), u32::try_from(pages - 1)) else {
            return Err(self.unsound("a page to be written has too many elements"));
        };
        let header = Header {
            id,
            flags,
            count,
            overflow,
        };
        self.buffer.extend_from_slice(&header.bytes());
        self.buffer.extend_from_slice(elements);
        self.buffer.extend_from_slice(data);
        self.buffer.resize(self.buffer.len() + pages * size - length, 0);
        self.next += pages as u64;
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(id)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.file
            .write_all_at(&self.buffer, self.offset)
            .map_err(Error::write(&self.path))?;
        self.offset += self.buffer.len() as u64;
        // A huge row is not kept room for.
        if self.buffer.capacity() > 4 * CHUNK {
            self.buffer = Vec::with_capacity(CHUNK + self.page_size as usize);
        }
        self.buffer.clear();
        self.push.written(&self.file, self.offset);
        Ok(())
    }

    /// Writes what is left. Out: the file.
    pub(crate) fn finish(mut self) -> Result<File, Error> {
        self.flush()?;
        self.push.end().map_err(Error::write(&self.path))?;
        Ok(self.file)
    }

    /// What was to be written cannot be.
    pub(crate) fn unsound(&self, why: &str) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            place: format!("page {} to be", self.next),
            why: why.to_owned(),
        }
    }
}
