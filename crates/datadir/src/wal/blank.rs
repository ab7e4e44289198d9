//! A log in which nothing is promised: no vote, no entry.
//!
//! etcd makes its log, with its identity in it, before it writes the first entries. Killed between the two it leaves a
//! log that it goes on from for ever without serving: it finds no member list there, and takes none from its command
//! line, because there is a log. (Seen: 3.6.16, killed within some ten milliseconds of its first start.) Such a member
//! has voted for none and acknowledged nothing, so starting it once more as at first breaks no promise.
//!
//! In: a segment of a log that nothing writes to. Out: whether its log is of that kind, to the last byte. Never: a log
//! taken for blank in which anything is damaged, or follows.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::field::Field;
use super::frame::{self, TYPE_CRC, TYPE_METADATA, TYPE_SNAPSHOT};

/// A blank log has some hundred bytes before its preallocated zeros.
const HEAD_BYTES: u64 = 4096;

/// Is nothing promised by the segment `path`, the first of its log and the only one?
pub(crate) fn is_blank(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut head = Vec::new();
    (&mut file).take(HEAD_BYTES).read_to_end(&mut head)?;
    match after_head(&head) {
        Some(rest) => Ok(is_zero(rest) && is_zero_to_the_end(&mut file)?),
        None => Ok(false),
    }
}

/// What follows the three records of a fresh log, if those are what it begins with.
fn after_head(bytes: &[u8]) -> Option<&[u8]> {
    let (crc, rest) = frame::next(bytes).ok()?;
    let (metadata, rest) = frame::next(rest).ok()?;
    let (snapshot, rest) = frame::next(rest).ok()?;
    let kinds = (crc.kind, metadata.kind, snapshot.kind) == (TYPE_CRC, TYPE_METADATA, TYPE_SNAPSHOT);
    let chain = crc32c::crc32c_append(crc.crc, metadata.data);
    let sound =
        crc.crc == 0 && chain == metadata.crc && crc32c::crc32c_append(chain, snapshot.data) == snapshot.crc;
    (kinds && sound && is_the_empty_snapshot(snapshot.data)).then_some(rest)
}

/// Index and term are zero; a list of voters there would be one already.
fn is_the_empty_snapshot(mut data: &[u8]) -> bool {
    while !data.is_empty() {
        match Field::read(data) {
            Ok((Field::Varint(1 | 2, 0), rest)) => data = rest,
            _ => return false,
        }
    }
    true
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn is_zero_to_the_end(file: &mut File) -> io::Result<bool> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(true),
            read if buffer.get(..read).is_some_and(is_zero) => {}
            _ => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::Encoder;
    use super::*;

    fn fresh() -> Encoder {
        Encoder::first_segment(1, 2)
    }

    fn blank(log: &[u8]) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0000000000000000-0000000000000000.wal");
        std::fs::write(&path, log).unwrap();
        is_blank(&path).unwrap()
    }

    #[test]
    fn only_a_fresh_log_with_nothing_after_it_is_blank() {
        let with_state = fresh().state(1, 0, 0).into_bytes();
        let fresh = fresh().into_bytes();
        assert!(blank(&fresh));
        assert!(blank(&[&fresh[..], &[0; 9000]].concat()));
        assert!(!blank(&[&with_state[..], &[0; 9000]].concat()));
        // Whatever is anywhere behind a hole.
        assert!(!blank(&[&fresh[..], &[0; 200_000], &[1]].concat()));
        for bit in 0..fresh.len() * 8 {
            let mut damaged = fresh.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if blank(&damaged) {
                // A bit of padding is of no consequence.
                assert!(after_head(&damaged).is_some(), "bit {bit}");
            }
        }
        for end in 0..fresh.len() - 8 {
            assert!(!blank(&fresh[..end]), "cut at {end}");
        }
    }
}
