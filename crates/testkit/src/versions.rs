//! The etcd binaries in the tools cache. A missing one fails the test with what to run; nothing is skipped.

use std::path::PathBuf;

/// Where `make tools` puts things.
pub fn cache() -> PathBuf {
    let from = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    from("QUORATE_CACHE").unwrap_or_else(|| {
        let base = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|h| h.join(".cache")));
        base.expect("HOME is set").join("quorate")
    })
}

/// Whether all cases are tried, as at night (`QUORATE_FULL=1`), or those few that the gate has time for.
pub fn in_full() -> bool {
    std::env::var_os("QUORATE_FULL").is_some_and(|value| value == "1")
}

/// The versions on which a test runs that runs on every version, oldest first: of each minor the newest cached patch,
/// [in full](in_full) every cached patch.
pub fn versions() -> Vec<String> {
    if in_full() {
        patches()
    } else {
        newest_of_each_minor()
    }
}

/// Every version in the cache whose download was verified, oldest first.
pub fn patches() -> Vec<String> {
    let numbers =
        |version: &str| -> Option<Vec<u32>> { version.split('.').map(|part| part.parse().ok()).collect() };
    let mut found: Vec<(Vec<u32>, String)> = std::fs::read_dir(cache().join("etcd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().join("VERIFIED").exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|version| Some((numbers(&version)?, version)))
        .collect();
    found.sort();
    assert!(
        !found.is_empty(),
        "no etcd in {}: run `make tools`",
        cache().display()
    );
    found.into_iter().map(|(_, version)| version).collect()
}

/// The minor of a version, such as 6.
pub fn minor(version: &str) -> u32 {
    let minor = version.split('.').nth(1).and_then(|part| part.parse().ok());
    minor.unwrap_or_else(|| panic!("{version:?} is not a version"))
}

/// The newest cached patch of a minor such as "3.6".
pub fn newest(minor: &str) -> String {
    let prefix = format!("{minor}.");
    let found = patches().into_iter().rfind(|v| v.starts_with(&prefix));
    found.unwrap_or_else(|| panic!("no etcd {minor} in {}: run `make tools`", cache().display()))
}

/// The newest cached patch of every minor, oldest first.
pub fn newest_of_each_minor() -> Vec<String> {
    let mut newest: Vec<String> = Vec::new();
    for version in patches() {
        newest.retain(|other| minor(other) != minor(&version));
        newest.push(version);
    }
    newest
}

/// The oldest and the newest cached version.
pub fn oldest_and_newest() -> Vec<String> {
    let mut all = patches();
    let newest = all.pop();
    all.into_iter().take(1).chain(newest).collect()
}

/// A program of a cached version: `etcd`, `etcdctl`, or `etcdutl` (since 3.5).
pub fn binary(version: &str, program: &str) -> PathBuf {
    let path = cache().join("etcd").join(version).join(program);
    // Written last, once the build was checked.
    let whole = path.with_file_name("VERIFIED").exists();
    assert!(
        path.exists() && whole,
        "{} is missing: run `make tools`",
        path.display()
    );
    path
}
