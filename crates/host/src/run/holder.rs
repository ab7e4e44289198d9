//! Who holds a port or a file: a process number and a command, for messages that say what to do.
//!
//! In: /proc. Out: a [`Holder`], or nothing where it cannot be seen (another user's process). Every scan is bounded;
//! nothing is decided by what is found here, but whether a process holds a lock ([`holds_lock`]).

use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Processes looked at in one scan.
const PROCESSES_MAX: usize = 8192;
/// Open files looked at in one scan.
const FILES_MAX: usize = 262_144;
/// Lines of one /proc table looked at.
const LINES_MAX: usize = 65_536;
/// The longest command shown.
const COMMAND_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    pub(crate) command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.command, self.pid)
    }
}

impl Holder {
    pub(crate) fn of_pid(pid: u32) -> Holder {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&line).replace('\0', " ");
        let command = match words.trim() {
            "" => std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .unwrap_or_default()
                .trim()
                .to_owned(),
            words => words.to_owned(),
        };
        let command = if command.is_empty() {
            "a process".to_owned()
        } else {
            command
        };
        Holder {
            pid,
            command: command.chars().take(COMMAND_MAX).collect(),
        }
    }
}

/// Could a member listen on this port of the loopback address now?
pub(crate) fn port_is_free(port: u16) -> Result<(), std::io::Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(drop)
}

/// The process that listens on `port`.
pub(crate) fn of_port(port: u16) -> Option<Holder> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|t| listeners(t, port))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let mut files_left = FILES_MAX;
    for entry in Path::new("/proc")
        .read_dir()
        .ok()?
        .take(PROCESSES_MAX * 2)
        .flatten()
    {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let Ok(files) = entry.path().join("fd").read_dir() else {
            continue;
        };
        for file in files.flatten() {
            files_left = files_left.checked_sub(1)?;
            let Ok(target) = std::fs::read_link(file.path()) else {
                continue;
            };
            if inodes.iter().any(|inode| target.as_os_str() == inode.as_str()) {
                return Some(Holder::of_pid(pid));
            }
        }
    }
    None
}

/// The sockets that listen on `port`, as their names under /proc/PID/fd.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let Ok(file) = std::fs::File::open(table) else {
        return Vec::new();
    };
    let lines = BufReader::new(file).lines().skip(1).take(LINES_MAX);
    lines
        .map_while(Result::ok)
        .filter_map(|line| listener(&line, port))
        .collect()
}

fn listener(line: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
    let matches = u16::from_str_radix(local_port, 16).ok()? == port && *fields.get(3)? == LISTEN;
    matches.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]")))?
}

/// The process that took the lock on `path`.
pub(crate) fn of_lock(path: &Path) -> Option<Holder> {
    let inode = path.metadata().ok()?.ino().to_string();
    let file = std::fs::File::open("/proc/locks").ok()?;
    let lines = BufReader::new(file).lines().take(LINES_MAX).map_while(Result::ok);
    let mut pids = lines.filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let of_file = fields.get(5)?.rsplit_once(':')?.1 == inode;
        if of_file {
            fields.get(4)?.parse::<u32>().ok()
        } else {
            None
        }
    });
    pids.next().map(Holder::of_pid)
}

/// Has a descriptor of process `pid` the lock on `path`? Where its descriptors may not be read, it is the process that
/// took the lock, if that is still known.
pub(crate) fn holds_lock(pid: u32, path: &Path) -> io::Result<bool> {
    let inode = path.metadata()?.ino().to_string();
    let entries = match Path::new("/proc").join(pid.to_string()).join("fdinfo").read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(of_lock(path).is_some_and(|holder| holder.pid == pid));
        }
        Err(error) => return Err(error),
    };
    for entry in entries.take(FILES_MAX).flatten() {
        // It may have been closed meanwhile.
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        if text.lines().any(|line| is_exclusive_lock(line, &inode)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Such as `lock:  1: FLOCK  ADVISORY  WRITE 42 08:01:4711 0 EOF`.
fn is_exclusive_lock(line: &str, inode: &str) -> bool {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let ["lock:", _, "FLOCK", _, "WRITE", _, file, ..] = fields[..] else {
        return false;
    };
    file.rsplit_once(':').is_some_and(|(_, of)| of == inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port() {
        let port = quorate_testkit::free_port();
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(port_is_free(port).is_err());
        assert_eq!(of_port(port).unwrap().pid, std::process::id());
        drop(socket);
        assert_eq!(of_port(port), None);
        port_is_free(port).unwrap();
    }

    #[test]
    fn only_listening_sockets_count() {
        let line = "   0: 0100007F:094B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0";
        assert_eq!(listener(line, 2379).unwrap(), "socket:[4711]");
        assert_eq!(listener(line, 2380), None);
        assert_eq!(listener(&line.replace(" 0A ", " 01 "), 2379), None);
        assert_eq!(listener("nonsense", 2379), None);
    }

    #[test]
    fn a_lock_is_found_by_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(of_lock(file.path()), None);
        rustix::fs::flock(
            file.as_file(),
            rustix::fs::FlockOperation::NonBlockingLockExclusive,
        )
        .unwrap();
        assert_eq!(of_lock(file.path()).unwrap().pid, std::process::id());
    }

    #[test]
    fn a_lock_is_held_by_who_has_its_descriptor() {
        let (file, other) = (
            tempfile::NamedTempFile::new().unwrap(),
            tempfile::NamedTempFile::new().unwrap(),
        );
        let own = std::process::id();
        assert!(!holds_lock(own, file.path()).unwrap());
        rustix::fs::flock(
            file.as_file(),
            rustix::fs::FlockOperation::NonBlockingLockExclusive,
        )
        .unwrap();
        assert!(holds_lock(own, file.path()).unwrap());
        assert!(!holds_lock(own, other.path()).unwrap());
        assert!(!holds_lock(u32::MAX, file.path()).unwrap());
    }
}
