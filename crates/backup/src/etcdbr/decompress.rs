//! One of etcdbrctl's objects, decompressed as it is read.
//!
//! In: its bytes, and how its name says they are compressed. Out: what was compressed. Memory: a few buffers.
//! Never: an end taken for one where the compressed stream was cut off.

use std::io::{self, Read};

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use weezl::{BitOrder, LzwStatus};

use super::name::Compression;

const BUFFER: usize = 64 << 10;
/// The width of a literal in `.Z` objects.
const LITERAL_BITS: u8 = 8;

/// A stream without its compression.
pub struct Decompressed<R: Read>(Inner<R>);

enum Inner<R: Read> {
    Plain(R),
    Gzip(Box<MultiGzDecoder<R>>),
    Zlib(Box<ZlibDecoder<R>>),
    Lzw(Box<Lzw<R>>),
}

impl<R: Read> Decompressed<R> {
    /// Undoes `compression` of `from`.
    pub fn new(from: R, compression: Compression) -> Decompressed<R> {
        Decompressed(match compression {
            Compression::None => Inner::Plain(from),
            Compression::Gzip => Inner::Gzip(Box::new(MultiGzDecoder::new(from))),
            Compression::Zlib => Inner::Zlib(Box::new(ZlibDecoder::new_with_buf(from, vec![0; BUFFER]))),
            Compression::Lzw => Inner::Lzw(Box::new(Lzw::new(from))),
        })
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Inner::Plain(from) => from.read(into),
            Inner::Gzip(from) => from.read(into),
            Inner::Zlib(from) => from.read(into),
            Inner::Lzw(from) => from.read(into),
        }
    }
}

/// LZW as Go's `compress/lzw` has it, which is how GIF has it.
struct Lzw<R> {
    from: R,
    decoder: weezl::decode::Decoder,
    buffer: Vec<u8>,
    taken: usize,
    held: usize,
    ended: bool,
}

impl<R: Read> Lzw<R> {
    fn new(from: R) -> Lzw<R> {
        Lzw {
            from,
            decoder: weezl::decode::Decoder::new(BitOrder::Lsb, LITERAL_BITS),
            buffer: vec![0; BUFFER],
            taken: 0,
            held: 0,
            ended: false,
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !into.is_empty() {
            let mut cut_off = false;
            if self.taken == self.held {
                (self.taken, self.held) = (0, self.from.read(&mut self.buffer)?);
                cut_off = self.held == 0;
            }
            let input = self.buffer.get(self.taken..self.held).unwrap_or_default();
            let step = self.decoder.decode_bytes(input, into);
            self.taken += step.consumed_in;
            match step.status {
                Ok(LzwStatus::Done) => self.ended = true,
                Ok(LzwStatus::Ok | LzwStatus::NoProgress) if step.consumed_out > 0 || !cut_off => {}
                Ok(_) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
            if step.consumed_out > 0 {
                return Ok(step.consumed_out);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use proptest::prelude::*;

    fn compressed(plain: &[u8], compression: Compression) -> Vec<u8> {
        let level = flate2::Compression::fast();
        match compression {
            Compression::None => plain.to_vec(),
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Lzw => weezl::encode::Encoder::new(BitOrder::Lsb, LITERAL_BITS)
                .encode(plain)
                .unwrap(),
        }
    }

    /// Bytes that come a few at a time.
    struct Dripping<'a>(&'a [u8], usize);

    impl Read for Dripping<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let limit = into.len().min(self.1);
            self.0.read(&mut into[..limit])
        }
    }

    fn read(bytes: &[u8], step: usize, compression: Compression) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        Decompressed::new(Dripping(bytes, step), compression).read_to_end(&mut plain)?;
        Ok(plain)
    }

    const ALL: [Compression; 4] = [
        Compression::None,
        Compression::Gzip,
        Compression::Zlib,
        Compression::Lzw,
    ];

    #[test]
    fn what_was_cut_off_does_not_end_well() {
        let plain: Vec<u8> = (0..300_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for compression in ALL {
            let whole = compressed(&plain, compression);
            assert_eq!(read(&whole, 1 << 20, compression).unwrap(), plain);
            if compression != Compression::None {
                for kept in [0, 1, 5, whole.len() / 2, whole.len() - 1] {
                    assert!(
                        read(&whole[..kept], 4096, compression).is_err(),
                        "{compression:?} {kept}"
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn it_comes_back(plain: Vec<u8>, again in 0usize..2000, step in 1usize..100) {
            let plain = plain.repeat(1 + again / 100);
            for compression in ALL {
                prop_assert_eq!(&read(&compressed(&plain, compression), step, compression).unwrap(), &plain);
            }
        }

        #[test]
        fn noise_ends(bytes: Vec<u8>) {
            for compression in ALL {
                // Only that it ends, and that noise does not become endless output.
                let mut limited = Decompressed::new(&bytes[..], compression).take(1 << 22);
                let read = limited.read_to_end(&mut Vec::new());
                prop_assert!(read.map_or(true, |length| length <= 1 << 22));
            }
        }
    }
}
