//! Data objects of an archive: frames that can be fetched, checked and unpacked one by one.
//!
//! ```text
//! header | frame 0 | frame 1 | … | index | footer
//! ```
//!
//! In: plain bytes, a frame at a time. Out: one object to be streamed into a store, and back. Each frame is compressed
//! on its own (and sealed, with a key); the index at the end has the length and SHA-256 of each. A record of the log
//! carries the SHA-256 of the index and of the whole, so that any frame can be fetched alone and is believed only if it
//! is what was written.
//! Never: a frame whose hash is wrong; memory taken for a length that nothing vouches for.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]

mod assemble;
mod frame;
mod layout;
mod read;
mod seal;
#[cfg(test)]
mod tests;

pub use assemble::Assembler;
pub use frame::{Frame, Packer, pack};
pub use layout::{Kind, PLAIN_MAX};
pub use read::{Opened, open, rehash};
pub use seal::{Key, KeyId};

use serde::{Deserialize, Serialize};

use super::digest::Sha256Hex;

/// What a record says of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Its name, relative to the archive.
    pub object: String,
    /// Its bytes in the store.
    pub stored_bytes: u64,
    /// The bytes of all frames, unpacked.
    pub plain_bytes: u64,
    /// SHA-256 of the whole object.
    pub sha256: Sha256Hex,
    /// SHA-256 of header, index and footer.
    pub index_sha256: Sha256Hex,
    /// The key it is sealed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
}
