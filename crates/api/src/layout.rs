//! Finds a field's line in the YAML text of a manifest written in block style (one field a line).
//!
//! In: the text and a path. Out: line numbers and the shape of the line; `None` where the text is laid out
//! otherwise. A guess good enough for a message; [`crate::edit`] proves it before it relies on it.

use std::ops::Range;

use crate::path::{FieldPath, Segment};

/// A line `key: value` in block style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The line, from zero.
    pub(crate) line: usize,
    /// Spaces before the key.
    pub(crate) indent: usize,
    /// What follows the colon, untrimmed: byte range within the line.
    pub(crate) value: Range<usize>,
    /// The lines that belong to the value, after this one.
    pub(crate) body: Range<usize>,
}

/// The entry of `path`, whole.
pub(crate) fn find(lines: &[&str], path: &FieldPath) -> Option<Entry> {
    descend(lines, path, Whole::Yes)
}

/// The line, from one, of `path` or of the nearest field around it that can be found.
pub(crate) fn line_near(text: &str, path: &FieldPath) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    descend(&lines, path, Whole::OrNearest).map(|entry| entry.line + 1)
}

/// The indent of the fields in `body`, if there are any.
pub(crate) fn indent_of(lines: &[&str], body: Range<usize>) -> Option<usize> {
    lines
        .get(body)?
        .iter()
        .find(|line| !is_blank(line))
        .map(|line| indent(line))
}

#[derive(PartialEq)]
enum Whole {
    Yes,
    OrNearest,
}

fn descend(lines: &[&str], path: &FieldPath, whole: Whole) -> Option<Entry> {
    let mut body = 0..lines.len();
    let mut found: Option<Entry> = None;
    for segment in path.segments() {
        let next = match segment {
            Segment::Key(key) => entry(lines, body.clone(), key),
            Segment::Index(_) => None,
        };
        match next {
            Some(entry) => {
                body = entry.body.clone();
                found = Some(entry);
            }
            None if whole == Whole::OrNearest => return found,
            None => return None,
        }
    }
    found
}

fn entry(lines: &[&str], within: Range<usize>, key: &str) -> Option<Entry> {
    let depth = indent_of(lines, within.clone())?;
    let line = within
        .clone()
        .find(|&at| indent(lines[at]) == depth && value_start(lines[at], key).is_some())?;
    let after = line + 1..within.end;
    let same_depth_is_value =
        |at: usize| indent(lines[at]) == depth && lines[at].trim_start().starts_with("- ");
    let end = after
        .clone()
        .find(|&at| !is_blank(lines[at]) && indent(lines[at]) <= depth && !same_depth_is_value(at))
        .unwrap_or(after.end);
    let start = value_start(lines[line], key)?;
    let value = start..lines[line].trim_end_matches(['\r', '\n']).len();
    Some(Entry {
        line,
        indent: depth,
        value,
        body: after.start..end,
    })
}

/// Where the value begins if `line` is `key:` or `"key":` or `'key':`.
fn value_start(line: &str, key: &str) -> Option<usize> {
    let trimmed = line.trim_start_matches(' ');
    let before = line.len() - trimmed.len();
    [key.to_owned(), format!("\"{key}\""), format!("'{key}'")]
        .iter()
        .find_map(|form| {
            let rest = trimmed.strip_prefix(form.as_str())?;
            let after = rest.trim_start_matches(' ').strip_prefix(':')?;
            (after.is_empty() || after.starts_with([' ', '\t', '\r', '\n']))
                .then(|| before + trimmed.len() - after.len())
        })
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Nothing but spaces, a comment or a document mark.
fn is_blank(line: &str) -> bool {
    let text = line.trim();
    text.is_empty() || text.starts_with('#') || text == "---" || text.starts_with('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---\n# a comment\nmetadata:\n  name: spec\nspec:\n\n  # more\n  list:\n  - a: 1\n    replicas: 9\n  'replicas' : 3 # three\n  deep:\n      replicas: 4\n";

    #[test]
    fn lines_are_found() {
        assert_eq!(line_near(TEXT, &FieldPath::of("spec")), Some(5));
        assert_eq!(line_near(TEXT, &FieldPath::of("spec.replicas")), Some(11));
        assert_eq!(line_near(TEXT, &FieldPath::of("spec.deep.replicas")), Some(13));
        assert_eq!(
            line_near(TEXT, &FieldPath::of("spec.list").index(0).key("a")),
            Some(8)
        );
        assert_eq!(line_near(TEXT, &FieldPath::of("spec.version")), Some(5));
        assert_eq!(line_near(TEXT, &FieldPath::of("status")), None);
        assert_eq!(line_near("", &FieldPath::of("spec")), None);
    }
}
