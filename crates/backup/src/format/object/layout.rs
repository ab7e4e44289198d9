//! The bytes of an object around its frames.
//!
//! ```text
//! header  40: "QUORATE1", kind, cipher, 6 zeros, salt 16, key id 8
//! entry   48: stored length u32, plain length u32, first u64, SHA-256 of the stored bytes
//! footer  56: offset of the index u64, entries u32, 4 zeros, SHA-256 of header, index and these 16 bytes, "QUORATE."
//! ```
//!
//! Numbers are little-endian. `first` is the first revision of a frame of a delta, and the offset of a frame of a full.

use sha2::{Digest as _, Sha256};

use crate::format::digest::Sha256Hex;

/// A frame, unpacked, has at most so many bytes: one revision's largest row, and a frame's worth before it.
pub const PLAIN_MAX: usize = 192 << 20;
/// A frame is stored in at most so many bytes: what does not shrink is a little longer.
pub(super) const STORED_MAX: usize = PLAIN_MAX + (PLAIN_MAX >> 7) + 1024;
pub(super) const HEADER: usize = 40;
pub(super) const ENTRY: usize = 48;
pub(super) const FOOTER: usize = 56;
/// Frames of an object, at most: a 4 TiB database.
pub(super) const FRAMES_MAX: u32 = 1 << 20;
const HEAD: &[u8; 8] = b"QUORATE1";
const TAIL: &[u8; 8] = b"QUORATE.";

/// What an object holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A snapshot of a database.
    Full,
    /// Rows of a range of revisions.
    Delta,
}

/// The start of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// The salt and the key's id, if frames are sealed.
    pub(super) sealed: Option<([u8; 16], [u8; 8])>,
}

impl Header {
    pub(super) fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(HEAD);
        bytes[8] = match self.kind {
            Kind::Full => 1,
            Kind::Delta => 2,
        };
        if let Some((salt, id)) = self.sealed {
            bytes[9] = 1;
            bytes[16..32].copy_from_slice(&salt);
            bytes[32..].copy_from_slice(&id);
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER] = bytes.try_into().ok()?;
        let kind = match bytes[8] {
            1 => Kind::Full,
            2 => Kind::Delta,
            _ => return None,
        };
        let sealed = match bytes[9] {
            0 => None,
            1 => Some((bytes[16..32].try_into().ok()?, bytes[32..].try_into().ok()?)),
            _ => return None,
        };
        let header = Header { kind, sealed };
        (header.bytes() == *bytes).then_some(header)
    }
}

/// What the index says of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub(super) stored: u32,
    pub(super) plain: u32,
    pub(super) first: u64,
    pub(super) sha256: [u8; 32],
}

impl Entry {
    pub(super) fn bytes(&self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..4].copy_from_slice(&self.stored.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.plain.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first.to_le_bytes());
        bytes[16..].copy_from_slice(&self.sha256);
        bytes
    }

    fn read(bytes: &[u8; ENTRY]) -> Option<Entry> {
        let entry = Entry {
            stored: u32::from_le_bytes(bytes[..4].try_into().ok()?),
            plain: u32::from_le_bytes(bytes[4..8].try_into().ok()?),
            first: u64::from_le_bytes(bytes[8..16].try_into().ok()?),
            sha256: bytes[16..].try_into().ok()?,
        };
        let sound = entry.stored as usize <= STORED_MAX && entry.plain as usize <= PLAIN_MAX;
        sound.then_some(entry)
    }
}

/// Index and footer of an object whose frames end at `offset`, and the hash that vouches for header and index.
pub(super) fn close(header: &Header, offset: u64, entries: &[Entry]) -> (Vec<u8>, Sha256Hex) {
    let mut bytes = Vec::with_capacity(entries.len() * ENTRY + FOOTER);
    for entry in entries {
        bytes.extend_from_slice(&entry.bytes());
    }
    bytes.extend_from_slice(&offset.to_le_bytes());
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    let sum = Sha256Hex(
        Sha256::new()
            .chain_update(header.bytes())
            .chain_update(&bytes)
            .finalize()
            .into(),
    );
    bytes.extend_from_slice(&sum.0);
    bytes.extend_from_slice(TAIL);
    (bytes, sum)
}

/// Where the index of an object of `length` bytes begins, by its footer.
pub(super) fn index_offset(footer: &[u8], length: u64) -> Result<u64, &'static str> {
    let footer: &[u8; FOOTER] = footer.try_into().map_err(|_| "it is too short")?;
    if footer[48..] != *TAIL {
        return Err("it does not end as an object of an archive does: it is cut off");
    }
    let offset = u64::from_le_bytes(footer[..8].try_into().unwrap_or_default());
    let count = u32::from_le_bytes(footer[8..12].try_into().unwrap_or_default());
    let behind = u64::from(count) * ENTRY as u64 + FOOTER as u64;
    if count > FRAMES_MAX || offset.checked_add(behind) != Some(length) || offset < HEADER as u64 {
        return Err("its footer does not fit its length");
    }
    Ok(offset)
}

/// Reads the index; `tail` is all from the index on.
pub(super) fn read_index(
    header: &[u8],
    tail: &[u8],
    expected: Sha256Hex,
) -> Result<Vec<Entry>, &'static str> {
    let (body, rest) = tail
        .split_at_checked(tail.len().wrapping_sub(40))
        .ok_or("it is too short")?;
    let sum: [u8; 32] = Sha256::new()
        .chain_update(header)
        .chain_update(body)
        .finalize()
        .into();
    if rest.get(..32) != Some(&sum[..]) || sum != expected.0 {
        return Err("its index is not what was written");
    }
    let entries = body.get(..body.len().saturating_sub(16)).unwrap_or_default();
    let (entries, rest) = entries.as_chunks::<ENTRY>();
    if !rest.is_empty() {
        return Err("its index is cut off");
    }
    let entries: Option<Vec<Entry>> = entries.iter().map(Entry::read).collect();
    entries.ok_or("its index holds a frame that cannot be")
}
