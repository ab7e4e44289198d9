//! Sealing frames with a key that the store never sees.
//!
//! In: a key file. Out: frames sealed with AES-256-GCM, each object under a key of its own, derived from the file's by a
//! random salt, so that a nonce (the frame's number) is never used twice. A frame is bound to its object and its place.
//! Never: the key, or anything it could be found from, in the store, a message or a log.

use std::fmt;
use std::path::Path;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use serde::{Deserialize, Serialize};

use super::layout::Header;
use crate::Error;
use crate::format::digest::{hex, read_hex};

/// The key of an archive.
#[derive(Clone)]
pub struct Key {
    bytes: [u8; 32],
    id: KeyId,
}

/// Tells keys apart, and nothing else about them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(String);

impl KeyId {
    pub(super) fn of(bytes: [u8; 8]) -> KeyId {
        KeyId(hex(&bytes))
    }

    pub(super) fn bytes(&self) -> Option<[u8; 8]> {
        let mut bytes = [0; 8];
        read_hex(self.0.as_bytes(), &mut bytes)?;
        Some(bytes)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

impl Key {
    pub fn new(bytes: [u8; 32]) -> Key {
        let mut id = [0; 8];
        derive(&bytes, b"quorate", b"the key's name", &mut id);
        Key {
            bytes,
            id: KeyId::of(id),
        }
    }

    /// Reads a key file: 64 hexadecimal digits, as `openssl rand -hex 32` prints them.
    pub fn read(path: &Path) -> Result<Key, Error> {
        let text = std::fs::read(path).map_err(|source| Error::File {
            doing: "read the key file",
            path: path.to_owned(),
            source,
        })?;
        let mut bytes = [0; 32];
        read_hex(&text.trim_ascii().to_ascii_lowercase(), &mut bytes).ok_or_else(|| {
            Error::refused(
                format!("{} is not a key file: it does not hold 64 hexadecimal digits", path.display()),
                "make one with `openssl rand -hex 32 > FILE`, keep it where the archive is not, and keep a copy",
            )
        })?;
        Ok(Key::new(bytes))
    }

    pub fn id(&self) -> &KeyId {
        &self.id
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(key: &[u8; 32], salt: &[u8], purpose: &[u8], into: &mut [u8]) {
    let root: Prk = Salt::new(HKDF_SHA256, salt).extract(key);
    let length = Length(into.len());
    // Fails only for lengths that HKDF cannot give, and ours are fixed and short.
    if let Ok(output) = root.expand(&[purpose], length) {
        let _ = output.fill(into);
    }
}

/// What seals and opens the frames of one object.
pub(super) struct Seal {
    key: LessSafeKey,
    header: Vec<u8>,
}

impl Seal {
    /// For the object that begins with `header`.
    pub(super) fn new(key: &Key, header: &Header) -> Option<Seal> {
        let (salt, _) = header.sealed?;
        let mut bytes = [0; 32];
        derive(&key.bytes, &salt, b"frames", &mut bytes);
        Some(Seal {
            key: LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).ok()?),
            header: header.bytes().to_vec(),
        })
    }

    fn terms(&self, number: u32) -> (Nonce, Aad<Vec<u8>>) {
        let mut nonce = [0; 12];
        nonce[8..].copy_from_slice(&number.to_be_bytes());
        let bound = [&self.header[..], &number.to_be_bytes()].concat();
        (Nonce::assume_unique_for_key(nonce), Aad::from(bound))
    }

    pub(super) fn seal(&self, number: u32, bytes: &mut Vec<u8>) -> Option<()> {
        let (nonce, bound) = self.terms(number);
        self.key.seal_in_place_append_tag(nonce, bound, bytes).ok()
    }

    pub(super) fn open(&self, number: u32, bytes: &mut Vec<u8>) -> Option<()> {
        let (nonce, bound) = self.terms(number);
        let length = self.key.open_in_place(nonce, bound, bytes).ok()?.len();
        bytes.truncate(length);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn a_frame_opens_only_with_its_key_in_its_place() {
        let key = Key::new([7; 32]);
        let id = key.id().bytes().unwrap();
        let header = |salt| Header {
            kind: Kind::Full,
            sealed: Some(([salt; 16], id)),
        };
        let seal = Seal::new(&key, &header(1)).unwrap();
        let mut sealed = b"words".to_vec();
        seal.seal(3, &mut sealed).unwrap();
        assert!(!sealed.windows(5).any(|part| part == b"words"));
        let open = |seal: &Seal, number| {
            let mut bytes = sealed.clone();
            seal.open(number, &mut bytes).map(|()| bytes)
        };
        assert_eq!(open(&seal, 3).unwrap(), b"words");
        assert_eq!(open(&seal, 4), None);
        assert_eq!(open(&Seal::new(&key, &header(2)).unwrap(), 3), None);
        assert_eq!(open(&Seal::new(&Key::new([8; 32]), &header(1)).unwrap(), 3), None);
        assert_ne!(Key::new([8; 32]).id(), key.id());
        assert_eq!(format!("{key:?}"), format!("Key({})", key.id()));
    }

    #[test]
    fn key_files_are_hexadecimal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, format!("{}\n", "0A".repeat(32))).unwrap();
        assert_eq!(Key::read(&path).unwrap().id(), Key::new([10; 32]).id());
        std::fs::write(&path, "secret words").unwrap();
        let told = Key::read(&path).unwrap_err().to_string();
        assert!(
            told.contains("is not a key file") && !told.contains("secret"),
            "{told}"
        );
    }
}
