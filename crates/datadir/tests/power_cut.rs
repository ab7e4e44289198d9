//! Files of ours, on a disk whose power goes or which fails at every operation.

use std::fs;
use std::path::Path;

use quorate_datadir::durable;
use quorate_datadir::move_aside;
use quorate_testkit::disk::{Disk, Mount, every_cut, every_failure};

const OLD: &[u8] = b"old";
const NEW: &[u8] = &[b'n'; 3 * 4096 + 1];
const SEEDS: u64 = 20;

fn with_the_old_file() -> Disk {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a"), OLD).unwrap();
    Disk::of(directory.path()).unwrap()
}

#[test]
fn a_durable_write_leaves_the_old_content_or_the_new() {
    let tally = every_cut(
        &with_the_old_file(),
        SEEDS,
        |path| durable::write(&path.join("a"), NEW).unwrap(),
        |cut, path| {
            let found = fs::read(path.join("a")).unwrap();
            assert!(found == NEW || (found == OLD && !cut.is_after_the_end()), "{cut}");
        },
    );
    // Create, write, permissions, sync, rename, sync of the directory.
    assert!(
        tally.operations >= 6 && tally.states > tally.operations,
        "{tally:?}"
    );
}

#[test]
fn a_fast_write_may_be_lost_and_the_tests_can_tell() {
    let mut lost = 0;
    every_cut(
        &with_the_old_file(),
        SEEDS,
        |path| durable::write_fast(&path.join("a"), NEW).unwrap(),
        |_, path| {
            let found = fs::read(path.join("a")).unwrap();
            lost += usize::from(found != OLD && found != NEW);
        },
    );
    assert!(lost > 0);
}

#[test]
fn a_durable_write_that_fails_says_so_and_leaves_the_old_content_or_the_new() {
    every_failure(
        &with_the_old_file(),
        |path| durable::write(&path.join("a"), NEW),
        |failed, result, path| {
            assert!(failed.is_some() || result.is_ok(), "{result:?}");
            let found = fs::read(path.join("a")).unwrap();
            assert!(found == NEW || (found == OLD && result.is_err()), "{result:?}");
        },
    );
}

#[test]
fn a_durable_write_on_a_full_disk_leaves_nothing_of_itself() {
    let mount = Mount::of(&with_the_old_file()).unwrap();
    mount.limit(2 * 4096);
    let error = durable::write(&mount.path().join("a"), NEW).unwrap_err();
    assert_eq!(error.source.kind(), std::io::ErrorKind::StorageFull, "{error}");
    assert_eq!(fs::read(mount.path().join("a")).unwrap(), OLD);
    assert_eq!(names(mount.path()), ["a"]);
}

#[test]
fn a_durable_write_is_whole_though_the_disk_takes_it_in_pieces() {
    let mount = Mount::of(&with_the_old_file()).unwrap();
    mount.short_writes(7);
    durable::write(&mount.path().join("a"), NEW).unwrap();
    assert_eq!(fs::read(mount.path().join("a")).unwrap(), NEW);
}

/// Neither lost nor doubled, and after the end it is aside.
#[test]
fn a_directory_moved_aside_is_in_one_place() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("data/member/snap")).unwrap();
    fs::write(directory.path().join("data/member/snap/db"), OLD).unwrap();
    let start = Disk::of(directory.path()).unwrap();
    let tally = every_cut(
        &start,
        SEEDS,
        |path| move_aside(&path.join("data"), &path.join("aside")).unwrap(),
        |cut, path| {
            let there = ["data", "aside"].map(|name| {
                let read = fs::read(path.join(name).join("member/snap/db"));
                read.is_ok_and(|content| content == OLD)
            });
            assert!(
                there == [false, true] || (there == [true, false] && !cut.is_after_the_end()),
                "{cut}: {there:?}"
            );
        },
    );
    assert!(tally.operations >= 2, "{tally:?}");
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}
