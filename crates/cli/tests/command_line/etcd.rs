//! A real etcd for the commands to talk to, and a wire to it that can be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use quorate_testkit::{Addresses, Server, Start, binary, versions};

const LIMIT: Duration = Duration::from_secs(60);

/// The newest version in the cache.
pub fn newest() -> String {
    versions().pop().expect("there is one")
}

/// The tool of a version that reads and restores snapshots: `etcdutl` since 3.5, before that `etcdctl`.
pub fn snapshot_tool(version: &str) -> PathBuf {
    match quorate_testkit::minor(version) {
        ..5 => binary(version, "etcdctl"),
        _ => binary(version, "etcdutl"),
    }
}

/// One member, killed when dropped.
pub struct Etcd {
    server: Server,
    pub data_dir: PathBuf,
    pub url: String,
}

impl Etcd {
    /// A new member in `dir`; it serves.
    pub fn start(version: &str, dir: &Path) -> Etcd {
        Etcd::serve(Start {
            name: "default".into(),
            ..Start::new(version, &dir.join("data"))
        })
    }

    /// A member on a data directory that was restored for it alone; it serves. Peers listen where nobody calls.
    pub fn start_restored(version: &str, data_dir: &Path) -> Etcd {
        Etcd::serve(Start {
            name: "default".into(),
            ..Start::new(version, data_dir)
        })
    }

    /// A member of a cluster that was restored as `cluster`; it serves.
    pub fn start_member(version: &str, data_dir: &Path, name: &str, peer: &str, cluster: &str) -> Etcd {
        let addresses = Addresses {
            peer: peer.to_owned(),
            ..Addresses::free()
        };
        Etcd::serve(Start {
            name: name.into(),
            addresses: Some(addresses),
            initial_cluster: Some(cluster.to_owned()),
            flags: vec!["--initial-cluster-token=again".into()],
            ..Start::new(version, data_dir)
        })
    }

    fn serve(start: Start) -> Etcd {
        let server = start.serve();
        Etcd {
            data_dir: server.data_dir().to_owned(),
            url: server.addresses().client.clone(),
            server,
        }
    }

    /// etcdctl with these arguments.
    pub fn ctl_command(&self, arguments: &[&str]) -> Command {
        self.server.etcdctl_command(arguments)
    }

    /// What etcdctl prints, which must end well.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        self.server.etcdctl(None, arguments)
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
    pub fn stop(self) -> PathBuf {
        self.server.stop();
        self.data_dir
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
