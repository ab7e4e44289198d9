//! The concept tables of docs/DEVELOPING.md name files that are there: a reader who follows one must find it.

use super::sources::Source;

const TABLES: &str = "docs/DEVELOPING.md";

pub fn check(files: &[Source]) -> Vec<String> {
    let Some(tables) = files.iter().find(|file| file.path == TABLES) else {
        return vec![format!("{TABLES} is missing")];
    };
    let mut breaches = Vec::new();
    for (number, line) in tables.lines() {
        // Every other piece is code, in backticks.
        for name in line.split('`').skip(1).step_by(2).flat_map(expand) {
            if is_path(&name) && !files.iter().any(|file| is_named(&file.path, &name)) {
                breaches.push(format!("{TABLES}:{number}: there is no {name}"));
            }
        }
    }
    breaches
}

/// A Rust file, or one in a folder of the sources.
fn is_path(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    name.chars().all(plain) && (name.ends_with(".rs") || name.contains("/src/"))
}

/// Names are given from a crate's sources on, or from the root.
fn is_named(path: &str, name: &str) -> bool {
    match name.strip_suffix('/') {
        Some(folder) => path.contains(&format!("{folder}/")),
        None => path == name || path.ends_with(&format!("/{name}")),
    }
}

/// `a/{b,c}.rs` stands for `a/b.rs` and `a/c.rs`.
fn expand(name: &str) -> Vec<String> {
    let parts = name.split_once('{').and_then(|(before, rest)| {
        let (among, after) = rest.split_once('}')?;
        Some((before, among, after))
    });
    let Some((before, among, after)) = parts else {
        return vec![name.to_owned()];
    };
    let each = |one: &str| format!("{before}{one}{after}");
    among.split(',').map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<String> {
        check(&[
            Source::of(TABLES, line),
            Source::of("crates/core/src/plan/step.rs", ""),
            Source::of("crates/core/src/plan.rs", ""),
        ])
    }

    #[test]
    fn names_of_files_and_folders_are_found() {
        let line = "| a plan | `plan.rs`, `plan/{step}.rs`; `crates/core/src/plan/`; `make test` |";
        assert_eq!(found(line), [""; 0]);
    }

    #[test]
    fn names_of_nothing_are_breaches() {
        let line = "| a plan | `plan/{step,pass}.rs`, `crates/core/src/check/` |";
        let missing = ["plan/pass.rs", "crates/core/src/check/"]
            .map(|name| format!("docs/DEVELOPING.md:1: there is no {name}"));
        assert_eq!(found(line), missing);
    }
}
