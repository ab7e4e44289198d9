//! Finding etcd: the binary named, beside quorate, in the root, in the cache, on the PATH.
//!
//! In: the places and the wanted version. Out: a binary that says of itself that it is that version.
//! Never: a download; a binary taken on the strength of its file name; a wait without a limit for one.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quorate_core::model::Version;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

use crate::Error;

/// How long a binary may take to say its version: after a boot it is first read from a slow disk that others use too.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// How long one that did not say it is let be before it is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// How much of what it says is read.
const OUTPUT_LIMIT: u64 = 4096;
/// How many entries of one directory are looked at.
const ENTRIES_MAX: usize = 256;

/// An etcd that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdBinary {
    pub path: PathBuf,
    /// What it says it is.
    pub version: Version,
}

/// Where to look, in this order.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Named by the user; it must be there and be etcd.
    pub explicit: Option<PathBuf>,
    /// The directory of quorate's own binary.
    pub beside: Option<PathBuf>,
    /// `bin` of the root: `etcd`, `etcd-<version>`, `<version>/etcd`.
    pub root_bin: Option<PathBuf>,
    /// The cache: `etcd/<version>/etcd` in it.
    pub cache: Option<PathBuf>,
    pub path: Option<OsString>,
}

impl Places {
    /// The usual places for the cluster in `root`.
    pub fn of(root: Option<&Path>, explicit: Option<&Path>, cache: Option<&Path>) -> Places {
        Places {
            explicit: explicit.map(Path::to_owned),
            beside: std::env::current_exe()
                .ok()
                .and_then(|exe| exe.parent().map(Path::to_owned)),
            root_bin: root.map(|root| root.join("bin")),
            cache: cache.map(Path::to_owned).or_else(default_cache),
            path: std::env::var_os("PATH"),
        }
    }

    /// Every file that could be it, each once.
    fn candidates(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        let mut add = |path: PathBuf| {
            if !found.contains(&path) {
                found.push(path);
            }
        };
        self.beside.iter().for_each(|dir| add(dir.join("etcd")));
        if let Some(dir) = &self.root_bin {
            add(dir.join("etcd"));
            for name in names_in(dir) {
                if name.starts_with("etcd-") {
                    add(dir.join(&name));
                } else if name.parse::<Version>().is_ok() {
                    add(dir.join(&name).join("etcd"));
                }
            }
        }
        for dir in self.cache.iter().map(|cache| cache.join("etcd")) {
            let versions = names_in(&dir)
                .into_iter()
                .filter(|name| name.parse::<Version>().is_ok());
            versions.for_each(|name| add(dir.join(name).join("etcd")));
        }
        let path = self.path.clone().unwrap_or_default();
        std::env::split_paths(&path)
            .filter(|dir| dir.is_absolute())
            .for_each(|dir| add(dir.join("etcd")));
        found
    }
}

pub fn default_cache() -> Option<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    variable("QUORATE_CACHE").or_else(|| {
        let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        cache.map(|cache| cache.join("quorate"))
    })
}

/// A search that found nothing suitable, with everything that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// What was wanted; `None` is any supported version.
    pub wanted: Option<Version>,
    /// Each place and what was there.
    pub places: Vec<(PathBuf, String)>,
    /// Where to put one.
    pub root_bin: Option<PathBuf>,
}

impl fmt::Display for Searched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wanted {
            Some(version) => write!(f, "etcd {version} was not found; looked at:")?,
            None => write!(f, "no etcd that quorate supports was found; looked at:")?,
        }
        for (path, what) in &self.places {
            write!(f, "\n  {}: {what}", path.display())?;
        }
        let version = self.wanted.map_or("VERSION".to_owned(), |v| v.to_string());
        write!(f, "\nname one with --etcd PATH")?;
        if let Some(dir) = &self.root_bin {
            write!(f, ", put it at {}", dir.join(format!("etcd-{version}")).display())?;
        }
        write!(f, ", or, in a checkout of quorate, run `make tools`")
    }
}

/// Looks for etcd of version `wanted`, or for the newest supported one.
pub fn find_etcd(wanted: Option<Version>, places: &Places) -> Result<EtcdBinary, Error> {
    Finder::new(places.clone()).find(wanted)
}

/// Looks for an etcd that can go on with data of `minor`: of that minor, or else of the next one there is. One that is
/// named is taken as it is.
pub fn find_etcd_for(minor: u32, places: &Places) -> Result<EtcdBinary, Error> {
    if places.explicit.is_some() {
        return find_etcd(None, places);
    }
    Finder::new(places.clone()).find_for(minor)
}

/// A search that remembers what each file said of itself, for as long as the file stays the same.
#[derive(Debug)]
pub(crate) struct Finder {
    places: Places,
    known: HashMap<PathBuf, Known>,
    limit: Duration,
    ask_again: Duration,
}

#[derive(Debug)]
struct Known {
    stamp: BinaryStamp,
    answer: Result<Version, String>,
    /// When it was waited for in vain.
    silent_since: Option<Instant>,
}

/// Enough of a file's metadata to notice that it was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BinaryStamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Finder {
    pub(crate) fn new(places: Places) -> Finder {
        Finder {
            places,
            known: HashMap::new(),
            limit: VERSION_LIMIT,
            ask_again: ASK_AGAIN,
        }
    }

    pub(crate) fn find(&mut self, wanted: Option<Version>) -> Result<EtcdBinary, Error> {
        let mut seen = Vec::new();
        let mut best: Option<EtcdBinary> = None;
        if let Some(path) = self.places.explicit.clone() {
            let path = std::path::absolute(&path).unwrap_or(path);
            match self.version_of(&path) {
                Err(why) => return Err(Error::BadEtcd { path, why }),
                Ok(version) if wanted.is_none_or(|w| w == version) => {
                    return Ok(EtcdBinary { path, version });
                }
                Ok(version) => seen.push((path, format!("etcd {version}"))),
            }
        }
        for path in self.places.candidates() {
            match self.version_of(&path) {
                Ok(version) if wanted == Some(version) => return Ok(EtcdBinary { path, version }),
                Ok(version) => {
                    let supported = Version::MINORS.contains(&version.minor) && !version.corrupts();
                    let newer = best.as_ref().is_none_or(|best| best.version < version);
                    if wanted.is_none() && supported && newer {
                        best = Some(EtcdBinary {
                            path: path.clone(),
                            version,
                        });
                    }
                    seen.push((path, format!("etcd {version}")));
                }
                Err(why) => seen.push((path, why)),
            }
        }
        best.ok_or_else(|| {
            let root_bin = self.places.root_bin.clone();
            Error::NoEtcd(Box::new(Searched {
                wanted,
                places: seen,
                root_bin,
            }))
        })
    }

    fn find_for(&mut self, minor: u32) -> Result<EtcdBinary, Error> {
        let (mut seen, mut best) = (Vec::new(), None::<EtcdBinary>);
        for path in self.places.candidates() {
            match self.version_of(&path) {
                Ok(version) => {
                    let rank = |version: Version| (std::cmp::Reverse(version.minor), version.patch);
                    let fits = Version::MINORS.contains(&version.minor)
                        && version.minor >= minor
                        && !version.corrupts();
                    let better = best
                        .as_ref()
                        .is_none_or(|best| rank(best.version) < rank(version));
                    seen.push((path.clone(), format!("etcd {version}")));
                    if fits && better {
                        best = Some(EtcdBinary { path, version });
                    }
                }
                Err(why) => seen.push((path, why)),
            }
        }
        best.ok_or_else(|| {
            let root_bin = self.places.root_bin.clone();
            Error::NoEtcd(Box::new(Searched {
                wanted: None,
                places: seen,
                root_bin,
            }))
        })
    }

    /// A binary of this version that was found before and has not changed since; runs nothing.
    pub(crate) fn recall(&self, version: Version) -> Option<EtcdBinary> {
        let same = |path: &Path, known: &BinaryStamp| stamp(path).is_ok_and(|stamp| stamp == *known);
        let mut known = self.known.iter().filter(|(_, known)| known.answer == Ok(version));
        let (path, _) = known.find(|(path, known)| same(path, &known.stamp))?;
        Some(EtcdBinary {
            path: path.clone(),
            version,
        })
    }

    fn version_of(&mut self, path: &Path) -> Result<Version, String> {
        let stamp = stamp(path)?;
        let holds = |known: &&Known| {
            let again = known
                .silent_since
                .is_some_and(|since| since.elapsed() >= self.ask_again);
            known.stamp == stamp && !again
        };
        if let Some(known) = self.known.get(path).filter(holds) {
            return known.answer.clone();
        }
        let said = ask_version(path, self.limit);
        let known = Known {
            stamp,
            silent_since: said.is_none().then(Instant::now),
            answer: said.unwrap_or_else(|| {
                Err(format!(
                    "did not say its version within {} s",
                    self.limit.as_secs()
                ))
            }),
        };
        let answer = known.answer.clone();
        self.known.insert(path.to_owned(), known);
        answer
    }
}

fn stamp(path: &Path) -> Result<BinaryStamp, String> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err("not there".to_owned()),
        Err(error) => return Err(format!("cannot be looked at: {error}")),
    };
    if !metadata.is_file() {
        return Err("not a file".to_owned());
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err("not executable".to_owned());
    }
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    Ok(BinaryStamp {
        inode: metadata.ino(),
        size: metadata.size(),
        changed,
    })
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().into_iter().flatten().take(ENTRIES_MAX);
    let mut names: Vec<String> = entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// What a binary says of itself; `None`: nothing within the limit.
fn ask_version(path: &Path, limit: Duration) -> Option<Result<Version, String>> {
    let spawned = Command::new(path)
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Some(Err(format!("cannot be run: {error}"))),
    };
    let ended = wait(&child, limit);
    if ended != Some(true) {
        let _ = child.kill();
    }
    let _ = child.wait();
    if ended == Some(false) {
        return None;
    }
    let mut text = String::new();
    let output = child
        .stdout
        .take()
        .map(|out| out.take(OUTPUT_LIMIT).read_to_string(&mut text));
    let version = matches!(output, Some(Ok(_)))
        .then(|| parse_version(&text))
        .flatten();
    Some(version.ok_or_else(|| "not etcd".to_owned()))
}

/// `Some(true)`: it ended; `Some(false)`: not in time; `None`: it cannot be watched.
fn wait(child: &std::process::Child, limit: Duration) -> Option<bool> {
    let pidfd = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()?;
    let limit = Timespec::try_from(limit).ok()?;
    let mut polled = [PollFd::new(&pidfd, PollFlags::IN)];
    rustix::event::poll(&mut polled, Some(&limit))
        .ok()
        .map(|ready| ready > 0)
}

fn parse_version(output: &str) -> Option<Version> {
    let line = output
        .lines()
        .find_map(|line| line.strip_prefix("etcd Version:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn etcd(path: &Path, version: &str) {
        script(
            path,
            &format!("echo 'etcd Version: {version}'; echo 'Git SHA: abc'"),
        );
    }

    #[test]
    fn the_nearest_minor_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        for version in ["3.5.16", "3.5.35", "3.7.3"] {
            etcd(&dir.path().join("etcd").join(version).join("etcd"), version);
        }
        let places = Places {
            cache: Some(dir.path().to_owned()),
            ..Places::default()
        };
        let found = |minor| find_etcd_for(minor, &places).map(|found| found.version.to_string());
        assert_eq!(found(4).unwrap(), "3.5.35");
        assert_eq!(found(5).unwrap(), "3.5.35");
        assert_eq!(found(6).unwrap(), "3.7.3");
        assert!(found(8).is_err());
    }

    #[test]
    fn finds_the_wanted_version_whatever_the_file_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let root_bin = dir.path().join("bin");
        let cache = dir.path().join("cache");
        etcd(&root_bin.join("etcd"), "3.5.16");
        etcd(&root_bin.join("etcd-3.6.1"), "3.6.2");
        etcd(&cache.join("etcd/3.7.0/etcd"), "3.7.0");
        let places = Places {
            root_bin: Some(root_bin.clone()),
            cache: Some(cache),
            ..Places::default()
        };
        let v = |text: &str| text.parse::<Version>().unwrap();
        assert_eq!(
            find_etcd(Some(v("3.6.2")), &places).unwrap().path,
            root_bin.join("etcd-3.6.1")
        );
        assert_eq!(find_etcd(None, &places).unwrap().version, v("3.7.0"));
        let error = find_etcd(Some(v("3.6.1")), &places).unwrap_err().to_string();
        for part in [
            "etcd 3.6.1 was not found",
            "etcd 3.6.2",
            "etcd 3.5.16",
            "--etcd PATH",
            "make tools",
        ] {
            assert!(error.contains(part), "{part:?} is not in {error}");
        }
    }

    #[test]
    fn what_is_not_etcd_is_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        script(&dir.path().join("liar"), "echo hello");
        std::fs::write(dir.path().join("plain"), "x").unwrap();
        for (name, expected) in [
            ("liar", "not etcd"),
            ("plain", "not executable"),
            ("none", "not there"),
        ] {
            let places = Places {
                explicit: Some(dir.path().join(name)),
                ..Places::default()
            };
            let error = find_etcd(None, &places).unwrap_err();
            assert!(error.to_string().contains(expected), "{name}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn a_binary_that_says_nothing_is_asked_again_later() {
        let dir = tempfile::tempdir().unwrap();
        let (path, spoken) = (dir.path().join("etcd"), dir.path().join("spoken"));
        let mut finder = Finder::new(Places {
            explicit: Some(path.clone()),
            ..Places::default()
        });
        finder.limit = Duration::from_secs(1);
        script(
            &path,
            &format!(
                "[ -e {0} ] && exec echo 'etcd Version: 3.6.1'; exec sleep 60",
                spoken.display()
            ),
        );
        let silent = finder.find(None).unwrap_err();
        assert!(
            silent.to_string().contains("did not say its version within 1 s"),
            "{silent}"
        );
        assert_eq!(silent.exit_code(), 2);
        std::fs::write(&spoken, "").unwrap();
        finder.limit = VERSION_LIMIT;
        assert!(finder.find(None).is_err(), "asked again at once");
        finder.ask_again = Duration::ZERO;
        assert_eq!(finder.find(None).unwrap().version, Version::new(3, 6, 1));
    }

    #[test]
    fn a_replaced_binary_is_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd");
        let mut finder = Finder::new(Places {
            explicit: Some(path.clone()),
            ..Places::default()
        });
        etcd(&path, "3.5.16");
        assert_eq!(finder.find(None).unwrap().version, Version::new(3, 5, 16));
        std::fs::remove_file(&path).unwrap();
        etcd(&path, "3.5.160");
        assert_eq!(finder.find(None).unwrap().version, Version::new(3, 5, 160));
    }
}
