//! The little JSON that cargo prints, read without a crate: xtask is built by itself, and a dependency of it would be
//! compiled once more with other features.
//!
//! In: text that a JSON writer wrote. Out: a [`Json`] or what is wrong with it. Never: a number's value, which nothing
//! here asks for.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// How deep arrays and objects may lie in each other.
const DEPTH: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

static NULL: Json = Json::Null;

impl Json {
    pub fn parse(text: &str) -> Result<Json, String> {
        let mut chars = text.chars().peekable();
        let value = value(&mut chars, 0)?;
        match after_space(&mut chars) {
            None => Ok(value),
            Some(c) => Err(format!("JSON: {c:?} after the end")),
        }
    }

    /// A field of an object; null where there is none.
    pub fn get(&self, key: &str) -> &Json {
        match self {
            Json::Object(fields) => fields.get(key).unwrap_or(&NULL),
            _ => &NULL,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of an array; none for anything else.
    pub fn list(&self) -> &[Json] {
        match self {
            Json::List(list) => list,
            _ => &[],
        }
    }

    /// A field that must be there and be a string.
    pub fn text(&self, key: &str) -> Result<&str, String> {
        self.get(key)
            .as_str()
            .ok_or_else(|| format!("JSON: no string {key:?}"))
    }
}

type Input<'a> = Peekable<Chars<'a>>;

fn after_space(input: &mut Input<'_>) -> Option<char> {
    while input.next_if(|c| c.is_ascii_whitespace()).is_some() {}
    input.peek().copied()
}

fn expect(input: &mut Input<'_>, wanted: char) -> Result<(), String> {
    match after_space(input) {
        Some(c) if c == wanted => {
            input.next();
            Ok(())
        }
        other => Err(format!("JSON: {other:?} where {wanted:?} belongs")),
    }
}

fn value(input: &mut Input<'_>, depth: usize) -> Result<Json, String> {
    if depth > DEPTH {
        return Err(format!("JSON: deeper than {DEPTH}"));
    }
    match after_space(input) {
        Some('{') => {
            let mut fields = BTreeMap::new();
            items(input, '{', '}', |input| {
                let key = string(input)?;
                expect(input, ':')?;
                fields.insert(key, value(input, depth + 1)?);
                Ok(())
            })?;
            Ok(Json::Object(fields))
        }
        Some('[') => {
            let mut list = Vec::new();
            items(input, '[', ']', |input| {
                list.push(value(input, depth + 1)?);
                Ok(())
            })?;
            Ok(Json::List(list))
        }
        Some('"') => string(input).map(Json::Text),
        _ => word(input),
    }
}

fn items(
    input: &mut Input<'_>,
    open: char,
    close: char,
    mut item: impl FnMut(&mut Input<'_>) -> Result<(), String>,
) -> Result<(), String> {
    expect(input, open)?;
    if after_space(input) == Some(close) {
        return expect(input, close);
    }
    loop {
        item(input)?;
        if after_space(input) != Some(',') {
            return expect(input, close);
        }
        expect(input, ',')?;
    }
}

fn string(input: &mut Input<'_>) -> Result<String, String> {
    expect(input, '"')?;
    let mut text = String::new();
    loop {
        match input.next().ok_or("JSON: a string without an end")? {
            '"' => return Ok(text),
            '\\' => text.push(escaped(input)?),
            c => text.push(c),
        }
    }
}

fn escaped(input: &mut Input<'_>) -> Result<char, String> {
    Ok(match input.next() {
        Some('n') => '\n',
        Some('t') => '\t',
        Some('r') => '\r',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('u') => {
            let digits: String = input.by_ref().take(4).collect();
            let code = u32::from_str_radix(&digits, 16).map_err(|_| format!("JSON: \\u{digits}"))?;
            // Half of a surrogate pair: only in texts for people, which no one here compares.
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        Some(c @ ('"' | '\\' | '/')) => c,
        other => return Err(format!("JSON: {other:?} after a backslash")),
    })
}

fn word(input: &mut Input<'_>) -> Result<Json, String> {
    let mut word = String::new();
    while let Some(c) = input.next_if(|c| c.is_ascii_alphanumeric() || "+-.".contains(*c)) {
        word.push(c);
    }
    match word.as_str() {
        "null" => Ok(Json::Null),
        "true" => Ok(Json::Bool(true)),
        "false" => Ok(Json::Bool(false)),
        number if number.parse::<f64>().is_ok() => Ok(Json::Number(word)),
        other => Err(format!("JSON: {other:?} is no value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_cargo_prints() {
        let json = Json::parse(r#"{"a":[1,-2.5e3,true,null,{}],"b":"x\"\\\n\u00e9","c":{"d":[]}} "#).unwrap();
        assert_eq!(json.text("b").unwrap(), "x\"\\\né");
        assert_eq!(json.get("a").list().len(), 5);
        assert_eq!(json.get("a").list()[2], Json::Bool(true));
        assert_eq!(json.get("c").get("d"), &Json::List(Vec::new()));
        assert_eq!(json.get("none").get("deeper"), &Json::Null);
    }

    #[test]
    fn refuses_what_is_broken() {
        let deep = "[".repeat(DEPTH + 2);
        for broken in [
            "",
            "{",
            "[1,]",
            "{\"a\" 1}",
            "\"x",
            "nul",
            "1 2",
            "\"\\x\"",
            &deep,
        ] {
            assert!(Json::parse(broken).is_err(), "{broken}");
        }
    }
}
