//! A full copy that arrives: its frames, fetched side by side, unpacked by two threads, written in any order.
//!
//! In: an open object. Out: the database and the hash behind it, written where it is wanted. Memory: a few frames.
//! Never: a byte written of a frame whose hash is wrong; an end before all frames have come.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::StreamExt as _;
use quorate_datadir::{Arrival, Landing, Progress};
use tokio::sync::mpsc;

use super::{Task, cancelled};
use crate::Error;
use crate::format::object::Opened;

const AT_ONCE: usize = 3;
/// Neighbouring frames are fetched together, up to so many bytes.
const TOGETHER: u64 = 2 << 20;
/// Frames that wait to be unpacked.
const WAITING: usize = 1;
const WORKERS: usize = 2;

type Fetched = Result<(u32, Bytes), Error>;

/// A full copy that arrives.
pub(crate) struct FullArrival {
    object: Opened,
    length: u64,
    frames: Mutex<mpsc::Receiver<Fetched>>,
}

impl std::fmt::Debug for FullArrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FullArrival").field(&self.object.name()).finish()
    }
}

impl FullArrival {
    pub(crate) fn begin(object: &Opened, length: u64, progress: &Arc<Progress>) -> (FullArrival, Task) {
        let (send, frames) = mpsc::channel(WAITING);
        progress.expect(length);
        let arrival = FullArrival {
            object: object.clone(),
            length,
            frames: Mutex::new(frames),
        };
        let (object, progress) = (object.clone(), Arc::clone(progress));
        let task = Task::spawn(async move {
            let groups = object.groups(0..object.frames(), TOGETHER);
            let fetching = futures::stream::iter(groups).map(|group| {
                let object = &object;
                async move {
                    object
                        .fetch_many(group.clone())
                        .await
                        .map(|frames| (group, frames))
                }
            });
            let mut fetching = std::pin::pin!(fetching.buffer_unordered(AT_ONCE));
            let pumping = async {
                while let Some(fetched) = fetching.next().await {
                    let (group, frames) = match fetched {
                        Ok(fetched) => fetched,
                        Err(error) => return drop(send.send(Err(error)).await),
                    };
                    for frame in group.zip(frames) {
                        if send.send(Ok(frame)).await.is_err() {
                            return;
                        }
                    }
                }
            };
            tokio::select! {
                () = pumping => {}
                // Else what has not come would be taken for gone.
                () = cancelled(&progress) => drop(send.send(Err(Error::Cancelled)).await),
            }
        });
        (arrival, task)
    }

    fn next(&self) -> Option<Fetched> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.blocking_recv()
    }

    /// Unpacks and writes what comes. Out: how many frames.
    fn work(&self, landing: &Landing, progress: &Progress) -> Result<u32, quorate_datadir::Error> {
        let (mut count, mut plain) = (0, Vec::new());
        while let Some(fetched) = self.next() {
            let (number, stored) = fetched.map_err(quorate_datadir::Error::supply)?;
            self.object
                .unpack_into(number, &stored, &mut plain)
                .map_err(quorate_datadir::Error::supply)?;
            drop(stored);
            let offset = self.object.first(number);
            let fits = offset
                .checked_add(plain.len() as u64)
                .is_some_and(|end| end <= self.length);
            if !fits {
                let why = format!("frame {number} lies outside of what it should hold");
                return Err(quorate_datadir::Error::supply(Error::damaged(
                    self.object.name(),
                    why,
                )));
            }
            landing.write_at(&plain, offset)?;
            progress.add(plain.len() as u64)?;
            count += 1;
        }
        progress.add(0)?;
        Ok(count)
    }
}

impl Arrival for FullArrival {
    fn arrive(&mut self, landing: &Landing, progress: &Progress) -> Result<(), quorate_datadir::Error> {
        let this = &*self;
        let counts = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS)
                .map(|_| {
                    scope.spawn(|| {
                        let worked = this.work(landing, progress);
                        if worked.is_err() {
                            // Nobody is to wait for a place in the channel.
                            this.frames.lock().unwrap_or_else(PoisonError::into_inner).close();
                        }
                        worked
                    })
                })
                .collect();
            let ended = |worker: std::thread::ScopedJoinHandle<'_, Result<u32, quorate_datadir::Error>>| {
                worker.join().unwrap_or(Err(quorate_datadir::Error::Cancelled))
            };
            workers.into_iter().map(ended).collect::<Vec<_>>()
        });
        let mut total = 0;
        for count in counts {
            total += count?;
        }
        let plain: u64 = (0..self.object.frames())
            .map(|number| self.object.plain_bytes(number))
            .sum();
        if total != self.object.frames() || plain != self.length {
            let why = format!("{total} of its {} frames came", self.object.frames());
            return Err(quorate_datadir::Error::supply(Error::damaged(
                self.object.name(),
                why,
            )));
        }
        Ok(())
    }

    fn is_vouched_for(&self) -> bool {
        // Each frame was held against its hash in the index, the index against the record's.
        true
    }
}
