//! A doc comment says something that the name below it does not; three words hardly can.

use super::sources::Source;

const LEAST_WORDS: usize = 4;
/// Paths whose files may have shorter ones.
const EXEMPT: [&str; 0] = [];

pub fn check(files: &[Source]) -> Vec<String> {
    let applies = |file: &&Source| {
        let generated = file.path.split('/').any(|part| part == "gen");
        file.is_rust() && !generated && !EXEMPT.iter().any(|path| file.path.starts_with(path))
    };
    files.iter().filter(applies).flat_map(breaches).collect()
}

/// A block is every doc comment in a row of one kind, `///` or `//!`.
fn breaches(file: &Source) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut block: Option<(usize, &str, String)> = None;
    let mut end = |block: &mut Option<(usize, &str, String)>| {
        let Some((number, _, text)) = block.take() else {
            return;
        };
        if text.split_whitespace().count() < LEAST_WORDS {
            breaches.push(format!(
                "{}:{number}: {:?} says too little",
                file.path,
                text.trim()
            ));
        }
    };
    for (number, line) in file.lines() {
        let Some((marker, text)) = doc_comment(&line) else {
            end(&mut block);
            continue;
        };
        if block.as_ref().is_some_and(|(_, other, _)| *other != marker) {
            end(&mut block);
        }
        let (.., all) = block.get_or_insert((number, marker, String::new()));
        all.push(' ');
        all.push_str(text);
    }
    end(&mut block);
    breaches
}

/// The marker and the text of a line that is a doc comment.
fn doc_comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let with = |marker: &'static str| Some((marker, line.strip_prefix(marker)?));
    // Four slashes are a plain comment.
    with("//!").or_else(|| with("///").filter(|(_, text)| !text.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_words_of_a_whole_block() {
        let text = "//! A file of words.\n\n/// Which one.\nfn a() {}\n/// One line\n/// and another.\nfn b() {}\n//// no.\n\
                    // no.\n    /// The text.\n    /// \n    c: u8,\n";
        let found = check(&[Source::of("crates/a/src/a.rs", text)]);
        assert_eq!(
            found,
            [
                "crates/a/src/a.rs:3: \"Which one.\" says too little",
                "crates/a/src/a.rs:10: \"The text.\" says too little",
            ]
        );
    }

    #[test]
    fn leaves_generated_code_alone() {
        let files = [
            Source::of("crates/a/src/gen/a.rs", "/// It."),
            Source::of("a.md", "/// It."),
        ];
        assert_eq!(check(&files), [""; 0]);
    }
}
