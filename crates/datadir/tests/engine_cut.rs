//! Restoring and defragmenting on a disk whose power goes, which fails at any operation, or which fills up: nothing, or
//! the whole; and what was there before stays as it was.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use quorate_datadir::wal::End;
use quorate_datadir::{
    Arrival, Assembly, Base, Error, HashKv, Landing, Members, Progress, Restore, Seat, Source, db_path,
    defrag, inspect, restore, restore_members, verify,
};
use quorate_testkit::disk::{Disk, Mount, every_cut, every_failure};

const SEEDS: u64 = 24;

/// Snapshots of real etcd, the smallest there are.
fn snapshots() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/bolt");
    let mut found: Vec<PathBuf> = fs::read_dir(corpus)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            !path.to_string_lossy().contains("pages-of") && !path.to_string_lossy().contains("broken")
        })
        .collect();
    found.sort();
    assert!(found.len() >= 2, "{found:?}");
    found
}

fn with_a_snapshot(snapshot: &Path) -> Disk {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(snapshot, directory.path().join("snapshot.db")).unwrap();
    Disk::of(directory.path()).unwrap()
}

fn wanted(path: &Path) -> Restore {
    Restore {
        snapshot: path.join("snapshot.db"),
        data_dir: path.join("data"),
        wal_dir: None,
        name: "m0".to_owned(),
        initial_cluster: "m0=http://127.0.0.1:2380".to_owned(),
        token: "t".to_owned(),
        peer_urls: "http://127.0.0.1:2380".to_owned(),
        skip_hash_check: false,
        bump: None,
        to_revision: None,
        for_version: None,
    }
}

fn hash(path: &Path) -> HashKv {
    let source = Source::open(path).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
    verify(&source, &Progress::new())
        .unwrap_or_else(|error| panic!("{}: {error:?}", path.display()))
        .hash_kv
}

/// A restored directory that etcd can start from: the database is intact, and so is the log.
fn is_whole(data_dir: &Path, expected: &HashKv) {
    assert_eq!(&hash(data_dir), expected);
    let inspection = inspect(data_dir).unwrap();
    assert_eq!(inspection.end, End::Clean, "{inspection:?}");
    assert!(
        inspection.member_id.is_some() && inspection.last_index > 0,
        "{inspection:?}"
    );
    assert!(
        inspection.snap_files.iter().all(|file| file.content.is_ok()),
        "{inspection:?}"
    );
}

#[test]
fn a_restored_directory_is_there_whole_or_not_at_all() {
    for snapshot in snapshots() {
        for in_an_empty_directory in [false, true] {
            let before = fs::read(&snapshot).unwrap();
            let expected = hash(&snapshot);
            let start = tempfile::tempdir().unwrap();
            fs::copy(&snapshot, start.path().join("snapshot.db")).unwrap();
            if in_an_empty_directory {
                fs::create_dir(start.path().join("data")).unwrap();
            }
            let start = Disk::of(start.path()).unwrap();
            let act = |path: &Path| {
                restore(&wanted(path), &Progress::new()).unwrap();
            };
            let tally = every_cut(&start, SEEDS, act, |cut, path| {
                assert!(fs::read(path.join("snapshot.db")).unwrap() == before);
                let data = path.join("data");
                if data.join("member").exists() {
                    is_whole(&data, &expected);
                } else {
                    assert!(!cut.is_after_the_end());
                    let beside = |it: &Path| fs::read_dir(it).map_or(0, Iterator::count);
                    assert!(
                        beside(&data) <= 1,
                        "only the directory under construction may be in it"
                    );
                }
            });
            println!("{}: {tally:?}", snapshot.display());
        }
    }
}

/// A snapshot that comes from elsewhere.
#[derive(Debug)]
struct Elsewhere(Vec<u8>);

impl Arrival for Elsewhere {
    fn arrive(&mut self, landing: &Landing, progress: &Progress) -> Result<(), Error> {
        for (number, piece) in self.0.chunks(5000).enumerate().rev() {
            landing.write_at(piece, number as u64 * 5000)?;
            progress.add(piece.len() as u64)?;
        }
        Ok(())
    }

    fn is_vouched_for(&self) -> bool {
        false
    }
}

#[test]
fn members_made_of_what_arrives_are_whole_or_not_there() {
    let snapshot = &snapshots()[0];
    let (bytes, expected) = (fs::read(snapshot).unwrap(), hash(snapshot));
    let seat = |path: &Path, number: u16| Seat {
        name: format!("m{number}"),
        peer_urls: format!("http://127.0.0.1:{}", 2380 + number),
        data_dir: path.join(format!("data-{number}")),
        wal_dir: None,
    };
    let act = |path: &Path| {
        let members = Members {
            initial_cluster: "m0=http://127.0.0.1:2380,m1=http://127.0.0.1:2381".to_owned(),
            token: "t".to_owned(),
            seats: vec![seat(path, 0), seat(path, 1)],
            bump: None,
            for_version: None,
        };
        let mut arrival = Elsewhere(bytes.clone());
        let assembly = Assembly::of(Base::Arriving(&mut arrival));
        restore_members(&members, assembly, &Progress::new()).map(drop)
    };
    let empty = Disk::of(tempfile::tempdir().unwrap().path()).unwrap();
    let whole = |path: &Path| {
        let there = [0, 1].map(|number| path.join(format!("data-{number}")));
        let there: Vec<&PathBuf> = there.iter().filter(|dir| dir.exists()).collect();
        there.iter().for_each(|dir| is_whole(dir, &expected));
        there.len()
    };
    let tally = every_cut(
        &empty,
        SEEDS / 2,
        |path| act(path).unwrap(),
        |cut, path| assert!(whole(path) == 2 || !cut.is_after_the_end(), "{cut}"),
    );
    println!("{tally:?}");
    every_failure(&empty, act, |failed, result, path| {
        assert!(failed.is_some() || result.is_ok(), "{result:?}");
        assert!(whole(path) == 2 || result.is_err(), "{result:?}");
    });
    assert!(fills_up(&empty, act) > 3);
}

#[test]
fn a_restore_can_be_tried_again_after_any_cut() {
    let snapshot = &snapshots()[0];
    let expected = hash(snapshot);
    every_cut(
        &with_a_snapshot(snapshot),
        2,
        |path| {
            restore(&wanted(path), &Progress::new()).unwrap();
        },
        |_, path| {
            if !path.join("data").exists() {
                restore(&wanted(path), &Progress::new()).unwrap();
            }
            is_whole(&path.join("data"), &expected);
            assert_eq!(names(path), ["data", "snapshot.db"]);
        },
    );
}

#[test]
fn a_restore_that_fails_says_so_and_gives_no_directory_its_name() {
    let snapshot = &snapshots()[1];
    let expected = hash(snapshot);
    let tally = every_failure(
        &with_a_snapshot(snapshot),
        |path| restore(&wanted(path), &Progress::new()),
        |failed, result, path| {
            assert!(failed.is_some() || result.is_ok(), "{result:?}");
            match path.join("data").exists() {
                true => is_whole(&path.join("data"), &expected),
                false => assert!(result.is_err()),
            }
        },
    );
    println!("{tally:?}");
}

#[test]
fn a_database_is_defragmented_or_as_it_was() {
    for snapshot in snapshots() {
        let expected = hash(&snapshot);
        let start = restored(&snapshot);
        let act = |path: &Path| {
            defrag(&path.join("data"), &Progress::new()).unwrap();
        };
        let length = |path: &Path| fs::metadata(db_path(&path.join("data"))).unwrap().len();
        let mut lengths = Vec::new();
        let tally = every_cut(&start, SEEDS, act, |cut, path| {
            is_whole(&path.join("data"), &expected);
            lengths.push((cut.is_after_the_end(), length(path)));
        });
        println!("{}: {tally:?}", snapshot.display());
        let after = lengths.iter().find(|(end, _)| *end).unwrap().1;
        assert!(
            lengths.iter().all(|(end, length)| !end || *length == after),
            "{lengths:?}"
        );

        let whole = fs::read(&snapshot).unwrap();
        let act = |path: &Path| {
            defrag(&path.join("snapshot.db"), &Progress::new()).unwrap();
        };
        every_cut(&with_a_snapshot(&snapshot), SEEDS, act, |cut, path| {
            let file = path.join("snapshot.db");
            assert_eq!(hash(&file), expected);
            assert!(!cut.is_after_the_end() || fs::read(&file).unwrap() != whole);
        });
    }
}

#[test]
fn a_defragmentation_that_fails_says_so_and_leaves_a_database() {
    let snapshot = &snapshots()[0];
    let expected = hash(snapshot);
    let tally = every_failure(
        &restored(snapshot),
        |path| defrag(&path.join("data"), &Progress::new()),
        |failed, result, path| {
            assert!(failed.is_some() || result.is_ok(), "{result:?}");
            is_whole(&path.join("data"), &expected);
        },
    );
    println!("{tally:?}");
}

/// For every room there may be up to the one that suffices: a clear error, and not a file more than before.
#[test]
fn a_full_disk_is_named_and_nothing_is_left_on_it() {
    let snapshot = &snapshots()[1];
    let expected = hash(snapshot);
    let restoring = with_a_snapshot(snapshot);
    let full = fills_up(&restoring, |path| {
        restore(&wanted(path), &Progress::new()).map(drop)
    });
    assert!(full > 3, "the disk was full only {full} times");
    let database = restored(snapshot);
    let full = fills_up(&database, |path| {
        let result = defrag(&path.join("data"), &Progress::new()).map(drop);
        is_whole(&path.join("data"), &expected);
        result
    });
    assert!(full > 3, "the disk was full only {full} times");
}

fn fills_up(start: &Disk, act: impl Fn(&Path) -> Result<(), Error>) -> usize {
    let before = contents(start);
    for room in 0..1000 {
        let mount = Mount::of(start).unwrap();
        mount.limit(start.used() + room * 4096);
        match act(mount.path()) {
            Ok(()) => return usize::try_from(room).unwrap(),
            Err(error) => {
                assert!(is_full(&error), "with room for {room} pages: {error:?}");
                assert!(!error.to_string().is_empty());
                assert_eq!(contents(&mount.disk()), before, "with room for {room} pages");
            }
        }
    }
    panic!("no room suffices");
}

fn is_full(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if error
            .downcast_ref::<io::Error>()
            .is_some_and(|it| it.kind() == io::ErrorKind::StorageFull)
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// Every file by its path, with its bytes.
fn contents(disk: &Disk) -> Vec<(PathBuf, Vec<u8>)> {
    fn walk(root: &Path, at: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if path.is_dir() {
                found.push((name, Vec::new()));
                walk(root, &path, found);
            } else {
                found.push((name, fs::read(&path).unwrap()));
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    disk.copy_to(directory.path()).unwrap();
    let mut found = Vec::new();
    walk(directory.path(), directory.path(), &mut found);
    found.sort();
    found
}

/// A disk with a restored directory on it.
fn restored(snapshot: &Path) -> Disk {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(snapshot, directory.path().join("snapshot.db")).unwrap();
    restore(&wanted(directory.path()), &Progress::new()).unwrap();
    fs::remove_file(directory.path().join("snapshot.db")).unwrap();
    Disk::of(directory.path()).unwrap()
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
