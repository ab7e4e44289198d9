//! `quorate snapshot save` onto a disk whose power goes, which fails at any operation, or which fills up: the older file
//! or the new one, whole.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use quorate_testkit::disk::{Disk, Mount, every_cut, every_failure};
use quorate_testkit::{Server, Start, newest};

const OLDER: &[u8] = b"what was saved before";

/// A member with something to save, and a disk with an older file.
fn ground() -> (tempfile::TempDir, Server, Disk) {
    let root = tempfile::tempdir().unwrap();
    let server = Start::new(&newest("3.6"), &root.path().join("data")).serve();
    let client = server.client();
    for number in 0..50_u8 {
        client.put(&[number], &[number; 2000]);
    }
    let before = tempfile::tempdir().unwrap();
    fs::write(before.path().join("saved"), OLDER).unwrap();
    (root, server, Disk::of(before.path()).unwrap())
}

fn save(server: &Server, path: &Path) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_quorate"))
        .args(["snapshot", "save", "--endpoints", &server.addresses().client])
        .arg(path.join("saved"))
        .stdin(Stdio::null())
        .output();
    output.expect("the binary can be run")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The older file, or a snapshot that is intact. Which of them.
fn is_new(path: &Path) -> bool {
    let file = path.join("saved");
    if fs::read(&file).unwrap() == OLDER {
        return false;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_quorate"))
        .args(["snapshot", "verify"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", words(&output));
    true
}

#[test]
fn the_older_snapshot_or_the_new_one_is_there_after_any_cut() {
    let (_root, server, start) = ground();
    let act = |path: &Path| {
        let output = save(&server, path);
        assert!(output.status.success(), "{}", words(&output));
    };
    let tally = every_cut(&start, 10, act, |cut, path| {
        assert!(is_new(path) || !cut.is_after_the_end());
    });
    assert!(tally.operations > 4, "{tally:?}");
    server.stop();
}

#[test]
fn a_save_onto_a_disk_that_fails_or_fills_up_says_so() {
    let (_root, server, start) = ground();
    every_failure(
        &start,
        |path| save(&server, path),
        |failed, output, path| {
            assert!(failed.is_some() || output.status.success(), "{}", words(&output));
            // Told that it was saved, it is; told that it was not, it may be, but then whole.
            assert!(is_new(path) || !output.status.success());
        },
    );
    for room in [0, 1, 5, 20] {
        let mount = Mount::of(&start).unwrap();
        mount.limit(start.used() + room * 4096);
        let output = save(&server, mount.path());
        let said = words(&output);
        assert!(
            !output.status.success() && said.contains("No space left"),
            "{said}"
        );
        assert!(said.contains("Nothing there was changed."), "{said}");
        assert!(!is_new(mount.path()));
        assert_eq!(
            fs::read_dir(mount.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }
    server.stop();
}
