//! The lists of `deny.toml` that the rules about dependencies read: no more of TOML than that file needs.

use super::sources::Source;

/// The file's text; empty where there is none, so that nothing is allowed.
pub fn text(files: &[Source]) -> String {
    file(files, "deny.toml")
}

/// The text of the file at this path.
pub fn file(files: &[Source], path: &str) -> String {
    let found = files.iter().find(|file| file.path == path);
    found.map_or(String::new(), |file| {
        String::from_utf8_lossy(&file.bytes).into_owned()
    })
}

/// The lines of the list `key` in `[section]`, which must have one entry a line.
pub fn lines<'a>(text: &'a str, section: &str, key: &str) -> Vec<&'a str> {
    let (header, opening) = (format!("[{section}]"), format!("{key} = ["));
    let of_section = text
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != header)
        .skip(1);
    of_section
        .take_while(|line| !line.starts_with('[') || line.starts_with("[["))
        .skip_while(|line| *line != opening)
        .skip(1)
        .take_while(|line| *line != "]")
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// The text between the first quotes after `after`.
pub fn quoted<'a>(line: &'a str, after: &str) -> Option<&'a str> {
    let rest = &line[line.find(after)? + after.len()..];
    rest.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_list_of_one_section() {
        let text = "[a]\nallow = [\n  \"no\",\n]\n[b]\nx = 1\nallow = [\n  # why\n  \"yes\",\n\n]\nskip = [\n  \"no\",\n]\n";
        assert_eq!(lines(text, "b", "allow"), ["\"yes\","]);
        assert_eq!(lines(text, "c", "allow"), [""; 0]);
        assert_eq!(
            quoted("{ crate = \"a@1\", reason = \"why\" },", "reason"),
            Some("why")
        );
        assert_eq!(quoted("{ crate = \"a@1\" },", "reason"), None);
    }
}
