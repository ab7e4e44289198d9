//! A directory of its own for every test: root, home and cache, so that nothing of this machine is seen or touched.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A place to run quorate in.
pub struct Sandbox {
    directory: TempDir,
}

/// What a run came to.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Run {
    /// Fails unless it ended with `code` and its error has all of `parts`, in one paragraph without noise.
    pub fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in {self:?}");
        }
        let begins = self.err.starts_with("error: ") || self.err.starts_with("refused: ");
        assert!(
            begins && !self.err.contains("os error") && !self.err.contains("panicked"),
            "{self:?}"
        );
    }

    /// Fails unless it was done.
    pub fn succeeds(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        &self.out
    }
}

impl Sandbox {
    pub fn new() -> Sandbox {
        Sandbox {
            directory: TempDir::new().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// quorate with these arguments, on this sandbox's root.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        command
            .args(arguments)
            .env_clear()
            .current_dir(self.directory.path());
        command
            .env("HOME", self.path("home"))
            .env("QUORATE_ROOT", self.root())
            .env("QUORATE_REGISTRY", self.path("registry"));
        command
            .env("QUORATE_CACHE", self.path("cache"))
            .env("PATH", self.path("no-bin"));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Run {
        told(self.command(arguments).output().unwrap())
    }

    /// Writes a file; returns its path as text.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A program that calls itself etcd of this version, and does nothing else.
    pub fn etcd(&self, name: &str, version: &str) -> String {
        let path = self.file(name, &format!("#!/bin/sh\necho 'etcd Version: {version}'\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Nothing was made where a cluster would live.
    pub fn is_untouched(&self) -> bool {
        !self.root().exists()
    }
}

pub fn manifest() -> String {
    quorate_api::default_manifest("etcd", 3, &semver::Version::new(3, 6, 1))
}

pub fn told(output: Output) -> Run {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// A status as a supervisor leaves it, for commands that only read it.
pub fn leave_status(root: &Path, version: &str) {
    let log = root.join("logs/etcd-0.log");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "one\ntwo\nthree\n").unwrap();
    let status = quorate_host::Status {
        cluster: "etcd".to_owned(),
        members: vec![quorate_host::Member {
            name: "etcd-0".to_owned(),
            version: Some(version.to_owned()),
            role: "leader".to_owned(),
            process: "running".to_owned(),
            log,
            ..Default::default()
        }],
        ..Default::default()
    };
    std::fs::write(root.join("status.json"), serde_json::to_vec(&status).unwrap()).unwrap();
}
