//! Trees, built from their rows in order, bottom up.
//!
//! In: rows, ascending. Out: pages, written one behind the other, and where the root is. Memory: a page a level.
//! Never: a branch with a single child (bbolt opens such a file, serves from it, and crashes at a later deletion there);
//! rows out of order.

use super::out::Out;
use super::page::{BRANCH, ELEMENT, HEADER, KEY_MAX, LEAF};
use crate::Error;

/// bbolt refuses to write pages with more elements.
const COUNT_MAX: usize = 0xFFFE;

/// Elements and what they point to, on their way to become a page.
#[derive(Debug, Default)]
struct Draft {
    /// Key size and either (flags, value size) or the child.
    elements: Vec<Element>,
    data: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Element {
    at: usize,
    key: usize,
    value: usize,
    /// Of a leaf: its flags. Of a branch: the child.
    other: u64,
}

impl Draft {
    fn size(&self) -> usize {
        HEADER + ELEMENT * self.elements.len() + self.data.len()
    }

    fn push(&mut self, key: &[u8], value: &[u8], other: u64) {
        self.elements.push(Element {
            at: self.data.len(),
            key: key.len(),
            value: value.len(),
            other,
        });
        self.data.extend_from_slice(key);
        self.data.extend_from_slice(value);
    }

    fn has_room(&self, more: usize, limit: usize) -> bool {
        self.size() + ELEMENT + more <= limit && self.elements.len() < COUNT_MAX
    }

    fn first_key(&self) -> &[u8] {
        let first = self.elements.first();
        first
            .and_then(|e| self.data.get(e.at..e.at + e.key))
            .unwrap_or_default()
    }

    /// Takes the last element off: its key and what it points to.
    fn pop(&mut self) -> Option<(Vec<u8>, u64)> {
        let last = self.elements.pop()?;
        let key = self.data.get(last.at..last.at + last.key)?.to_vec();
        self.data.truncate(last.at);
        Some((key, last.other))
    }

    /// The elements as they stand in a page, before the data.
    fn encode(&self, flags: u16, into: &mut Vec<u8>) {
        into.clear();
        let area = ELEMENT * self.elements.len();
        for (index, element) in self.elements.iter().enumerate() {
            let pos = (area - ELEMENT * index + element.at) as u32;
            if flags == LEAF {
                into.extend_from_slice(&(element.other as u32).to_le_bytes());
                into.extend_from_slice(&pos.to_le_bytes());
                into.extend_from_slice(&(element.key as u32).to_le_bytes());
                into.extend_from_slice(&(element.value as u32).to_le_bytes());
            } else {
                into.extend_from_slice(&pos.to_le_bytes());
                into.extend_from_slice(&(element.key as u32).to_le_bytes());
                into.extend_from_slice(&element.other.to_le_bytes());
            }
        }
    }

    fn clear(&mut self) {
        self.elements.clear();
        self.data.clear();
    }
}

/// One level of branches: the one being filled, and the full one before it, held back because the last one of a level
/// may need a child of it.
#[derive(Debug, Default)]
struct Level {
    full: Option<Draft>,
    open: Draft,
}

/// A tree that is being built.
#[derive(Debug)]
pub(crate) struct Tree {
    leaf: Draft,
    levels: Vec<Level>,
    last_key: Vec<u8>,
    scratch: Vec<u8>,
    page_size: usize,
    rows: u64,
}

/// What became of a tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Built {
    /// It has pages; this one is the root.
    Root(u64),
    /// It is small enough for the row that names it: the image of a leaf page.
    Inline(Vec<u8>),
}

impl Tree {
    pub(crate) fn new(page_size: u32) -> Tree {
        Tree {
            leaf: Draft::default(),
            levels: Vec::new(),
            last_key: Vec::new(),
            scratch: Vec::new(),
            page_size: page_size as usize,
            rows: 0,
        }
    }

    /// A tree that goes on from the right edge of another one: the children of its branches, from the root's down to
    /// those above the last leaf, each without the last child, whose place is taken by what comes. The rows of the last
    /// leaf follow by `put`.
    pub(crate) fn on_edge(page_size: u32, edge: Vec<Vec<(Vec<u8>, u64)>>) -> Tree {
        let mut tree = Tree::new(page_size);
        for children in edge.into_iter().rev() {
            let mut level = Level::default();
            for (key, child) in children {
                level.open.push(&key, &[], child);
            }
            tree.levels.push(level);
        }
        tree
    }

    /// Adds a row behind all others.
    pub(crate) fn put(&mut self, out: &mut Out, key: &[u8], value: &[u8], bucket: bool) -> Result<(), Error> {
        let in_order = self.rows == 0 || key > &self.last_key[..];
        if key.is_empty() || key.len() > KEY_MAX || !in_order {
            return Err(
                out.unsound("a row to be written is not behind the one before it, or its key is no key")
            );
        }
        if value.len() > i32::MAX as usize - 2 {
            return Err(out.unsound("a value to be written is longer than bbolt accepts"));
        }
        if !self.leaf.elements.is_empty() && !self.leaf.has_room(key.len() + value.len(), self.page_size) {
            self.flush_leaf(out)?;
        }
        self.leaf.push(key, value, u64::from(bucket));
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.rows += 1;
        Ok(())
    }

    /// Writes what is left. Small buckets are not written at all if `may_inline`: they go into the row that names them.
    pub(crate) fn finish(mut self, out: &mut Out, may_inline: bool) -> Result<Built, Error> {
        let small = self.levels.is_empty() && self.leaf.size() <= self.page_size / 4;
        if small && may_inline {
            let mut image = Vec::with_capacity(self.leaf.size());
            image.extend_from_slice(&[0; 8]);
            image.extend_from_slice(&LEAF.to_le_bytes());
            image.extend_from_slice(&(self.leaf.elements.len() as u16).to_le_bytes());
            image.extend_from_slice(&[0; 4]);
            self.leaf.encode(LEAF, &mut self.scratch);
            image.extend_from_slice(&self.scratch);
            image.extend_from_slice(&self.leaf.data);
            return Ok(Built::Inline(image));
        }
        if self.levels.is_empty() {
            let Tree {
                leaf, mut scratch, ..
            } = self;
            return emit(out, LEAF, &leaf, &mut scratch).map(Built::Root);
        }
        if !self.leaf.elements.is_empty() {
            self.flush_leaf(out)?;
        }
        let mut at = 0;
        loop {
            let Some(level) = self.levels.get_mut(at) else {
                return Err(out.unsound("a tree to be written has no root"));
            };
            let full = level.full.take();
            let open = std::mem::take(&mut level.open);
            let top = at + 1 == self.levels.len();
            match (full, open.elements.len()) {
                (None, 1) if top => {
                    let root = open.elements.first().map_or(0, |e| e.other);
                    return Ok(Built::Root(root));
                }
                (None, 0) if !top => {}
                (None, _) if top => return emit(out, BRANCH, &open, &mut self.scratch).map(Built::Root),
                (None, 1) => {
                    // Above are branches to the left: this child finds its place beside those of the last of them.
                    return Err(out.unsound("a branch to be written has one child"));
                }
                (None, _) => self.push_up(out, at, open)?,
                (Some(mut full), 1) => {
                    let mut open = open;
                    if full.elements.len() > 2 {
                        let last = full.pop();
                        let mut both = Draft::default();
                        for (key, child) in last.into_iter().chain(open.pop()) {
                            both.push(&key, &[], child);
                        }
                        self.push_up(out, at, full)?;
                        self.push_up(out, at, both)?;
                    } else if let Some((key, child)) = open.pop() {
                        full.push(&key, &[], child);
                        self.push_up(out, at, full)?;
                    }
                }
                (Some(full), 0) => self.push_up(out, at, full)?,
                (Some(full), _) => {
                    self.push_up(out, at, full)?;
                    self.push_up(out, at, open)?;
                }
            }
            at += 1;
        }
    }

    fn flush_leaf(&mut self, out: &mut Out) -> Result<(), Error> {
        let id = emit(out, LEAF, &self.leaf, &mut self.scratch)?;
        let key = self.leaf.first_key().to_vec();
        self.leaf.clear();
        self.add_child(out, 0, &key, id)
    }

    fn add_child(&mut self, out: &mut Out, at: usize, key: &[u8], child: u64) -> Result<(), Error> {
        if self.levels.len() <= at {
            self.levels.push(Level::default());
        }
        let Some(level) = self.levels.get_mut(at) else {
            return Err(out.unsound("a tree to be written has no such level"));
        };
        if level.open.elements.len() >= 2 && !level.open.has_room(key.len(), self.page_size) {
            let open = std::mem::take(&mut level.open);
            if let Some(before) = level.full.replace(open) {
                self.push_up(out, at, before)?;
            }
        }
        if let Some(level) = self.levels.get_mut(at) {
            level.open.push(key, &[], child);
        }
        Ok(())
    }

    fn push_up(&mut self, out: &mut Out, at: usize, branch: Draft) -> Result<(), Error> {
        let id = emit(out, BRANCH, &branch, &mut self.scratch)?;
        let key = branch.first_key().to_vec();
        self.add_child(out, at + 1, &key, id)
    }
}

fn emit(out: &mut Out, flags: u16, draft: &Draft, scratch: &mut Vec<u8>) -> Result<u64, Error> {
    draft.encode(flags, scratch);
    out.page(flags, draft.elements.len(), scratch, &draft.data)
}
