//! Changes one field in a manifest's text and nothing else: comments, order, quotes and layout stay.
//!
//! In: the text and the new value. Out: the new text, proven: both texts are read again, and the only
//! difference is that field. Never: a guess; a text laid out in a way this cannot follow is refused with
//! the line to write.

use semver::Version;
use serde_json::Value;

use crate::fault::Fault;
use crate::layout::{self, Entry};
use crate::parse;
use crate::path::FieldPath;

/// Why a text was not edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no manifest.
    #[error("the manifest cannot be read: {fault}")]
    Read {
        /// What is wrong with it.
        fault: Box<Fault>,
    },
    /// The text is laid out in a way that cannot be edited safely.
    #[error("{path} cannot be changed in place: {why}. Edit the file by hand: below spec, write `{line}`")]
    Layout {
        path: FieldPath,
        /// What is in the way.
        why: &'static str,
        line: String,
    },
}

pub fn set_replicas(text: &str, replicas: u32) -> Result<String, Error> {
    set(text, "replicas", &replicas.to_string(), Value::from(replicas))
}

pub fn set_version(text: &str, version: &Version) -> Result<String, Error> {
    set(
        text,
        "version",
        &version.to_string(),
        Value::from(version.to_string()),
    )
}

pub fn set_redeploy_reason(text: &str, reason: &str) -> Result<String, Error> {
    // A JSON text is a YAML text, whatever it holds.
    set(
        text,
        "forceRedeploymentReason",
        &Value::from(reason).to_string(),
        Value::from(reason),
    )
}

fn set(text: &str, field: &str, written: &str, value: Value) -> Result<String, Error> {
    let refuse = |why| Error::Layout {
        path: FieldPath::of("spec").key(field),
        why,
        line: format!("{field}: {written}"),
    };
    let read = |text: &str| parse::to_value(text);
    let before = read(text).map_err(|fault| Error::Read {
        fault: Box::new(fault),
    })?;
    let mut wanted = before.clone();
    let Some(spec) = wanted.get_mut("spec").and_then(Value::as_object_mut) else {
        return Err(refuse("there is no spec with fields in it"));
    };
    if spec.insert(field.to_owned(), value.clone()) == Some(value) {
        return Ok(text.to_owned());
    }
    let edited = edit(text, field, written).map_err(refuse)?;
    match read(&edited) {
        Ok(after) if after == wanted => Ok(edited),
        _ => Err(refuse("the change would have touched something else too")),
    }
}

/// `text` with the value of `field` under `spec` replaced, or the field added as the first.
fn edit(text: &str, field: &str, written: &str) -> Result<String, &'static str> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let spec = FieldPath::of("spec");
    let Some(spec_entry) = layout::find(&lines, &spec) else {
        return Err("spec is not on a line of its own");
    };
    if !without_comment(value_text(&lines, &spec_entry)).is_empty() {
        return Err("what follows spec is on the same line");
    }
    let mut new: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    match layout::find(&lines, &spec.key(field)) {
        Some(entry) => new[entry.line] = replaced(lines[entry.line], &entry, written)?,
        None => {
            let Some(indent) = layout::indent_of(&lines, spec_entry.body.clone()) else {
                return Err("spec has no fields on lines of their own");
            };
            let end = if lines[spec_entry.line].ends_with("\r\n") {
                "\r\n"
            } else {
                "\n"
            };
            new.insert(
                spec_entry.line + 1,
                format!("{:indent$}{field}: {written}{end}", ""),
            );
        }
    }
    Ok(new.concat())
}

/// `line` with its value replaced; spaces, quotes and a comment after it stay.
fn replaced(line: &str, entry: &Entry, written: &str) -> Result<String, &'static str> {
    let (head, tail) = (&line[..entry.value.start], &line[entry.value.end..]);
    let whole = &line[entry.value.clone()];
    let body = whole.trim_start_matches([' ', '\t']);
    let space = &whole[..whole.len() - body.len()];
    let space = if space.is_empty() { " " } else { space };
    let old = without_comment(body);
    let comment = &body[old.len()..];
    let quote = match old.as_bytes() {
        [] => None,
        [b'|' | b'>', ..] => return Err("its value is on the lines below"),
        [b'{' | b'[', ..] => return Err("its value is in flow style"),
        [b'&' | b'*' | b'!', ..] => return Err("its value has an anchor or a tag"),
        [first @ (b'"' | b'\''), .., last] if first == last => Some(char::from(*first)),
        [b'"' | b'\'', ..] => return Err("its value goes on in the lines below"),
        _ => None,
    };
    let is_plain = !written.starts_with('"');
    Ok(match quote {
        Some(quote) if is_plain => format!("{head}{space}{quote}{written}{quote}{comment}{tail}"),
        _ => format!("{head}{space}{written}{comment}{tail}"),
    })
}

fn value_text<'a>(lines: &[&'a str], entry: &Entry) -> &'a str {
    lines[entry.line][entry.value.clone()].trim_start_matches([' ', '\t'])
}

/// A value without the comment after it and the spaces between. A '#' inside quotes is no comment.
fn without_comment(value: &str) -> &str {
    let mut quote: Option<char> = None;
    let mut before = ' ';
    let mut end = value.len();
    for (at, c) in value.char_indices() {
        match quote {
            Some('"') if c == '"' && before != '\\' => quote = None,
            Some('\'') if c == '\'' => quote = None,
            Some(_) => {}
            None if (c == '"' || c == '\'') && value[..at].trim().is_empty() => quote = Some(c),
            None if c == '#' && before.is_whitespace() => {
                end = at;
                break;
            }
            None => {}
        }
        // An escaped backslash does not escape what follows it.
        before = if before == '\\' && c == '\\' { ' ' } else { c };
    }
    value[..end].trim_end()
}

#[cfg(test)]
mod tests;
