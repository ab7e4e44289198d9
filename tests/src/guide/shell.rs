//! A shell as a reader of a guide has it: kubectl and quorate on the PATH, a kubeconfig, a directory with the checkout's
//! samples in it. All of it is a copy of its own, so that a context or a file can be changed as the guide says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cluster::binary;

/// No command of a guide may take longer; those that wait say so themselves, and say less.
const LIMIT_SECONDS: &str = "400";

/// A reader's shell.
pub struct Shell {
    home: tempfile::TempDir,
}

/// What a command came to.
#[derive(Clone, Debug)]
pub struct Came {
    /// It ended well.
    pub well: bool,
    /// What it printed, both ways.
    pub printed: String,
}

impl Shell {
    /// A shell with this kubectl and a copy of this kubeconfig.
    pub fn new(kubectl: &Path, kubeconfig: &Path) -> Shell {
        let home = tempfile::Builder::new().prefix("guide-").tempdir();
        let home = home.expect("a temporary directory");
        let shell = Shell { home };
        let bin = shell.home.path().join("bin");
        std::fs::create_dir_all(&bin).expect("a directory can be made");
        for (name, program) in [("kubectl", kubectl), ("quorate", &binary())] {
            let program = program
                .canonicalize()
                .unwrap_or_else(|e| panic!("{}: {e}", program.display()));
            std::os::unix::fs::symlink(program, bin.join(name)).expect("a link can be made");
        }
        std::fs::copy(kubeconfig, shell.home.path().join("kubeconfig"))
            .unwrap_or_else(|e| panic!("{}: {e}", kubeconfig.display()));
        let samples = shell.work().join("config/samples");
        std::fs::create_dir_all(&samples).expect("a directory can be made");
        let from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../config/samples"));
        for entry in std::fs::read_dir(from)
            .expect("the checkout has samples")
            .flatten()
        {
            std::fs::copy(entry.path(), samples.join(entry.file_name())).expect("a file can be copied");
        }
        shell
    }

    /// Where its commands run.
    pub fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    /// Runs a command.
    pub fn run(&self, command: &str) -> Came {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.home.path().join("bin");
        let output = Command::new("timeout")
            .args([LIMIT_SECONDS, "bash", "-o", "pipefail", "-c"])
            .arg(format!("exec 2>&1\n{command}"))
            .current_dir(self.work())
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("KUBECONFIG", self.home.path().join("kubeconfig"))
            .stdin(Stdio::null())
            .output()
            .expect("bash can be run");
        Came {
            well: output.status.success(),
            printed: String::from_utf8_lossy(&output.stdout).into_owned(),
        }
    }

    /// Runs a command, which must end well, and gives what it printed.
    pub fn must(&self, command: &str) -> String {
        let came = self.run(command);
        assert!(came.well, "$ {command}\n{}", came.printed);
        came.printed
    }
}
