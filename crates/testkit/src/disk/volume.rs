//! The disk: what programs see of it now, and what of that was synced.
//!
//! In: operations on numbered nodes, as the kernel asks for them. Out: their effects, or an error as of a real disk.
//! A clone shares all blocks with its original, so a state can be kept at every operation.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use rustix::io::Errno;

use super::content::Content;

/// The number of the root directory, as FUSE has it.
pub(crate) const ROOT: u64 = 1;

pub(crate) type Entries = BTreeMap<OsString, u64>;

/// The state of a disk, in memory: what programs see, and what a power cut would leave.
#[derive(Debug, Clone)]
pub struct Disk {
    pub(crate) nodes: BTreeMap<u64, Arc<Node>>,
    /// Creations, removals and renamings that were not synced, oldest first.
    pub(crate) pending: Vec<Arc<Vec<Change>>>,
    next: u64,
    /// At most this many bytes in files.
    pub(crate) capacity: Option<u64>,
}

/// A file or a directory, linked or only still open.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) mode: Now<u16>,
    pub(crate) body: Body,
    pub(crate) links: u32,
    pub(crate) opens: u32,
}

/// Something as it is, and as it was synced last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Now<T> {
    pub(crate) now: T,
    pub(crate) synced: T,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    File(Now<Content>),
    Directory(Now<Entries>),
}

/// A name in a directory that leads elsewhere from now on, or nowhere.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) directory: u64,
    pub(crate) name: OsString,
    pub(crate) to: Option<u64>,
}

/// How a renaming meets what has the new name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rename {
    Replace,
    NoReplace,
    Exchange,
}

impl Default for Disk {
    fn default() -> Self {
        Disk::new()
    }
}

impl Disk {
    /// An empty disk without a limit.
    pub fn new() -> Disk {
        let root = Node::new(Body::Directory(Now::default()), 0o755);
        Disk {
            nodes: BTreeMap::from([(ROOT, Arc::new(Node { links: 1, ..root }))]),
            pending: Vec::new(),
            next: ROOT + 1,
            capacity: None,
        }
    }

    /// The bytes that files take on it.
    pub fn used(&self) -> u64 {
        let alive = self.nodes.values().filter(|node| node.links + node.opens > 0);
        alive.map(|node| node.allocated()).sum()
    }

    pub(crate) fn node(&self, number: u64) -> Result<&Node, Errno> {
        self.nodes.get(&number).map(|node| &**node).ok_or(Errno::STALE)
    }

    pub(crate) fn node_mut(&mut self, number: u64) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&number).map(Arc::make_mut).ok_or(Errno::STALE)
    }

    pub(crate) fn entries(&self, directory: u64) -> Result<&Entries, Errno> {
        match &self.node(directory)?.body {
            Body::Directory(entries) => Ok(&entries.now),
            Body::File(_) => Err(Errno::NOTDIR),
        }
    }

    pub(crate) fn file(&self, number: u64) -> Result<&Content, Errno> {
        match &self.node(number)?.body {
            Body::File(content) => Ok(&content.now),
            Body::Directory(_) => Err(Errno::ISDIR),
        }
    }

    fn file_mut(&mut self, number: u64) -> Result<&mut Content, Errno> {
        match &mut self.node_mut(number)?.body {
            Body::File(content) => Ok(&mut content.now),
            Body::Directory(_) => Err(Errno::ISDIR),
        }
    }

    pub(crate) fn lookup(&self, directory: u64, name: &OsStr) -> Result<u64, Errno> {
        self.entries(directory)?.get(name).copied().ok_or(Errno::NOENT)
    }

    /// A new file or directory.
    pub(crate) fn make(
        &mut self,
        directory: u64,
        name: &OsStr,
        is_directory: bool,
        mode: u16,
    ) -> Result<u64, Errno> {
        if self.entries(directory)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        let body = match is_directory {
            true => Body::Directory(Now::default()),
            false => Body::File(Now::default()),
        };
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, Arc::new(Node::new(body, mode)));
        self.change(vec![Change::new(directory, name, Some(number))])?;
        Ok(number)
    }

    pub(crate) fn link(&mut self, number: u64, directory: u64, name: &OsStr) -> Result<(), Errno> {
        self.file(number)?;
        if self.entries(directory)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        self.change(vec![Change::new(directory, name, Some(number))])
    }

    pub(crate) fn unlink(&mut self, directory: u64, name: &OsStr) -> Result<(), Errno> {
        self.file(self.lookup(directory, name)?)?;
        self.change(vec![Change::new(directory, name, None)])
    }

    pub(crate) fn rmdir(&mut self, directory: u64, name: &OsStr) -> Result<(), Errno> {
        if !self.entries(self.lookup(directory, name)?)?.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.change(vec![Change::new(directory, name, None)])
    }

    pub(crate) fn rename(
        &mut self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        how: Rename,
    ) -> Result<(), Errno> {
        let moved = self.lookup(from.0, from.1)?;
        let met = self.entries(to.0)?.get(to.1).copied();
        let left = match (how, met) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::EXIST),
            (Rename::Exchange, None) => return Err(Errno::NOENT),
            (Rename::Exchange, met) => met,
            (Rename::Replace | Rename::NoReplace, None) => None,
            (Rename::Replace, Some(met)) if met == moved => return Ok(()),
            (Rename::Replace, Some(met)) => {
                match (self.entries(moved).is_ok(), self.entries(met)) {
                    (true, Err(_)) => return Err(Errno::NOTDIR),
                    (false, Ok(_)) => return Err(Errno::ISDIR),
                    (true, Ok(entries)) if !entries.is_empty() => return Err(Errno::NOTEMPTY),
                    _ => {}
                }
                None
            }
        };
        self.change(vec![
            Change::new(from.0, from.1, left),
            Change::new(to.0, to.1, Some(moved)),
        ])
    }

    /// Makes names lead elsewhere, all at once; not synced.
    fn change(&mut self, changes: Vec<Change>) -> Result<(), Errno> {
        for Change { directory, name, to } in &changes {
            let Body::Directory(entries) = &mut self.node_mut(*directory)?.body else {
                return Err(Errno::NOTDIR);
            };
            let before = match to {
                Some(to) => entries.now.insert(name.clone(), *to),
                None => entries.now.remove(name),
            };
            if let Some(to) = to {
                self.node_mut(*to)?.links += 1;
            }
            if let Some(before) = before {
                let node = self.node_mut(before)?;
                node.links = node.links.saturating_sub(1);
            }
        }
        self.pending.push(Arc::new(changes));
        Ok(())
    }

    /// Writes as much as there is room for.
    pub(crate) fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let room = self.room();
        let content = self.file(number)?;
        let mut length = bytes.len();
        // One block less at a time; a request has some hundreds of them at most.
        while length > 0 && content.growth(offset, length as u64) > room {
            let end = (offset + length as u64 - 1) / super::content::BLOCK as u64;
            length =
                usize::try_from((end * super::content::BLOCK as u64).saturating_sub(offset)).unwrap_or(0);
        }
        if length == 0 && !bytes.is_empty() {
            return Err(Errno::NOSPC);
        }
        self.file_mut(number)?.write(offset, &bytes[..length]);
        Ok(length)
    }

    pub(crate) fn allocate(
        &mut self,
        number: u64,
        offset: u64,
        length: u64,
        keep_size: bool,
    ) -> Result<(), Errno> {
        if self.file(number)?.growth(offset, length) > self.room() {
            return Err(Errno::NOSPC);
        }
        self.file_mut(number)?.allocate(offset, length, keep_size);
        Ok(())
    }

    pub(crate) fn truncate(&mut self, number: u64, size: u64) -> Result<(), Errno> {
        self.file_mut(number)?.truncate(size);
        Ok(())
    }

    pub(crate) fn room(&self) -> u64 {
        self.capacity
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()))
    }

    /// `fsync` of a file, or `fdatasync`.
    pub(crate) fn sync_file(&mut self, number: u64, only_data: bool) -> Result<(), Errno> {
        let node = self.node_mut(number)?;
        if let Body::File(content) = &mut node.body {
            content.synced = content.now.clone();
        }
        if !only_data {
            node.mode.synced = node.mode.now;
        }
        Ok(())
    }

    /// `fsync` of a directory. A change that touches a second one is synced whole, and whatever came before it there.
    pub(crate) fn sync_directory(&mut self, number: u64) -> Result<(), Errno> {
        self.entries(number)?;
        self.sync_file(number, false)?;
        let mut touched = vec![number];
        let mut keep = Vec::new();
        let mut sync = Vec::new();
        for changes in std::mem::take(&mut self.pending).into_iter().rev() {
            if changes.iter().any(|change| touched.contains(&change.directory)) {
                touched.extend(changes.iter().map(|change| change.directory));
                sync.push(changes);
            } else {
                keep.push(changes);
            }
        }
        keep.reverse();
        self.pending = keep;
        for changes in sync.iter().rev() {
            self.settle(changes);
        }
        Ok(())
    }

    /// Syncs everything, as an orderly unmount does.
    pub fn sync(&mut self) {
        for changes in std::mem::take(&mut self.pending) {
            self.settle(&changes);
        }
        for node in self.nodes.values_mut() {
            let node = Arc::make_mut(node);
            if let Body::File(content) = &mut node.body {
                content.synced = content.now.clone();
            }
            node.mode.synced = node.mode.now;
        }
    }

    fn settle(&mut self, changes: &[Change]) {
        for Change { directory, name, to } in changes {
            if let Some(node) = self.nodes.get_mut(directory)
                && let Body::Directory(entries) = &mut Arc::make_mut(node).body
            {
                match to {
                    Some(to) => entries.synced.insert(name.clone(), *to),
                    None => entries.synced.remove(name),
                };
            }
        }
    }
}

impl Node {
    pub(crate) fn new(body: Body, mode: u16) -> Node {
        Node {
            mode: Now {
                now: mode,
                synced: mode,
            },
            body,
            links: 0,
            opens: 0,
        }
    }

    pub(crate) fn allocated(&self) -> u64 {
        match &self.body {
            Body::File(content) => content.now.allocated(),
            Body::Directory(_) => 0,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        match &self.body {
            Body::File(content) => content.now.size(),
            Body::Directory(_) => 0,
        }
    }
}

impl Change {
    fn new(directory: u64, name: &OsStr, to: Option<u64>) -> Change {
        Change {
            directory,
            name: name.to_owned(),
            to,
        }
    }
}
