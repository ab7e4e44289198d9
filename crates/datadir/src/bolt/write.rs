//! A whole bbolt file, written in one go.
//!
//! ```text
//! page 0, 1   metas, written last, both of the same tree
//! page 2      a freelist with nothing in it: whoever opens the file need not walk the tree to find what is free
//! page 3 …    buckets, one behind the other, leaves before the branches above them; the root bucket last
//! ```
//!
//! In: buckets and rows, both ascending. Out: a file etcd opens. Never: a file that names a tree before all of it is
//! written; the caller gives it its name when it is synced.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::build::{Built, Tree};
use super::meta::Meta;
use super::out::Out;
use super::page::FREELIST;
use crate::Error;

const FIRST: u64 = 2;

/// A bbolt file that is being written.
#[derive(Debug)]
pub struct BoltWriter {
    out: Out,
    path: PathBuf,
    root: Tree,
    bucket: Option<(Vec<u8>, Tree)>,
}

impl BoltWriter {
    /// Writes into `file`, which is empty and called `path`.
    pub fn new(file: File, path: &Path, page_size: u32) -> Result<BoltWriter, Error> {
        let mut out = Out::new(file, path, page_size, FIRST);
        out.page(FREELIST, 0, &[], &[])?;
        Ok(BoltWriter {
            out,
            path: path.to_owned(),
            root: Tree::new(page_size),
            bucket: None,
        })
    }

    /// What is written need not survive a power cut.
    pub(crate) fn pass(&mut self) {
        self.out.pass();
    }

    /// Begins a bucket; its name is behind those of all before it.
    pub fn begin(&mut self, name: &[u8]) -> Result<(), Error> {
        self.end()?;
        self.bucket = Some((name.to_vec(), Tree::new(self.out.page_size())));
        Ok(())
    }

    /// Adds a row to the bucket that was begun.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        match &mut self.bucket {
            Some((_, tree)) => tree.put(&mut self.out, key, value, false),
            None => Err(self.out.unsound("a row belongs to no bucket")),
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some((name, tree)) = self.bucket.take() else {
            return Ok(());
        };
        let value = bucket_value(tree.finish(&mut self.out, true)?);
        self.root.put(&mut self.out, &name, &value, true)
    }

    /// Writes what is left, and the metas. Out: the file, not synced.
    pub fn finish(mut self) -> Result<File, Error> {
        self.end()?;
        let BoltWriter {
            mut out, path, root, ..
        } = self;
        let Built::Root(root) = root.finish(&mut out, false)? else {
            return Err(out.unsound("the root has no page"));
        };
        let meta = Meta {
            page_size: out.page_size(),
            root,
            freelist: FIRST,
            high_water: out.next(),
            transaction: 2,
        };
        let file = out.finish()?;
        write_metas(&file, &path, meta)?;
        Ok(file)
    }
}

/// What stands in the row that names a bucket: its root and a sequence that etcd leaves at zero.
pub(crate) fn bucket_value(built: Built) -> Vec<u8> {
    let (root, page) = match built {
        Built::Root(root) => (root, Vec::new()),
        Built::Inline(page) => (0, page),
    };
    let mut value = Vec::with_capacity(16 + page.len());
    value.extend_from_slice(&root.to_le_bytes());
    value.extend_from_slice(&[0; 8]);
    value.extend_from_slice(&page);
    value
}

/// Writes both metas. They name the same tree, so that neither leads back to another; the page of each fits its
/// transaction's number, as bbolt has it.
pub(crate) fn write_metas(file: &File, path: &Path, meta: Meta) -> Result<(), Error> {
    let before = Meta {
        transaction: meta.transaction.saturating_sub(1),
        ..meta
    };
    for meta in [before, meta] {
        let id = meta.transaction % 2;
        let mut page = meta.encode(id).to_vec();
        page.resize(meta.page_size as usize, 0);
        file.write_all_at(&page, id * u64::from(meta.page_size))
            .map_err(Error::write(path))?;
    }
    Ok(())
}
