//! What each byte of an intact database is. Written apart from the reader that is tested, and trusting the file.

use std::collections::BTreeMap;
use std::fmt;

/// What a byte is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// What the two meta pages say.
    Meta,
    /// The header of a page, or of a bucket.
    Header,
    /// Where a row is in its page, and how long.
    Element,
    /// The number of the page where a bucket or a branch goes on.
    Pointer,
    /// The list of free pages.
    Freelist,
    /// A key, of a row, of a branch or of a bucket.
    Key,
    Value,
    /// Behind the last row of a page, or what a meta page says.
    Slack,
    /// A page that nothing leads to.
    Free,
    /// Behind the last page.
    Tail,
}

impl Part {
    /// Whether a change there may go unseen. The number of a page is among them: pages are freed and not cleared, so that
    /// another number may lead to what was there before, or to a part of what is, and that holds together as well.
    pub fn may_hide(self) -> bool {
        matches!(
            self,
            Part::Pointer | Part::Key | Part::Value | Part::Slack | Part::Free | Part::Tail
        )
    }

    /// Whether a change there changes no row.
    pub fn is_unused(self) -> bool {
        matches!(self, Part::Slack | Part::Free | Part::Tail)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Part::Meta => "meta",
            Part::Header => "header",
            Part::Element => "element",
            Part::Pointer => "pointer",
            Part::Freelist => "freelist",
            Part::Key => "key",
            Part::Value => "value",
            Part::Slack => "slack",
            Part::Free => "free page",
            Part::Tail => "tail",
        })
    }
}

/// Every byte of a database, and the pages by kind.
pub struct Layout {
    parts: Vec<Part>,
    page_size: usize,
    /// A page of each kind: its number and how many it takes.
    pub pages: BTreeMap<&'static str, (usize, usize)>,
}

impl Layout {
    /// Of a database without a hash behind it.
    pub fn of(bytes: &[u8]) -> Layout {
        let page_size = word(bytes, 24) as usize;
        let metas = [0, page_size];
        let newest = metas
            .into_iter()
            .max_by_key(|at| (long(bytes, at + 64), *at == 0))
            .unwrap();
        let high_water = long(bytes, newest + 56) as usize;
        let mut layout = Layout {
            parts: vec![Part::Tail; bytes.len()],
            page_size,
            pages: BTreeMap::from([("first meta", (0, 1)), ("second meta", (1, 1))]),
        };
        layout.mark(0, high_water * page_size, Part::Free);
        for meta in metas {
            layout.mark(meta, page_size, Part::Slack);
            layout.mark(meta, 16, Part::Header);
            layout.mark(meta + 16, 64, Part::Meta);
        }
        let freelist = long(bytes, newest + 48);
        if freelist != u64::MAX {
            let at = freelist as usize * page_size;
            let length = (1 + word(bytes, at + 12) as usize) * page_size;
            layout.mark(at, length, Part::Slack);
            layout.mark(at, 16, Part::Header);
            layout.mark(at + 16, 8 * usize::from(half(bytes, at + 10)), Part::Freelist);
            layout.pages.insert("freelist", (freelist as usize, 1));
        }
        layout.tree(bytes, long(bytes, newest + 32) as usize, true);
        let free = (2..high_water).find(|page| layout.parts[page * page_size] == Part::Free);
        if let Some(free) = free {
            layout.pages.insert("free", (free, 1));
        }
        layout
    }

    /// What the byte at this offset is.
    pub fn part(&self, offset: usize) -> Part {
        self.parts[offset]
    }

    /// The bytes of a page of this kind.
    pub fn page(&self, kind: &str) -> std::ops::Range<usize> {
        let (page, count) = self.pages[kind];
        page * self.page_size..(page + count) * self.page_size
    }

    fn mark(&mut self, at: usize, length: usize, part: Part) {
        self.parts[at..at + length].fill(part);
    }

    fn tree(&mut self, bytes: &[u8], page: usize, is_root: bool) {
        let at = page * self.page_size;
        let count = 1 + word(bytes, at + 12) as usize;
        self.mark(at, count * self.page_size, Part::Slack);
        let is_leaf = half(bytes, at + 8) == 2;
        let kind = match (is_root, is_leaf, count) {
            (true, true, _) => "leaf of the root",
            (_, false, _) => "branch",
            (false, true, 1) => "leaf",
            (false, true, _) => "leaf with overflow",
        };
        self.pages.insert(kind, (page, count));
        for child in self.page_at(bytes, at, is_root) {
            self.tree(bytes, child, is_root && !is_leaf);
        }
    }

    /// Marks a page or the image of one, and gives the pages that it leads to.
    fn page_at(&mut self, bytes: &[u8], at: usize, is_root: bool) -> Vec<usize> {
        self.mark(at, 16, Part::Header);
        let is_leaf = half(bytes, at + 8) == 2;
        let mut children = Vec::new();
        for index in 0..usize::from(half(bytes, at + 10)) {
            let element = at + 16 + 16 * index;
            self.mark(element, 16, Part::Element);
            if !is_leaf {
                let (key, size) = (element + word(bytes, element) as usize, word(bytes, element + 4));
                self.mark(key, size as usize, Part::Key);
                self.mark(element + 8, 8, Part::Pointer);
                children.push(long(bytes, element + 8) as usize);
                continue;
            }
            let key = element + word(bytes, element + 4) as usize;
            let size = word(bytes, element + 8) as usize;
            let (value, length) = (key + size, word(bytes, element + 12) as usize);
            self.mark(key, size, Part::Key);
            self.mark(value, length, Part::Value);
            if is_root && word(bytes, element) == 1 {
                self.mark(value, 8, Part::Pointer);
                self.mark(value + 8, 8, Part::Header);
                match long(bytes, value) {
                    0 => drop(self.page_at(bytes, value + 16, false)),
                    page => children.push(page as usize),
                }
            }
        }
        children
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}
