//! The two meta pages of a bbolt file.
//!
//! ```text
//! page header, 16 bytes: id u64, flags u16, count u16, overflow u32
//! then, at offset 16 of the page, little-endian:
//!   0  magic u32 = 0xED0CDAED    4  version u32 = 2    8  page size u32   12  flags u32
//!  16  root page u64            24  sequence u64      32  freelist u64    40  high-water mark u64
//!  48  transaction u64          56  checksum u64 = FNV-1a 64 of the 56 bytes before it
//! ```

use std::io;

use super::pages::{Pages, fill};

const HEADER: usize = 16;
const META: usize = 64;
const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const FLAG: u16 = 4;
/// The page sizes bbolt itself looks for.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 10..=24;

/// In the place of a freelist's page: there is none, whoever opens the file finds out what is free.
pub(crate) const NO_FREELIST: u64 = u64::MAX;

/// What a valid meta page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) page_size: u32,
    pub(crate) root: u64,
    pub(crate) freelist: u64,
    pub(crate) high_water: u64,
    pub(crate) transaction: u64,
}

impl Meta {
    /// The meta page `id` that says this, without the zeros after it.
    #[allow(
        clippy::indexing_slicing,
        reason = "every offset and width is a constant, and within the page"
    )]
    pub(crate) fn encode(&self, id: u64) -> [u8; HEADER + META] {
        let mut page = [0; HEADER + META];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &id.to_le_bytes());
        put(8, &FLAG.to_le_bytes());
        put(HEADER, &MAGIC.to_le_bytes());
        put(HEADER + 4, &VERSION.to_le_bytes());
        put(HEADER + 8, &self.page_size.to_le_bytes());
        put(HEADER + 16, &self.root.to_le_bytes());
        put(HEADER + 32, &self.freelist.to_le_bytes());
        put(HEADER + 40, &self.high_water.to_le_bytes());
        put(HEADER + 48, &self.transaction.to_le_bytes());
        let sum = fnv1a(&page[HEADER..HEADER + META - 8]);
        page[HEADER + META - 8..].copy_from_slice(&sum.to_le_bytes());
        page
    }
}

/// What the meta pages of a file are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metas {
    /// The file is empty: bbolt made it and was stopped before it wrote anything.
    Blank,
    /// The newest valid one, and how many are valid.
    Valid {
        newest: Meta,
        count: u8,
    },
    Invalid,
}

/// Reads both metas; the valid one with the higher transaction counts, as for bbolt.
pub(crate) fn read_metas(file: &dyn Pages) -> io::Result<Metas> {
    if file.length()? == 0 {
        return Ok(Metas::Blank);
    }
    let first = meta_at(file, 0)?;
    let second = match first {
        Some(meta) => meta_at(file, u64::from(meta.page_size))?,
        None => {
            let mut found = None;
            for shift in PAGE_SIZES {
                let meta = meta_at(file, 1 << shift)?.filter(|meta| meta.page_size == 1 << shift);
                found = found.or(meta);
            }
            found
        }
    };
    Ok(match (first, second) {
        (None, None) => Metas::Invalid,
        (Some(meta), None) | (None, Some(meta)) => Metas::Valid {
            newest: meta,
            count: 1,
        },
        (Some(a), Some(b)) => Metas::Valid {
            newest: if a.transaction >= b.transaction { a } else { b },
            count: 2,
        },
    })
}

fn meta_at(file: &dyn Pages, offset: u64) -> io::Result<Option<Meta>> {
    let mut page = [0u8; HEADER + META];
    let read = fill(file, &mut page, offset)?;
    Ok(if read == page.len() { decode(&page) } else { None })
}

fn decode(page: &[u8; HEADER + META]) -> Option<Meta> {
    let body = page.get(HEADER..)?;
    let half = |at: usize| Some(u32::from_le_bytes(*body.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u64::from_le_bytes(*body.get(at..)?.first_chunk()?));
    let page_size = half(8)?;
    let sound = half(0)? == MAGIC
        && half(4)? == VERSION
        && word(56)? == fnv1a(body.get(..56)?)
        && page_size.is_power_of_two()
        && PAGE_SIZES.contains(&page_size.trailing_zeros());
    sound.then_some(Meta {
        page_size,
        root: word(16)?,
        freelist: word(32)?,
        high_water: word(40)?,
        transaction: word(48)?,
    })
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// The meta of a real file (3.4.23).
    const REAL: [u8; 64] = [
        0xed, 0xda, 0x0c, 0xed, 2, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 6, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0, 0, 0, 0, 0,
        0, 0, 0x2a, 0x7e, 0x52, 0x1e, 0x59, 0x7d, 0x45, 0xad,
    ];

    fn meta_page(page_size: u32, transaction: u64) -> Vec<u8> {
        let mut page = vec![0; page_size as usize];
        page[16..80].copy_from_slice(&REAL);
        page[24..28].copy_from_slice(&page_size.to_le_bytes());
        page[64..72].copy_from_slice(&transaction.to_le_bytes());
        let sum = fnv1a(&page[16..72]);
        page[72..80].copy_from_slice(&sum.to_le_bytes());
        page
    }

    fn metas(bytes: &[u8]) -> Metas {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        read_metas(&file).unwrap()
    }

    #[test]
    fn a_real_meta_is_read() {
        let mut page = [0; 80];
        page[16..].copy_from_slice(&REAL);
        assert_eq!(
            decode(&page),
            Some(Meta {
                page_size: 4096,
                root: 5,
                freelist: NO_FREELIST,
                high_water: 6,
                transaction: 10
            })
        );
        assert_eq!(decode(&page).unwrap().encode(0)[HEADER..], REAL);
        for bit in 0..64 * 8 {
            let mut flipped = page;
            flipped[16 + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn the_newest_valid_one_counts() {
        for size in [1024, 4096, 16384, 65536] {
            let (old, new) = (meta_page(size, 8), meta_page(size, 9));
            let both = [old.clone(), new.clone()].concat();
            assert!(matches!(metas(&both), Metas::Valid { newest, count: 2 } if newest.transaction == 9));
            let both = [new.clone(), old.clone()].concat();
            assert!(matches!(metas(&both), Metas::Valid { newest, count: 2 } if newest.transaction == 9));
            let blank = vec![0; size as usize];
            assert!(
                matches!(metas(&[blank.clone(), new.clone()].concat()), Metas::Valid { newest, count: 1 } if newest.transaction == 9)
            );
            assert!(
                matches!(metas(&[old, blank.clone()].concat()), Metas::Valid { newest, count: 1 } if newest.transaction == 8)
            );
            assert_eq!(metas(&[blank.clone(), blank].concat()), Metas::Invalid);
        }
        assert_eq!(metas(&[]), Metas::Blank);
        assert_eq!(metas(&[1]), Metas::Invalid);
    }
}
