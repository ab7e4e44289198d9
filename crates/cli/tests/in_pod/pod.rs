//! A volume, the pods on it, and the containers in them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorate_core::model::{Generation, MemberName, PeerUrl, Token, Version};
use quorate_pod::contract::FORMAT;
use quorate_pod::{GoAhead, How, Report};
use quorate_testkit::{Addresses, Client, await_that, binary, newest, versions};
use quorate_wire::etcdserverpb::{RangeRequest, RangeResponse, StatusRequest, StatusResponse};
use tempfile::TempDir;

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A cached etcd: its version and where it is.
#[derive(Clone, Debug)]
pub struct Etcd {
    pub version: Version,
    pub path: PathBuf,
}

impl Etcd {
    fn of(version: &str) -> Etcd {
        Etcd {
            version: version.parse().unwrap(),
            path: binary(version, "etcd"),
        }
    }
}

/// Every etcd in the cache, oldest first.
pub fn etcds() -> Vec<Etcd> {
    versions().iter().map(|version| Etcd::of(version)).collect()
}

/// The newest cached etcd of a minor.
pub fn etcd(minor: u32) -> Etcd {
    Etcd::of(&newest(&format!("3.{minor}")))
}

/// A claim and the place of a member: what outlives its pods.
pub struct Slot {
    pub dir: TempDir,
    addresses: Addresses,
}

impl Slot {
    pub fn new() -> Slot {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("volume")).unwrap();
        Slot {
            dir,
            addresses: Addresses::free(),
        }
    }

    pub fn volume(&self) -> PathBuf {
        self.dir.path().join("volume")
    }

    pub fn data(&self, generation: u32) -> PathBuf {
        self.volume().join(format!("g{generation}"))
    }

    /// Everything on the volume goes, the volume stays.
    pub fn wipe(&self) {
        for entry in self.volume().read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                std::fs::remove_dir_all(path).unwrap();
            } else {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    /// A first start alone.
    pub fn new_cluster(&self) -> How {
        let (_, port) = self.addresses.peer.rsplit_once(':').unwrap();
        How::New {
            token: Token(format!("t-{port}")),
            initial: vec![(MemberName("c-0".to_owned()), PeerUrl(self.addresses.peer.clone()))],
        }
    }

    /// A new pod for this slot.
    pub fn pod(&self, etcd: &Etcd, config: &str) -> Pod<'_> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let uid = format!("uid-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = self.dir.path().join(&uid);
        std::fs::create_dir_all(dir.join("shared")).unwrap();
        std::fs::write(dir.join("start"), "").unwrap();
        std::fs::write(dir.join("termination-log"), "").unwrap();
        Pod {
            slot: self,
            uid,
            dir,
            generation: 0,
            etcd: etcd.clone(),
            config: config.to_owned(),
        }
    }

    /// A pod that has been let through for a first start.
    pub fn admitted(&self, etcd: &Etcd) -> Pod<'_> {
        let pod = self.pod(etcd, "c1");
        let report = pod.look();
        pod.go(&report.volume_id, self.new_cluster());
        pod.passes();
        pod
    }

    /// A member that has served, and was stopped; its pod.
    pub fn served(&self, etcd: &Etcd) -> Pod<'_> {
        let pod = self.admitted(etcd);
        let member = pod.launch();
        self.is_healthy();
        self.put("k");
        member.stop();
        pod
    }

    fn client(&self) -> Client {
        Client::new(&self.addresses.client)
    }

    /// Does the member answer a read that needs a quorum?
    pub fn serves(&self) -> bool {
        let request = RangeRequest {
            key: b"k".to_vec(),
            ..RangeRequest::default()
        };
        self.client()
            .try_call::<_, RangeResponse>("KV/Range", request)
            .is_ok()
    }

    pub fn is_healthy(&self) {
        eventually("the member serves", || self.serves());
    }

    /// Waits until the storage carries the minor of the etcd that runs, as it does from 3.6 on.
    pub fn is_settled(&self, minor: u32) {
        let (client, wanted) = (self.client(), format!("3.{minor}."));
        await_that("the storage has the version of etcd", LIMIT, || {
            let status: StatusResponse = client.call("Maintenance/Status", StatusRequest {});
            let found = status.storage_version;
            found.starts_with(&wanted).then_some(()).ok_or(found)
        });
    }

    /// Writes the key `k`, always the same.
    pub fn put(&self, key: &str) {
        assert_eq!(key, "k");
        self.client().put(b"k", b"v");
    }

    pub fn has_the_key(&self) -> bool {
        self.client().get(b"k").as_deref() == Some(&b"v"[..])
    }
}

pub struct Pod<'a> {
    slot: &'a Slot,
    pub uid: String,
    pub dir: PathBuf,
    pub generation: u32,
    pub etcd: Etcd,
    pub config: String,
}

/// A command that ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub err: String,
}

impl Ended {
    fn of(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn fails(&self, code: i32, part: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.contains(part), "{part:?} is not in {self:?}");
        assert!(
            !self.err.contains("os error") && !self.err.contains("panicked"),
            "{self:?}"
        );
    }
}

impl Pod<'_> {
    fn quorate(&self) -> Command {
        Command::new(env!("CARGO_BIN_EXE_quorate"))
    }

    /// What the termination log holds.
    pub fn last_words(&self) -> String {
        std::fs::read_to_string(self.dir.join("termination-log")).unwrap()
    }

    /// The init container that looks.
    pub fn look(&self) -> Report {
        self.look_with(&[])
    }

    pub fn look_with(&self, more: &[&str]) -> Report {
        let mut command = self.quorate();
        command.args(["prepare", "--look", "--patience", "0s"]).args(more);
        command.arg("--volume").arg(self.slot.volume());
        command.args(["--generation", &self.generation.to_string()]);
        command.arg("--report").arg(self.dir.join("termination-log"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Report::read(self.last_words().as_bytes()).unwrap()
    }

    /// The operator's go-ahead for this pod.
    pub fn go_ahead(&self, volume_id: &str, how: How) -> GoAhead {
        GoAhead {
            format: FORMAT,
            pod: self.uid.clone(),
            volume_id: volume_id.to_owned(),
            generation: Generation(self.generation),
            version: self.etcd.version,
            config: self.config.clone(),
            how,
            member: None,
            cluster: None,
            served: false,
            run: None,
            floor: Default::default(),
        }
    }

    pub fn go(&self, volume_id: &str, how: How) {
        self.annotate(&self.go_ahead(volume_id, how).to_annotation());
    }

    /// Sets the annotation, as the downward API shows it: another file under the same name.
    pub fn annotate(&self, text: &str) {
        std::fs::write(self.dir.join("start.next"), text).unwrap();
        std::fs::rename(self.dir.join("start.next"), self.dir.join("start")).unwrap();
    }

    /// The gate, as a command.
    pub fn gate(&self, patience: &str) -> Command {
        let mut command = self.quorate();
        command.args(["prepare", "--patience", patience]);
        command.arg("--volume").arg(self.slot.volume());
        command.args(["--generation", &self.generation.to_string()]);
        command.args([
            "--version",
            &self.etcd.version.to_string(),
            "--config",
            &self.config,
        ]);
        command.args(["--pod-uid", &self.uid]);
        command.arg("--go").arg(self.dir.join("start"));
        command.arg("--shared").arg(self.dir.join("shared"));
        command.arg("--report").arg(self.dir.join("termination-log"));
        command.stderr(Stdio::piped());
        command
    }

    /// A gate that runs, and where its words go.
    pub fn waiting_gate(&self) -> Gate {
        let words = self.dir.join("gate-words");
        let file = std::fs::File::create(&words).unwrap();
        Gate {
            child: self.gate("120s").stderr(file).spawn().unwrap(),
            words,
        }
    }

    /// The gate lets it through at once.
    #[track_caller]
    pub fn passes(&self) {
        let ended = Ended::of(self.gate("0s").output().unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    /// The gate lets nothing through now.
    #[track_caller]
    pub fn is_held_up(&self, code: i32, part: &str) {
        let ended = Ended::of(self.gate("0s").output().unwrap());
        ended.fails(code, part);
        let words = self.last_words();
        assert!(words.contains(part), "{part:?} is not in {words:?}");
    }

    fn etcd_command(&self, patience: &str) -> Command {
        let Addresses { client, peer } = &self.slot.addresses;
        // The copy that the gate left, as in the pod.
        let mut command = Command::new(self.dir.join("shared/quorate"));
        command.args(["launch-in-pod", "--patience", patience]);
        command.arg("--shared").arg(self.dir.join("shared"));
        command
            .arg("--report")
            .arg(self.dir.join("termination-log"))
            .arg("--");
        command.arg(&self.etcd.path).args(["--name=c-0", "--logger=zap"]);
        command.arg(format!("--listen-client-urls={client}"));
        command.arg(format!("--advertise-client-urls={client}"));
        command.arg(format!("--listen-peer-urls={peer}"));
        command.arg(format!("--initial-advertise-peer-urls={peer}"));
        command
            .env("ETCD_FORCE_NEW_CLUSTER", "true")
            .env("ETCD_PORT", "tcp://10.0.0.1:2379");
        command
    }

    pub fn launch(&self) -> Member {
        self.launch_patiently("60s")
    }

    pub fn launch_patiently(&self, patience: &str) -> Member {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("log"))
            .unwrap();
        let mut command = self.etcd_command(patience);
        // A group of its own: nothing is left behind when a test fails.
        command.stdout(Stdio::null()).stderr(log).process_group(0);
        Member {
            child: command.spawn().unwrap(),
            alive: self.slot.volume().join(".quorate/alive"),
        }
    }

    /// The etcd container with an option that no etcd knows.
    #[track_caller]
    pub fn is_launched_in_vain(&self) {
        let mut command = self.etcd_command("0s");
        let ended = Ended::of(command.arg("--no-such-option").output().unwrap());
        ended.fails(2, "no-such-option");
    }

    /// The etcd container ends at once.
    #[track_caller]
    pub fn is_not_launched(&self, code: i32, part: &str) {
        let ended = Ended::of(self.etcd_command("0s").output().unwrap());
        ended.fails(code, part);
        assert!(self.last_words().contains(part), "{}", self.last_words());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }
}

/// A gate that waits; killed when dropped.
pub struct Gate {
    pub child: Child,
    words: PathBuf,
}

impl Gate {
    pub fn words(&self) -> String {
        std::fs::read_to_string(&self.words).unwrap()
    }

    /// Waits until it gives this reason for waiting. It must not have ended.
    pub fn waits_because(&mut self, part: &str) {
        await_that("the gate says why it waits", LIMIT, || {
            let words = self.words();
            assert_eq!(self.child.try_wait().unwrap(), None, "{words}");
            words.contains(part).then_some(()).ok_or(words)
        });
    }

    /// Waits for its end; its exit code.
    pub fn ends(&mut self) -> Option<i32> {
        await_that("the gate has ended", LIMIT, || {
            self.child.try_wait().unwrap().ok_or_else(|| self.words())
        })
        .code()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process of the etcd container; killed when dropped.
pub struct Member {
    child: Child,
    /// The lock of its volume.
    alive: PathBuf,
}

impl Member {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it ended, and how?
    pub fn ended(&mut self) -> Option<Option<i32>> {
        self.child.try_wait().unwrap().map(|status| status.code())
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// As kubelet stops a container.
    pub fn stop(mut self) {
        self.signal(rustix::process::Signal::TERM);
        eventually("it has ended", || self.ended().is_some());
    }

    /// As nobody should: all processes of the container at once.
    pub fn kill(self) {
        let alive = self.alive.clone();
        drop(self);
        // Its lock goes with the last of them.
        eventually("nothing of it runs", || {
            let Ok(alive) = std::fs::File::open(&alive) else {
                return true;
            };
            rustix::fs::flock(&alive, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
        });
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

#[track_caller]
pub fn eventually(what: &str, is: impl FnMut() -> bool) {
    await_that(what, LIMIT, is);
}

/// A copy of a directory.
pub fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}
