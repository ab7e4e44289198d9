//! The body of a review, read in bounded memory.
//!
//! In: a body as it arrives, and places for large ones. Out: all of it. Never: more of it than [`MAX`]; a place taken by
//! a client that has sent little, for silent ones would take them all.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// An object and the one before it, each as long as an API server stores; what is longer goes unjudged here.
pub const MAX: usize = 4 << 20;
/// So much is read without a place. Hardly any object of ours is longer.
const SMALL: usize = 128 << 10;

#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    TooLong,
    /// The rest of it did not arrive in its time, or at all.
    Incomplete,
}

/// Reads a body, of which the small part and the rest may each take `limit`. A large one holds its place until that is dropped.
pub async fn read<'a>(
    mut body: Incoming,
    limit: Duration,
    places: &'a Semaphore,
) -> Result<(Vec<u8>, Option<SemaphorePermit<'a>>), Unread> {
    if body.size_hint().lower() > MAX as u64 {
        return Err(Unread::TooLong);
    }
    let mut read = Vec::new();
    if fill(&mut body, &mut read, SMALL, limit).await? {
        return Ok((read, None));
    }
    // It ends with the operator alone, so it is never closed.
    let place = places.acquire().await.ok();
    fill(&mut body, &mut read, MAX, limit).await?;
    Ok((read, place))
}

/// Reads on until there is more than `enough`. True: that was all.
async fn fill(
    body: &mut Incoming,
    read: &mut Vec<u8>,
    enough: usize,
    limit: Duration,
) -> Result<bool, Unread> {
    let filled = timeout(limit, async {
        while read.len() <= enough {
            let Some(frame) = body.frame().await else {
                return Ok(true);
            };
            let frame = frame.map_err(|_| Unread::Incomplete)?;
            let data = frame.into_data().unwrap_or_default();
            if read.len().saturating_add(data.len()) > MAX {
                return Err(Unread::TooLong);
            }
            read.extend_from_slice(&data);
        }
        Ok(false)
    });
    filled.await.unwrap_or(Err(Unread::Incomplete))
}
