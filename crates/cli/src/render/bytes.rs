//! Keys and values that may be anything, as text that shows what they are.

/// Bytes as a person can read and type them: text as it is, everything else as `\xNN`. One line.
pub fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter.is_control() {
                true => letter
                    .to_string()
                    .bytes()
                    .for_each(|byte| text.push_str(&escaped(byte))),
                false => text.push(letter),
            }
        }
        chunk
            .invalid()
            .iter()
            .for_each(|byte| text.push_str(&escaped(*byte)));
    }
    text
}

fn escaped(byte: u8) -> String {
    format!("\\x{byte:02x}")
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('?');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// The bytes of hexadecimal digits.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c.to_digit(16)?).ok()).collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_is_one_readable_line() {
        assert_eq!(readable("a/ü".as_bytes()), "a/ü");
        assert_eq!(readable(b"a\0\n\xff\x1b[1m"), "a\\x00\\x0a\\xff\\x1b[1m");
    }

    #[test]
    fn digits_there_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&all)), Some(all));
        assert_eq!(unhex("0A"), Some(vec![10]));
        for bad in ["0", "0g", "ü0"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }
}
