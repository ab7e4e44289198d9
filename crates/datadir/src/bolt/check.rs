//! Every page of a file, held against every other.
//!
//! In: a file. Out: its rows, bucket by bucket, and how many pages are in use and free; or the first thing that does not
//! hold together, with its place: a page used twice, out of bounds or of the wrong kind, keys out of order, rows that do
//! not lie as bbolt lays them, a branch with a single child, a freelist that lists a page in use or leaves one out.
//! Never: a row given out from a page that was not checked.

use super::file::{Bolt, Bucket, Place};
use super::meta::{Metas, NO_FREELIST, read_metas};
use super::page::{FREELIST, HEADER, Header};
use super::page_map::PageMap;
use super::rows::{Row, Rows};
use crate::Error;

/// The keys of the bucket with all the revisions: a revision, or one with a mark behind it.
const REVISION_KEYS: std::ops::RangeInclusive<usize> = 17..=18;

/// What the pages of a file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// The size of each.
    pub page_size: u32,
    /// How many there are.
    pub pages: u64,
    /// How many of them are free.
    pub free: u64,
    /// Every bucket, and its rows.
    pub buckets: Vec<(Vec<u8>, u64)>,
}

impl Bolt {
    /// Walks over all there is. `take` gets each bucket's name, then, with it, each of its rows.
    pub(crate) fn check(
        &self,
        mut take: impl FnMut(&[u8], Option<Row<'_>>) -> Result<(), Error>,
    ) -> Result<Structure, Error> {
        self.check_metas()?;
        let mut map = PageMap::new(self.high_water());
        let mut buckets = Vec::new();
        let mut root = self.root();
        while let Some(row) = root.next_marking(&mut map)? {
            let place = row.place;
            if !row.bucket {
                return Err(self.damaged(place, "the root holds a row that is no bucket"));
            }
            if row.value.get(8..16).is_some_and(|sequence| sequence != [0; 8]) {
                return Err(self.damaged(place, "its bucket has a sequence, which etcd never sets"));
            }
            let name = row.key.to_vec();
            let bucket = Bucket::of(row.value).map_err(|why| self.damaged(place, why))?;
            take(&name, None)?;
            let mut rows = Rows::new(self, bucket);
            if name == crate::mvcc::bucket::KEY {
                rows = rows.with_keys_of(REVISION_KEYS);
            }
            let mut count = 0;
            while let Some(row) = rows.next_marking(&mut map)? {
                if row.bucket {
                    return Err(self.damaged(row.place, "there is a bucket inside a bucket"));
                }
                take(&name, Some(row))?;
                count += 1;
            }
            buckets.push((name, count));
        }
        let used = self.check_freelist(&mut map)?;
        Ok(Structure {
            page_size: self.page_size(),
            pages: self.high_water(),
            free: self.high_water() - used,
            buckets,
        })
    }

    fn check_metas(&self) -> Result<(), Error> {
        let size = self.page_size() as usize;
        for id in 0..2 {
            let mut page = vec![0; size];
            let read = self.read_at_page(id, &mut page)?;
            let header = Header::read(page.get(..read).unwrap_or_default());
            let expected = Header {
                id,
                flags: 4,
                count: 0,
                overflow: 0,
            };
            if header != Some(expected) {
                return Err(self.damaged(Place::page(id), "it does not say that it is a meta page"));
            }
        }
        if self.one_meta {
            let bad = match read_metas(self.held.pages()) {
                Ok(Metas::Valid { newest, .. }) if newest.transaction.is_multiple_of(2) => 1,
                _ => 0,
            };
            let why =
                "this meta page is not valid; the other one is, so etcd would start, and go on from there";
            return Err(self.damaged(Place::page(bad), why));
        }
        Ok(())
    }

    /// Free and in use are all pages, and none is both. Out: how many are in use.
    fn check_freelist(&self, map: &mut PageMap) -> Result<u64, Error> {
        let id = self.meta.freelist;
        if id == NO_FREELIST {
            return Ok(map.marked());
        }
        let bytes = self.page(id)?;
        let damaged = |why| self.damaged(Place::page(id), why);
        let header = Header::read(&bytes).filter(|header| header.flags == FREELIST);
        let header = header.ok_or_else(|| damaged("it is not a freelist"))?;
        for own in id..=id + u64::from(header.overflow) {
            if !map.mark(own) {
                return Err(self.damaged(Place::page(own), "it is used in two places"));
            }
        }
        let used = map.marked();
        let ids = bytes.get(HEADER..).unwrap_or_default();
        let mut words = ids
            .chunks_exact(8)
            .map_while(|word| Some(u64::from_le_bytes(*word.first_chunk()?)));
        let count = match header.count {
            // A long list has its length in front.
            0xFFFF => words.next().unwrap_or(0),
            count => u64::from(count),
        };
        for number in 0..count {
            let free = words
                .next()
                .ok_or_else(|| damaged("it is longer than its page"))?;
            if !map.mark(free) {
                let place = Place {
                    page: id,
                    element: usize::try_from(number).ok(),
                };
                return Err(self.damaged(
                    place,
                    "it lists a page that is in use, listed twice, or not there",
                ));
            }
        }
        match map.first_unmarked() {
            Some(lost) => Err(self.damaged(Place::page(lost), "it is neither in use nor on the freelist")),
            None => Ok(used),
        }
    }
}
