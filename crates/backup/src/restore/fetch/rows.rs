//! The rows of deltas, in order, while they come.
//!
//! In: open deltas and which revisions are taken of each. Out: rows. Frames are fetched and unpacked ahead, a few at a
//! time, in their order. Memory: those frames.
//! Never: a delta taken for good whose rows, count or checksum are not those of its record.

use std::sync::Arc;

use futures::StreamExt as _;
use quorate_datadir::Progress;
use quorate_datadir::bolt::KeyAndValue;
use quorate_datadir::rewrite::Later;
use tokio::sync::{Notify, mpsc};

use super::{Task, cancelled};
use crate::Error;
use crate::format::delta::{Content, Cursor};
use crate::format::object::Opened;
use crate::restore::plan::Planned;

const FETCHED: usize = 4;
/// Neighbouring frames of a delta are fetched together, up to so many bytes.
const TOGETHER: u64 = 1 << 20;
/// Frames unpacked at once.
const UNPACKED: usize = 2;
/// Frames that wait to be read.
const WAITING: usize = 1;

/// A frame of a delta.
struct Plain {
    /// Which of the planned.
    planned: usize,
    bytes: Vec<u8>,
}

/// A delta, as far as it has to be checked.
struct Expected {
    object: Arc<str>,
    from: i64,
    to: i64,
    /// What all of it holds; `None` if only a part of it is fetched.
    content: Option<Content>,
}

/// The rows of deltas.
pub(crate) struct DeltaRows {
    expected: Vec<Expected>,
    frames: mpsc::Receiver<Result<Plain, Error>>,
    wanted: Arc<Notify>,
    current: Option<(Plain, Cursor)>,
    /// The delta at hand, and what was read of it.
    at: usize,
    read: Content,
    key: [u8; 18],
}

const NOTHING: Content = Content {
    from: 0,
    to: 0,
    rows: 0,
    bytes: 0,
    crc: 0,
};

/// The frames of an object that hold revisions of a range.
fn frames_of(object: &Opened, from: i64, to: i64) -> std::ops::Range<u32> {
    let first = |number: u32| i64::try_from(object.first(number)).unwrap_or(i64::MAX);
    let count = object.frames();
    // A frame's first revision may have begun in the frame before.
    let begin = (0..count).take_while(|number| first(*number) < from).count();
    let begin = u32::try_from(begin).unwrap_or(count).saturating_sub(1);
    let end = (begin..count).take_while(|number| first(*number) <= to).count();
    begin..begin + u32::try_from(end).unwrap_or(0)
}

impl DeltaRows {
    /// Begins to fetch, once the first row is asked for.
    pub(crate) fn begin(planned: &[Planned], progress: &Arc<Progress>) -> (DeltaRows, Task) {
        let mut expected = Vec::with_capacity(planned.len());
        let mut pieces = Vec::new();
        for (index, planned) in planned.iter().enumerate() {
            let object = &planned.opened;
            let frames = frames_of(object, planned.from, planned.to);
            let delta = &planned.delta;
            let whole = frames == (0..object.frames());
            progress.expect(delta.row_bytes);
            expected.push(Expected {
                object: object.name().into(),
                from: planned.from,
                to: planned.to,
                content: whole.then_some(Content {
                    from: delta.from,
                    to: delta.to,
                    rows: delta.rows,
                    bytes: delta.row_bytes,
                    crc: delta.crc,
                }),
            });
            pieces.push((index, object.clone(), frames));
        }
        let (send, frames) = mpsc::channel(WAITING);
        let wanted = Arc::new(Notify::new());
        let (begin, progress) = (Arc::clone(&wanted), Arc::clone(progress));
        let task = Task::spawn(async move {
            let pumping = async {
                begin.notified().await;
                pump(pieces, &send).await;
            };
            tokio::select! {
                () = pumping => {}
                // Else what has not come would be taken for gone.
                () = cancelled(&progress) => drop(send.send(Err(Error::Cancelled)).await),
            }
        });
        let rows = DeltaRows {
            expected,
            frames,
            wanted,
            current: None,
            at: 0,
            read: NOTHING,
            key: [0; 18],
        };
        (rows, task)
    }

    /// Moves on to the next frame. False: there is none.
    fn next_frame(&mut self) -> Result<bool, Error> {
        let Some(frame) = self.frames.blocking_recv() else {
            let all = self.at + 1 >= self.expected.len();
            self.leave(self.at)?;
            return match all {
                true => Ok(false),
                false => Err(Error::Cancelled),
            };
        };
        let frame = frame?;
        // Deltas between without a frame hold nothing, and their records must say so.
        while self.at < frame.planned {
            self.leave(self.at)?;
            self.at += 1;
        }
        let cursor = Cursor::of(&frame.bytes).map_err(|why| self.damaged(why))?;
        self.current = Some((frame, cursor));
        Ok(true)
    }

    fn damaged(&self, why: impl Into<String>) -> Error {
        let object = self.expected.get(self.at).map(|expected| &*expected.object);
        Error::damaged(object.unwrap_or("a delta"), why)
    }

    /// A delta has been read: does it hold what its record says?
    fn leave(&mut self, at: usize) -> Result<(), Error> {
        let read = std::mem::replace(&mut self.read, NOTHING);
        match self.expected.get(at).and_then(|expected| expected.content) {
            Some(content) if content != read => Err(self.damaged(format!(
                "its record tells of {} rows of revisions {} to {}, and these are {} of {} to {}, or others",
                content.rows, content.from, content.to, read.rows, read.from, read.to
            ))),
            _ => Ok(()),
        }
    }

    /// The next row that is wanted. Out: where its value lies in the frame at hand, and how long its key is.
    fn advance(&mut self) -> Result<Option<(std::ops::Range<usize>, usize)>, Error> {
        loop {
            let Some((frame, cursor)) = &mut self.current else {
                if self.next_frame()? {
                    continue;
                }
                return Ok(None);
            };
            let Some(row) = cursor.next(&frame.bytes) else {
                self.current = None;
                continue;
            };
            let row = match row {
                Ok(row) => row,
                Err(why) => return Err(self.damaged(why)),
            };
            let main = row.revision.main;
            if self.read.rows == 0 {
                self.read.from = main;
            }
            let (key, length) = row.key();
            self.read.to = main;
            self.read.rows += 1;
            self.read.bytes += (length + row.value.len()) as u64;
            self.read.crc = row.crc(self.read.crc);
            let taken = self
                .expected
                .get(self.at)
                .is_some_and(|expected| (expected.from..=expected.to).contains(&main));
            if taken {
                self.key = key;
                // The cursor stands behind the value.
                let end = cursor.position();
                return Ok(Some((end - row.value.len()..end, length)));
            }
        }
    }
}

impl Later for DeltaRows {
    fn begin(&mut self, _base: i64) -> Result<(), quorate_datadir::Error> {
        self.wanted.notify_one();
        Ok(())
    }

    fn next(&mut self) -> Result<Option<KeyAndValue<'_>>, quorate_datadir::Error> {
        let found = self.advance().map_err(quorate_datadir::Error::supply)?;
        let Some((value, length)) = found else {
            return Ok(None);
        };
        let frame = self.current.as_ref().map(|(frame, _)| &frame.bytes[..]);
        let value = frame.and_then(|bytes| bytes.get(value)).unwrap_or_default();
        Ok(Some((self.key.get(..length).unwrap_or_default(), value)))
    }
}

/// Fetches and unpacks frames in order, and sends them on.
async fn pump(pieces: Vec<(usize, Opened, std::ops::Range<u32>)>, send: &mpsc::Sender<Result<Plain, Error>>) {
    let groups = pieces.into_iter().flat_map(|(planned, object, frames)| {
        let groups = object.groups(frames, TOGETHER);
        groups
            .into_iter()
            .map(move |group| (planned, object.clone(), group))
    });
    let fetching = futures::stream::iter(groups).map(|(planned, object, group)| async move {
        let frames = object.fetch_many(group.clone()).await?;
        Ok::<_, Error>((planned, object, group, frames))
    });
    let frames = fetching.buffered(FETCHED).flat_map(|fetched| {
        let frames = match fetched {
            Ok((planned, object, group, frames)) => {
                let numbered = group
                    .zip(frames)
                    .map(|(number, stored)| Ok((planned, object.clone(), number, stored)));
                numbered.collect()
            }
            Err(error) => vec![Err(error)],
        };
        futures::stream::iter(frames)
    });
    let unpacking = frames.map(|frame| async move {
        let (planned, object, number, stored) = frame?;
        let unpacking = tokio::task::spawn_blocking(move || object.unpack(number, &stored));
        let bytes = unpacking.await.map_err(|_| Error::Cancelled)??;
        Ok(Plain { planned, bytes })
    });
    let mut plain = std::pin::pin!(unpacking.buffered(UNPACKED));
    while let Some(frame) = plain.next().await {
        let failed = frame.is_err();
        if send.send(frame).await.is_err() || failed {
            return;
        }
    }
}
