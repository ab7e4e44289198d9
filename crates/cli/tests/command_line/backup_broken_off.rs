//! `quorate backup restore` that does not come to its end: a person stops it, a disk is too small or fills up. Nothing is
//! left where the data directory would be, and nothing in the archive that keeps others waiting.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorate_testkit::{Fault, Proxy, StoreKind, StoreServer, await_that};
use serde_json::Value;

use crate::etcd::{Etcd, newest};
use crate::sandbox::{Run, Sandbox, told};

const LIMIT: Duration = Duration::from_secs(60);
/// Megabytes in the archive that nothing compresses.
const LARGE: usize = 8;

/// An archive with one full copy, on a server that can be slow.
struct Archived {
    sandbox: Sandbox,
    _server: StoreServer,
    proxy: Proxy,
    direct: String,
    by_proxy: String,
}

impl Archived {
    fn new() -> Archived {
        let sandbox = Sandbox::new();
        let etcd = Etcd::start(&newest(), &sandbox.path("etcd"));
        let mut chance = fastrand::Rng::with_seed(1);
        for number in 0..LARGE {
            let mut value = vec![0; 1_000_000];
            chance.fill(&mut value);
            etcd.put(&format!("large-{number}"), &value);
        }
        let server = StoreServer::start(StoreKind::S3);
        server.make_bucket("backups");
        let proxy = Proxy::start(server.address());
        let direct = server.url("backups", "etcd");
        let by_proxy = server.url_at(proxy.address(), "backups", "etcd");
        sandbox
            .run(&["backup", "now", &direct, "--endpoints", &etcd.url])
            .succeeds();
        std::fs::create_dir(sandbox.path("out")).unwrap();
        Archived {
            sandbox,
            _server: server,
            proxy,
            direct,
            by_proxy,
        }
    }

    /// From now on every piece of an answer is late: a restore takes many seconds.
    fn slow(&self) {
        self.proxy.set(Fault::Latency(Duration::from_millis(100)));
    }

    /// From now on no answer comes: a restore that has begun does not end.
    fn hold(&self) {
        self.proxy.set(Fault::Hang);
    }

    fn data_dir(&self) -> PathBuf {
        self.sandbox.path("out/etcd")
    }

    /// Where the database grows before the data directory has its name.
    fn growing(&self) -> PathBuf {
        self.sandbox.path("out/.etcd.restoring/member/snap/db")
    }

    fn restore(&self, url: &str) -> Command {
        let dir = self.data_dir().display().to_string();
        self.sandbox
            .command(&["backup", "restore", url, "--data-dir", &dir])
    }

    /// Who reads the archive.
    fn readers(&self) -> Vec<Value> {
        let listed = self.sandbox.run(&["backup", "list", &self.direct, "-o", "json"]);
        let listed: Value = serde_json::from_str(listed.succeeds()).unwrap();
        listed["marks"].as_array().unwrap().clone()
    }

    /// On a disk of its own at `out`, of so many megabytes, while `script` does `$RESTORE`. Out: what quorate said, and what
    /// lies on the disk in the end.
    fn on_a_disk(&self, megabytes: usize, restore: &Command, script: &str) -> (Run, String) {
        let words: Vec<String> = std::iter::once(restore.get_program())
            .chain(restore.get_args())
            .map(|word| format!("'{}'", word.to_str().unwrap()))
            .collect();
        let (out, left) = (self.sandbox.path("out"), self.sandbox.path("left"));
        let whole = format!(
            "mount -t tmpfs -o size={megabytes}m none {out} || exit 90\n\
             restore() {{ {restore}; }}\n\
             {script}\n\
             find {out} -mindepth 1 > {left}\n\
             exit $code",
            restore = words.join(" "),
            out = out.display(),
            left = left.display(),
        );
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        let output = command.args(["--mount", "bash", "-uc", &whole]).output();
        let run = told(output.expect("this test mounts a small disk: install util-linux"));
        (run, std::fs::read_to_string(left).unwrap())
    }
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([name, &pid]).status();
    assert!(sent.unwrap().success());
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn stopped_half_way_a_restore_leaves_nothing() {
    let archived = Archived::new();
    archived.slow();
    for name in ["-INT", "-TERM"] {
        let child = archived
            .restore(&archived.by_proxy)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        await_that("the restore begins", LIMIT, || archived.growing().exists());
        archived.hold();
        let readers = archived.readers();
        assert!(
            readers.len() == 1 && readers[0]["who"].as_str().unwrap().starts_with("restore"),
            "{readers:?}"
        );
        signal(&child, name);
        // What it says to the archive in the end is answered again.
        archived.slow();
        let run = told(child.wait_with_output().unwrap());
        assert_eq!(run.code, 1, "{name}: {run:?}");
        let lines: Vec<&str> = run.err.lines().collect();
        let expected = [
            "Stopping; once more stops at once.",
            "error: stopped; what was not done is left for the next time",
        ];
        assert_eq!(lines, expected, "{name}");
        assert!(is_empty(&archived.sandbox.path("out")), "{name}");
        assert!(archived.readers().is_empty(), "{name}");
    }
    // The next time is now.
    told(archived.restore(&archived.direct).output().unwrap()).succeeds();
    assert!(archived.data_dir().join("member/snap/db").is_file());
}

#[test]
fn a_disk_that_is_full_or_fills_up_is_told() {
    let archived = Archived::new();
    // It can be seen that it will not do.
    let (run, left) = archived.on_a_disk(4, &archived.restore(&archived.direct), "restore; code=$?");
    run.fails(
        3,
        &[
            "too little room at",
            "bytes are needed",
            "Name a directory on a larger disk",
        ],
    );
    let numbers: Vec<u64> = run
        .err
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    let free = 4 << 20;
    assert!(
        numbers.contains(&free) && numbers.iter().any(|needed| *needed > (LARGE as u64) * 1_000_000),
        "{run:?}"
    );
    assert_eq!(left, "");

    // It cannot: something else takes the room while the restore is at work.
    archived.slow();
    let out = archived.sandbox.path("out");
    let [begun, held, full] = ["begun", "held", "full"].map(|name| archived.sandbox.path(name));
    let script = format!(
        "restore & pid=$!\n\
         for turn in {{1..3000}}; do [ -e {db} ] && break; kill -0 $pid || break; sleep 0.02; done\n\
         [ -e {db} ] || exit 91\n\
         touch {begun}\n\
         for turn in {{1..3000}}; do [ -e {held} ] && break; sleep 0.02; done\n\
         [ -e {held} ] || exit 92\n\
         cat /dev/zero > {out}/fill 2>/dev/null\n\
         touch {full}\n\
         wait $pid; code=$?; rm {out}/fill",
        db = archived.growing().display(),
        out = out.display(),
        begun = begun.display(),
        held = held.display(),
        full = full.display(),
    );
    let (run, left) = std::thread::scope(|scope| {
        scope.spawn(|| {
            await_that("the restore begins", LIMIT, || begun.exists());
            archived.hold();
            std::fs::write(&held, "").unwrap();
            await_that("the disk is full", LIMIT, || full.exists());
            archived.slow();
        });
        archived.on_a_disk(64, &archived.restore(&archived.by_proxy), &script)
    });
    run.fails(1, &["cannot write", "No space left on device"]);
    assert_eq!(left, "");
    assert!(archived.readers().is_empty());
}
