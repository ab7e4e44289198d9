//! Small objects of an archive: a line of JSON, and above it the SHA-256 of that line.
//!
//! In: something to be written down. Out: two lines of text, and back. People can read them; a changed bit is seen.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::digest::Sha256Hex;

/// The two lines, and the hash.
pub(crate) fn write<T: Serialize>(value: &T) -> (Vec<u8>, Sha256Hex) {
    // Fails only for maps whose keys are no text; there are none.
    let line = serde_json::to_vec(value).unwrap_or_default();
    let hash = Sha256Hex::of(&line);
    let mut bytes = hash.to_string().into_bytes();
    bytes.push(b'\n');
    bytes.extend_from_slice(&line);
    bytes.push(b'\n');
    (bytes, hash)
}

/// Reads the first two lines; gives back what is behind them.
pub(crate) fn read_first<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, Sha256Hex, &[u8]), &'static str> {
    let (sum, rest) = line(bytes).ok_or("its first line is cut off")?;
    let (body, rest) = line(rest).ok_or("its second line is cut off")?;
    let hash = std::str::from_utf8(sum).ok().and_then(Sha256Hex::parse);
    let hash = hash.ok_or("its first line is not a hash")?;
    if Sha256Hex::of(body) != hash {
        return Err("its bytes are not those that were written");
    }
    let value =
        serde_json::from_slice(body).map_err(|_| "it says what this version of quorate does not know")?;
    Ok((value, hash, rest))
}

/// Reads an object that is two lines and no more.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, &'static str> {
    match read_first(bytes)? {
        (value, _, []) => Ok(value),
        _ => Err("there is something behind its second line"),
    }
}

fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}
