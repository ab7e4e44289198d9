//! A disk's files, put into a plain directory and taken from one.

use std::fs::{self, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::content::BLOCK;
use super::volume::{Body, Disk, Entries, ROOT};

/// How much is copied at once.
const PIECE: usize = 256 * BLOCK;

impl Disk {
    /// A disk with a copy of what is in a directory: files and directories, nothing else. All of it is synced.
    pub fn of(directory: &Path) -> io::Result<Disk> {
        let mut disk = Disk::new();
        disk.load(ROOT, directory)?;
        disk.sync();
        Ok(disk)
    }

    fn load(&mut self, into: u64, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let mode = (metadata.permissions().mode() & 0o7777) as u16;
            let number = self.make(into, &entry.file_name(), metadata.is_dir(), mode)?;
            if metadata.is_dir() {
                self.load(number, &entry.path())?;
                continue;
            }
            let file = fs::File::open(entry.path())?;
            let mut offset = 0;
            let mut piece = vec![0; PIECE];
            loop {
                let read = file.read_at(&mut piece, offset)?;
                if read == 0 {
                    break;
                }
                // Holes stay holes.
                for (index, block) in piece[..read].chunks(BLOCK).enumerate() {
                    if block.iter().any(|byte| *byte != 0) {
                        self.write(number, offset + (index * BLOCK) as u64, block)?;
                    }
                }
                offset += read as u64;
            }
            self.truncate(number, offset)?;
        }
        Ok(())
    }

    /// Copies what programs see on the disk into an empty directory.
    pub fn copy_to(&self, directory: &Path) -> io::Result<()> {
        self.copy_entries(self.entries(ROOT)?, directory)
    }

    fn copy_entries(&self, entries: &Entries, directory: &Path) -> io::Result<()> {
        for (name, number) in entries {
            let (node, path) = (self.node(*number)?, directory.join(name));
            match &node.body {
                Body::Directory(entries) => {
                    fs::create_dir(&path)?;
                    self.copy_entries(&entries.now, &path)?;
                }
                Body::File(content) => {
                    let file = OpenOptions::new()
                        .write(true)
                        .create_new(true)
                        .mode(0o600)
                        .open(&path)?;
                    file.set_len(content.now.size())?;
                    for offset in (0..content.now.size()).step_by(PIECE) {
                        let piece = content.now.read(offset, PIECE);
                        if piece.iter().any(|byte| *byte != 0) {
                            file.write_all_at(&piece, offset)?;
                        }
                    }
                }
            }
            fs::set_permissions(&path, Permissions::from_mode(node.mode.now.into()))?;
        }
        Ok(())
    }

    /// Equal for disks on which programs see the same.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash_node(ROOT, &mut hasher);
        hasher.finish()
    }

    fn hash_node(&self, number: u64, hasher: &mut DefaultHasher) {
        let Ok(node) = self.node(number) else { return };
        node.mode.now.hash(hasher);
        match &node.body {
            Body::File(content) => {
                content.now.size().hash(hasher);
                for offset in (0..content.now.size()).step_by(PIECE) {
                    content.now.read(offset, PIECE).hash(hasher);
                }
            }
            Body::Directory(entries) => {
                for (name, number) in &entries.now {
                    name.hash(hasher);
                    self.hash_node(*number, hasher);
                }
                entries.now.len().hash(hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn a_directory_survives_the_way_in_and_out() {
        let from = tempfile::tempdir().unwrap();
        fs::create_dir_all(from.path().join("a/b")).unwrap();
        let bytes: Vec<u8> = (0..2 * PIECE + 5).map(|n| (n / 7) as u8).collect();
        fs::write(from.path().join("a/b/c"), &bytes).unwrap();
        fs::write(from.path().join("empty"), b"").unwrap();
        fs::set_permissions(from.path().join("empty"), Permissions::from_mode(0o640)).unwrap();
        let disk = Disk::of(from.path()).unwrap();
        let to = tempfile::tempdir().unwrap();
        disk.copy_to(to.path()).unwrap();
        assert_eq!(fs::read(to.path().join("a/b/c")).unwrap(), bytes);
        let mode = fs::metadata(to.path().join("empty"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o640);
        let mut again = Disk::of(to.path()).unwrap();
        assert_eq!(again.fingerprint(), disk.fingerprint());
        let file = again.lookup(ROOT, OsStr::new("empty")).unwrap();
        again.write(file, 0, b"x").unwrap();
        assert_ne!(again.fingerprint(), disk.fingerprint());
    }
}
