//! A bbolt file, opened for reading: the tree its newest valid meta page names.
//!
//! In: the path of a database or a snapshot (a database, and for most the SHA-256 of it behind). Out: pages by number,
//! buckets by name. Pages are read by position, never mapped: a file that shrinks meanwhile is an error and no signal.
//! Never: a byte written; a page believed that lies outside the file; memory taken for a length that the file has not.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::meta::{Meta, Metas, read_metas};
use super::page::{HEADER, Header, Wrong};
use super::pages::{Held, Pages, fill};
use super::rows::Rows;
use crate::Error;

/// A page with its overflow, at most. A row is smaller than 2 GiB; etcd's requests are smaller than that by far.
const PAGE_BYTES_MAX: u64 = 1 << 30;
/// The length of the hash behind a snapshot.
pub(crate) const DIGEST: u64 = 32;

#[derive(Debug)]
pub struct Bolt {
    path: PathBuf,
    pub(super) held: Held,
    length: u64,
    digest: bool,
    pub(crate) meta: Meta,
    /// Only one of the two meta pages is valid.
    pub(crate) one_meta: bool,
}

/// Where the rows of a bucket are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bucket {
    /// In a tree of its own, with this page at its root.
    Tree(u64),
    /// In the row that names it: the image of a leaf page.
    Inline(Vec<u8>),
}

impl Bucket {
    /// Reads what stands in the row that names a bucket.
    pub(crate) fn of(value: &[u8]) -> Result<Bucket, &'static str> {
        let (root, rest) = value
            .split_first_chunk::<8>()
            .ok_or("its bucket's header is cut off")?;
        let page = rest.get(8..).ok_or("its bucket's header is cut off")?;
        match u64::from_le_bytes(*root) {
            0 if page.len() < HEADER => Err("its bucket's page is cut off"),
            0 => Ok(Bucket::Inline(page.to_vec())),
            _ if !page.is_empty() => Err("its bucket has pages of its own and rows beside them"),
            root => Ok(Bucket::Tree(root)),
        }
    }
}

impl Bolt {
    pub fn open(path: &Path) -> Result<Bolt, Error> {
        let file = File::open(path).map_err(Error::read(path))?;
        Bolt::from_file(file, path)
    }

    /// Takes an open file; `path` is what it is called.
    pub(crate) fn from_file(file: File, path: &Path) -> Result<Bolt, Error> {
        if !file.metadata().map_err(Error::read(path))?.is_file() {
            return Err(Error::Damaged {
                path: path.to_owned(),
                place: "the path".to_owned(),
                why: "it is not a file".to_owned(),
            });
        }
        Bolt::held(Held::File(file), path)
    }

    /// Takes a database that lies somewhere else; `path` is what it is called. Rows can be read from it; whatever needs
    /// all of its bytes in a file is refused.
    pub fn from_pages(pages: Box<dyn Pages>, path: &Path) -> Result<Bolt, Error> {
        Bolt::held(Held::Elsewhere(pages), path)
    }

    fn held(held: Held, path: &Path) -> Result<Bolt, Error> {
        let damaged = |place: &str, why: String| Error::Damaged {
            path: path.to_owned(),
            place: place.to_owned(),
            why,
        };
        let length = held.pages().length().map_err(Error::read(path))?;
        let (meta, count) = match read_metas(held.pages()).map_err(Error::read(path))? {
            Metas::Valid { newest, count } => (newest, count),
            Metas::Blank => return Err(damaged("the start", "the file is empty".to_owned())),
            Metas::Invalid => {
                let why =
                    "neither of the two meta pages is valid; this is no etcd database, or its start is lost";
                return Err(damaged("pages 0 and 1", why.to_owned()));
            }
        };
        // Pages are multiples of 512 bytes; what etcd streams as a snapshot has a hash behind them.
        let digest = length % 512 == DIGEST;
        if !digest && length % 512 != 0 {
            let why =
                "what is behind the last page is neither a page nor a whole SHA-256: the file is cut off";
            return Err(damaged("the end", why.to_owned()));
        }
        let content = if digest { length - DIGEST } else { length };
        let wanted = meta.high_water.checked_mul(u64::from(meta.page_size));
        if wanted.is_none_or(|wanted| wanted > content) || meta.high_water < 3 {
            let why = format!(
                "it says that there are {} pages of {} bytes, and the file has {content} bytes: it is cut off",
                meta.high_water, meta.page_size
            );
            return Err(damaged("the newest meta page", why));
        }
        Ok(Bolt {
            path: path.to_owned(),
            held,
            length,
            digest,
            meta,
            one_meta: count < 2,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, if it is one of this machine.
    pub(crate) fn file(&self) -> Result<&File, Error> {
        match &self.held {
            Held::File(file) => Ok(file),
            Held::Elsewhere(_) => Err(Error::refused(
                format!("{} is not a file of this machine", self.path.display()),
                "fetch it first",
            )),
        }
    }

    /// The length of the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Is there a hash behind the pages?
    pub fn has_digest(&self) -> bool {
        self.digest
    }

    /// Reads the hash behind the pages.
    pub(crate) fn read_digest(&self, digest: &mut [u8; DIGEST as usize]) -> Result<(), Error> {
        let at = self.length.saturating_sub(DIGEST);
        let read = fill(self.held.pages(), digest, at).map_err(Error::read(&self.path))?;
        if read < digest.len() {
            let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(Error::read(&self.path)(short));
        }
        Ok(())
    }

    /// The size of a page.
    pub fn page_size(&self) -> u32 {
        self.meta.page_size
    }

    /// How many pages there are, free ones included.
    pub fn high_water(&self) -> u64 {
        self.meta.high_water
    }

    /// The bytes of all pages.
    pub fn size(&self) -> u64 {
        self.meta
            .high_water
            .saturating_mul(u64::from(self.meta.page_size))
    }

    /// The rows of the root: the buckets by name.
    pub(crate) fn root(&self) -> Rows<'_> {
        Rows::new(self, Bucket::Tree(self.meta.root))
    }

    /// All buckets, in the order of their names.
    pub fn buckets(&self) -> Result<Vec<(Vec<u8>, Bucket)>, Error> {
        let mut buckets = Vec::new();
        let mut root = self.root();
        while let Some(row) = root.next_row()? {
            if !row.bucket {
                return Err(self.damaged(row.place, "the root holds a row that is no bucket"));
            }
            let bucket = Bucket::of(row.value).map_err(|why| self.damaged(row.place, why))?;
            buckets.push((row.key.to_vec(), bucket));
            if buckets.len() > BUCKETS_MAX {
                return Err(self.damaged(row.place, "there are more buckets than etcd ever makes"));
            }
        }
        Ok(buckets)
    }

    /// The rows of the bucket `name`, if there is one.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Rows<'_>>, Error> {
        let mut root = self.root();
        root.seek(name)?;
        match root.next_row()? {
            Some(row) if row.key == name && row.bucket => {
                let bucket = Bucket::of(row.value).map_err(|why| self.damaged(row.place, why))?;
                Ok(Some(Rows::new(self, bucket)))
            }
            _ => Ok(None),
        }
    }

    /// One value of one bucket.
    pub fn value(&self, bucket: &[u8], key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let Some(mut rows) = self.bucket(bucket)? else {
            return Ok(None);
        };
        rows.seek(key)?;
        let row = rows.next()?.filter(|(found, _)| *found == key);
        Ok(row.map(|(_, value)| value.to_vec()))
    }

    /// How long page `id` is with its overflow, from its first bytes, if it can be where it is.
    pub(crate) fn page_length(&self, id: u64, start: &[u8]) -> Result<usize, Wrong> {
        let header = Header::read(start).ok_or("it is cut off")?;
        if header.id != id {
            return Err("it says that it is another page".into());
        }
        let overflow = u64::from(header.overflow);
        if id
            .checked_add(overflow)
            .is_none_or(|last| last >= self.meta.high_water)
        {
            return Err("it goes on behind the last page".into());
        }
        let length = (overflow + 1).saturating_mul(u64::from(self.meta.page_size));
        if length > PAGE_BYTES_MAX {
            return Err("it is longer than any page of etcd's".into());
        }
        usize::try_from(length).map_err(|_| Wrong::from("it is longer than memory"))
    }

    /// Reads up to `buffer.len()` bytes from where page `id` begins; the file's end ends it early.
    pub(crate) fn read_at_page(&self, id: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let offset = id.saturating_mul(u64::from(self.meta.page_size));
        fill(self.held.pages(), buffer, offset).map_err(Error::read(&self.path))
    }

    /// The whole of page `id`, of whatever kind.
    pub(crate) fn page(&self, id: u64) -> Result<Vec<u8>, Error> {
        let size = self.meta.page_size as usize;
        let wrong = |wrong: Wrong| self.damaged(Place::page(id), wrong.why);
        if id < 2 || id >= self.meta.high_water {
            return Err(self.damaged(Place::page(id), "there is no such page"));
        }
        let mut bytes = vec![0; size];
        let read = self.read_at_page(id, &mut bytes)?;
        let length = self
            .page_length(id, bytes.get(..read).unwrap_or_default())
            .map_err(wrong)?;
        bytes.resize(length, 0);
        if self.read_at_page(id, &mut bytes)? < length {
            return Err(self.damaged(Place::page(id), "it is cut off"));
        }
        Ok(bytes)
    }

    /// Damage at a place.
    pub(crate) fn damaged(&self, place: Place, why: &str) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            place: place.to_string(),
            why: why.to_owned(),
        }
    }
}

/// etcd has ten; a file with far more is not one of its files.
const BUCKETS_MAX: usize = 1024;

/// A place in a file of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) page: u64,
    pub(crate) element: Option<usize>,
}

impl Place {
    pub(crate) fn page(page: u64) -> Place {
        Place { page, element: None }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.page, self.element) {
            (0, Some(element)) => write!(f, "row {element} of a small bucket"),
            (0, None) => f.write_str("a small bucket"),
            (page, Some(element)) => write!(f, "page {page}, element {element}"),
            (page, None) => write!(f, "page {page}"),
        }
    }
}
