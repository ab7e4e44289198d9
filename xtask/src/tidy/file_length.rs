//! A source file that no longer fits in a head is split.

use super::sources::Source;

const MOST_LINES: usize = 600;
const ROOTS: [&str; 3] = ["crates/", "xtask/", "tests/"];

pub fn check(files: &[Source]) -> Vec<String> {
    files
        .iter()
        .filter(|file| applies(file))
        .filter_map(breach)
        .collect()
}

fn applies(file: &Source) -> bool {
    let generated = file.path.split('/').any(|part| part == "gen");
    file.is_rust() && !generated && ROOTS.iter().any(|root| file.path.starts_with(root))
}

fn breach(file: &Source) -> Option<String> {
    let lines = file.lines().len();
    (lines > MOST_LINES).then(|| format!("{}: {lines} lines, at most {MOST_LINES}", file.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_only_what_people_write() {
        let long = "x\n".repeat(601);
        let files = [
            Source::of("crates/a/src/lib.rs", &long),
            Source::of("crates/a/src/gen/lib.rs", &long),
            Source::of("crates/a/README.md", &long),
            Source::of("crates/a/src/fits.rs", &"x\n".repeat(600)),
        ];
        assert_eq!(check(&files), ["crates/a/src/lib.rs: 601 lines, at most 600"]);
    }
}
