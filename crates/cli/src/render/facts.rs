//! A few facts, a line each: what they are called, and what they are.

use clap::builder::styling::Style;

use super::status::bytes_in_words;
use super::style;

/// The facts as lines, with what they are called aligned.
pub fn page(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        let padding = " ".repeat(width - name.len() + 2);
        format!(
            "{}{padding}{}\n",
            style::paint(style::DIM, name),
            style::paint(Style::new(), value)
        )
    };
    facts.iter().map(line).collect()
}

/// A size in words, and in bytes where the words leave some out.
pub fn size(bytes: u64) -> String {
    match bytes_in_words(bytes) {
        words if words.ends_with(" B") => words,
        words => format!("{words} ({bytes} bytes)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_aligned() {
        let drawn = page(&[("size", size(20_512)), ("revision", "7".to_owned())]);
        let plain = anstream::adapter::strip_str(&drawn).to_string();
        assert_eq!(plain, "size      20 KiB (20512 bytes)\nrevision  7\n");
        assert_eq!(size(7), "7 B");
    }
}
