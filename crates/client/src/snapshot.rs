//! A member's database as a stream of bytes.
//!
//! In: an endpoint. Out: pieces of about 32 KiB, which together are what `etcdctl snapshot save` writes: the
//! database file followed by its 32-byte SHA-256. A stream that ends early must never pass for a whole one.

use bytes::Bytes;
use quorate_wire::etcdserverpb::{SnapshotRequest, SnapshotResponse};
use tonic::Streaming;

use crate::endpoint::Endpoint;
use crate::error::{Error, Operation};
use crate::stub::maintenance_client::MaintenanceClient;

/// A database being received.
pub struct Snapshot {
    endpoint: Endpoint,
    stream: Streaming<SnapshotResponse>,
    remaining_bytes: Option<u64>,
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
            remaining_bytes: None,
            ended: false,
        })
    }
}

impl Snapshot {
    /// The next piece; `None` after the last. Each is waited for no longer than the stream idle timeout.
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
                self.remaining_bytes = Some(piece.remaining_bytes);
                Ok(Some(piece.blob))
            }
            Ok(Ok(None)) if self.remaining_bytes == Some(0) => {
                self.ended = true;
                Ok(None)
            }
            Ok(Ok(None)) => Err(Error::malformed(
                Operation::Snapshot,
                url,
                "the stream ended before the database did",
            )),
        }
    }
}
