//! No build that ships ends the process on a panic: the operator keeps a panic to the pass over one cluster.

use super::sources::Source;

/// Where a build's profile or flags are set.
fn applies(file: &Source) -> bool {
    const FILES: [&str; 4] = ["Cargo.toml", ".cargo/config.toml", "Dockerfile", "Makefile"];
    FILES.contains(&file.path.as_str()) || file.path.starts_with("scripts/")
}

pub fn check(files: &[Source]) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| applies(file)) {
        for (number, line) in file.lines() {
            let compact: String = line
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            if compact.replace(['"', '\''], "").contains("panic=abort") {
                breaches.push(format!(
                    "{}:{number}: a panic would end the operator for all clusters",
                    file.path
                ));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_profiles_and_flags() {
        let files = [
            Source::of(
                "Cargo.toml",
                "[profile.release]\npanic = \"abort\"\n# panic = \"abort\"\n",
            ),
            Source::of("scripts/image", "RUSTFLAGS='-C panic=abort'"),
            Source::of("fuzz/Cargo.toml", "panic = \"abort\""),
            Source::of(".cargo/config.toml", "panic = \"unwind\""),
        ];
        let found = check(&files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("Cargo.toml:2:"), "{found:?}");
    }
}
