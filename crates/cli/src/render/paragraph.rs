//! Text broken into lines at spaces.

/// The width that texts are broken at: readable anywhere.
pub const WIDTH: usize = 96;

/// `text` broken so that no line is wider than `width`, where words allow. The first line starts with `first`, the
/// others with `rest`. Line breaks in the text stay.
pub fn wrap(text: &str, width: usize, first: &str, rest: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            let indent = if lines.is_empty() { first } else { rest };
            let full = !line.is_empty() && chars(indent) + chars(&line) + 1 + chars(word) > width;
            if full {
                lines.push(format!("{indent}{line}"));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        let indent = if lines.is_empty() { first } else { rest };
        lines.push(format!("{indent}{line}").trim_end().to_owned());
    }
    lines.join("\n")
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_at_spaces_and_hangs() {
        assert_eq!(wrap("one two three", 9, "- ", "  "), "- one two\n  three");
        assert_eq!(
            wrap("a-word-that-is-too-long x", 5, "", " "),
            "a-word-that-is-too-long\n x"
        );
        assert_eq!(wrap("one\n\ntwo", 80, "", ""), "one\n\ntwo");
        assert_eq!(wrap("", 80, "- ", "  "), "");
    }
}
