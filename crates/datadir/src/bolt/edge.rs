//! The right edge of a tree: what a tree that goes on behind some row keeps of the one before it.
//!
//! ```text
//! root    [a b C . .]        a, b: kept as they are; C: the way to the row; behind it: left out
//! branch      [d E . .]      the same
//! leaf           [f g . .]   f, g: put again
//! ```
//!
//! In: a bucket, and the key that rows are to be before. Out: the branches from the root down, each without the child whose
//! place is taken by what comes, and the rows of the last leaf.
//! Never: a branch that would be left with a single child: it takes its left neighbour's children.

use super::file::{Bolt, Bucket, Place};
use super::page::{Page, Wrong};
use crate::Error;

/// No tree is deeper: with two children a page this is more than any file holds.
const DEPTH_MAX: usize = 64;
/// How often a branch takes its neighbour's children, at most.
const MOVES_MAX: usize = DEPTH_MAX * DEPTH_MAX;

type Children = Vec<(Vec<u8>, u64)>;
type Leaf = Vec<(Vec<u8>, Vec<u8>)>;

/// What is kept of the right edge.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RightEdge {
    /// The children of the branches, from the root's down, each without the last.
    pub(super) branches: Vec<Children>,
    /// The rows of the last leaf.
    pub(super) rows: Leaf,
}

/// A page of the edge, up to the key.
enum Part {
    Branch { before: Children, next: u64 },
    Leaf(Leaf),
}

impl RightEdge {
    /// The edge of `bucket` in `bolt`: all of it, or what is before `end`.
    pub(super) fn of(bolt: &Bolt, bucket: Bucket, end: Option<&[u8]>) -> Result<RightEdge, Error> {
        let mut edge = RightEdge::default();
        match bucket {
            Bucket::Inline(bytes) => {
                if let Part::Leaf(rows) = part(&bytes, 0, end).map_err(|wrong| damaged(bolt, 0, &wrong))? {
                    edge.rows = rows;
                }
            }
            Bucket::Tree(root) => {
                edge.descend(bolt, root, end)?;
                edge.level(bolt)?;
            }
        }
        Ok(edge)
    }

    /// Goes down from page `id` to the last leaf that has a row before `end`, or would.
    fn descend(&mut self, bolt: &Bolt, mut id: u64, end: Option<&[u8]>) -> Result<(), Error> {
        while self.branches.len() < DEPTH_MAX {
            let bytes = bolt.page(id)?;
            match part(&bytes, id, end).map_err(|wrong| damaged(bolt, id, &wrong))? {
                Part::Leaf(rows) => {
                    self.rows = rows;
                    return Ok(());
                }
                Part::Branch { before, next } => {
                    self.branches.push(before);
                    id = next;
                }
            }
        }
        Err(bolt.damaged(Place::page(id), "pages name each other in a circle"))
    }

    /// Sees to it that every branch but a root that is not needed keeps a child, and the leaf a row.
    fn level(&mut self, bolt: &Bolt) -> Result<(), Error> {
        for _ in 0..MOVES_MAX {
            // A root with nothing but what comes is none.
            let needless = self.branches.iter().take_while(|children| children.is_empty());
            let needless = needless.count();
            self.branches.drain(..needless);
            let empty = self.branches.iter().position(Vec::is_empty);
            let at = match empty {
                Some(at) => at,
                None if self.rows.is_empty() && !self.branches.is_empty() => self.branches.len(),
                None => return Ok(()),
            };
            let Some((_, left)) = at
                .checked_sub(1)
                .and_then(|above| self.branches.get_mut(above)?.pop())
            else {
                return Ok(());
            };
            let bytes = bolt.page(left)?;
            let neighbour = part(&bytes, left, None).map_err(|wrong| damaged(bolt, left, &wrong))?;
            match (neighbour, self.branches.get_mut(at)) {
                (Part::Leaf(rows), None) if !rows.is_empty() => self.rows = rows,
                (Part::Branch { mut before, next }, Some(children)) => {
                    // All of its children come: what is on the way to the row is behind them.
                    before.push((
                        last_key(&bytes, left).map_err(|wrong| damaged(bolt, left, &wrong))?,
                        next,
                    ));
                    *children = before;
                }
                _ => return Err(bolt.damaged(Place::page(left), "it is not of its neighbour's kind")),
            }
        }
        Err(bolt.damaged(Place::page(bolt.meta.root), "pages name each other in a circle"))
    }
}

fn damaged(bolt: &Bolt, page: u64, wrong: &Wrong) -> Error {
    let place = Place {
        page,
        element: wrong.element,
    };
    bolt.damaged(place, wrong.why)
}

/// What a page has before `end`.
fn part(bytes: &[u8], id: u64, end: Option<&[u8]>) -> Result<Part, Wrong> {
    let page = Page::of(bytes, id)?;
    if page.leaf {
        let count = end.map_or(Ok(page.count), |end| page.row_from(end))?;
        let rows = (0..count).map(|index| {
            let row = page.row(index)?;
            Ok((row.key.to_vec(), row.value.to_vec()))
        });
        return Ok(Part::Leaf(rows.collect::<Result<_, Wrong>>()?));
    }
    let last = match end {
        None => page.count.checked_sub(1),
        // The first one, if all begin behind it: then it has no such row.
        Some(end) => (page.count > 0).then_some(page.child_for(end)?),
    };
    let last = last.ok_or("it is a branch without children")?;
    let before = (0..last).map(|index| {
        let child = page.child(index)?;
        Ok((child.key.to_vec(), child.child))
    });
    Ok(Part::Branch {
        before: before.collect::<Result<_, Wrong>>()?,
        next: page.child(last)?.child,
    })
}

fn last_key(bytes: &[u8], id: u64) -> Result<Vec<u8>, Wrong> {
    let page = Page::of(bytes, id)?;
    let last = page
        .count
        .checked_sub(1)
        .ok_or("it is a branch without children")?;
    Ok(page.child(last)?.key.to_vec())
}
