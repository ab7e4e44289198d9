//! One branch or leaf page, its elements checked before they are used.
//!
//! ```text
//! page header, 16 bytes:    id u64, flags u16 (1 branch, 2 leaf, 4 meta, 16 freelist), count u16, overflow u32
//! branch element, 16 bytes: pos u32, key size u32, child page u64
//! leaf element, 16 bytes:   flags u32 (1: a bucket), pos u32, key size u32, value size u32; the value follows the key
//! `pos` counts from the element itself; elements follow the header; all numbers are little-endian
//! ```
//!
//! In: the bytes of a page with its overflow. Out: its elements. Never: a panic; bytes outside the page.

/// The size of a page's header, and of an element.
pub(crate) const HEADER: usize = 16;
pub(crate) const ELEMENT: usize = 16;
pub(crate) const BRANCH: u16 = 0x01;
pub(crate) const LEAF: u16 = 0x02;
pub(crate) const FREELIST: u16 = 0x10;
/// The longest key bbolt accepts.
pub(crate) const KEY_MAX: usize = 32768;

/// What is wrong with a page, and with which of its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) element: Option<usize>,
    pub(crate) why: &'static str,
}

impl From<&'static str> for Wrong {
    fn from(why: &'static str) -> Wrong {
        Wrong { element: None, why }
    }
}

/// The fixed part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: u64,
    pub(crate) flags: u16,
    pub(crate) count: u16,
    pub(crate) overflow: u32,
}

impl Header {
    pub(crate) fn read(bytes: &[u8]) -> Option<Header> {
        Some(Header {
            id: u64::from_le_bytes(*bytes.first_chunk()?),
            flags: half(bytes, 8)?,
            count: half(bytes, 10)?,
            overflow: word(bytes, 12)?,
        })
    }

    pub(crate) fn bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.flags.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.count.to_le_bytes());
        bytes[12..].copy_from_slice(&self.overflow.to_le_bytes());
        bytes
    }
}

/// An element of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafElement<'a> {
    pub(crate) bucket: bool,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// An element of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BranchElement<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) child: u64,
}

/// A leaf or a branch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page<'a> {
    bytes: &'a [u8],
    pub(crate) leaf: bool,
    pub(crate) count: usize,
}

impl<'a> Page<'a> {
    /// The page in `bytes`, which must say that it is page `id`.
    pub(crate) fn of(bytes: &'a [u8], id: u64) -> Result<Page<'a>, Wrong> {
        let header = Header::read(bytes).ok_or("it is shorter than a page's header")?;
        if header.id != id {
            return Err("it says that it is another page".into());
        }
        let leaf = match header.flags {
            LEAF => true,
            BRANCH => false,
            _ => return Err("it is neither a branch nor a leaf".into()),
        };
        let count = usize::from(header.count);
        if HEADER + ELEMENT * count > bytes.len() {
            return Err("it says that it has more elements than fit".into());
        }
        Ok(Page { bytes, leaf, count })
    }

    /// The element `index` of a leaf.
    pub(crate) fn row(&self, index: usize) -> Result<LeafElement<'a>, Wrong> {
        let wrong = |why| Wrong {
            element: Some(index),
            why,
        };
        let at = HEADER + ELEMENT * index;
        let read = || {
            let (flags, pos) = (word(self.bytes, at)?, size(self.bytes, at + 4)?);
            Some((flags, pos, size(self.bytes, at + 8)?, size(self.bytes, at + 12)?))
        };
        let (flags, pos, key_size, value_size) = read().ok_or_else(|| wrong("there is no such element"))?;
        if flags > 1 {
            return Err(wrong("its flags are not those of a row or a bucket"));
        }
        let key = self
            .key(at, pos, key_size)
            .ok_or_else(|| wrong("its key is not inside the page"))?;
        let start = at + pos + key_size;
        let value = start
            .checked_add(value_size)
            .and_then(|end| self.bytes.get(start..end));
        Ok(LeafElement {
            bucket: flags == 1,
            key: sound(key).map_err(wrong)?,
            value: value.ok_or_else(|| wrong("its value is not inside the page"))?,
        })
    }

    /// The element `index` of a branch.
    pub(crate) fn child(&self, index: usize) -> Result<BranchElement<'a>, Wrong> {
        let wrong = |why| Wrong {
            element: Some(index),
            why,
        };
        let at = HEADER + ELEMENT * index;
        let read = || {
            let child = u64::from_le_bytes(*self.bytes.get(at + 8..)?.first_chunk()?);
            Some((size(self.bytes, at)?, size(self.bytes, at + 4)?, child))
        };
        let (pos, key_size, child) = read().ok_or_else(|| wrong("there is no such element"))?;
        let key = self
            .key(at, pos, key_size)
            .ok_or_else(|| wrong("its key is not inside the page"))?;
        Ok(BranchElement {
            key: sound(key).map_err(wrong)?,
            child,
        })
    }

    fn key(&self, at: usize, pos: usize, size: usize) -> Option<&'a [u8]> {
        // Keys lie behind all elements; one that lies among them is damage.
        let start = at.checked_add(pos)?;
        if start < HEADER + ELEMENT * self.count {
            return None;
        }
        self.bytes.get(start..start.checked_add(size)?)
    }

    /// Do the elements lie one behind the other, as bbolt writes them, with no room left between them? Out: where the last
    /// one ends.
    pub(crate) fn packed(&self) -> Result<usize, Wrong> {
        let mut end = HEADER + ELEMENT * self.count;
        for index in 0..self.count {
            let at = HEADER + ELEMENT * index;
            let (pos, key, value) = if self.leaf {
                (at + 4, at + 8, size(self.bytes, at + 12))
            } else {
                (at, at + 4, Some(0))
            };
            let lengths = || Some((size(self.bytes, pos)?, size(self.bytes, key)?, value?));
            let wrong = Wrong {
                element: Some(index),
                why: "it does not begin where the one before it ends",
            };
            let Some((pos, key, value)) = lengths().filter(|(pos, ..)| at.checked_add(*pos) == Some(end))
            else {
                return Err(wrong);
            };
            end = match end.checked_add(key).and_then(|end| end.checked_add(value)) {
                Some(end) if end <= self.bytes.len() => end,
                _ => return Err(wrong),
            };
            debug_assert!(pos > 0);
        }
        Ok(end)
    }

    /// The last child whose keys may include `key`: the first one if all begin after it.
    pub(crate) fn child_for(&self, key: &[u8]) -> Result<usize, Wrong> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.child(middle)?.key <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.saturating_sub(1))
    }

    /// The first row that is not before `key`.
    pub(crate) fn row_from(&self, key: &[u8]) -> Result<usize, Wrong> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.row(middle)?.key < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

fn sound(key: &[u8]) -> Result<&[u8], &'static str> {
    match key.len() {
        0 => Err("its key is empty"),
        1..=KEY_MAX => Ok(key),
        _ => Err("its key is longer than a key can be"),
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn size(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(word(bytes, at)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_page_is_read_without_a_panic(bytes: Vec<u8>, flags in prop_oneof![Just(BRANCH), Just(LEAF)], count in 0u16..40) {
            let header = Header { id: 7, flags, count, overflow: 0 };
            let page = [&header.bytes()[..], &bytes].concat();
            if let Ok(page) = Page::of(&page, 7) {
                for index in 0..page.count + 1 {
                    let _ = (page.row(index), page.child(index));
                }
                let _ = (page.child_for(b"meta"), page.row_from(b"meta"));
            }
        }
    }

    #[test]
    fn a_page_must_be_the_one_asked_for() {
        let header = Header {
            id: 7,
            flags: LEAF,
            count: 0,
            overflow: 0,
        };
        assert!(Page::of(&header.bytes(), 7).is_ok());
        assert!(Page::of(&header.bytes(), 8).is_err());
        let both = Header { flags: 3, ..header };
        assert!(Page::of(&both.bytes(), 7).is_err(), "two kinds at once");
        let many = Header { count: 1, ..header };
        assert!(Page::of(&many.bytes(), 7).is_err());
    }
}
