//! A file is named for what is in it. These names say nothing, so anything ends up there.

use super::sources::Source;

const BANNED: [&str; 6] = [
    "utils.rs",
    "helpers.rs",
    "common.rs",
    "manager.rs",
    "handler.rs",
    "mod.rs",
];

pub fn check(files: &[Source]) -> Vec<String> {
    files
        .iter()
        .filter(|file| BANNED.contains(&file.file_name()))
        .map(|file| format!("{}: a name that says nothing of its content", file.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_the_whole_name_only() {
        let files = [
            Source::of("crates/a/src/utils.rs", ""),
            Source::of("crates/a/src/fd_handler.rs", ""),
            Source::of("mod.rs", ""),
        ];
        assert_eq!(check(&files).len(), 2);
    }
}
