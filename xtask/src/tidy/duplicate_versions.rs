//! One version of a crate, but for those that `deny.toml` lists with a reason. A listed one that is gone is taken off.

use std::collections::BTreeMap;

use super::deny_lists::{file, lines, quoted, text};
use super::sources::Source;

pub fn check(files: &[Source]) -> Vec<String> {
    breaches(&file(files, "Cargo.lock"), &text(files))
}

fn breaches(lock: &str, deny: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut skipped: Vec<(&str, &str, bool)> = Vec::new();
    for line in lines(deny, "bans", "skip") {
        match quoted(line, "crate =").and_then(|one| one.split_once('@')) {
            Some((name, version)) => skipped.push((name, version, false)),
            None => breaches.push(format!("deny.toml: no crate = \"name@version\" in {line}")),
        }
        if quoted(line, "reason =").is_none_or(|reason| reason.trim().is_empty()) {
            breaches.push(format!("deny.toml: no reason in {line}"));
        }
    }
    for (name, versions) in versions(lock) {
        if versions.len() < 2 {
            continue;
        }
        let counted = versions.iter().filter(|version| {
            let skip = skipped
                .iter_mut()
                .find(|(of, is, _)| *of == name && within(version, is));
            skip.map(|(.., used)| *used = true).is_none()
        });
        if counted.count() > 1 {
            breaches.push(format!("Cargo.lock: {name} in versions {}", versions.join(", ")));
        }
    }
    let unused = skipped.iter().filter(|(.., used)| !used);
    breaches.extend(unused.map(|(name, version, _)| format!("deny.toml: {name}@{version} is no duplicate")));
    breaches
}

/// Whether `version` begins with the numbers of `start`.
fn within(version: &str, start: &str) -> bool {
    let rest = version.strip_prefix(start);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn versions(lock: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        if let (Some(name), Some(version)) = (quoted(package, "name ="), quoted(package, "version =")) {
            all.entry(name).or_default().push(version);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(packages: &[(&str, &str)]) -> String {
        let package = |(name, version): &(&str, &str)| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n")
        };
        packages.iter().map(package).collect()
    }

    fn deny(entries: &str) -> String {
        format!("[bans]\nskip = [\n{entries}]\n")
    }

    #[test]
    fn finds_duplicates_and_entries_without_use_or_reason() {
        let lock = lock(&[("a", "1.2.0"), ("a", "1.20.0"), ("a", "2.0.0"), ("b", "1.0.0")]);
        let both = "{ crate = \"a@1.2\", reason = \"x\" },\n{ crate = \"a@1.20\", reason = \"y\" },\n";
        assert_eq!(breaches(&lock, &deny(both)), [""; 0]);
        let one = "{ crate = \"a@1.2\", reason = \"x\" },\n{ crate = \"b@1\", reason = \"y\" },\n";
        assert_eq!(
            breaches(&lock, &deny(one)),
            [
                "Cargo.lock: a in versions 1.2.0, 1.20.0, 2.0.0",
                "deny.toml: b@1 is no duplicate"
            ]
        );
        let silent = "{ crate = \"a@1\" },\n";
        assert_eq!(
            breaches(&lock, &deny(silent)),
            ["deny.toml: no reason in { crate = \"a@1\" },"]
        );
    }
}
