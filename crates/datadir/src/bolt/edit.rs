//! A bbolt file changed without being rewritten: new pages behind the old ones, then both metas.
//!
//! In: a file of our own (a copy that has no name yet), rows to put behind a bucket's last, buckets to replace. Out: the
//! same file with another tree in it. What was replaced is left lying as free pages.
//! Never: a meta that still names the old tree; an old page written to; this done to a file that etcd has.

use std::fs::File;
use std::path::Path;

use super::build::{Built, Tree};
use super::edge::RightEdge;
use super::file::{Bolt, Bucket};
use super::meta::{Meta, NO_FREELIST};
use super::out::Out;
use super::write::{bucket_value, write_metas};
use crate::Error;

/// Changes to a bbolt file.
#[derive(Debug)]
pub struct Edit<'a> {
    bolt: &'a Bolt,
    out: Out,
    /// All buckets, with what the row that names each will hold.
    buckets: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Edit<'a> {
    /// Changes `bolt`, whose file is written to by `file`.
    pub fn new(bolt: &'a Bolt, file: File, path: &Path) -> Result<Edit<'a>, Error> {
        let mut buckets = Vec::new();
        let mut root = bolt.root();
        while let Some(row) = root.next_row()? {
            buckets.push((row.key.to_vec(), row.value.to_vec()));
        }
        Ok(Edit {
            bolt,
            out: Out::new(file, path, bolt.page_size(), bolt.high_water()),
            buckets,
        })
    }

    /// What is written need not survive a power cut.
    pub(crate) fn pass(&mut self) {
        self.out.pass();
    }

    /// Replaces the rows of a bucket, which need not be there yet.
    pub fn replace<K, V>(&mut self, name: &[u8], rows: impl IntoIterator<Item = (K, V)>) -> Result<(), Error>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let mut tree = Tree::new(self.out.page_size());
        for (key, value) in rows {
            tree.put(&mut self.out, key.as_ref(), value.as_ref(), false)?;
        }
        let value = bucket_value(tree.finish(&mut self.out, true)?);
        self.set(name, value);
        Ok(())
    }

    /// Begins to put rows behind the last one of a bucket.
    pub fn append(&mut self, name: &[u8]) -> Result<Appending<'_, 'a>, Error> {
        self.append_at(name, None)
    }

    /// Begins to put rows behind the last one of a bucket that is before `end`; those from there on are left out.
    pub fn append_at(&mut self, name: &[u8], end: Option<&[u8]>) -> Result<Appending<'_, 'a>, Error> {
        let value = self.buckets.iter().find(|(key, _)| key == name).map(|(_, v)| v);
        let bucket = match value {
            None => Bucket::Inline(EMPTY_LEAF.to_vec()),
            Some(value) => {
                let damaged = |why| {
                    self.bolt
                        .damaged(super::file::Place::page(self.bolt.meta.root), why)
                };
                Bucket::of(value).map_err(damaged)?
            }
        };
        let edge = RightEdge::of(self.bolt, bucket, end)?;
        let mut tree = Tree::on_edge(self.out.page_size(), edge.branches);
        for (key, value) in edge.rows {
            tree.put(&mut self.out, &key, &value, false)?;
        }
        Ok(Appending {
            name: name.to_vec(),
            tree,
            edit: self,
        })
    }

    fn set(&mut self, name: &[u8], value: Vec<u8>) {
        match self.buckets.binary_search_by(|(key, _)| key[..].cmp(name)) {
            Ok(at) => {
                if let Some((_, old)) = self.buckets.get_mut(at) {
                    *old = value;
                }
            }
            Err(at) => self.buckets.insert(at, (name.to_vec(), value)),
        }
    }

    /// Writes the new root, and both metas. Out: the file, not synced, as long as its pages.
    pub fn finish(mut self) -> Result<File, Error> {
        let mut root = Tree::new(self.out.page_size());
        for (name, value) in &self.buckets {
            root.put(&mut self.out, name, value, true)?;
        }
        let Built::Root(root) = root.finish(&mut self.out, false)? else {
            return Err(self.out.unsound("the root has no page"));
        };
        let meta = Meta {
            root,
            freelist: NO_FREELIST,
            high_water: self.out.next(),
            transaction: self.bolt.meta.transaction.saturating_add(2),
            ..self.bolt.meta
        };
        let path = self.bolt.path().to_owned();
        let file = self.out.finish()?;
        write_metas(&file, &path, meta)?;
        let length = meta.high_water.saturating_mul(u64::from(meta.page_size));
        file.set_len(length).map_err(Error::write(&path))?;
        Ok(file)
    }
}

/// The image of a leaf with nothing in it.
const EMPTY_LEAF: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];

/// Rows on their way behind the last one of a bucket.
#[derive(Debug)]
pub struct Appending<'e, 'a> {
    edit: &'e mut Edit<'a>,
    name: Vec<u8>,
    tree: Tree,
}

impl Appending<'_, '_> {
    /// Adds a row behind all others.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.tree.put(&mut self.edit.out, key, value, false)
    }

    /// That was the last one.
    pub fn end(self) -> Result<(), Error> {
        let value = bucket_value(self.tree.finish(&mut self.edit.out, true)?);
        self.edit.set(&self.name, value);
        Ok(())
    }
}
