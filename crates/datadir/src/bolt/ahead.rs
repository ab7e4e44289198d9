//! Rows that one thread reads while another does something with those before.
//!
//! In: the rows of a bucket, and what is to be done with each. Out: it was done, in their order. Memory: three batches,
//! each of one row at least.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::file::Place;
use super::rows::{Row, Rows};
use crate::Error;

/// How many bytes of rows a batch is filled with.
const BATCH: usize = 128 << 10;
/// A batch that had to be larger than this is not used again.
const BATCH_MAX: usize = 1 << 20;

/// Is there more to do?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    GoOn,
    Stop,
}

/// Rows, copied out of their pages.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    rows: Vec<Cut>,
}

/// Where a row ends in a batch; it begins where the one before it ends.
#[derive(Debug)]
struct Cut {
    place: Place,
    bucket: bool,
    key_end: usize,
    value_end: usize,
}

impl Batch {
    /// Out: may there be more?
    fn fill(&mut self, rows: &mut Rows<'_>) -> Result<bool, Error> {
        self.bytes.clear();
        self.rows.clear();
        while self.bytes.len() < BATCH {
            let Some(row) = rows.next_row()? else {
                return Ok(false);
            };
            self.bytes.extend_from_slice(row.key);
            let key_end = self.bytes.len();
            self.bytes.extend_from_slice(row.value);
            self.rows.push(Cut {
                place: row.place,
                bucket: row.bucket,
                key_end,
                value_end: self.bytes.len(),
            });
        }
        Ok(true)
    }

    fn each(&self, take: &mut impl FnMut(Row<'_>) -> Result<Then, Error>) -> Result<Then, Error> {
        let mut start = 0;
        for cut in &self.rows {
            let row = Row {
                place: cut.place,
                bucket: cut.bucket,
                key: self.bytes.get(start..cut.key_end).unwrap_or_default(),
                value: self.bytes.get(cut.key_end..cut.value_end).unwrap_or_default(),
            };
            start = cut.value_end;
            if take(row)? == Then::Stop {
                return Ok(Then::Stop);
            }
        }
        Ok(Then::GoOn)
    }
}

/// Calls `take` with each of `rows`, until it says stop.
pub(crate) fn ahead(
    rows: Rows<'_>,
    mut take: impl FnMut(Row<'_>) -> Result<Then, Error>,
) -> Result<(), Error> {
    let (send_full, full) = sync_channel(1);
    let (send_empty, empty) = sync_channel::<Batch>(2);
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || read(rows, &send_full, &empty));
        // Whatever ends this, the other end of the channel goes, and reading ends too.
        for batch in full {
            if batch.each(&mut take)? == Then::Stop {
                return Ok(());
            }
            if batch.bytes.capacity() <= BATCH_MAX {
                let _ = send_empty.try_send(batch);
            }
        }
        reading.join().unwrap_or(Err(Error::Cancelled))
    })
}

fn read(mut rows: Rows<'_>, full: &SyncSender<Batch>, empty: &Receiver<Batch>) -> Result<(), Error> {
    loop {
        let mut batch = empty.try_recv().unwrap_or_default();
        let read = batch.fill(&mut rows);
        // Rows before damage are looked at too: what is wrong with them comes first.
        let sent = full.send(batch).is_ok();
        if !read? || !sent {
            return Ok(());
        }
    }
}
