//! The etcd binaries in the tools cache. A missing one fails the test with what to do; nothing is skipped.

use std::path::PathBuf;

/// Where `make tools` puts things.
pub fn cache() -> PathBuf {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    from("QUORATE_CACHE").unwrap_or_else(|| {
        let base = from("XDG_CACHE_HOME").or_else(|| from("HOME").map(|h| h.join(".cache")));
        base.expect("HOME is set").join("quorate")
    })
}

/// Every version in the cache, oldest first.
pub fn versions() -> Vec<String> {
    let mut found: Vec<(Vec<u32>, String)> = std::fs::read_dir(cache().join("etcd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.path().join("VERIFIED").exists())
        .filter_map(|e| e.file_name().into_string().ok())
        .filter_map(|v| {
            Some((
                v.split('.')
                    .map(|p| p.parse().ok())
                    .collect::<Option<Vec<u32>>>()?,
                v,
            ))
        })
        .collect();
    found.sort();
    assert!(
        !found.is_empty(),
        "no etcd in {}: run `make tools`",
        cache().display()
    );
    found.into_iter().map(|(_, v)| v).collect()
}

/// The newest cached patch of a minor such as "3.6".
pub fn newest(minor: &str) -> String {
    let prefix = format!("{minor}.");
    let found = versions().into_iter().rfind(|v| v.starts_with(&prefix));
    found.unwrap_or_else(|| panic!("no etcd {minor} in {}: run `make tools`", cache().display()))
}

/// A program of a cached version: `etcd`, `etcdctl`, or `etcdutl` (since 3.5).
pub fn binary(version: &str, program: &str) -> PathBuf {
    let path = cache().join("etcd").join(version).join(program);
    assert!(path.exists(), "{} is missing: run `make tools`", path.display());
    path
}
