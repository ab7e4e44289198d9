//! A real etcd for the commands to talk to, of any version in the cache, and a wire to it that can be cut.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use quorate_workloads::Addresses;

const LIMIT: Duration = Duration::from_secs(60);

/// The versions in the cache, oldest first, with the directories of their programs.
pub fn versions() -> Vec<(semver::Version, PathBuf)> {
    let cache = quorate_host::find::default_cache()
        .expect("HOME is set")
        .join("etcd");
    let mut found: Vec<(semver::Version, PathBuf)> = std::fs::read_dir(&cache)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((
                semver::Version::parse(entry.file_name().to_str()?).ok()?,
                entry.path(),
            ))
        })
        .filter(|(_, path)| path.join("etcd").is_file())
        .collect();
    found.sort();
    assert!(
        !found.is_empty(),
        "no etcd in {}: run `make tools`",
        cache.display()
    );
    found
}

/// The newest version in the cache.
pub fn newest() -> (semver::Version, PathBuf) {
    versions().pop().expect("there is one")
}

/// One member, killed when dropped.
pub struct Etcd {
    child: Child,
    programs: PathBuf,
    pub data_dir: PathBuf,
    pub url: String,
    log: PathBuf,
}

impl Etcd {
    /// A new member in `dir`; healthy.
    pub fn start(programs: &Path, dir: &Path) -> Etcd {
        let data_dir = dir.join("data");
        Etcd::start_on(programs, dir, &data_dir, "default", &[])
    }

    /// A member named `name` on `data_dir`; healthy. Without others it is a cluster of its own.
    pub fn start_on(programs: &Path, dir: &Path, data_dir: &Path, name: &str, more: &[&str]) -> Etcd {
        std::fs::create_dir_all(dir).unwrap();
        let Addresses { client, peer } = Addresses::free();
        let log = dir.join("etcd.log");
        let mut command = Command::new(programs.join("etcd"));
        command
            .args(["--name", name, "--logger", "zap", "--log-level", "warn"])
            .arg("--data-dir")
            .arg(data_dir)
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ]);
        if !more.iter().any(|word| word.contains("peer-urls")) {
            command
                .args([
                    "--listen-peer-urls",
                    &peer,
                    "--initial-advertise-peer-urls",
                    &peer,
                ])
                .args(["--initial-cluster", &format!("{name}={peer}")]);
        }
        let child = command
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut etcd = Etcd {
            child,
            programs: programs.to_owned(),
            data_dir: data_dir.to_owned(),
            url: client,
            log,
        };
        etcd.await_healthy();
        etcd
    }

    fn await_healthy(&mut self) {
        let until = Instant::now() + LIMIT;
        while !self.ctl_quietly(&["get", "health"]).status.success() {
            let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
            assert!(self.child.try_wait().unwrap().is_none(), "etcd ended:\n{}", log());
            assert!(Instant::now() < until, "etcd is not healthy:\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn ctl_quietly(&self, arguments: &[&str]) -> Output {
        self.ctl_command(arguments).output().unwrap()
    }

    /// etcdctl with these arguments.
    pub fn ctl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join("etcdctl"));
        command.args(["--endpoints", &self.url]).args(arguments);
        command
    }

    /// What etcdctl prints, which must end well.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output = self.ctl_quietly(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Puts a value that may be long or not text.
    pub fn put(&self, key: &str, value: &[u8]) {
        let mut child = self
            .ctl_command(&["put", key])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(value).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Stops it as an operator would.
    pub fn stop(mut self) -> PathBuf {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
        self.child.wait().unwrap();
        self.data_dir.clone()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What happens to a wire once enough went over it.
#[derive(Clone, Copy)]
pub enum Then {
    Cut,
    Stall,
}

/// A wire to a member that carries `bytes` of its answers, and then no more.
pub struct Wire {
    pub url: String,
    full: Receiver<()>,
}

impl Wire {
    pub fn to(etcd: &Etcd, bytes: usize, then: Then) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let target = etcd.url.trim_start_matches("http://").to_owned();
        let (told, full) = channel();
        std::thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(target).unwrap();
            let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
            let carried = std::io::copy(&mut (&server).take(bytes as u64), &mut (&client));
            if let Then::Cut = then {
                let _ = client.shutdown(Shutdown::Both);
            }
            let _ = told.send(());
            // Held open until the other side hangs up.
            let _ = carried.map(|_| (&client).read(&mut [0]));
        });
        Wire { url, full }
    }

    /// Until it has carried what it carries.
    pub fn await_full(&self) {
        self.full.recv_timeout(LIMIT).expect("the wire fills up");
    }
}
