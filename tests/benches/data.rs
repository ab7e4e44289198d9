//! The data engine in figures: `make bench-data`. Ratios against etcdutl in one run, printed; never a verdict.
//!
//! Databases are written by a real etcd (keys overwritten, half of the history compacted). Every command is timed until its
//! data is on the disk, in turns with its peer; the best of the rounds counts for both. `QUORATE_BENCH_MB` (a list, e.g.
//! `100,400`) takes other sizes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use quorate_testkit::{Start, binary, newest};
use quorate_tests::cluster::binary as quorate;
use quorate_tests::measure::{Best, limited, noise, settle, timed};
use quorate_wire::etcdserverpb::{
    CompactionRequest, CompactionResponse, PutRequest, RequestOp, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse, request_op::Request,
};

const ROUNDS: usize = 3;

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
    megabytes: u64,
    root: tempfile::TempDir,
    snapshot: PathBuf,
    etcdutl: PathBuf,
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
            megabytes,
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
        println!(
            "figures: {what}_{}mb_s={ours_best:.2}; {what}_{}mb_times={:.1}",
            self.megabytes,
            self.megabytes,
            theirs_best / ours_best
        );
    }

    fn timed(&self, command: &mut Command) -> Best {
        timed(command, self.root.path())
    }
}
