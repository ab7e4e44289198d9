//! One bit for every page of a file: which have been met.
//!
//! In: page numbers. Out: whether one was met before. Never: more memory than a bit a page, and the number of pages is
//! held against the file's length before a map is made.

/// A bit for every page below a high-water mark.
#[derive(Debug)]
pub(crate) struct PageMap {
    bits: Vec<u64>,
    pages: u64,
}

impl PageMap {
    /// A map in which the two meta pages are marked.
    pub(crate) fn new(pages: u64) -> PageMap {
        let words = usize::try_from(pages.div_ceil(64)).unwrap_or(0);
        let mut map = PageMap {
            bits: vec![0; words],
            pages,
        };
        map.mark(0);
        map.mark(1);
        map
    }

    /// Marks a page. Out: it is a page of the file, and was not marked before.
    pub(crate) fn mark(&mut self, page: u64) -> bool {
        let Some(word) = self.word(page) else { return false };
        let bit = 1 << (page % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }

    /// The first page that is not marked.
    pub(crate) fn first_unmarked(&self) -> Option<u64> {
        let (word, bits) = self
            .bits
            .iter()
            .enumerate()
            .find(|(_, bits)| **bits != u64::MAX)?;
        let page = word as u64 * 64 + u64::from(bits.trailing_ones());
        (page < self.pages).then_some(page)
    }

    /// How many are marked.
    pub(crate) fn marked(&self) -> u64 {
        self.bits.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }

    fn word(&mut self, page: u64) -> Option<&mut u64> {
        if page >= self.pages {
            return None;
        }
        self.bits.get_mut(usize::try_from(page / 64).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_marked_once() {
        let mut map = PageMap::new(130);
        assert_eq!(map.first_unmarked(), Some(2));
        for page in 2..130 {
            assert!(map.mark(page));
            assert!(!map.mark(page));
        }
        assert_eq!((map.first_unmarked(), map.marked()), (None, 130));
        assert!(!map.mark(130) && !map.mark(u64::MAX));
    }
}
