//! JSON laid out anew, letter for letter the same but for blanks: no number is rounded, no field is moved.

use serde::de::IgnoredAny;

/// The text of a JSON object or array, if `bytes` are one.
pub fn of(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let begins = text.trim_start().starts_with(['{', '[']);
    (begins && serde_json::from_str::<IgnoredAny>(text).is_ok()).then_some(text)
}

/// JSON on several lines, for people.
pub fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let mut fresh = false;
    tokens(json, |token| match token {
        Token::Open(letter) => {
            if fresh {
                line(&mut out, depth);
            }
            out.push(letter);
            depth += 1;
            fresh = true;
        }
        Token::Close(letter) => {
            depth = depth.saturating_sub(1);
            if !fresh {
                line(&mut out, depth);
            }
            out.push(letter);
            fresh = false;
        }
        Token::Comma => {
            out.push(',');
            line(&mut out, depth);
        }
        Token::Colon => out.push_str(": "),
        Token::Other(letter) => {
            if fresh {
                line(&mut out, depth);
            }
            out.push(letter);
            fresh = false;
        }
    });
    out
}

/// JSON on one line, for programs.
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    tokens(json, |token| match token {
        Token::Open(letter) | Token::Close(letter) | Token::Other(letter) => out.push(letter),
        Token::Comma => out.push(','),
        Token::Colon => out.push(':'),
    });
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

enum Token {
    Open(char),
    Close(char),
    Comma,
    Colon,
    /// A letter of a string, number or word.
    Other(char),
}

fn tokens(json: &str, mut take: impl FnMut(Token)) {
    let (mut inside, mut escaped) = (false, false);
    for letter in json.chars() {
        if inside {
            take(Token::Other(letter));
            (inside, escaped) = match (letter, escaped) {
                (_, true) => (true, false),
                ('\\', false) => (true, true),
                (letter, false) => (letter != '"', false),
            };
            continue;
        }
        match letter {
            '{' | '[' => take(Token::Open(letter)),
            '}' | ']' => take(Token::Close(letter)),
            ',' => take(Token::Comma),
            ':' => take(Token::Colon),
            ' ' | '\t' | '\r' | '\n' => {}
            other => {
                inside = other == '"';
                take(Token::Other(other));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blanks_change() {
        let json =
            r#" {"b": [1, 2.50, 12345678901234567890123], "a" :{ }, "s":"{,: \" \\", "e":[[]],"t":true}"#;
        assert_eq!(of(json.as_bytes()), Some(json));
        let expected = "{\n  \"b\": [\n    1,\n    2.50,\n    12345678901234567890123\n  ],\n  \"a\": {},\n  \"s\": \"{,: \\\" \\\\\",\n  \"e\": [\n    []\n  ],\n  \"t\": true\n}";
        assert_eq!(pretty(json), expected);
        let short = r#"{"b":[1,2.50,12345678901234567890123],"a":{},"s":"{,: \" \\","e":[[]],"t":true}"#;
        assert_eq!(compact(json), short);
        assert_eq!(compact(expected), short);
    }

    #[test]
    fn other_things_are_no_json() {
        for other in [&b"12"[..], b"\"x\"", b"{", b"{\"a\":\xff}", b"", b"{} {}"] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }
}
