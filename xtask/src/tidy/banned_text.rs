//! No file names a package registry or a path of someone's machine: the machine it runs on decides both.

use super::sources::Source;

/// Cargo itself writes the registry's name into its lock files.
const EXEMPT: [&str; 2] = ["Cargo.lock", "fuzz/Cargo.lock"];

/// Each joined only here, so that this file passes its own rule.
fn hosts() -> Vec<String> {
    [
        ["deb.", "debian.org"],
        ["security.", "debian.org"],
        ["snapshot.", "debian.org"],
        ["proxy.", "golang.org"],
        ["sum.", "golang.org"],
        ["crates", ".io"],
        ["static.", "rust-lang.org"],
        ["registry.", "npmjs.org"],
        ["pypi", ".org"],
        ["files.", "pythonhosted.org"],
    ]
    .map(|parts| parts.concat())
    .into()
}

fn machine_paths() -> Vec<String> {
    [["/work", "/"], ["/root", "/."]]
        .map(|parts| parts.concat())
        .into()
}

pub fn check(files: &[Source]) -> Vec<String> {
    let (hosts, paths) = (hosts(), machine_paths());
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| !EXEMPT.contains(&file.path.as_str())) {
        for (number, line) in file.lines() {
            let host = hosts.iter().find(|host| line.contains(host.as_str()));
            let path = paths.iter().find(|path| has_absolute(&line, path));
            if let Some(found) = host.or(path) {
                breaches.push(format!("{}:{number}: names {found}", file.path));
            }
        }
    }
    breaches
}

/// After a letter, a dot or the like it is the middle of a longer path, relative or a URL's.
fn has_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.}~".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_hosts_and_absolute_paths() {
        let text = format!(
            "a\nhttps://{}/x\nopen(\"{}main\")\n",
            hosts()[3],
            machine_paths()[0]
        );
        let found = check(&[Source::of("a.md", &text)]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("a.md:2: names proxy."));
    }

    #[test]
    fn lets_relative_paths_and_the_lock_file_pass() {
        let path = &machine_paths()[0];
        let files = [
            Source::of("a.sh", &format!("cd target{path}x; cd .{path}y")),
            Source::of("Cargo.lock", &hosts()[5]),
        ];
        assert_eq!(check(&files), [""; 0]);
    }
}
