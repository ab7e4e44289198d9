//! One value of one small bucket, found by walking down from the root.
//!
//! ```text
//! branch element, 16 bytes: pos u32, key size u32, page u64
//! leaf element, 16 bytes:   flags u32 (1: a bucket), pos u32, key size u32, value size u32
//! a bucket's value:         root page u64, sequence u64, then, if the root is 0, a page of its own
//! `pos` counts from the element itself; elements follow the page header
//! ```
//!
//! In: a file and its meta. Out: the value, or `None` where it is not there or the pages do not hold together.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::meta::Meta;

const HEADER: usize = 16;
const ELEMENT: usize = 16;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const IS_BUCKET: u32 = 1;
/// The buckets looked into have a handful of rows; a longer page is not one of theirs.
const MAX_PAGE: u64 = 32 << 20;
/// No tree is deeper.
const MAX_DEPTH: usize = 32;

/// The value of `key` in the top-level bucket `bucket`.
pub(crate) fn value(file: &File, meta: &Meta, bucket: &[u8], key: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let Some(row) = lookup(file, meta, meta.root, bucket)? else {
        return Ok(None);
    };
    if row.flags & IS_BUCKET == 0 {
        return Ok(None);
    }
    let Some((root, rest)) = row.value.split_first_chunk::<8>() else {
        return Ok(None);
    };
    let found = match u64::from_le_bytes(*root) {
        // Small buckets live inside the row that names them.
        0 => rest.get(8..).and_then(|page| Page(page).leaf_row(key)),
        root => lookup(file, meta, root, key)?,
    };
    Ok(found
        .filter(|row| row.flags & IS_BUCKET == 0)
        .map(|row| row.value))
}

#[derive(Debug, PartialEq, Eq)]
struct Row {
    flags: u32,
    value: Vec<u8>,
}

fn lookup(file: &File, meta: &Meta, mut id: u64, key: &[u8]) -> io::Result<Option<Row>> {
    for _ in 0..MAX_DEPTH {
        let Some(bytes) = read_page(file, meta, id)? else {
            return Ok(None);
        };
        let page = Page(&bytes);
        match page.flags() {
            Some(LEAF) => return Ok(page.leaf_row(key)),
            Some(BRANCH) => match page.child(key) {
                Some(child) => id = child,
                None => return Ok(None),
            },
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn read_page(file: &File, meta: &Meta, id: u64) -> io::Result<Option<Vec<u8>>> {
    let size = u64::from(meta.page_size);
    let Some(offset) = Some(id)
        .filter(|id| *id >= 2 && *id < meta.high_water)
        .and_then(|id| id.checked_mul(size))
    else {
        return Ok(None);
    };
    let mut header = [0u8; HEADER];
    if !read_exact(file, &mut header, offset)? {
        return Ok(None);
    }
    let overflow = u64::from(u32::from_le_bytes([
        header[12], header[13], header[14], header[15],
    ]));
    let length = (overflow + 1).saturating_mul(size);
    if header[..8] != id.to_le_bytes() || length > MAX_PAGE || id.saturating_add(overflow) >= meta.high_water
    {
        return Ok(None);
    }
    // Even a bounded length is held against the file before memory is taken for it.
    if file.metadata()?.len().saturating_sub(offset) < length {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    Ok(if read_exact(file, &mut bytes, offset)? {
        Some(bytes)
    } else {
        None
    })
}

fn read_exact(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

struct Page<'a>(&'a [u8]);

impl Page<'_> {
    fn flags(&self) -> Option<u16> {
        self.half(8)
    }

    fn leaf_row(&self, key: &[u8]) -> Option<Row> {
        if self.flags()? != LEAF {
            return None;
        }
        (0..self.half(10)?).find_map(|index| {
            let at = HEADER + ELEMENT * usize::from(index);
            let (flags, start) = (self.word(at)?, at.checked_add(self.size(at + 4)?)?);
            let (key_size, value_size) = (self.size(at + 8)?, self.size(at + 12)?);
            let value_start = start.checked_add(key_size)?;
            if self.0.get(start..value_start)? != key {
                return None;
            }
            let value = self
                .0
                .get(value_start..value_start.checked_add(value_size)?)?
                .to_vec();
            Some(Row { flags, value })
        })
    }

    /// The child whose keys may include `key`: the last that does not begin after it.
    fn child(&self, key: &[u8]) -> Option<u64> {
        let mut child = None;
        for index in 0..self.half(10)? {
            let at = HEADER + ELEMENT * usize::from(index);
            let start = at.checked_add(self.size(at)?)?;
            let first_key = self.0.get(start..start.checked_add(self.size(at + 4)?)?)?;
            if child.is_some() && first_key > key {
                break;
            }
            child = Some(u64::from_le_bytes(*self.0.get(at + 8..)?.first_chunk()?));
        }
        child
    }

    fn half(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn size(&self, at: usize) -> Option<usize> {
        usize::try_from(self.word(at)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_page_is_read_without_a_panic(bytes: Vec<u8>, flags in prop_oneof![Just(BRANCH), Just(LEAF)], count: u16) {
            let mut page = vec![0; HEADER];
            page[8..10].copy_from_slice(&flags.to_le_bytes());
            page[10..12].copy_from_slice(&count.to_le_bytes());
            page.extend(bytes);
            let _ = Page(&page).leaf_row(b"meta");
            let _ = Page(&page).child(b"meta");
        }
    }
}
