//! A full as a stream: etcd's snapshot, its hash checked as it goes by.
//!
//! ```text
//! database, pages only                a multiple of 512 bytes
//! SHA-256 of that, 32 bytes           left out by etcds before 3.0, and by whoever copied a database file
//! ```
//!
//! In: the decompressed bytes. Out: the same bytes; at the end, whether a hash stood behind them, and an error if it was
//! another one. Its true revision is only known from the database: it may be later than the name says.
//! Never: an end that is told as one where bytes are missing.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use quorate_datadir::{Arrival, Landing, Progress};
use sha2::{Digest as _, Sha256};

use super::decompress::Decompressed;
use super::list::Object;
use super::rows::{Open, told_of_files, unreadable};
use crate::Error;

const DIGEST: usize = 32;
/// Every page size is a multiple of this.
const SECTOR: u64 = 512;
/// How much is handed on at once, and how often before it is waited for.
const PIECE: usize = 1 << 20;
const AHEAD: usize = 4;

/// A snapshot going by. After the last byte its hash has been checked.
pub struct FullStream<R> {
    from: R,
    checked: Checked,
}

impl<R: Read> FullStream<R> {
    pub fn new(from: R) -> FullStream<R> {
        FullStream {
            from,
            checked: Checked::default(),
        }
    }

    /// The SHA-256 that stood behind the database and was right; `None` before the end, and where none stood.
    pub fn digest(&self) -> Option<[u8; DIGEST]> {
        self.checked.end.flatten()
    }

    /// All of it came.
    pub fn ended(&self) -> bool {
        self.checked.end.is_some()
    }
}

/// Hashes all but the last bytes, which may be the hash of those before.
#[derive(Default)]
struct Checked {
    hash: Sha256,
    hashed: u64,
    tail: [u8; DIGEST],
    held: usize,
    end: Option<Option<[u8; DIGEST]>>,
}

impl Checked {
    fn pass(&mut self, piece: &[u8]) {
        let surplus = (self.held + piece.len()).saturating_sub(DIGEST);
        let from_tail = surplus.min(self.held);
        let (old, new) = piece.split_at(surplus - from_tail);
        self.hash.update(&self.tail[..from_tail]);
        self.hash.update(old);
        self.hashed += surplus as u64;
        self.tail.copy_within(from_tail..self.held, 0);
        let kept = self.held - from_tail;
        self.tail[kept..kept + new.len()].copy_from_slice(new);
        self.held = kept + new.len();
    }

    fn end(&mut self) -> io::Result<()> {
        let total = self.hashed + self.held as u64;
        let damaged = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why.to_owned()));
        if total == 0 {
            return damaged("it is empty");
        }
        if self.held == DIGEST && self.hashed.is_multiple_of(SECTOR) {
            if self.hash.finalize_reset().as_slice() != self.tail {
                return damaged("the hash at its end is not that of the bytes before it");
            }
            self.end = Some(Some(self.tail));
        } else if total.is_multiple_of(SECTOR) {
            self.end = Some(None);
        } else {
            return damaged("it is not whole pages, nor whole pages and a hash: its end is missing");
        }
        Ok(())
    }
}

impl<R: Read> Read for FullStream<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() || self.ended() {
            return Ok(0);
        }
        let length = self.from.read(into)?;
        match into.get(..length) {
            Some([]) | None => self.checked.end()?,
            Some(piece) => self.checked.pass(piece),
        }
        Ok(length)
    }
}

/// A full on its way into a file.
pub struct FullArrival {
    open: Arc<dyn Open>,
    object: Object,
    take_unhashed: bool,
    digest: Option<[u8; DIGEST]>,
    arrived: bool,
}

impl std::fmt::Debug for FullArrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FullArrival").field(&self.object.key).finish()
    }
}

impl FullArrival {
    /// Of this object; one without a hash at its end passes for damaged.
    pub fn new(open: Arc<dyn Open>, object: Object) -> FullArrival {
        FullArrival {
            open,
            object,
            take_unhashed: false,
            digest: None,
            arrived: false,
        }
    }

    /// One without a hash is taken too, if its pages hold together.
    pub fn or_unhashed(mut self) -> FullArrival {
        self.take_unhashed = true;
        self
    }

    /// All of it came, and was found right.
    pub fn arrived(&self) -> bool {
        self.arrived
    }

    /// Decompresses in one thread, hashes and writes in this one.
    fn bring(&mut self, landing: &Landing, progress: &Progress) -> Result<(), Error> {
        let (open, object) = (Arc::clone(&self.open), self.object.clone());
        let (send, pieces) = sync_channel::<io::Result<Vec<u8>>>(AHEAD);
        let mut from = Decompressed::new(open.open(&object)?, object.name.compression);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                loop {
                    let mut piece = vec![0; PIECE];
                    let read = fill(&mut from, &mut piece);
                    let last = !matches!(read, Ok(PIECE));
                    let said = read.map(|length| {
                        piece.truncate(length);
                        piece
                    });
                    if send.send(said).is_err() || last {
                        return;
                    }
                }
            });
            let mut checked = Checked::default();
            let mut offset = 0;
            let mut whole = false;
            for piece in pieces {
                let piece = piece.map_err(|error| unreadable(&object, error))?;
                whole = piece.len() < PIECE;
                checked.pass(&piece);
                landing.write_at(&piece, offset)?;
                offset += piece.len() as u64;
                progress.add(piece.len() as u64)?;
            }
            if !whole {
                return Err(Error::damaged(&object.key, "reading it broke off"));
            }
            checked.end().map_err(|error| unreadable(&object, error))?;
            self.digest = checked.end.flatten();
            Ok(())
        })?;
        if self.digest.is_none() && !self.take_unhashed {
            // Nothing tells whether it is what etcd sent.
            return Err(Error::damaged(&self.object.key, "it has no hash at its end"));
        }
        self.arrived = true;
        Ok(())
    }
}

/// Reads until `into` is full or nothing more comes.
fn fill(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(room) = into.get_mut(length..).filter(|room| !room.is_empty()) {
        match from.read(room) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

impl Arrival for FullArrival {
    fn arrive(&mut self, landing: &Landing, progress: &Progress) -> Result<(), quorate_datadir::Error> {
        self.bring(landing, progress).map_err(told_of_files)
    }

    fn is_vouched_for(&self) -> bool {
        self.digest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8], step: usize) -> io::Result<Option<[u8; DIGEST]>> {
        let mut stream = FullStream::new(bytes);
        let mut all = Vec::new();
        let mut buffer = vec![0; step];
        loop {
            match stream.read(&mut buffer)? {
                0 => break,
                length => all.extend_from_slice(&buffer[..length]),
            }
        }
        assert_eq!(all, bytes);
        assert!(stream.ended());
        Ok(stream.digest())
    }

    fn snapshot(pages: &[u8]) -> Vec<u8> {
        [pages, &Sha256::digest(pages)[..]].concat()
    }

    proptest! {
        #[test]
        fn hashes_are_checked(sectors in 1usize..9, byte: u8, step in 1usize..2000, flip: prop::sample::Index) {
            let pages = vec![byte; sectors * 512];
            let mut whole = snapshot(&pages);
            prop_assert_eq!(&read(&whole, step).unwrap().unwrap()[..], &whole[pages.len()..]);
            prop_assert_eq!(read(&pages, step).unwrap(), None);
            prop_assert!(read(&whole[..whole.len() - 1 - flip.index(31)], step).is_err());
            let at = flip.index(whole.len());
            whole[at] ^= 1;
            prop_assert!(read(&whole, step).is_err());
        }
    }

    #[test]
    fn nothing_is_no_database() {
        assert!(read(b"", 10).is_err());
        assert!(read(&[0; 31], 10).is_err());
    }
}
