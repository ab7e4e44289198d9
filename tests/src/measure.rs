//! Commands in figures: how long until their data is on the disk, and how much memory they took.
//!
//! For benches: what goes wrong panics. Nothing here judges.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MEMORY_LIMIT: u64 = 128 << 20;

/// How long a command took, and the most memory of its own it had.
#[derive(Debug, Clone, Copy)]
pub struct Best {
    /// Until its data was on the disk.
    pub seconds: f64,
    /// RssAnon in bytes, at most.
    pub anonymous: u64,
}

impl Best {
    /// The shortest time of some, and the most memory.
    pub fn of(all: &[Best]) -> Best {
        Best {
            seconds: all.iter().map(|one| one.seconds).fold(f64::MAX, f64::min),
            anonymous: all.iter().map(|one| one.anonymous).max().unwrap_or(0),
        }
    }
}

/// Runs a command until its data, below `root`, is on the disk. It must succeed.
pub fn timed(command: &mut Command, root: &Path) -> Best {
    settle(root);
    let log = tempfile::tempfile().expect("a file for what it says");
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.try_clone().expect("a file"))
        .spawn()
        .expect("it can be started");
    let mut anonymous = 0;
    let ended = loop {
        anonymous = anonymous.max(rss_anon(child.id()));
        if let Some(ended) = child.try_wait().expect("it can be waited for") {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    settle(root);
    let seconds = began.elapsed().as_secs_f64();
    assert!(ended.success(), "{command:?}: {ended}: {}", end_of(log));
    Best { seconds, anonymous }
}

fn end_of(mut log: fs::File) -> String {
    let mut said = String::new();
    let _ = std::io::Seek::rewind(&mut log);
    let _ = std::io::Read::read_to_string(&mut log, &mut said);
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Everything that was written to this filesystem is on the disk.
pub fn settle(path: &Path) {
    let status = Command::new("sync").arg("-f").arg(path).status();
    assert!(status.is_ok_and(|status| status.success()), "sync -f");
}

/// The memory of its own that a process has.
pub fn rss_anon(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// A process whose memory is looked at until it ends.
#[derive(Debug)]
pub struct Watched(std::thread::JoinHandle<u64>);

impl Watched {
    pub fn start(pid: u32) -> Watched {
        Watched(std::thread::spawn(move || {
            let (mut most, mut nothing) = (0, 0);
            // A process that ended has no memory; nor has one that is only just beginning.
            while nothing < 50 {
                let now = rss_anon(pid);
                nothing = if now == 0 { nothing + 1 } else { 0 };
                most = most.max(now);
                std::thread::sleep(Duration::from_millis(10));
            }
            most
        }))
    }

    /// The most memory of its own that it had. It must have ended.
    pub fn most(self) -> u64 {
        self.0.join().unwrap_or(0)
    }
}

/// A group of processes with a limit to their memory, by either version of cgroups.
fn group() -> std::io::Result<PathBuf> {
    let name = format!("quorate-bench-{}", std::process::id());
    let first = Path::new("/sys/fs/cgroup/memory");
    if first.join("memory.limit_in_bytes").exists() {
        let group = first.join(name);
        fs::create_dir(&group)?;
        fs::write(group.join("memory.limit_in_bytes"), MEMORY_LIMIT.to_string())?;
        return Ok(group);
    }
    let root = Path::new("/sys/fs/cgroup");
    if !root.join("cgroup.controllers").exists() {
        return Err(std::io::Error::other("there is no memory controller"));
    }
    let group = root.join(name);
    fs::create_dir(&group)?;
    fs::write(group.join("memory.max"), MEMORY_LIMIT.to_string())?;
    fs::write(group.join("memory.swap.max"), "0")?;
    Ok(group)
}

/// Runs a command with so little memory, the kernel's cache of its files included.
pub fn limited(command: Command) -> String {
    let group = match group() {
        Ok(group) => group,
        Err(error) => return format!("not tried, no group can be made ({error})"),
    };
    let began = Instant::now();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
        .arg(&group)
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let ended = shell.status();
    let seconds = began.elapsed().as_secs_f64();
    // A group is busy for a moment after its last process ended.
    let removed = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        fs::remove_dir(&group).is_ok()
    });
    assert!(removed, "{} cannot be removed", group.display());
    match ended {
        Ok(ended) if ended.success() => format!("done in {seconds:.2} s"),
        other => format!("FAILED ({other:?})"),
    }
}

/// Bytes that compress badly.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let words = (0..length.div_ceil(8)).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(length).collect()
}
