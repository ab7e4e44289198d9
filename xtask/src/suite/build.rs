//! The one build of the tests: all packages, programs and tests together, so that every dependency is compiled with one
//! set of features. What the image holds and what tests start is built here, too.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::json::Json;

/// Everything that is built for tests. The Makefile's `build-tests` says the same.
const BUILD: [&str; 7] = [
    "build",
    "--workspace",
    "--bins",
    "--tests",
    "--features",
    "quorate-tests/e2e",
    "--message-format=json-render-diagnostics",
];

/// A program that holds tests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    pub package: String,
    pub target: String,
    /// Tests beside the code; the others are integration tests.
    pub unit: bool,
    pub executable: PathBuf,
    /// The package's own directory, in which its tests run.
    pub directory: PathBuf,
}

impl Program {
    pub fn title(&self) -> String {
        if self.unit {
            self.package.clone()
        } else {
            format!("{}::{}", self.package, self.target)
        }
    }
}

pub fn target_directory(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Builds, and returns the programs that hold tests.
pub fn build(root: &Path) -> Result<Vec<Program>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .args(BUILD)
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("run cargo build: {e}"))?;
    let output = child.stdout.take().ok_or("cargo's output is a pipe")?;
    let mut programs = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|e| format!("read cargo's output: {e}"))?;
        if line.contains("\"reason\":\"compiler-artifact\"") {
            programs.extend(test_program(&Json::parse(&line)?)?);
        }
    }
    let status = child.wait().map_err(|e| format!("await cargo: {e}"))?;
    if !status.success() {
        return Err(format!("cargo build: {status}"));
    }
    programs.sort();
    Ok(programs)
}

fn test_program(artifact: &Json) -> Result<Option<Program>> {
    let Some(executable) = artifact.get("executable").as_str() else {
        return Ok(None);
    };
    if artifact.get("profile").get("test") != &Json::Bool(true) {
        return Ok(None);
    }
    let target = artifact.get("target");
    let kinds = target.get("kind").list();
    let manifest = Path::new(artifact.text("manifest_path")?);
    let directory = manifest.parent().ok_or("a manifest lies in a directory")?;
    Ok(Some(Program {
        package: package_name(artifact.text("package_id")?),
        target: target.text("name")?.to_owned(),
        unit: !kinds.iter().any(|kind| kind.as_str() == Some("test")),
        executable: executable.into(),
        directory: directory.to_owned(),
    }))
}

/// Of `path+file:///dir/core#quorate-core@0.1.0`, or `path+file:///dir/xtask#0.1.0` where the directory has the name.
fn package_name(id: &str) -> String {
    let (path, rest) = id.split_once('#').unwrap_or((id, ""));
    match rest.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => path.rsplit('/').next().unwrap_or(path).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_is_a_program_of_tests_only_if_it_was_built_as_one() {
        let artifact = |test: &str, executable: &str| {
            let text = format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///r/crates/core#quorate-core@0.1.0",
                "manifest_path":"/r/crates/core/Cargo.toml","target":{{"kind":["test"],"name":"seeds"}},
                "profile":{{"test":{test}}},"executable":{executable}}}"#
            );
            test_program(&Json::parse(&text).unwrap()).unwrap()
        };
        let program = artifact("true", "\"/r/target/debug/deps/seeds-1\"").unwrap();
        assert_eq!(program.title(), "quorate-core::seeds");
        assert_eq!(program.directory, Path::new("/r/crates/core"));
        assert_eq!(artifact("true", "null"), None);
        assert_eq!(artifact("false", "\"/r/target/debug/quorate\""), None);
    }

    #[test]
    fn a_package_is_named_by_its_id() {
        assert_eq!(
            package_name("path+file:///r/tests#quorate-tests@0.1.0"),
            "quorate-tests"
        );
        assert_eq!(package_name("path+file:///r/xtask#0.1.0"), "xtask");
    }
}
