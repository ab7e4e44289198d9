//! The kernel's questions, answered from a [`Disk`].
//!
//! In: FUSE requests, one at a time. Out: what the disk says, or EIO once it is to fail. Locks of files are left to
//! the kernel; what is not served here the kernel does itself or refuses.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::io::Errno;

use super::content::BLOCK;
use super::mount::{State, locked};
use super::volume::{Body, Disk, Rename};

/// Nothing but the kernel's own requests changes the disk, so it may remember all it was told.
const VALID: Duration = Duration::from_secs(3600);
const GENERATION: Generation = Generation(0);
/// What a disk without a limit says of itself.
const VAST: u64 = 1 << 40;

#[derive(Debug)]
pub(crate) struct Serve {
    state: Arc<Mutex<State>>,
    listings: Mutex<Listings>,
    owner: (u32, u32),
    mounted: SystemTime,
}

/// A directory is listed as it was when it was opened, so that deleting while listing skips nothing.
#[derive(Debug, Default)]
struct Listings {
    next: u64,
    open: std::collections::BTreeMap<u64, Vec<(OsString, u64, FileType)>>,
}

impl Serve {
    pub(crate) fn new(state: Arc<Mutex<State>>) -> Serve {
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        Serve {
            state,
            listings: Mutex::default(),
            owner: (uid.as_raw(), gid.as_raw()),
            mounted: SystemTime::now(),
        }
    }

    /// Asks the disk something that does not change it.
    fn ask<T>(&self, question: impl FnOnce(&mut Disk) -> Result<T, Errno>) -> Result<T, fuser::Errno> {
        let mut state = locked(&self.state);
        let operations = state.operations;
        state.answers(operations)?;
        question(&mut state.disk).map_err(code)
    }

    /// Changes or syncs something: one operation.
    fn act<T>(&self, action: impl FnOnce(&mut State) -> Result<T, Errno>) -> Result<T, fuser::Errno> {
        let mut state = locked(&self.state);
        let before = state.operations;
        state.operations += 1;
        state.answers(before)?;
        let done = action(&mut state).map_err(code)?;
        let State { disk, history, .. } = &mut *state;
        if let Some(history) = history {
            history.push(disk.clone());
        }
        Ok(done)
    }

    fn attributes(&self, disk: &Disk, number: u64) -> Result<FileAttr, Errno> {
        let node = disk.node(number)?;
        Ok(FileAttr {
            ino: INodeNo(number),
            size: node.size(),
            blocks: node.allocated() / 512,
            atime: self.mounted,
            mtime: self.mounted,
            ctime: self.mounted,
            crtime: self.mounted,
            kind: kind(&node.body),
            perm: node.mode.now,
            nlink: node.links,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        })
    }

    fn make(
        &self,
        parent: INodeNo,
        name: &OsStr,
        is_directory: bool,
        mode: u32,
    ) -> Result<FileAttr, fuser::Errno> {
        self.act(|state| {
            let mode = (mode & 0o7777) as u16;
            let number = state.disk.make(parent.0, name, is_directory, mode)?;
            self.attributes(&state.disk, number)
        })
    }

    fn opened(&self, number: u64) -> Result<(), fuser::Errno> {
        self.ask(|disk| {
            disk.node_mut(number)?.opens += 1;
            Ok(())
        })
    }
}

impl State {
    /// Whether the disk still answers after so many operations.
    fn answers(&mut self, operations: usize) -> Result<(), fuser::Errno> {
        if self.fails_from.is_some_and(|from| operations >= from) {
            self.has_failed = true;
            return Err(code(Errno::IO));
        }
        Ok(())
    }
}

fn code(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

fn kind(body: &Body) -> FileType {
    match body {
        Body::File(_) => FileType::RegularFile,
        Body::Directory(_) => FileType::Directory,
    }
}

macro_rules! answer {
    ($reply:ident, $result:expr, $good:pat => $say:expr) => {
        match $result {
            Ok($good) => $say,
            Err(errno) => $reply.error(errno),
        }
    };
}

impl Filesystem for Serve {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.ask(|disk| {
            let number = disk.lookup(parent.0, name)?;
            self.attributes(disk, number)
        });
        answer!(reply, found, attributes => reply.entry(&VALID, &attributes, GENERATION));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.ask(|disk| self.attributes(disk, ino.0));
        answer!(reply, found, attributes => reply.attr(&VALID, &attributes));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let done = self.act(|state| {
            if let Some(size) = size {
                state.disk.truncate(ino.0, size)?;
            }
            if let Some(mode) = mode {
                state.disk.node_mut(ino.0)?.mode.now = (mode & 0o7777) as u16;
            }
            self.attributes(&state.disk, ino.0)
        });
        answer!(reply, done, attributes => reply.attr(&VALID, &attributes));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let made = self.make(parent, name, true, mode);
        answer!(reply, made, attributes => reply.entry(&VALID, &attributes, GENERATION));
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.make(parent, name, false, mode);
        answer!(reply, made, attributes => reply.entry(&VALID, &attributes, GENERATION));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.act(|state| {
            let number = state.disk.make(parent.0, name, false, (mode & 0o7777) as u16)?;
            state.disk.node_mut(number)?.opens += 1;
            self.attributes(&state.disk, number)
        });
        answer!(reply, made, attributes => {
            reply.created(&VALID, &attributes, GENERATION, FileHandle(0), FopenFlags::empty());
        });
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let done = self.act(|state| {
            state.disk.link(ino.0, parent.0, name)?;
            self.attributes(&state.disk, ino.0)
        });
        answer!(reply, done, attributes => reply.entry(&VALID, &attributes, GENERATION));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.act(|state| state.disk.unlink(parent.0, name)), () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.act(|state| state.disk.rmdir(parent.0, name)), () => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            RenameFlags::RENAME_NOREPLACE => Rename::NoReplace,
            RenameFlags::RENAME_EXCHANGE => Rename::Exchange,
            other if other.is_empty() => Rename::Replace,
            _ => return reply.error(code(Errno::INVAL)),
        };
        let done = self.act(|state| state.disk.rename((parent.0, name), (newparent.0, newname), how));
        answer!(reply, done, () => reply.ok());
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.opened(ino.0), () => reply.opened(FileHandle(0), FopenFlags::empty()));
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.ask(|disk| Ok(disk.file(ino.0)?.read(offset, size as usize)));
        answer!(reply, read, bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let done = self.act(|state| {
            let length = match &mut state.short_writes {
                Some(rng) if data.len() > 1 => rng.usize(1..=data.len()),
                _ => data.len(),
            };
            state.disk.write(ino.0, offset, &data[..length])
        });
        answer!(reply, done, written => reply.written(written as u32));
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        // Closing succeeds on a dead disk too.
        if let Ok(node) = locked(&self.state).disk.node_mut(ino.0) {
            node.opens = node.opens.saturating_sub(1);
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, datasync: bool, reply: ReplyEmpty) {
        answer!(reply, self.act(|state| state.disk.sync_file(ino.0, datasync)), () => reply.ok());
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let listed = self.ask(|disk| {
            let entries = disk.entries(ino.0)?.iter();
            let listed = entries.map(|(name, to)| Ok((name.clone(), *to, kind(&disk.node(*to)?.body))));
            listed.collect::<Result<Vec<_>, Errno>>()
        });
        answer!(reply, listed, listed => {
            let mut listings = self.listings();
            listings.next += 1;
            let handle = listings.next;
            listings.open.insert(handle, listed);
            reply.opened(FileHandle(handle), FopenFlags::empty());
        });
    }

    fn readdir(&self, _: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if let Err(errno) = self.ask(|_| Ok(())) {
            return reply.error(errno);
        }
        let own = [".", ".."].map(|name| (OsString::from(name), ino.0, FileType::Directory));
        let listings = self.listings();
        let listed = listings.open.get(&fh.0).map_or(&[][..], |listed| listed);
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, (name, number, kind)) in own.iter().chain(listed).enumerate().skip(from) {
            if reply.add(INodeNo(*number), index as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings().open.remove(&fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, self.act(|state| state.disk.sync_directory(ino.0)), () => reply.ok());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let size = self.ask(|disk| Ok((disk.capacity.unwrap_or(VAST), disk.used())));
        answer!(reply, size, (all, used) => {
            let block = BLOCK as u64;
            let free = all.saturating_sub(used) / block;
            reply.statfs(all / block, free, free, 1 << 20, 1 << 20, BLOCK as u32, 255, BLOCK as u32);
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP_SIZE: i32 = 1;
        if mode & !KEEP_SIZE != 0 {
            return reply.error(code(Errno::OPNOTSUPP));
        }
        let done = self.act(|state| state.disk.allocate(ino.0, offset, length, mode == KEEP_SIZE));
        answer!(reply, done, () => reply.ok());
    }
}

impl Serve {
    fn listings(&self) -> std::sync::MutexGuard<'_, Listings> {
        self.listings
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
