//! A supervised cluster for one test.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quorate_client::{Endpoint, IdentityFiles, Timeouts, Tls, TlsFiles};
use quorate_host::etcd::find::default_cache;
use quorate_host::{Error, Event, Options, Status, control, supervise};
use quorate_testkit::{ClusterSlot, Ports, await_that_async, versions};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long anything may take in these tests.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// For calls that must succeed: no deadline that a busy machine could miss.
const PATIENT: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    request: Duration::from_secs(30),
    stream_idle: Duration::from_secs(30),
};

/// An etcd for a test that does not ask for one of a version: the newest in the cache, or, with `QUORATE_OLDEST=1`, the
/// oldest.
pub fn any_etcd() -> String {
    let mut all = versions();
    match std::env::var_os("QUORATE_OLDEST").is_some_and(|value| value == "1") {
        true => all.swap_remove(0),
        false => all.pop().expect("there is one"),
    }
}

/// A root directory and what was reported about it. Members still running when it is dropped are stopped.
pub struct Place {
    dir: tempfile::TempDir,
    pub lines: Arc<Mutex<Vec<String>>>,
    pub registry: PathBuf,
    disk: Option<SmallDisk>,
    _ports: Ports,
    _slot: Option<ClusterSlot>,
}

impl Place {
    /// A root with a manifest for `replicas` members of `version`, on leased ports.
    pub fn new(replicas: u32, version: &str) -> Place {
        Place::on(replicas, version, None)
    }

    /// The same on a file system of its own of so many MiB.
    pub fn on_small_disk(replicas: u32, version: &str, mebibytes: u32) -> Place {
        Place::on(replicas, version, Some(mebibytes))
    }

    fn on(replicas: u32, version: &str, mebibytes: Option<u32>) -> Place {
        let slot = (replicas >= 3).then(ClusterSlot::acquire);
        let ports = Ports::lease();
        let base = ports.port(0);
        let dir = tempfile::Builder::new()
            .prefix("quorate-host-")
            .tempdir()
            .unwrap();
        let place = Place {
            lines: Arc::default(),
            registry: dir.path().join("registry"),
            disk: mebibytes.map(|size| SmallDisk::mount(dir.path(), size)),
            _ports: ports,
            _slot: slot,
            dir,
        };
        let text = quorate_api::default_manifest("t", replicas, &version.parse().unwrap());
        place.write_manifest(&format!(
            "{text}\n  host:\n    clientPort: {base}\n    peerPort: {}\n",
            base + 1
        ));
        place
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    pub fn write_manifest(&self, text: &str) {
        std::fs::write(self.root().join("cluster.yaml"), text).unwrap();
    }

    pub fn edit_manifest(&self, from: &str, to: &str) {
        edit_manifest(self.root(), from, to);
    }

    pub fn options(&self) -> Options {
        Options {
            root: self.root().to_owned(),
            manifest: None,
            etcd: None,
            cache: default_cache(),
            registry: Some(self.registry.clone()),
            launcher: PathBuf::from(env!("CARGO_BIN_EXE_quorate-launch-member")),
        }
    }

    /// A supervisor of this root.
    pub fn up(&self) -> Up {
        self.up_with(None)
    }

    /// A supervisor of this root that prefers this etcd.
    pub fn up_with(&self, etcd: Option<PathBuf>) -> Up {
        let options = self.options();
        self.supervise(Options { etcd, ..options }, |_| {})
    }

    /// A supervisor of this root by this manifest.
    pub fn up_by(&self, manifest: &Path) -> Up {
        let manifest = Some(manifest.to_owned());
        let options = self.options();
        self.supervise(Options { manifest, ..options }, |_| {})
    }

    /// A supervisor of this root that does nothing more once all of `replicas` members were started.
    pub fn up_paused_after_start(&self, replicas: usize) -> Up {
        let (root, mut started) = (self.root().to_owned(), 0);
        self.supervise(self.options(), move |line| {
            if !line.starts_with("start ") {
                return;
            }
            started += 1;
            if started == replicas {
                edit_manifest(&root, "\n  host:", "\n  paused: true\n  host:");
            }
        })
    }

    /// `hear` gets each line as it is reported, before the supervisor goes on.
    fn supervise(&self, options: Options, mut hear: impl FnMut(&str) + Send + 'static) -> Up {
        let (stop, stopped) = oneshot::channel::<()>();
        let lines = Arc::clone(&self.lines);
        let began = Instant::now();
        let events = move |event| {
            let text = match event {
                Event::Line(line) => line,
                Event::Ready(_) => "ready".to_owned(),
                _ => return,
            };
            hear(&text);
            lines
                .lock()
                .unwrap()
                .push(format!("{:6.3} {text}", began.elapsed().as_secs_f64()));
        };
        let shutdown = async move {
            let _ = stopped.await;
        };
        Up {
            task: tokio::spawn(supervise::run(options, events, shutdown)),
            stop: Some(stop),
        }
    }

    pub fn status(&self) -> Status {
        control::read_status(self.root()).unwrap().unwrap_or_default()
    }

    /// Waits until the status is as wanted.
    pub async fn until(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        await_that_async(what, PATIENCE, async || {
            let status = self.status();
            match wanted(&status) {
                true => Ok(status),
                false => Err(format!("{status:#?}")),
            }
        })
        .await
    }

    pub async fn until_ready(&self) -> Status {
        self.until("ready", |status| status.ready).await
    }
}

fn edit_manifest(root: &Path, from: &str, to: &str) {
    let file = root.join("cluster.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(from), "{from:?} is not in the manifest");
    std::fs::write(file, text.replace(from, to)).unwrap();
}

impl Drop for Place {
    fn drop(&mut self) {
        for entry in self.root().join("run").read_dir().into_iter().flatten().flatten() {
            let Ok(text) = std::fs::read_to_string(entry.path()) else {
                continue;
            };
            let Ok(record) = serde_json::from_str::<serde_json::Value>(&text) else {
                continue;
            };
            let Some(pid) = record.get("pid").and_then(|pid| pid.as_i64()) else {
                continue;
            };
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if line.contains(&self.root().display().to_string()) {
                kill(pid as u32);
            }
        }
        drop(self.disk.take());
        if std::thread::panicking() && std::env::var_os("HOST_TEST_KEEP").is_some() {
            self.dir.disable_cleanup(true);
        }
        if std::thread::panicking() || std::env::var_os("HOST_TEST_LINES").is_some() {
            eprintln!("{:#?}", self.lines.lock().unwrap());
        }
    }
}

/// A file system in memory that can be filled.
struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    fn mount(at: &Path, mebibytes: u32) -> SmallDisk {
        let size = format!("size={mebibytes}m,mode=0700");
        let mut mount = std::process::Command::new("mount");
        let mounted = mount
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at)
            .output()
            .unwrap();
        assert!(
            mounted.status.success(),
            "a tmpfs must be mounted, which needs root: {mounted:?}"
        );
        SmallDisk { at: at.to_owned() }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: members that were just killed may still be on their way out.
        let _ = std::process::Command::new("umount")
            .arg("--lazy")
            .arg(&self.at)
            .status();
    }
}

/// A supervisor that runs.
pub struct Up {
    task: JoinHandle<Result<(), Error>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Up {
    /// Stops it as Ctrl-C would.
    pub async fn down(mut self) {
        drop(self.stop.take());
        self.ended("it stops when it is told to").await.unwrap();
    }

    async fn ended(self, what: &str) -> Result<(), Error> {
        let ended = tokio::time::timeout(PATIENCE, self.task).await;
        let ended =
            ended.unwrap_or_else(|_| panic!("waited {PATIENCE:?} and it is still not so that {what}"));
        ended.expect("the supervisor does not panic")
    }

    /// Ends it as kill -9 would: its members live on.
    pub async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// Waits until it fails.
    pub async fn failure(self) -> Error {
        self.ended("it fails by itself").await.unwrap_err()
    }
}

pub fn kill(pid: u32) {
    let _ = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
}

/// The processes of all members.
pub fn pids(status: &Status) -> BTreeSet<u32> {
    status.members.iter().filter_map(|member| member.pid).collect()
}

/// The first member, for calls that must succeed.
pub fn first_member(status: &Status) -> Endpoint {
    let tls = status.certs.clone().map(|certs| {
        let identity = Some(IdentityFiles {
            cert: certs.cert,
            key: certs.key,
        });
        let files = TlsFiles {
            ca: certs.ca,
            identity,
        };
        Tls::from_files(&files).expect("the files of the cluster")
    });
    Endpoint::connect_lazy(&status.members[0].client_url, tls.as_ref(), PATIENT).unwrap()
}

/// Runs one test on the kind of runtime that the program uses.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test);
}
