//! Data directories of real etcd, every version in the cache: what is seen in them is what etcd said.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quorate_datadir::{
    Attempt, Db, DbLock, Error, Identity, Look, Replay, db_path, look, move_aside, replay,
};

/// The etcd binaries in the cache, oldest version first.
fn binaries() -> Vec<(String, PathBuf)> {
    let from = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = from("QUORATE_CACHE").unwrap_or_else(|| {
        let base = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|home| home.join(".cache")));
        base.unwrap_or_default().join("quorate")
    });
    let mut found: Vec<(semver::Version, PathBuf)> = Vec::new();
    for entry in fs::read_dir(cache.join("etcd")).into_iter().flatten().flatten() {
        let version = entry
            .file_name()
            .to_str()
            .and_then(|name| semver::Version::parse(name).ok());
        let binary = entry.path().join("etcd");
        if let Some(version) = version.filter(|_| binary.is_file()) {
            found.push((version, binary));
        }
    }
    found.sort();
    assert!(
        !found.is_empty(),
        "no etcd in {}: run `make tools`",
        cache.display()
    );
    found
        .into_iter()
        .map(|(version, binary)| (version.to_string(), binary))
        .collect()
}

/// A one-member etcd; killed when dropped.
struct Etcd {
    child: Child,
    client_port: u16,
    log: PathBuf,
}

impl Etcd {
    fn start(binary: &Path, root: &Path, extra: &[&str]) -> Etcd {
        let mut etcd = Etcd::spawn(binary, root, extra);
        etcd.await_healthy();
        etcd
    }

    fn spawn(binary: &Path, root: &Path, extra: &[&str]) -> Etcd {
        // Both ports are held while they are chosen, so that they differ.
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [client_port, peer_port] = free
            .each_ref()
            .map(|listener| listener.local_addr().unwrap().port());
        drop(free);
        let (client, peer) = (
            format!("http://127.0.0.1:{client_port}"),
            format!("http://127.0.0.1:{peer_port}"),
        );
        let log = root.join("log");
        let child = Command::new(binary)
            .args(["--name=m0", "--logger=zap", "--initial-cluster-state=new"])
            .arg(format!("--data-dir={}", root.join("data").display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=m0={peer}"))
            .args(extra)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Etcd {
            child,
            client_port,
            log,
        }
    }

    fn await_healthy(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if self
                .ask("GET", "/health", "")
                .is_some_and(|answer| answer.contains("\"true\""))
            {
                return;
            }
            let exited = self.child.try_wait().unwrap();
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(exited.is_none(), "etcd exited with {exited:?}:\n{}", log());
            assert!(
                Instant::now() < deadline,
                "etcd is not healthy after a minute:\n{}",
                log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.client_port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// The ids etcd itself answers with, (member, cluster), and the version of its cluster.
    fn says(&self) -> (u64, u64, String) {
        // Some versions put spaces into their JSON, some do not.
        let status = self
            .ask("POST", "/v3/maintenance/status", "{}")
            .unwrap()
            .replace(' ', "");
        let text = |name: &str| {
            let (_, after) = status
                .split_once(&format!("\"{name}\":\""))
                .unwrap_or_else(|| panic!("{name} in {status}"));
            after.split('"').next().unwrap().to_owned()
        };
        let versions = self.ask("GET", "/version", "").unwrap();
        let (_, after) = versions.split_once("\"etcdcluster\":\"").unwrap();
        (
            text("member_id").parse().unwrap(),
            text("cluster_id").parse().unwrap(),
            after.split('"').next().unwrap().to_owned(),
        )
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Only after a failed assertion is it still running; there is no one left to tell about an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn data(dir: &Path) -> Identity {
    match look(dir).unwrap() {
        Look::Data(identity) => identity,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_version() {
    for (version, binary) in binaries() {
        eprintln!("etcd {version}");
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("data");
        let mut etcd = Etcd::start(&binary, root.path(), &[]);
        let (member_id, cluster_id, cluster_version) = etcd.says();

        // While it runs: it has the lock, and its directory cannot be moved.
        let Attempt::Busy { holder } = DbLock::try_hold(&dir).unwrap() else {
            panic!("{version}: not busy")
        };
        assert_eq!(holder, Some(etcd.child.id()), "{version}");
        let error = move_aside(&dir, &root.path().join("aside")).unwrap_err();
        assert!(
            matches!(error, Error::InUse { holder: Some(pid), .. } if pid == etcd.child.id()),
            "{error}"
        );
        let seen = data(&dir);
        assert_eq!(
            (seen.member_id, seen.cluster_id),
            (member_id, cluster_id),
            "{version}"
        );

        // 3.6 and newer write the storage version a little after the cluster's is decided.
        let minor: u64 = version.split('.').nth(1).unwrap().parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let seen = loop {
            let seen = data(&dir);
            if seen.cluster_version.is_some() && (minor < 6 || seen.storage_version.is_some()) {
                break seen;
            }
            assert!(Instant::now() < deadline, "{version}: {seen:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(
            seen.cluster_version.unwrap().to_string(),
            cluster_version,
            "{version}"
        );
        let storage = seen.storage_version.map(|storage| storage.to_string());
        assert_eq!(storage, (minor >= 6).then(|| format!("3.{minor}.0")), "{version}");

        etcd.kill();
        let seen = data(&dir);
        assert_eq!(
            (seen.member_id, seen.cluster_id),
            (member_id, cluster_id),
            "{version}"
        );
        assert_eq!(
            (seen.wal_segments, seen.first_segment.sequence),
            (1, 0),
            "{version}"
        );
        assert!(
            matches!(
                seen.db,
                Db::Present {
                    one_meta_damaged: false,
                    ..
                }
            ),
            "{version}: {:?}",
            seen.db
        );

        damage_is_seen(&version, &dir, (member_id, cluster_id));

        let Attempt::Held(lock) = DbLock::try_hold(&dir).unwrap() else {
            panic!("{version}: not released")
        };
        drop(lock);
        let aside = root.path().join("aside");
        move_aside(&dir, &aside).unwrap();
        assert_eq!(look(&dir).unwrap(), Look::Empty);
        assert_eq!(data(&aside).member_id, member_id);
        fs::remove_file(db_path(&aside)).unwrap();
        assert_eq!(data(&aside).db, Db::Missing, "{version}");
    }
}

/// etcd killed between making its log and its first write. Every version leaves a log that is told from any other.
#[test]
fn a_log_that_nothing_was_written_to_is_told_apart() {
    for (version, binary) in binaries() {
        let seen = (0..50)
            .map(|_| killed_at_birth(&binary))
            .find(|look| *look != Look::Empty);
        let Some(Look::Unborn {
            member_id,
            cluster_id,
        }) = seen
        else {
            panic!("{version}: {seen:?}");
        };
        assert!(member_id != 0 && cluster_id != 0, "{version}");
    }
}

/// What a first start leaves that is killed as soon as its log is there; empty if it was caught before or after that.
fn killed_at_birth(binary: &Path) -> Look {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let wal = dir.join("member/wal");
    let mut etcd = Etcd::spawn(binary, root.path(), &[]);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !wal.exists() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    etcd.kill();
    match look(&dir).unwrap() {
        unborn @ Look::Unborn { .. } => unborn,
        _ => Look::Empty,
    }
}

/// Cuts and flips the heads of the log and the database, one at a time; puts everything back.
fn damage_is_seen(version: &str, dir: &Path, ids: (u64, u64)) {
    let wal_dir = dir.join("member/wal");
    let first = wal_dir.join(data(dir).first_segment.to_string());
    let mut head = vec![0; 512];
    File::open(&first).unwrap().read_exact(&mut head).unwrap();
    // The crc and metadata records take less than this.
    for bit in 0..64 * 8 {
        with_byte(
            &first,
            bit / 8,
            |byte| byte ^ (1 << (bit % 8)),
            || match look(dir).unwrap() {
                Look::Data(seen) => assert_eq!((seen.member_id, seen.cluster_id), ids, "{version} bit {bit}"),
                Look::Damaged { path, .. } => assert_eq!(path, first),
                other => panic!("{version} bit {bit}: {other:?}"),
            },
        );
    }
    let whole = wal_dir.join("whole");
    fs::rename(&first, &whole).unwrap();
    for length in 0..48 {
        fs::write(&first, &head[..length]).unwrap();
        assert!(
            matches!(look(dir).unwrap(), Look::Damaged { .. }),
            "{version} length {length}"
        );
    }
    fs::rename(&whole, &first).unwrap();

    let db = db_path(dir);
    let Db::Present { page_size, .. } = data(dir).db else {
        panic!("{version}")
    };
    let second_meta = usize::try_from(page_size).unwrap();
    for offset in (16..80).chain(second_meta + 16..second_meta + 80) {
        with_byte(
            &db,
            offset,
            |byte| !byte,
            || {
                let seen = data(dir).db;
                assert!(
                    matches!(
                        seen,
                        Db::Present {
                            one_meta_damaged: true,
                            ..
                        }
                    ),
                    "{version} at {offset}: {seen:?}"
                );
            },
        );
    }
    with_byte(
        &db,
        20,
        |byte| !byte,
        || {
            with_byte(
                &db,
                second_meta + 20,
                |byte| !byte,
                || {
                    assert!(
                        matches!(look(dir).unwrap(), Look::Damaged { path, .. } if path == db),
                        "{version}"
                    );
                },
            );
        },
    );
    // Anything beyond the metas may be garbage: versions may then be unknown, and nothing panics.
    let length = fs::metadata(&db).unwrap().len().min(256 * 1024);
    for offset in (2 * second_meta..usize::try_from(length).unwrap()).step_by(61) {
        with_byte(
            &db,
            offset,
            |byte| byte ^ 0x81,
            || assert_eq!(data(dir).member_id, ids.0),
        );
    }
    assert_eq!((data(dir).member_id, data(dir).cluster_id), ids, "{version}");
}

/// Runs `check` while one byte of a file is another.
fn with_byte(path: &Path, offset: usize, change: impl Fn(u8) -> u8, check: impl FnOnce()) {
    let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    let offset = SeekFrom::Start(offset as u64);
    file.seek(offset).unwrap();
    file.read_exact(&mut byte).unwrap();
    let mut put = |byte: u8| {
        file.seek(offset).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    put(change(byte[0]));
    check();
    put(byte[0]);
}

/// A member upgraded from an older minor cannot be started as the next one while its log still holds requests that one
/// cannot replay; a raft snapshot puts them behind it. What is foretold is what etcd then does.
#[test]
fn what_a_newer_etcd_cannot_replay_is_foretold() {
    let all = binaries();
    let newest = |minor: &str| {
        let (_, path) = all
            .iter()
            .rfind(|(version, _)| version.starts_with(minor))
            .unwrap();
        path.clone()
    };
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let run = |minor: &str, extra: &[&str]| Etcd::start(&newest(minor), root.path(), extra).kill();
    let refuses = |minor: &str| {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(&dir, &copy.path().join("data"));
        let ended = Etcd::spawn(&newest(minor), copy.path(), &[])
            .child
            .wait()
            .unwrap();
        assert!(
            !ended.success(),
            "etcd {minor} replays what it was thought not to"
        );
    };
    // 3.4 writes a request for every look at /health, which is how readiness is awaited here.
    run("3.4.", &[]);
    run("3.5.", &[]);
    assert_eq!(replay(&dir).unwrap(), Replay::UpTo35);
    refuses("3.6.");
    run("3.5.", &["--snapshot-count=1"]);
    assert!(replay(&dir).unwrap() >= Replay::UpTo36);
    run("3.6.", &[]);
    run("3.6.", &["--snapshot-count=1"]);
    assert_eq!(replay(&dir).unwrap(), Replay::Free);
    run("3.7.", &[]);

    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let run = |minor: &str, extra: &[&str]| Etcd::start(&newest(minor), root.path(), extra).kill();
    run("3.5.", &[]);
    run("3.6.", &[]);
    assert_eq!(replay(&dir).unwrap(), Replay::UpTo36);
    run("3.6.", &["--snapshot-count=1"]);
    assert_eq!(replay(&dir).unwrap(), Replay::Free);
    run("3.7.", &[]);
    assert_eq!(replay(&dir).unwrap(), Replay::Free);
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
