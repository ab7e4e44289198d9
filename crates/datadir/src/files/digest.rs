//! The SHA-256 behind a snapshot.
//!
//! In: a file, and how much of it. Out: its hash. Never: more of it in memory than a few pieces.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::Error;
use crate::bolt::Bolt;
use crate::progress::Progress;

const PIECE: usize = 1 << 20;

/// The SHA-256 of the first `length` bytes of `file`.
pub(crate) fn sha256(file: &File, path: &Path, length: u64, progress: &Progress) -> Result<[u8; 32], Error> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; PIECE];
    let mut offset = 0;
    while offset < length {
        let want = usize::try_from(length - offset).map_or(PIECE, |left| left.min(PIECE));
        let piece = buffer.get_mut(..want).unwrap_or_default();
        file.read_exact_at(piece, offset).map_err(Error::read(path))?;
        hash.update(&*piece);
        offset += want as u64;
        progress.add(want as u64)?;
    }
    Ok(hash.finalize().into())
}

/// The hash that stands behind the pages of `bolt`, if one does.
pub(crate) fn recorded(bolt: &Bolt) -> Result<Option<[u8; 32]>, Error> {
    if !bolt.has_digest() {
        return Ok(None);
    }
    let mut digest = [0; 32];
    bolt.read_digest(&mut digest)?;
    Ok(Some(digest))
}

/// Puts the hash of `file` behind it, so that it is a snapshot.
pub(crate) fn append(file: &File, path: &Path, progress: &Progress) -> Result<[u8; 32], Error> {
    let length = file.metadata().map_err(Error::read(path))?.len();
    let digest = sha256(file, path, length, progress)?;
    file.write_all_at(&digest, length).map_err(Error::write(path))?;
    Ok(digest)
}

/// What is said if it is another one.
pub(crate) fn mismatch(path: &Path) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        place: "the SHA-256 behind the pages".to_owned(),
        why: "it is not the hash of the pages before it; they hold together, so what is damaged is inside a value, a \
              free page, or the hash itself"
            .to_owned(),
    }
}
