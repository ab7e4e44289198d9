//! Which root is meant, and the cluster in it as another process sees it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use quorate_host::{Member, Root, Status, control};

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
    let mut status = control::read_status(root.path())?.ok_or_else(|| nothing_here(root))?;
    if !status.supervisor.running {
        status.members.iter_mut().for_each(unwatched);
        (status.ready, status.endpoints) = (false, Vec::new());
    }
    Ok(status)
}

/// Without a supervisor only the process itself can still be looked at; how it was is no longer how it is.
fn unwatched(member: &mut Member) {
    (member.healthy, member.leader) = (false, false);
    let command = member
        .pid
        .and_then(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok());
    let command = command.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let data_dir = member.data_dir.to_string_lossy();
    if !command.is_some_and(|command| command.contains(&*data_dir)) {
        member.pid = None;
        member.process = "stopped".to_owned();
    }
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

/// How long ago `status` was written; `None` if it does not say.
pub fn age(status: &Status) -> Option<Duration> {
    let written: Timestamp = status.updated_at.parse().ok()?;
    // A clock that was set back makes nothing older than new.
    Some(Duration::try_from(Timestamp::now().duration_since(written)).unwrap_or_default())
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

    #[test]
    fn a_member_without_a_supervisor_is_believed_only_as_far_as_its_process() {
        let healthy = Member {
            healthy: true,
            leader: true,
            process: "running".to_owned(),
            ..Member::default()
        };
        let data_dir = PathBuf::from("/no/such/data");
        let mut gone = Member {
            pid: Some(std::process::id()),
            data_dir,
            ..healthy.clone()
        };
        unwatched(&mut gone);
        assert_eq!(
            (gone.pid, gone.healthy, gone.process.as_str()),
            (None, false, "stopped")
        );
        let mut there = Member {
            pid: Some(std::process::id()),
            ..healthy
        };
        unwatched(&mut there);
        assert_eq!(
            (there.pid, there.leader, there.process.as_str()),
            (Some(std::process::id()), false, "running")
        );
    }

    #[test]
    fn a_future_status_is_new() {
        let status = Status {
            updated_at: "2999-01-01T00:00:00Z".to_owned(),
            ..Status::default()
        };
        assert_eq!(age(&status), Some(Duration::ZERO));
        assert_eq!(age(&Status::default()), None);
    }
}
