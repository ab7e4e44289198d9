//! A shell as a reader of a guide has it: quorate and what else it takes on the PATH, a directory to work in; for the
//! guides to Kubernetes a kubeconfig and the checkout's samples. All of it is a copy of its own, so that a context or a
//! file can be changed as the guide says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use quorate_host::Status;

use crate::cluster::{Cluster, binary};
use crate::etcd;

/// No command of a guide may take longer; those that wait say so themselves, and say less.
const LIMIT_SECONDS: &str = "400";

pub struct Shell {
    home: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

/// What a command came to.
#[derive(Clone, Debug)]
pub struct Came {
    pub well: bool,
    /// What it printed, both ways.
    pub printed: String,
}

impl Shell {
    /// A shell with quorate and these programs.
    pub fn plain(programs: &[(&str, PathBuf)]) -> Shell {
        let home = tempfile::Builder::new().prefix("guide-").tempdir();
        let home = home.expect("a temporary directory");
        let shell = Shell {
            home,
            environment: Vec::new(),
        };
        let bin = shell.home.path().join("bin");
        for dir in [&bin, &shell.work()] {
            std::fs::create_dir_all(dir).expect("a directory can be made");
        }
        for (name, program) in programs.iter().cloned().chain([("quorate", binary())]) {
            let program = program
                .canonicalize()
                .unwrap_or_else(|e| panic!("{}: {e}", program.display()));
            std::os::unix::fs::symlink(program, bin.join(name)).expect("a link can be made");
        }
        shell
    }

    /// A shell beside a cluster of this version, whose status is this: etcdctl and quorate find it by themselves.
    pub fn beside(cluster: &Cluster, version: &str, status: Status) -> Shell {
        let certs = status.certs.expect("the cluster has certificates");
        let shown = |path: &Path| path.to_str().expect("a path of text").to_owned();
        let etcdctl = etcd::cache().join("etcd").join(version).join("etcdctl");
        Shell::plain(&[("etcdctl", etcdctl)])
            .with("QUORATE_ROOT", &shown(cluster.root()))
            .with("ETCDCTL_ENDPOINTS", &status.endpoints.join(","))
            .with("ETCDCTL_CACERT", &shown(&certs.ca))
            .with("ETCDCTL_CERT", &shown(&certs.cert))
            .with("ETCDCTL_KEY", &shown(&certs.key))
    }

    /// A shell with this kubectl, a copy of this kubeconfig, and the checkout's samples.
    pub fn new(kubectl: &Path, kubeconfig: &Path) -> Shell {
        let shell = Shell::plain(&[("kubectl", kubectl.to_owned())]);
        let copy = shell.home.path().join("kubeconfig");
        std::fs::copy(kubeconfig, &copy).unwrap_or_else(|e| panic!("{}: {e}", kubeconfig.display()));
        let samples = shell.work().join("config/samples");
        std::fs::create_dir_all(&samples).expect("a directory can be made");
        let from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../config/samples"));
        for entry in std::fs::read_dir(from)
            .expect("the checkout has samples")
            .flatten()
        {
            std::fs::copy(entry.path(), samples.join(entry.file_name())).expect("a file can be copied");
        }
        shell.with("KUBECONFIG", copy.to_str().expect("a path of text"))
    }

    /// The same with a variable in its environment.
    pub fn with(mut self, name: &str, value: &str) -> Shell {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Where its commands run.
    pub fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    pub fn run(&self, command: &str) -> Came {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.home.path().join("bin");
        let output = Command::new("timeout")
            .args([LIMIT_SECONDS, "bash", "-o", "pipefail", "-c"])
            .arg(format!("exec 2>&1\n{command}"))
            .current_dir(self.work())
            .env("PATH", format!("{}:{path}", bin.display()))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .expect("bash can be run");
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.code() == Some(124) {
            printed += &format!("\n(exit 124: it was killed after {LIMIT_SECONDS} s)\n");
        }
        Came {
            well: output.status.success(),
            printed,
        }
    }

    /// Runs a command, which must end well, and gives what it printed.
    pub fn must(&self, command: &str) -> String {
        let came = self.run(command);
        assert!(came.well, "$ {command}\n{}", came.printed);
        came.printed
    }
}
