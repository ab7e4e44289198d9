//! The data engine in figures: `make bench-data`. Ratios against etcdutl in one run, printed; never a verdict.
//!
//! Databases are written by a real etcd (keys overwritten, half of the history compacted). Every command is timed until its
//! data is on the disk, in turns with its peer; the best of the rounds counts for both. `QUORATE_BENCH_MB` (a list, e.g.
//! `100,400`) takes other sizes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quorate_tests::cluster::binary as quorate;
use quorate_wire::etcdserverpb::{
    CompactionRequest, CompactionResponse, PutRequest, RequestOp, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse, request_op::Request,
};
use quorate_workloads::{Start, binary, newest};

const ROUNDS: usize = 3;
const MEMORY_LIMIT: u64 = 128 << 20;

fn main() {
    let sizes = std::env::var("QUORATE_BENCH_MB").unwrap_or_else(|_| "100,400,2000".to_owned());
    let (make, peer) = (newest("3.6"), newest("3.7"));
    println!("databases of etcd {make}; etcdutl {peer}; best of {ROUNDS}, data on the disk\n");
    for size in sizes.split(',') {
        let size: u64 = size
            .trim()
            .parse()
            .expect("QUORATE_BENCH_MB is a list of numbers");
        let bench = Bench::make(size, &make, &peer);
        bench.floor();
        bench.verify();
        bench.restore();
        bench.defrag();
        println!();
    }
}

struct Bench {
    root: tempfile::TempDir,
    snapshot: PathBuf,
    etcdutl: PathBuf,
}

/// The best time of a command, and the most memory of its own it had.
#[derive(Clone, Copy)]
struct Best {
    seconds: f64,
    anonymous: u64,
}

impl Bench {
    fn make(megabytes: u64, version: &str, peer: &str) -> Bench {
        let root = tempfile::Builder::new()
            .prefix("bench-data-")
            .tempdir()
            .expect("a directory");
        let snapshot = root.path().join("snapshot.db");
        let server = Start::new(version, &root.path().join("data"))
            .flag("--unsafe-no-fsync")
            .flag("--quota-backend-bytes=8589934592")
            .serve();
        let client = server.client();
        let keys = megabytes * 1_000_000 / 1_100 / 3;
        let (mut written, mut compacted) = (0u64, false);
        loop {
            let put = |n: u64| {
                let number = n.wrapping_mul(7919) % keys;
                let value = noise(n, 700 + (n % 600) as usize);
                let key = format!("/registry/pods/namespace-{}/pod-{number:08}", number % 50).into_bytes();
                let request = PutRequest {
                    key,
                    value,
                    ..PutRequest::default()
                };
                RequestOp {
                    request: Some(Request::RequestPut(request)),
                }
            };
            // No key twice in one transaction.
            let count = 100.min(keys);
            let txn = TxnRequest {
                success: (written..written + count).map(put).collect(),
                ..TxnRequest::default()
            };
            let done: TxnResponse = client.call("KV/Txn", txn);
            written += count;
            if written.is_multiple_of(10_000) {
                let status: StatusResponse = client.call("Maintenance/Status", StatusRequest {});
                let size = status.db_size.unsigned_abs();
                if !compacted && size > megabytes * 500_000 {
                    compacted = true;
                    let revision = done.header.expect("a header").revision;
                    let request = CompactionRequest {
                        revision,
                        physical: true,
                    };
                    let _: CompactionResponse = client.call("KV/Compact", request);
                }
                if size >= megabytes * 1_000_000 {
                    break;
                }
            }
        }
        let path = snapshot.to_str().expect("plain text");
        server.etcdctl(None, &["snapshot", "save", path]);
        drop(client);
        server.stop();
        fs::remove_dir_all(root.path().join("data")).expect("removed");
        let length = fs::metadata(&snapshot).expect("the snapshot").len();
        println!(
            "{:.0} MB, {written} versions written of {keys} keys",
            length as f64 / 1e6
        );
        Bench {
            root,
            snapshot,
            etcdutl: binary(peer, "etcdutl"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn fresh(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let _ = fs::remove_dir_all(&path);
        let _ = fs::remove_file(&path);
        path
    }

    /// What no tool can be faster than.
    fn floor(&self) {
        let copy = (0..ROUNDS).map(|_| {
            let to = self.fresh("copy");
            self.timed(Command::new("cp").arg(&self.snapshot).arg(&to))
                .seconds
        });
        let copy = copy.fold(f64::MAX, f64::min);
        let (tool, arguments) = if Command::new("openssl").arg("version").output().is_ok() {
            ("openssl", &["dgst", "-sha256"][..])
        } else {
            ("sha256sum", &[][..])
        };
        let hash = (0..ROUNDS).map(|_| {
            self.timed(Command::new(tool).args(arguments).arg(&self.snapshot))
                .seconds
        });
        let hash = hash.fold(f64::MAX, f64::min);
        println!("  floor     cp and sync {copy:.2} s, SHA-256 ({tool}) {hash:.2} s");
        self.fresh("copy");
    }

    fn verify(&self) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mut verify = Command::new(quorate());
            ours.push(self.timed(verify.args(["snapshot", "verify"]).arg(&self.snapshot)));
            // hashkv writes to the file it reads.
            let copy = self.fresh("copy");
            fs::copy(&self.snapshot, &copy).expect("copied");
            let status = self.timed(
                Command::new(&self.etcdutl)
                    .args(["snapshot", "status"])
                    .arg(&self.snapshot),
            );
            let hash = self.timed(Command::new(&self.etcdutl).arg("hashkv").arg(&copy));
            theirs.push(Best {
                seconds: status.seconds + hash.seconds,
                anonymous: status.anonymous.max(hash.anonymous),
            });
        }
        self.fresh("copy");
        self.report("verify", 2.0, &ours, &theirs, |dir| {
            let mut command = Command::new(quorate());
            command.args(["snapshot", "verify"]).arg(dir.join("snapshot.db"));
            command
        });
    }

    fn restore(&self) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let command = |program: &Path, to: PathBuf| {
            let mut command = Command::new(program);
            command
                .args(["snapshot", "restore"])
                .arg(&self.snapshot)
                .arg("--data-dir")
                .arg(to);
            command
        };
        for _ in 0..ROUNDS {
            theirs.push(self.timed(&mut command(&self.etcdutl, self.fresh("theirs"))));
            ours.push(self.timed(&mut command(quorate().as_ref(), self.fresh("ours"))));
        }
        self.fresh("theirs");
        self.report("restore", 2.0, &ours, &theirs, |_| {
            command(quorate().as_ref(), self.fresh("limited"))
        });
        self.fresh("limited");
    }

    fn defrag(&self) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let dir = |name: &str| {
            let to = self.fresh(name);
            let copied = Command::new("cp")
                .arg("-r")
                .arg(self.path("ours"))
                .arg(&to)
                .status();
            assert!(
                copied.is_ok_and(|status| status.success()),
                "a directory can be copied"
            );
            settle(self.root.path());
            to
        };
        for _ in 0..ROUNDS {
            let theirs_dir = dir("theirs");
            theirs.push(
                self.timed(
                    Command::new(&self.etcdutl)
                        .args(["defrag", "--data-dir"])
                        .arg(theirs_dir),
                ),
            );
            let ours_dir = dir("mine");
            ours.push(self.timed(Command::new(quorate()).args(["snapshot", "defrag"]).arg(ours_dir)));
        }
        self.report("defrag", 2.0, &ours, &theirs, |_| {
            let mut command = Command::new(quorate());
            command.args(["snapshot", "defrag"]).arg(dir("limited"));
            command
        });
    }

    fn report(
        &self,
        what: &str,
        target: f64,
        ours: &[Best],
        theirs: &[Best],
        again: impl FnOnce(&Path) -> Command,
    ) {
        let best = |all: &[Best]| all.iter().map(|one| one.seconds).fold(f64::MAX, f64::min);
        let (ours_best, theirs_best) = (best(ours), best(theirs));
        let most = ours.iter().map(|one| one.anonymous).max().unwrap_or(0);
        let limited = limited(again(self.root.path()));
        println!(
            "  {what:<9} {ours_best:.2} s, etcdutl {theirs_best:.2} s: {:.1} times as fast (target {target}); \
             RssAnon {:.1} MiB; in a cgroup of 128 MiB: {limited}",
            theirs_best / ours_best,
            most as f64 / f64::from(1 << 20),
        );
    }

    /// Runs a command until its data is on the disk.
    fn timed(&self, command: &mut Command) -> Best {
        settle(self.root.path());
        let began = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut anonymous = 0;
        let ended = loop {
            anonymous = anonymous.max(rss_anon(child.id()));
            if let Some(ended) = child.try_wait().expect("it can be waited for") {
                break ended;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        settle(self.root.path());
        let seconds = began.elapsed().as_secs_f64();
        if !ended.success() {
            let mut said = String::new();
            let _ = std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut said);
            panic!("{command:?}: {ended}: {said}");
        }
        Best { seconds, anonymous }
    }
}

/// Everything that was written to this filesystem is on the disk.
fn settle(path: &Path) {
    let status = Command::new("sync").arg("-f").arg(path).status();
    assert!(status.is_ok_and(|status| status.success()), "sync -f");
}

fn rss_anon(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// A group of processes with a limit to their memory, by either version of cgroups.
fn group() -> std::io::Result<PathBuf> {
    let name = format!("quorate-bench-{}", std::process::id());
    let first = Path::new("/sys/fs/cgroup/memory");
    if first.join("memory.limit_in_bytes").exists() {
        let group = first.join(name);
        fs::create_dir(&group)?;
        fs::write(group.join("memory.limit_in_bytes"), MEMORY_LIMIT.to_string())?;
        return Ok(group);
    }
    let root = Path::new("/sys/fs/cgroup");
    if !root.join("cgroup.controllers").exists() {
        return Err(std::io::Error::other("there is no memory controller"));
    }
    let group = root.join(name);
    fs::create_dir(&group)?;
    fs::write(group.join("memory.max"), MEMORY_LIMIT.to_string())?;
    fs::write(group.join("memory.swap.max"), "0")?;
    Ok(group)
}

/// Runs a command with so little memory, the kernel's cache of its files included.
fn limited(command: Command) -> String {
    let group = match group() {
        Ok(group) => group,
        Err(error) => return format!("not tried, no group can be made ({error})"),
    };
    let began = Instant::now();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
        .arg(&group)
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let ended = shell.status();
    let seconds = began.elapsed().as_secs_f64();
    // A group is busy for a moment after its last process ended.
    let removed = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        fs::remove_dir(&group).is_ok()
    });
    assert!(removed, "{} cannot be removed", group.display());
    match ended {
        Ok(ended) if ended.success() => format!("done in {seconds:.2} s"),
        other => format!("FAILED ({other:?})"),
    }
}

/// Bytes that compress badly.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let words = (0..length.div_ceil(8)).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(length).collect()
}
