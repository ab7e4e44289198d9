//! SHA-256, as it stands in records: 64 hexadecimal digits.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sha256Hex(pub [u8; 32]);

impl Sha256Hex {
    pub fn of(bytes: &[u8]) -> Sha256Hex {
        Sha256Hex(Sha256::digest(bytes).into())
    }

    /// Reads 64 hexadecimal digits, lower case.
    pub fn parse(text: &str) -> Option<Sha256Hex> {
        let mut bytes = [0; 32];
        read_hex(text.as_bytes(), &mut bytes)?;
        Some(Sha256Hex(bytes))
    }
}

/// Reads exactly as many bytes as `into` has, from lower-case hexadecimal digits.
pub(crate) fn read_hex(text: &[u8], into: &mut [u8]) -> Option<()> {
    if text.len() != into.len() * 2 {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    for (pair, byte) in text.chunks_exact(2).zip(into) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

impl fmt::Display for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Sha256Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sha256Hex, D::Error> {
        let text = String::deserialize(deserializer)?;
        Sha256Hex::parse(&text).ok_or_else(|| serde::de::Error::custom("not 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_from_its_text_and_from_nothing_else() {
        let digest = Sha256Hex::of(b"abc");
        assert!(digest.to_string().starts_with("ba7816bf8f01cfea"));
        assert_eq!(Sha256Hex::parse(&digest.to_string()), Some(digest));
        for wrong in ["", "ba", &"g".repeat(64), &"A".repeat(64), &"0".repeat(66)] {
            assert_eq!(Sha256Hex::parse(wrong), None, "{wrong}");
        }
    }
}
