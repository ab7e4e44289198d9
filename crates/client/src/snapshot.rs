//! A member's database as a stream of bytes.
//!
//! In: an endpoint. Out: pieces of about 32 KiB, which together are what `etcdctl snapshot save` writes: the
//! database file followed by its 32-byte SHA-256, which is checked as the pieces go by. Memory does not grow with the
//! database. A stream that ends early, or that is not what its digest says, must never pass for a whole one.

use bytes::Bytes;
use quorate_wire::etcdserverpb::{SnapshotRequest, SnapshotResponse};
use sha2::{Digest as _, Sha256};
use tonic::Streaming;

use crate::endpoint::Endpoint;
use crate::error::{Error, Operation};
use crate::stub::maintenance_client::MaintenanceClient;

/// The digest at the end.
const DIGEST_BYTES: usize = 32;
/// Every page size is a multiple of this.
const SECTOR_BYTES: u64 = 512;

/// A database being received.
pub struct Snapshot {
    endpoint: Endpoint,
    stream: Streaming<SnapshotResponse>,
    checked: Checked,
    remaining_bytes: Option<u64>,
    database_bytes: Option<u64>,
    version: Option<String>,
    ended: bool,
}

impl Endpoint {
    /// Starts streaming the member's database.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        let send = |channel, request| async move { MaintenanceClient::new(channel).snapshot(request).await };
        let stream = self.call(Operation::Snapshot, SnapshotRequest {}, send).await?;
        Ok(Snapshot {
            endpoint: self.clone(),
            stream,
            checked: Checked::default(),
            remaining_bytes: None,
            database_bytes: None,
            version: None,
            ended: false,
        })
    }
}

impl Snapshot {
    /// The next piece; `None` after the last, once all of them were what the digest says. Each is waited for no longer
    /// than the stream idle timeout.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        if self.ended {
            return Ok(None);
        }
        let url = self.endpoint.label();
        let idle = self.endpoint.timeouts().stream_idle;
        match tokio::time::timeout(idle, self.stream.message()).await {
            Err(_) => Err(Error::no_answer(Operation::Snapshot, url, idle)),
            Ok(Err(status)) => Err(Error::answered(Operation::Snapshot, url, status)),
            Ok(Ok(Some(piece))) => {
                if self.remaining_bytes.is_none() {
                    let size = piece.remaining_bytes.saturating_add(piece.blob.len() as u64);
                    self.database_bytes = Some(size);
                    self.version = (!piece.version.is_empty()).then_some(piece.version);
                }
                self.remaining_bytes = Some(piece.remaining_bytes);
                self.checked.take(&piece.blob);
                Ok(Some(piece.blob))
            }
            Ok(Ok(None)) => {
                let fault = match self.remaining_bytes {
                    Some(0) => self.checked.fault(),
                    _ => Some("the stream ended before the database did"),
                };
                if let Some(fault) = fault {
                    return Err(Error::malformed(Operation::Snapshot, url, fault));
                }
                self.ended = true;
                Ok(None)
            }
        }
    }

    /// How large the database is, by the first piece; the digest comes on top.
    pub fn database_bytes(&self) -> Option<u64> {
        self.database_bytes
    }

    /// The version of the stored data; told since 3.6, with the first piece.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The SHA-256 of the database, once the stream has ended and it is the one that was sent.
    pub fn digest(&self) -> Option<[u8; DIGEST_BYTES]> {
        self.ended.then_some(self.checked.tail)
    }
}

/// Hashes all but the last bytes of a stream, which are the digest of those before.
#[derive(Default)]
struct Checked {
    hash: Sha256,
    hashed: u64,
    tail: [u8; DIGEST_BYTES],
    held: usize,
}

impl Checked {
    #[allow(
        clippy::indexing_slicing,
        reason = "`held` is at most the tail's length, and what exceeds that is taken from the tail first, then the piece"
    )]
    fn take(&mut self, piece: &[u8]) {
        let (held, surplus) = (self.held, (self.held + piece.len()).saturating_sub(DIGEST_BYTES));
        let from_tail = surplus.min(held);
        let from_piece = surplus - from_tail;
        self.hash.update(&self.tail[..from_tail]);
        self.hash.update(&piece[..from_piece]);
        self.hashed += surplus as u64;
        self.tail.copy_within(from_tail..held, 0);
        let kept = held - from_tail;
        let new = &piece[from_piece..];
        self.tail[kept..kept + new.len()].copy_from_slice(new);
        self.held = kept + new.len();
    }

    /// What is wrong with what came, if it is all.
    fn fault(&self) -> Option<&'static str> {
        if self.held < DIGEST_BYTES || self.hashed == 0 || !self.hashed.is_multiple_of(SECTOR_BYTES) {
            return Some("the stream ended before the digest of the database came");
        }
        let whole = self.hash.clone().finalize();
        (whole.as_slice() != self.tail)
            .then_some("the bytes that came are not those that the digest was made of")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..1024u32).flat_map(u32::to_le_bytes).collect();
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        bytes
    }

    fn fault(bytes: &[u8], piece: usize) -> Option<&'static str> {
        let mut checked = Checked::default();
        bytes.chunks(piece).for_each(|piece| checked.take(piece));
        checked.fault()
    }

    #[test]
    fn however_it_is_cut_the_whole_passes_and_nothing_less() {
        let good = stream();
        for piece in [1, 7, 31, 32, 33, 512, 4096, good.len()] {
            assert_eq!(fault(&good, piece), None, "{piece}");
            for length in [0, 1, 31, 32, 544, good.len() - 32, good.len() - 1] {
                assert!(fault(&good[..length], piece).is_some(), "{length} in {piece}");
            }
        }
        for at in [0, 100, good.len() - 33, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(
                fault(&bad, 512).is_some_and(|why| why.contains("digest was made of")),
                "{at}"
            );
        }
    }
}
