//! Which root is meant, and the cluster in it as another process sees it.

use std::path::{Path, PathBuf};

use quorate_host::{Root, Status, control};

use crate::failure::Failure;

/// The root named on the command line or in the environment, or the usual one; absolute.
pub fn resolve(named: Option<PathBuf>) -> Result<Root, Failure> {
    let path = match named {
        Some(path) if path.as_os_str().is_empty() => {
            return Err(Failure::usage(
                "--root (or QUORATE_ROOT) is empty: name the directory of a cluster",
            ));
        }
        Some(path) => path,
        None => Root::default_path()?,
    };
    Ok(Root::at(&path)?)
}

/// The status of the cluster in `root`; that there is none is a failure that says how to start one.
pub fn status(root: &Root) -> Result<Status, Failure> {
    control::read_status(root.path())?.ok_or_else(|| nothing_here(root))
}

/// There is no cluster under this root.
pub fn nothing_here(root: &Root) -> Failure {
    Failure::failed(format!("there is no cluster under {}", root.path().display())).and(&format!(
        "Start one with `quorate up{}`, or name the root of another with --root.",
        option(root)
    ))
}

/// ` --root DIR`, where a command in another terminal needs it to mean this root.
pub fn option(root: &Root) -> String {
    // QUORATE_ROOT is of this terminal only.
    let elsewhere = std::env::var_os("QUORATE_ROOT").is_some();
    let usual = Root::default_path().ok().and_then(|path| Root::at(&path).ok());
    match usual.as_ref() == Some(root) && !elsewhere {
        true => String::new(),
        false => format!(" --root {}", quoted(root.path())),
    }
}

/// A path as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(quoted(Path::new("/a/b-c.d")), "/a/b-c.d");
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
