//! The file system as programs see it, and what it forgets.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use quorate_testkit::disk::{Disk, Mount, Survival, every_cut, every_failure};
use rustix::fs::{CWD, FallocateFlags, FlockOperation, RenameFlags, fallocate, flock, renameat_with};

fn mount() -> Mount {
    Mount::of(&Disk::new()).unwrap()
}

fn found(disk: &Disk, survival: Survival) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    disk.after_the_cut(survival).copy_to(directory.path()).unwrap();
    directory
}

fn sync_directory(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

#[test]
fn programs_can_use_it() {
    let mount = mount();
    let at = |name: &str| mount.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    let bytes: Vec<u8> = (0..3_000_000).map(|n| (n % 253) as u8).collect();
    fs::write(at("a/b/file"), &bytes).unwrap();
    assert_eq!(fs::read(at("a/b/file")).unwrap(), bytes);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(at("a/b/file"))
        .unwrap();
    file.write_all_at(b"middle", 1_000_000).unwrap();
    let mut middle = [0; 8];
    file.read_exact_at(&mut middle, 999_999).unwrap();
    assert_eq!(&middle[1..7], b"middle");
    file.set_len(10).unwrap();
    file.set_len(20).unwrap();
    assert_eq!(fs::read(at("a/b/file")).unwrap()[10..], [0; 10]);
    fallocate(&file, FallocateFlags::empty(), 0, 100_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 100_000);
    file.set_permissions(Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(at("a/b/file")).unwrap().mode() & 0o7777, 0o640);

    fs::copy(at("a/b/file"), at("copy")).unwrap();
    assert_eq!(fs::read(at("copy")).unwrap(), fs::read(at("a/b/file")).unwrap());
    fs::hard_link(at("copy"), at("link")).unwrap();
    assert_eq!(fs::metadata(at("link")).unwrap().nlink(), 2);

    let refused = renameat_with(CWD, at("copy"), CWD, at("link"), RenameFlags::NOREPLACE);
    assert_eq!(refused, Err(rustix::io::Errno::EXIST));
    renameat_with(CWD, at("copy"), CWD, at("other"), RenameFlags::NOREPLACE).unwrap();
    fs::write(at("new"), b"new").unwrap();
    renameat_with(CWD, at("new"), CWD, at("other"), RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(at("other")).unwrap(), b"new");
    fs::rename(at("other"), at("link")).unwrap();
    assert_eq!(fs::read(at("link")).unwrap(), b"new");
    fs::rename(at("a/b"), at("b")).unwrap();
    let error = fs::rename(at("a"), at("b")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);

    // Open and unlinked, it is still there.
    let mut open = File::open(at("link")).unwrap();
    fs::remove_file(at("link")).unwrap();
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "new");
}

#[test]
fn many_files_are_listed_and_removed() {
    let mount = mount();
    let directory = mount.path().join("many");
    fs::create_dir(&directory).unwrap();
    for number in 0..500 {
        fs::write(directory.join(format!("file-with-a-long-name-{number}")), b"").unwrap();
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 500);
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
}

#[test]
fn locks_hold() {
    let mount = mount();
    let path = mount.path().join("db");
    let [first, second] = [(); 2].map(|()| OpenOptions::new().create(true).append(true).open(&path).unwrap());
    flock(&first, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(flock(&second, FlockOperation::NonBlockingLockExclusive).is_err());
    drop(first);
    flock(&second, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn a_mount_goes_even_while_a_file_on_it_is_open() {
    let mount = mount();
    let path = mount.path().to_owned();
    let mut file = File::create(path.join("a")).unwrap();
    drop(mount);
    assert!(!path.exists());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(path.to_str().unwrap()), "{mounts}");
    file.write_all(b"served until it is closed").unwrap();
}

#[test]
fn what_was_not_synced_is_forgotten() {
    let mount = mount();
    let path = mount.path().join("a");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"one").unwrap();
    file.sync_data().unwrap();
    assert!(!found(&mount.disk(), Survival::Synced).path().join("a").exists());
    sync_directory(mount.path());
    file.write_all(b"two").unwrap();
    let read = |survival| fs::read(found(&mount.disk(), survival).path().join("a")).unwrap();
    assert_eq!(read(Survival::Synced), b"one");
    assert_eq!(read(Survival::Everything), b"onetwo");
    file.sync_all().unwrap();
    assert_eq!(read(Survival::Synced), b"onetwo");

    fs::rename(&path, mount.path().join("b")).unwrap();
    let disk = mount.disk();
    assert!(found(&disk, Survival::Synced).path().join("a").exists());
    sync_directory(mount.path());
    assert!(found(&mount.disk(), Survival::Synced).path().join("b").exists());
}

#[test]
fn a_full_disk_says_so_and_has_room_again() {
    let mount = mount();
    mount.limit(100 * 1024);
    let path = mount.path().join("a");
    let error = fs::write(&path, vec![1; 200 * 1024]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(fs::metadata(&path).unwrap().len(), 100 * 1024);
    let file = File::open(&path).unwrap();
    assert!(fs::write(mount.path().join("b"), b"x").is_err());
    fs::remove_file(&path).unwrap();
    drop(file);
    let allocated = rustix::fs::statvfs(mount.path()).unwrap();
    assert_eq!(allocated.f_bfree, 25);
    fs::write(mount.path().join("b"), b"x").unwrap();
    assert_eq!(mount.disk().used(), 4096);
}

#[test]
fn short_writes_are_short() {
    let mount = mount();
    mount.short_writes(1);
    let mut file = File::create(mount.path().join("a")).unwrap();
    let bytes = [7; 5000];
    let written = (0..20).map(|_| file.write(&bytes).unwrap()).min().unwrap();
    assert!(written > 0 && written < bytes.len());
    fs::write(mount.path().join("b"), bytes).unwrap();
    assert_eq!(fs::read(mount.path().join("b")).unwrap(), bytes);
}

/// Three ways to replace a file; only the last is right, and only the last passes.
#[test]
fn careless_writers_are_caught() {
    const OLD: &[u8] = b"old content";
    const NEW: &[u8] = &[b'n'; 20_000];
    let replaced = |write: &dyn Fn(&Path)| {
        let from = tempfile::tempdir().unwrap();
        fs::write(from.path().join("a"), OLD).unwrap();
        let mut bad = 0;
        let tally = every_cut(&Disk::of(from.path()).unwrap(), 20, write, |cut, path| {
            let found = fs::read(path.join("a")).unwrap_or_default();
            let right = found == NEW || (found == OLD && !cut.is_after_the_end());
            bad += usize::from(!right);
        });
        assert!(tally.states >= tally.operations, "{tally:?}");
        bad
    };
    let in_place = replaced(&|path| fs::write(path.join("a"), NEW).unwrap());
    let renamed = replaced(&|path| {
        fs::write(path.join("b"), NEW).unwrap();
        fs::rename(path.join("b"), path.join("a")).unwrap();
        sync_directory(path);
    });
    let half_synced = replaced(&|path| {
        let mut file = File::create(path.join("b")).unwrap();
        file.write_all(NEW).unwrap();
        file.sync_all().unwrap();
        fs::rename(path.join("b"), path.join("a")).unwrap();
    });
    let synced = replaced(&|path| {
        let mut file = File::create(path.join("b")).unwrap();
        file.write_all(NEW).unwrap();
        file.sync_all().unwrap();
        fs::rename(path.join("b"), path.join("a")).unwrap();
        sync_directory(path);
    });
    assert!(in_place > 0 && renamed > 0 && half_synced > 0);
    assert_eq!(synced, 0);
}

#[test]
fn failures_come_at_every_operation_once() {
    let act = |path: &Path| -> io::Result<()> {
        fs::write(path.join("a"), b"x")?;
        File::open(path.join("a"))?.sync_all()?;
        fs::rename(path.join("a"), path.join("b"))
    };
    let mut results = Vec::new();
    let tally = every_failure(&Disk::new(), act, |failed, result, path| {
        assert_eq!(failed.is_some(), result.is_err());
        results.push((result.is_ok(), path.join("a").exists(), path.join("b").exists()));
    });
    // Create, write, sync, rename.
    assert_eq!(tally.operations, 4);
    assert_eq!(
        results,
        [
            (false, false, false),
            (false, true, false),
            (false, true, false),
            (false, true, false),
            (true, false, true),
        ]
    );
}
