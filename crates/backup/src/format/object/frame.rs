//! One frame: plain bytes on their way into a store and back.
//!
//! In: up to a few MiB. Out: the same, compressed, sealed if there is a key, and hashed. Work for a thread that may
//! compute; no frame needs another.

use sha2::{Digest as _, Sha256};

use super::layout::{Entry, PLAIN_MAX, STORED_MAX};
use super::seal::Seal;

/// Fast, and near enough to what slower levels reach on etcd's pages and rows.
const LEVEL: i32 = 1;

/// A frame as it is stored.
#[derive(Debug, Clone)]
pub struct Frame {
    pub(super) bytes: Vec<u8>,
    pub(super) entry: Entry,
}

/// What packs the frames of one object; see [`super::Assembler::packer`].
#[derive(Clone)]
pub struct Packer {
    pub(super) seal: Option<std::sync::Arc<Seal>>,
}

/// Packs frame `number`, whose first byte or revision is `first`. `None` if it is longer than a frame may be.
pub fn pack(packer: &Packer, number: u32, first: u64, plain: &[u8]) -> Option<Frame> {
    if plain.len() > PLAIN_MAX {
        return None;
    }
    let mut bytes = zstd::bulk::compress(plain, LEVEL).ok()?;
    if let Some(seal) = &packer.seal {
        seal.seal(number, &mut bytes)?;
    }
    if bytes.len() > STORED_MAX {
        return None;
    }
    let entry = Entry {
        stored: u32::try_from(bytes.len()).ok()?,
        plain: u32::try_from(plain.len()).ok()?,
        first,
        sha256: Sha256::digest(&bytes).into(),
    };
    Some(Frame { bytes, entry })
}

/// Unpacks frame `number`, which the index says is `entry`, into `plain`, whose room is used again.
pub(super) fn unpack(
    seal: Option<&Seal>,
    number: u32,
    entry: &Entry,
    stored: &[u8],
    plain: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let sum: [u8; 32] = Sha256::digest(stored).into();
    if stored.len() != entry.stored as usize || sum != entry.sha256 {
        return Err("its bytes are not those that were written");
    }
    let opened = match seal {
        None => None,
        Some(seal) => {
            let mut bytes = stored.to_vec();
            seal.open(number, &mut bytes)
                .ok_or("the key does not open it, or it is another object's frame")?;
            Some(bytes)
        }
    };
    let packed = opened.as_deref().unwrap_or(stored);
    plain.clear();
    plain.reserve_exact(entry.plain as usize);
    // It fills the room of a vector; the function of this name beside it fills only what is in it already.
    zstd::bulk::Decompressor::new()
        .and_then(|mut unpacking| unpacking.decompress_to_buffer(packed, plain))
        .map_err(|_| "it cannot be unpacked")?;
    if plain.len() != entry.plain as usize {
        return Err("unpacked, it is not as long as its index says");
    }
    Ok(())
}
