//! One event out of a delta's JSON, found where it stands.
//!
//! ```text
//! {"etcdEvent":{"type":1,"kv":{"key":"…","create_revision":5,"mod_revision":6,"version":2,"value":"…","lease":7}},
//!  "time":"2026-07-24T10:00:00.5Z"}
//! ```
//!
//! In: a piece of text that may end anywhere. Out: the event's parts, borrowed; that it is not JSON of this kind; or that
//! more of it is needed. What is zero or empty is left out by the writer; fields that are not known are passed over.
//! Never: recursion, or a number rounded.

use memchr::{memchr, memchr2};

/// No field that we pass over is nested deeper.
const DEEPEST: u32 = 64;

/// Why there is no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    /// The text ends before the event does.
    More,
    /// It is not an event.
    Bad(&'static str),
}

/// An event's parts. Texts are as they stand, between the quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Raw<'a> {
    /// 0 is a put, 1 a deletion.
    pub kind: i64,
    pub key: &'a [u8],
    pub create_revision: i64,
    pub mod_revision: i64,
    pub version: i64,
    pub value: &'a [u8],
    pub lease: i64,
    pub time: &'a [u8],
}

/// What stands at a place of the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item<'a> {
    Event(Raw<'a>),
    /// The bracket that ends the array.
    End,
}

/// Reads what comes next in the array, and how long it is, separators included.
pub(super) fn item(text: &[u8], first: bool) -> Result<(Item<'_>, usize), Halt> {
    let mut cursor = Cursor { text, at: 0 };
    let mut next = cursor.peek()?;
    if next == b']' {
        return Ok((Item::End, cursor.at + 1));
    }
    if !first {
        cursor.take(b',', "there is no comma between two events")?;
        next = cursor.peek()?;
    }
    if next != b'{' {
        return Err(Halt::Bad("an event is not an object"));
    }
    let mut raw = Raw::default();
    cursor.object(|cursor, name| match name {
        b"etcdEvent" => cursor.object(|cursor, name| match name {
            b"type" => cursor.integer(&mut raw.kind),
            b"kv" => cursor.object(|cursor, name| match name {
                b"key" => cursor.text(&mut raw.key),
                b"create_revision" => cursor.integer(&mut raw.create_revision),
                b"mod_revision" => cursor.integer(&mut raw.mod_revision),
                b"version" => cursor.integer(&mut raw.version),
                b"value" => cursor.text(&mut raw.value),
                b"lease" => cursor.integer(&mut raw.lease),
                _ => cursor.pass(),
            }),
            _ => cursor.pass(),
        }),
        b"time" => cursor.text(&mut raw.time),
        _ => cursor.pass(),
    })?;
    Ok((Item::Event(raw), cursor.at))
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next byte that is not space.
    fn peek(&mut self) -> Result<u8, Halt> {
        for byte in self.rest() {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(*byte);
            }
            self.at += 1;
        }
        Err(Halt::More)
    }

    fn take(&mut self, byte: u8, or: &'static str) -> Result<(), Halt> {
        if self.peek()? != byte {
            return Err(Halt::Bad(or));
        }
        self.at += 1;
        Ok(())
    }

    /// An object's fields, or null.
    fn object(
        &mut self,
        mut field: impl FnMut(&mut Cursor<'a>, &'a [u8]) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        if self.peek()? == b'n' {
            return self.null();
        }
        self.take(b'{', "there is no object where one should be")?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let name = self.quoted()?;
            self.take(b':', "there is no colon behind a field's name")?;
            field(self, name)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(Halt::Bad("there is no comma between two fields")),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn null(&mut self) -> Result<(), Halt> {
        match self.rest() {
            [b'n', b'u', b'l', b'l', ..] => {
                self.at += 4;
                Ok(())
            }
            short if b"null".starts_with(short) => Err(Halt::More),
            _ => Err(Halt::Bad("there is a word that JSON does not have")),
        }
    }

    /// What stands between two quotes.
    fn quoted(&mut self) -> Result<&'a [u8], Halt> {
        self.take(b'"', "there is no text where one should be")?;
        let rest = self.rest();
        let mut end = 0;
        loop {
            let found = memchr2(b'"', b'\\', rest.get(end..).unwrap_or_default()).ok_or(Halt::More)?;
            end += found;
            if rest.get(end) == Some(&b'"') {
                break;
            }
            // An escape, and whatever it escapes.
            end += 2;
        }
        self.at += end + 1;
        Ok(rest.get(..end).unwrap_or_default())
    }

    fn text(&mut self, into: &mut &'a [u8]) -> Result<(), Halt> {
        if self.peek()? == b'n' {
            return self.null();
        }
        *into = self.quoted()?;
        Ok(())
    }

    fn integer(&mut self, into: &mut i64) -> Result<(), Halt> {
        if self.peek()? == b'n' {
            return self.null();
        }
        let rest = self.rest();
        let (negative, digits) = match rest {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, after) = digits.split_at(length);
        match after.first() {
            None => return Err(Halt::More),
            Some(b'.' | b'e' | b'E') => return Err(Halt::Bad("a number is not whole")),
            Some(_) if digits.is_empty() => {
                return Err(Halt::Bad("there is no number where one should be"));
            }
            Some(_) => {}
        }
        let mut number = 0i64;
        for digit in digits {
            let digit = i64::from(digit - b'0');
            // Down, not up: there is one negative number more than there are positive ones.
            let next = number
                .checked_mul(10)
                .and_then(|number| number.checked_sub(digit));
            number = next.ok_or(Halt::Bad("a number is too large"))?;
        }
        if !negative {
            number = number.checked_neg().ok_or(Halt::Bad("a number is too large"))?;
        }
        *into = number;
        self.at += rest.len() - after.len();
        Ok(())
    }

    fn pass(&mut self) -> Result<(), Halt> {
        let mut depth = 0u32;
        loop {
            match self.peek()? {
                b'"' => {
                    self.quoted()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    if depth > DEEPEST {
                        return Err(Halt::Bad("it is nested too deep"));
                    }
                    continue;
                }
                b'}' | b']' | b',' | b':' if depth == 0 => {
                    return Err(Halt::Bad("a field has no value"));
                }
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b':' => {
                    self.at += 1;
                    continue;
                }
                _ => self.word()?,
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// A number, true, false or null.
    fn word(&mut self) -> Result<(), Halt> {
        let rest = self.rest();
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b'}' | b']'));
        let end = end.ok_or(Halt::More)?;
        if memchr(b'"', rest.get(..end).unwrap_or_default()).is_some() {
            return Err(Halt::Bad("a quote stands inside a word"));
        }
        self.at += end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EVENT: &str = concat!(
        r#"{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":5,"mod_revision":9007199254740993,"version":1,"#,
        r#""value":"YmFy","lease":-7}},"time":"2026-07-24T10:00:00.5Z"}"#
    );

    #[test]
    fn an_event() {
        let expected = Raw {
            kind: 0,
            key: b"Zm9v",
            create_revision: 5,
            mod_revision: 9_007_199_254_740_993,
            version: 1,
            value: b"YmFy",
            lease: -7,
            time: b"2026-07-24T10:00:00.5Z",
        };
        assert_eq!(
            item(EVENT.as_bytes(), true),
            Ok((Item::Event(expected), EVENT.len()))
        );
        let second = format!(" ,\n{EVENT}]");
        let parsed = item(second.as_bytes(), false);
        assert_eq!(parsed, Ok((Item::Event(expected), second.len() - 1)));
        assert_eq!(item(b" ]x", false), Ok((Item::End, 2)));
        let deletion = br#"{"etcdEvent":{"type":1,"kv":{"key":"Zm9v","mod_revision":6}},"time":""}"#;
        let (Item::Event(raw), _) = item(deletion, true).unwrap() else {
            panic!("no event")
        };
        assert_eq!((raw.kind, raw.mod_revision, raw.key), (1, 6, &b"Zm9v"[..]));
    }

    #[test]
    fn unknown_fields_are_passed_over() {
        let text = concat!(
            r#"{"new":[{"a":"]}\""},[1.5e3,true,null]],"etcdEvent":{"prev_kv":null,"other":"\\","kv":{"x":{},"#,
            r#""mod_revision":3,"y":false}},"time":null,"z":-1}"#
        );
        let (Item::Event(raw), length) = item(text.as_bytes(), true).unwrap() else {
            panic!("no event")
        };
        assert_eq!((raw.mod_revision, length), (3, text.len()));
    }

    #[test]
    fn what_is_not_an_event() {
        for bad in [
            "{\"time\":5}",
            "7,",
            "{\"etcdEvent\":[]}",
            "{\"etcdEvent\":{\"kv\":{\"mod_revision\":1.5}}}",
            "{\"etcdEvent\":{\"kv\":{\"mod_revision\":9223372036854775808}}}",
            "{\"etcdEvent\":{\"kv\":{\"mod_revision\":x}}}",
            "{\"x\":}",
            "{\"x\" 5}",
            "{x:5}",
        ] {
            assert!(matches!(item(bad.as_bytes(), true), Err(Halt::Bad(_))), "{bad}");
        }
        let deep = format!("{{\"x\":{}", "[".repeat(100));
        assert_eq!(
            item(deep.as_bytes(), true),
            Err(Halt::Bad("it is nested too deep"))
        );
        assert!(matches!(item(EVENT.as_bytes(), false), Err(Halt::Bad(_))));
        let least = r#"{"etcdEvent":{"kv":{"lease":-9223372036854775808}}}"#;
        let Ok((Item::Event(raw), _)) = item(least.as_bytes(), true) else {
            panic!("no event")
        };
        assert_eq!(raw.lease, i64::MIN);
    }

    proptest! {
        #[test]
        fn a_part_asks_for_more(kept in 0..EVENT.len()) {
            prop_assert_eq!(item(&EVENT.as_bytes()[..kept], true), Err(Halt::More));
        }

        #[test]
        fn noise_does_no_harm(noise in "[\\[\\]{}:,\"\\\\ntrue0-9. a-z]{0,80}", bytes: Vec<u8>) {
            for text in [noise.as_bytes(), &bytes] {
                if let Ok((_, length)) = item(text, true) {
                    prop_assert!(length <= text.len() && length > 0);
                }
            }
        }
    }
}
