//! A cluster run by the real binary, in a root of its own. Ends what it started, by process id, when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use quorate_client::{IdentityFiles, Tls, TlsFiles};
use quorate_host::Status;
use quorate_testkit::{ClusterSlot, Ports, await_end};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A clean stop of all members.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// One root and, most of the time, one supervisor.
pub struct Cluster {
    root: tempfile::TempDir,
    supervisor: Option<Child>,
    ports: Ports,
    /// One slot, whatever its size: a test may scale its cluster.
    _slot: ClusterSlot,
}

/// The binary under test, built beside this test; benches say which one they mean.
pub fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("QUORATE_BINARY").filter(|path| !path.is_empty()) {
        let named = PathBuf::from(named);
        assert!(named.exists(), "QUORATE_BINARY={} is missing", named.display());
        return named;
    }
    let test = std::env::current_exe().expect("a test has a path");
    let dir = test
        .parent()
        .and_then(Path::parent)
        .expect("target/<profile>/deps/<test>");
    let binary = dir.join("quorate");
    assert!(
        binary.exists(),
        "{} is missing: run `make build-tests` first",
        binary.display()
    );
    binary
}

impl Cluster {
    /// A new root with a manifest; nothing runs yet. Ports are this test's own, so that tests can run side by side.
    pub fn new(replicas: u32, version: &str) -> Cluster {
        let root = tempfile::Builder::new()
            .prefix("quorate-")
            .tempdir()
            .expect("a temporary directory");
        let cluster = Cluster {
            root,
            supervisor: None,
            ports: Ports::lease(),
            _slot: ClusterSlot::acquire(),
        };
        cluster.write_manifest(replicas, version);
        cluster
    }

    /// The manifest that the supervisor follows.
    pub fn manifest(&self) -> PathBuf {
        self.root().join("cluster.yaml")
    }

    /// Writes the manifest again.
    pub fn write_manifest(&self, replicas: u32, version: &str) {
        let text = format!(
            "apiVersion: etcd.improbable.io/v1alpha1\nkind: EtcdCluster\nmetadata:\n  name: t\nspec:\n  \
             replicas: {replicas}\n  version: {version}\n  storage:\n    volumeClaimTemplate:\n      \
             storageClassName: standard\n      resources:\n        requests:\n          storage: 1Gi\n  \
             host:\n    clientPort: {}\n    peerPort: {}\n",
            self.ports.port(0),
            self.ports.port(1)
        );
        std::fs::write(self.manifest(), text).expect("the root can be written");
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn up(&mut self) {
        assert!(self.supervisor.is_none(), "a supervisor runs already");
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.root().join("up.log"));
        let log = log.expect("the root can be written");
        let child = self
            .command(&["up"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be cloned"))
            .stderr(log)
            .spawn()
            .expect("the binary can be started");
        self.supervisor = Some(child);
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).arg("--root").arg(self.root());
        command
    }

    /// Runs another command on this root.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args)
            .stdin(Stdio::null())
            .output()
            .expect("the binary can be run")
    }

    /// Runs another command that must succeed.
    pub fn must(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(
            output.status.success(),
            "quorate {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The supervisor dies without a word. Its members live on.
    pub fn kill_supervisor(&mut self) {
        let mut child = self.supervisor.take().expect("a supervisor runs");
        child.kill().expect("our own child can be killed");
        child.wait().expect("our own child can be awaited");
    }

    /// Power is cut: the supervisor and all members end at once, without a word.
    pub fn kill_all(&mut self) {
        self.kill_supervisor();
        let root = self.root().to_string_lossy().into_owned();
        let began = Instant::now();
        loop {
            let pids = processes_of(&root);
            if pids.is_empty() && !self.a_member_is_locked() {
                return;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "killed processes are still there: {pids:?}"
            );
            pids.into_iter().for_each(kill_member);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether any process of a member lives. One that is about to become another program has its lock and no command
    /// line yet.
    fn a_member_is_locked(&self) -> bool {
        let run = std::fs::read_dir(self.root().join("run")).expect("a supervisor ran here");
        let mut locks = run
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "alive"));
        locks.any(|path| {
            let file = std::fs::File::open(&path).expect("a lock file stays");
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
        })
    }

    pub fn stop(&mut self) {
        let child = self.supervisor.as_mut().expect("a supervisor runs");
        kill_process(Pid::from_child(child), Signal::TERM).expect("our own child can be signalled");
        let status = await_end("the end of the supervisor", STOP_LIMIT, child);
        self.supervisor = None;
        assert!(
            status.success(),
            "a clean stop ends with 0, not {status}; {}",
            self.log_tail()
        );
    }

    /// Whether the supervisor still runs.
    pub fn supervised(&mut self) -> bool {
        self.supervisor
            .as_mut()
            .is_some_and(|c| c.try_wait().expect("our own child").is_none())
    }

    /// What `quorate status -o json` says, once it is the word of the supervisor that runs now.
    pub fn status(&self) -> Option<Status> {
        let output = self.run(&["status", "-o", "json"]);
        let status: Status = serde_json::from_slice(&output.stdout)
            .ok()
            .filter(|_| output.status.success())?;
        let current = self
            .supervisor
            .as_ref()
            .is_none_or(|child| child.id() == status.supervisor.pid);
        current.then_some(status)
    }

    /// Waits until the status is as asked, and says what it was like if it never is.
    pub fn await_status(&mut self, what: &str, test: impl Fn(&Status) -> bool) -> Status {
        let began = Instant::now();
        loop {
            let status = self.status();
            if let Some(status) = status.as_ref().filter(|s| test(s)) {
                return status.clone();
            }
            if began.elapsed() > PATIENCE {
                panic!(
                    "not {what} after {PATIENCE:?}; status: {status:#?}\n{}",
                    self.log_tail()
                );
            }
            if self.supervisor.is_some() && !self.supervised() {
                panic!(
                    "the supervisor ended while waiting for: {what}\n{}",
                    self.log_tail()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until `replicas` members of `version` are healthy voters and nothing is left to do.
    pub fn await_ready(&mut self, replicas: usize, version: &str) -> Status {
        let what = format!("{replicas} healthy members of {version}, at rest");
        self.await_status(&what, |s| is_ready(s, replicas, version))
    }

    /// Where members 0 to 6 serve clients, whether they exist or not.
    pub fn client_urls(&self, members: u16) -> Vec<String> {
        (0..members)
            .map(|n| format!("https://127.0.0.1:{}", self.ports.port(2 * n)))
            .collect()
    }

    /// What a client connects with.
    pub fn tls(&self) -> Tls {
        let certs = self
            .status()
            .and_then(|s| s.certs)
            .expect("the status names the certificates");
        let identity = Some(IdentityFiles {
            cert: certs.cert,
            key: certs.key,
        });
        Tls::from_files(&TlsFiles {
            ca: certs.ca,
            identity,
        })
        .expect("the certificates can be read")
    }

    /// The last lines of the supervisor's own output.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(self.root().join("up.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

/// `replicas` members of `version`, all healthy voters, nothing left to do.
pub fn is_ready(status: &Status, replicas: usize, version: &str) -> bool {
    let well = |m: &&quorate_host::Member| {
        m.healthy && !m.learner && m.id.is_some() && m.version.as_deref() == Some(version)
    };
    let idle = status.plan.is_empty() && status.waits.is_empty() && status.blocks.is_empty();
    idle && status.supervisor.running
        && status.members.iter().filter(well).count() == replicas
        && status.members.iter().filter(|m| m.id.is_some()).count() == replicas
}

/// Processes that name `root` in their command line.
fn processes_of(root: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("there is a /proc");
    let pids = all
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(root)
    })
    .collect()
}

/// The process of a member, ended as a power cut would.
pub fn kill_member(pid: u32) {
    let pid = Pid::from_raw(pid as i32).expect("a process id");
    // It may have ended by itself in the meantime; that is what a kill is for.
    let _ = kill_process(pid, Signal::KILL);
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the supervisor's last lines ---\n{}", self.log_tail());
        }
        if let Some(child) = &mut self.supervisor {
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
            // One that hangs was reported where it was waited for.
            let deadline = Instant::now() + STOP_LIMIT;
            while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
        } else {
            let _ = self.run(&["down"]);
        }
    }
}
