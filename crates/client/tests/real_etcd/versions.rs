//! Which etcd binaries there are to test with.

use std::path::PathBuf;

use semver::Version;

/// One cached etcd.
#[derive(Debug, Clone)]
pub struct Etcd {
    pub version: Version,
    pub binary: PathBuf,
}

/// Every cached etcd, oldest first. Fails if there is none.
pub fn all() -> Vec<Etcd> {
    let cache = cache().join("etcd");
    let entries = std::fs::read_dir(&cache).map(|entries| entries.flatten().collect::<Vec<_>>());
    let mut found = Vec::new();
    for entry in entries.unwrap_or_default() {
        let version = entry
            .file_name()
            .to_str()
            .and_then(|name| Version::parse(name).ok());
        let binary = entry.path().join("etcd");
        if let (Some(version), true) = (version, binary.is_file()) {
            found.push(Etcd { version, binary });
        }
    }
    assert!(
        !found.is_empty(),
        "no etcd in {}: run `make tools`",
        cache.display()
    );
    found.sort_by(|a, b| a.version.cmp(&b.version));
    found
}

/// The oldest and the newest cached etcd.
pub fn extremes() -> Vec<Etcd> {
    let mut all = all();
    let newest = all.pop();
    all.into_iter().take(1).chain(newest).collect()
}

fn cache() -> PathBuf {
    let dir = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    dir("QUORATE_CACHE")
        .or_else(|| dir("XDG_CACHE_HOME").map(|cache| cache.join("quorate")))
        .or_else(|| dir("HOME").map(|home| home.join(".cache/quorate")))
        .expect("one of QUORATE_CACHE, XDG_CACHE_HOME, HOME is set")
}
