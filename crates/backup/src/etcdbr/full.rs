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

use sha2::{Digest as _, Sha256};

const DIGEST: usize = 32;
/// Every page size is a multiple of this.
const SECTOR: u64 = 512;

/// A snapshot going by. After the last byte its hash has been checked.
pub struct FullStream<R> {
    from: R,
    hash: Sha256,
    hashed: u64,
    tail: [u8; DIGEST],
    held: usize,
    end: Option<Option<[u8; DIGEST]>>,
}

impl<R: Read> FullStream<R> {
    /// Of these bytes.
    pub fn new(from: R) -> FullStream<R> {
        FullStream {
            from,
            hash: Sha256::new(),
            hashed: 0,
            tail: [0; DIGEST],
            held: 0,
            end: None,
        }
    }

    /// The SHA-256 that stood behind the database and was right; `None` before the end, and where none stood.
    pub fn digest(&self) -> Option<[u8; DIGEST]> {
        self.end.flatten()
    }

    /// All of it came.
    pub fn ended(&self) -> bool {
        self.end.is_some()
    }

    fn take(&mut self, piece: &[u8]) {
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
        if into.is_empty() || self.end.is_some() {
            return Ok(0);
        }
        let length = self.from.read(into)?;
        match into.get(..length) {
            Some([]) | None => self.end()?,
            Some(piece) => self.take(piece),
        }
        Ok(length)
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
