//! Where new pages go: a file that is written from front to back.
//!
//! In: pages without their numbers. Out: the numbers they got. What was written long ago is pushed to the disk while
//! more is being written, so that the sync at the end does not find all of it waiting.
//! Never: a seek back; a page that another one overlaps.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::page::{HEADER, Header};
use crate::Error;

/// Written at once.
const CHUNK: usize = 1 << 20;
/// Pushed to the disk whenever this much more was written.
const PUSH: u64 = 32 << 20;

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
    pushed: u64,
    pusher: Option<Pusher>,
}

/// A thread that syncs the file whenever it is told to. The kernel tells of a write that failed only once, so what this
/// one is told must not be lost.
#[derive(Debug)]
struct Pusher {
    tell: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
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
            pushed: offset,
            pusher: None,
        }
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
        if self.offset - self.pushed >= PUSH {
            self.pushed = self.offset;
            self.push();
        }
        Ok(())
    }

    fn push(&mut self) {
        if self.pusher.is_none() {
            let Ok(file) = self.file.try_clone() else { return };
            let (tell, told) = sync_channel::<()>(1);
            let thread = std::thread::spawn(move || {
                while told.recv().is_ok() {
                    file.sync_data()?;
                }
                Ok(())
            });
            self.pusher = Some(Pusher { tell, thread });
        }
        if let Some(pusher) = &self.pusher {
            // One that is still busy has been told already.
            let _ = pusher.tell.try_send(());
        }
    }

    /// Writes what is left. Out: the file.
    pub(crate) fn finish(mut self) -> Result<File, Error> {
        self.flush()?;
        self.rest().map_err(Error::write(&self.path))?;
        self.file.try_clone().map_err(Error::write(&self.path))
    }

    fn rest(&mut self) -> io::Result<()> {
        let Some(Pusher { tell, thread }) = self.pusher.take() else {
            return Ok(());
        };
        drop(tell);
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that syncs it ended")))
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

impl Drop for Out {
    fn drop(&mut self) {
        // Only where something else has failed already: a file that is of use is finished.
        let _ = self.rest();
    }
}
