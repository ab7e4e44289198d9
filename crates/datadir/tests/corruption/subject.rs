//! Files of real etcd that are changed, one bit or one length at a time, and put back.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use quorate_datadir::bolt::Bolt;
use quorate_datadir::{Error, Progress, defrag};
use quorate_testkit::{Client, Start, Workload, oldest_and_newest, shared_directory};

/// What one real etcd left.
pub struct Left {
    pub version: String,
    /// A snapshot, with its hash.
    pub snapshot: Vec<u8>,
    /// The database of the stopped member, with some of what is behind its pages.
    pub database: Vec<u8>,
    /// The same, defragmented by us: it has a list of free pages.
    pub rewritten: Vec<u8>,
    /// The first segment of its log, up to some zeros.
    pub log: Vec<u8>,
    /// A raft snapshot file.
    pub snap: Vec<u8>,
}

/// The oldest and the newest etcd, with every kind of page in their databases. Made once for all test processes.
pub fn all() -> Vec<Left> {
    oldest_and_newest().iter().map(|version| left(version)).collect()
}

fn left(version: &str) -> Left {
    let key = [version, include_str!("subject.rs")];
    let tmpdir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let made = shared_directory(tmpdir, "corruption", &key, |to| {
        let left = leave(version);
        for (name, bytes) in [
            ("snapshot", &left.snapshot),
            ("database", &left.database),
            ("rewritten", &left.rewritten),
            ("log", &left.log),
            ("snap", &left.snap),
        ] {
            fs::write(to.join(name), bytes).unwrap();
        }
    });
    let read = |name: &str| fs::read(made.join(name)).unwrap();
    Left {
        version: version.to_owned(),
        snapshot: read("snapshot"),
        database: read("database"),
        rewritten: read("rewritten"),
        log: read("log"),
        snap: read("snap"),
    }
}

fn leave(version: &str) -> Left {
    let root = tempfile::tempdir().unwrap();
    let data_dir = root.path().join("data");
    let server = Start::new(version, &data_dir)
        .flag("--snapshot-count=300")
        .flag("--unsafe-no-fsync")
        .serve();
    let mut client = server.client();
    write(&client);
    let user = Workload::Auth.run(&mut client);
    let snapshot = root.path().join("snapshot");
    server.etcdctl(user.as_ref(), &["snapshot", "save", snapshot.to_str().unwrap()]);
    drop(client);
    server.stop();
    let db = data_dir.join("member/snap/db");
    let bolt = Bolt::open(&db).unwrap();
    let (size, page) = (bolt.size(), u64::from(bolt.page_size()));
    drop(bolt);
    let mut database = fs::read(&db).unwrap();
    database.resize(usize::try_from(size + 2 * page).unwrap(), 0);
    let rewritten = root.path().join("rewritten");
    fs::write(&rewritten, &database[..usize::try_from(size).unwrap()]).unwrap();
    defrag(&rewritten, &Progress::new()).unwrap();
    Left {
        version: version.to_owned(),
        snapshot: fs::read(&snapshot).unwrap(),
        database,
        rewritten: fs::read(&rewritten).unwrap(),
        log: log(&first(&data_dir.join("member/wal"), "wal")),
        snap: fs::read(first(&data_dir.join("member/snap"), "snap")).unwrap(),
    }
}

/// Branches, overflow, inline buckets, history from before and after a compaction, pages that it left free.
fn write(client: &Client) {
    for number in 0..400_u32 {
        let key = format!("/registry/things/{:03}", number % 70);
        client.put(key.as_bytes(), &vec![number as u8; (number % 97) as usize * 4]);
    }
    client.grant(7, 100_000);
    client.put_with_lease(b"leased", b"x", 7);
    client.put(b"large", &[b'v'; 9000]);
    let deletion = client.delete(b"/registry/things/00", b"/registry/things/01");
    client.compact(deletion - 150);
    client.put(b"after", b"");
}

fn log(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes.truncate(end.next_multiple_of(4096) + 4096);
    bytes
}

fn first(directory: &Path, ending: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == ending))
        .collect();
    found.sort();
    found.into_iter().next().unwrap()
}

/// A file that is changed and put back.
pub struct Changing {
    pub path: PathBuf,
    file: File,
    bytes: Vec<u8>,
    _directory: tempfile::TempDir,
}

impl Changing {
    pub fn new(name: &str, bytes: &[u8]) -> Changing {
        let memory = Path::new("/dev/shm");
        let directory = match memory.is_dir() {
            true => tempfile::tempdir_in(memory).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        Changing {
            file: File::options().read(true).write(true).open(&path).unwrap(),
            bytes: bytes.to_vec(),
            path,
            _directory: directory,
        }
    }

    /// With one bit flipped.
    pub fn flipped<T>(&self, bit: usize, look: impl FnOnce(&Path) -> T) -> T {
        let (offset, mask) = (bit / 8, 1 << (bit % 8));
        let byte = self.bytes[offset];
        self.file.write_all_at(&[byte ^ mask], offset as u64).unwrap();
        let seen = look(&self.path);
        self.file.write_all_at(&[byte], offset as u64).unwrap();
        seen
    }

    /// Cut to a length.
    pub fn cut<T>(&self, length: usize, look: impl FnOnce(&Path) -> T) -> T {
        self.file.set_len(length as u64).unwrap();
        let seen = look(&self.path);
        self.file
            .write_all_at(&self.bytes[length..], length as u64)
            .unwrap();
        seen
    }
}

/// A bucket's name, a key and a value.
pub type Row = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Every row of every bucket.
pub fn rows(path: &Path) -> Result<Vec<Row>, Error> {
    let bolt = Bolt::open(path)?;
    let mut all = Vec::new();
    for (name, _) in bolt.buckets()? {
        let mut rows = bolt.bucket(&name)?.unwrap();
        all.push((name.clone(), Vec::new(), Vec::new()));
        while let Some((key, value)) = rows.next()? {
            all.push((name.clone(), key.to_vec(), value.to_vec()));
        }
    }
    Ok(all)
}
