//! The rows of a bucket in order, one at a time.
//!
//! In: a bucket of a file. Out: its rows, from the first or from a key on. On the way every page is held against what
//! its parent says of it: its number, its kind, its bounds, the order of its keys. Memory: the pages from the root to the
//! present leaf, and a window of the file where leaves lie one behind the other.
//! Never: a row out of order; a page met twice by one walk (pages that name each other would never end).

use std::ops::RangeInclusive;

use super::file::{Bolt, Bucket, Place};
use super::page::{Header, KEY_MAX, Page, Wrong};
use super::page_map::PageMap;
use crate::Error;

/// No tree is deeper: with two children a page this is more than any file holds.
const DEPTH_MAX: usize = 64;
/// How much is read at once where leaves follow one another.
const WINDOW: usize = 256 << 10;
/// Leaves this close behind the last one are taken for following it.
const NEAR: u64 = 16;

/// A row's key and its value.
pub type KeyAndValue<'a> = (&'a [u8], &'a [u8]);

#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) place: Place,
    pub(crate) bucket: bool,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// A branch on the way to the present leaf.
#[derive(Debug)]
struct Branch {
    id: u64,
    bytes: Vec<u8>,
    /// The child to go to next.
    next: usize,
}

/// A cursor over the rows of a bucket.
#[derive(Debug)]
pub struct Rows<'a> {
    bolt: &'a Bolt,
    bucket: Bucket,
    begun: bool,
    path: Vec<Branch>,
    leaf: Option<Leaf>,
    window: Window,
    /// The last key that was given out, or that a parent promised nothing before of.
    floor: Vec<u8>,
    has_floor: bool,
    met: u64,
    /// How long keys are.
    widths: RangeInclusive<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Leaf {
    id: u64,
    next: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(bolt: &'a Bolt, bucket: Bucket) -> Rows<'a> {
        Rows {
            bolt,
            bucket,
            begun: false,
            path: Vec::new(),
            leaf: None,
            window: Window::of(bolt.page_size() as usize),
            floor: Vec::new(),
            has_floor: false,
            met: 0,
            widths: 1..=KEY_MAX,
        }
    }

    /// Keys are so long, those in branches too: where a branch's last key ends, nothing in its page tells.
    pub(crate) fn with_keys_of(mut self, widths: RangeInclusive<usize>) -> Rows<'a> {
        self.widths = widths;
        self
    }

    /// The next row: its key and its value. A row that holds a bucket is damage here: etcd's buckets hold none.
    #[allow(clippy::should_implement_trait)] // what it gives out borrows from it
    pub fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, Error> {
        let bolt = self.bolt;
        match self.next_row()? {
            Some(row) if row.bucket => Err(bolt.damaged(row.place, "there is a bucket inside a bucket")),
            Some(row) => Ok(Some((row.key, row.value))),
            None => Ok(None),
        }
    }

    /// The next row, whatever it holds.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row<'_>>, Error> {
        self.advance(None)
    }

    /// The same, with every page that is met marked in `map`; one that is marked already is damage.
    pub(crate) fn next_marking(&mut self, map: &mut PageMap) -> Result<Option<Row<'_>>, Error> {
        self.advance(Some(map))
    }

    /// Goes to the first row that is not before `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<(), Error> {
        self.path.clear();
        self.leaf = None;
        self.has_floor = false;
        self.met = 0;
        self.begun = true;
        let mut next = match &self.bucket {
            Bucket::Inline(_) => return self.enter_inline(Some(key)),
            Bucket::Tree(root) => *root,
        };
        while let Entered::Branch = self.enter(next, None)? {
            let Some(branch) = self.path.last_mut() else {
                return Ok(());
            };
            let found = Page::of(&branch.bytes, branch.id).and_then(|page| {
                let index = page.child_for(key)?;
                Ok((index, page.child(index)?.child))
            });
            let (index, child) = found.map_err(|wrong| wrong_at(self.bolt, branch.id, &wrong))?;
            branch.next = index + 1;
            next = child;
        }
        if let Some(leaf) = &mut self.leaf {
            let page = self.window.page(leaf.id);
            leaf.next = page
                .and_then(|page| page.row_from(key))
                .map_err(|wrong| wrong_at(self.bolt, leaf.id, &wrong))?;
        }
        Ok(())
    }

    /// Goes to the last row.
    pub fn seek_last(&mut self) -> Result<(), Error> {
        self.seek(&[0xff; 64])?;
        if let Some(leaf) = &mut self.leaf {
            leaf.next = leaf.count.saturating_sub(1);
        }
        Ok(())
    }

    fn advance(&mut self, mut map: Option<&mut PageMap>) -> Result<Option<Row<'_>>, Error> {
        if !self.begun {
            self.begun = true;
            match &self.bucket {
                Bucket::Inline(bytes) => {
                    if map.is_some() {
                        small_is_packed(bytes).map_err(|wrong| wrong_at(self.bolt, 0, &wrong))?;
                    }
                    self.enter_inline(None)?;
                }
                Bucket::Tree(root) => {
                    let root = *root;
                    self.enter(root, map.as_deref_mut())?;
                }
            }
        }
        while self.leaf.is_none_or(|leaf| leaf.next >= leaf.count) {
            self.leaf = None;
            if !self.enter_next(map.as_deref_mut())? {
                return Ok(None);
            }
        }
        let Some(leaf) = &mut self.leaf else {
            return Ok(None);
        };
        let index = leaf.next;
        leaf.next += 1;
        let id = leaf.id;
        let bytes = match &self.bucket {
            Bucket::Inline(bytes) => &bytes[..],
            Bucket::Tree(_) => self.window.bytes(),
        };
        let bolt = self.bolt;
        let row = Page::of(bytes, id)
            .and_then(|page| page.row(index))
            .map_err(|wrong| wrong_at(bolt, id, &wrong))?;
        let place = Place {
            page: id,
            element: Some(index),
        };
        if self.has_floor && (row.key < &self.floor[..] || (index > 0 && row.key == &self.floor[..])) {
            return Err(bolt.damaged(place, "its key is not behind the one before it"));
        }
        self.floor.clear();
        self.floor.extend_from_slice(row.key);
        self.has_floor = true;
        Ok(Some(Row {
            place,
            bucket: row.bucket,
            key: row.key,
            value: row.value,
        }))
    }

    /// Enters the next leaf or branch in order. Out: there was one.
    fn enter_next(&mut self, map: Option<&mut PageMap>) -> Result<bool, Error> {
        while let Some(branch) = self.path.last_mut() {
            let wrong = |wrong: &Wrong| wrong_at(self.bolt, branch.id, wrong);
            let page = Page::of(&branch.bytes, branch.id).map_err(|w| wrong(&w))?;
            if branch.next >= page.count {
                self.path.pop();
                continue;
            }
            let index = branch.next;
            let element = page.child(index).map_err(|w| wrong(&w))?;
            branch.next += 1;
            // What lies before must be before this key, what comes must not be: else nobody who looks for it finds it.
            let floor = &self.floor[..];
            if self.has_floor && (element.key < floor || (index > 0 && element.key == floor)) {
                let place = Place {
                    page: branch.id,
                    element: Some(index),
                };
                return Err(self
                    .bolt
                    .damaged(place, "its key is not behind all that lies before it"));
            }
            self.floor.clear();
            self.floor.extend_from_slice(element.key);
            self.has_floor = true;
            let child = element.child;
            self.enter(child, map)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn enter(&mut self, id: u64, map: Option<&mut PageMap>) -> Result<Entered, Error> {
        let bolt = self.bolt;
        self.met += 1;
        if self.met > bolt.high_water() || self.path.len() >= DEPTH_MAX {
            return Err(bolt.damaged(Place::page(id), "pages name each other in a circle"));
        }
        self.window.load(bolt, id)?;
        let bytes = self.window.bytes();
        let page = Page::of(bytes, id).map_err(|wrong| wrong_at(bolt, id, &wrong))?;
        // An empty bucket has no page of its own; only a file without buckets has an empty page, its root.
        if page.count == 0 && !(page.leaf && id == bolt.meta.root) {
            return Err(bolt.damaged(Place::page(id), "there is nothing in it"));
        }
        if let Some(map) = map {
            let last = id + (bytes.len() as u64 / u64::from(bolt.page_size())).max(1) - 1;
            for each in id..=last {
                if !map.mark(each) {
                    return Err(bolt.damaged(Place::page(each), "it is used in two places"));
                }
            }
            let end = page.packed().map_err(|wrong| wrong_at(bolt, id, &wrong))?;
            // As many pages as are needed, or, by older bbolt, one more if all of them are full.
            if bytes.len() - end > bolt.page_size() as usize {
                return Err(bolt.damaged(Place::page(id), "it says that it is longer than it is"));
            }
            if !page.leaf && page.count < 2 {
                let why = "it is a branch with fewer than two children: etcd crashes when it deletes there";
                return Err(bolt.damaged(Place::page(id), why));
            }
            let children = if page.leaf { 0 } else { page.count };
            for index in 0..children {
                let child = page.child(index).map_err(|wrong| wrong_at(bolt, id, &wrong))?;
                if !self.widths.contains(&child.key.len()) {
                    let element = Some(index);
                    let why = "its key is not as long as keys are here";
                    return Err(bolt.damaged(Place { page: id, element }, why));
                }
            }
        }
        if page.leaf {
            self.leaf = Some(Leaf {
                id,
                next: 0,
                count: page.count,
            });
            return Ok(Entered::Leaf);
        }
        self.path.push(Branch {
            id,
            bytes: bytes.to_vec(),
            next: 0,
        });
        Ok(Entered::Branch)
    }

    fn enter_inline(&mut self, key: Option<&[u8]>) -> Result<(), Error> {
        let Bucket::Inline(bytes) = &self.bucket else {
            return Ok(());
        };
        let found = Page::of(bytes, 0).and_then(|page| {
            if !page.leaf {
                return Err("a small bucket must be a leaf".into());
            }
            let next = key.map_or(Ok(0), |key| page.row_from(key))?;
            Ok((page.count, next))
        });
        let (count, next) = found.map_err(|wrong| wrong_at(self.bolt, 0, &wrong))?;
        self.leaf = Some(Leaf { id: 0, next, count });
        Ok(())
    }
}

enum Entered {
    Branch,
    Leaf,
}

/// A small bucket is as long as its rows.
fn small_is_packed(bytes: &[u8]) -> Result<(), Wrong> {
    let overflow = Header::read(bytes).map(|header| header.overflow);
    let end = Page::of(bytes, 0)?.packed()?;
    if end == bytes.len() && overflow == Some(0) {
        return Ok(());
    }
    Err("it is not as long as it says".into())
}

fn wrong_at(bolt: &Bolt, page: u64, wrong: &Wrong) -> Error {
    let place = Place {
        page,
        element: wrong.element,
    };
    bolt.damaged(place, wrong.why)
}

/// A piece of the file, and the page in it that was asked for last.
#[derive(Debug)]
struct Window {
    page_size: usize,
    buffer: Vec<u8>,
    /// The page that the buffer begins with.
    first: u64,
    filled: usize,
    /// Where in the buffer the page is.
    page: std::ops::Range<usize>,
    /// The page behind the last one.
    expected: u64,
}

impl Window {
    fn of(page_size: usize) -> Window {
        Window {
            page_size,
            buffer: Vec::new(),
            first: 0,
            filled: 0,
            page: 0..0,
            expected: u64::MAX,
        }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.page.clone()).unwrap_or_default()
    }

    fn page(&self, id: u64) -> Result<Page<'_>, Wrong> {
        Page::of(self.bytes(), id)
    }

    fn load(&mut self, bolt: &Bolt, id: u64) -> Result<(), Error> {
        let damaged = |why: &str| bolt.damaged(Place::page(id), why);
        let size = self.page_size;
        if id < 2 || id >= bolt.high_water() {
            return Err(damaged("there is no such page"));
        }
        if self.find(id, size).is_none() {
            let follows = id.checked_sub(self.expected).is_some_and(|ahead| ahead < NEAR);
            let left = (bolt.high_water() - id).saturating_mul(size as u64);
            let wanted = if follows { WINDOW.max(size) } else { size };
            self.fill(
                bolt,
                id,
                usize::try_from(left).map_or(wanted, |left| left.min(wanted)),
            )?;
        }
        let start = self.find(id, size).ok_or_else(|| damaged("it is cut off"))?;
        let header = self.buffer.get(start..start + size).unwrap_or_default();
        let length = bolt.page_length(id, header).map_err(|wrong| damaged(wrong.why))?;
        if self.find(id, length).is_none() {
            self.fill(bolt, id, length)?;
        }
        let start = self.find(id, length).ok_or_else(|| damaged("it is cut off"))?;
        self.page = start..start + length;
        self.expected = id + (length / size) as u64;
        Ok(())
    }

    fn fill(&mut self, bolt: &Bolt, id: u64, wanted: usize) -> Result<(), Error> {
        // A huge row is not kept room for.
        if self.buffer.len() < wanted || self.buffer.len() > wanted.max(WINDOW) * 2 {
            self.buffer = vec![0; wanted];
        }
        self.first = id;
        self.filled = 0;
        self.filled = bolt.read_at_page(id, self.buffer.get_mut(..wanted).unwrap_or_default())?;
        Ok(())
    }

    /// Where page `id` begins in the buffer, if `length` bytes of it are there.
    fn find(&self, id: u64, length: usize) -> Option<usize> {
        let pages = usize::try_from(id.checked_sub(self.first)?).ok()?;
        let start = pages.checked_mul(self.page_size)?;
        (start.checked_add(length)? <= self.filled).then_some(start)
    }
}
