//! Frames and records of a log segment.
//!
//! ```text
//! frame:   u64 LE   low 56 bits: record length; top byte: 0, or 0x80 | padding
//!          record   protobuf {1: type int64, 2: crc uint32, 3: data bytes}
//!          padding  zeros to a multiple of 8
//! a length field of zero ends the segment (the rest is preallocated)
//! ```
//!
//! In: bytes from the start of a segment. Out: records. Never: a panic; a length believed before it is held
//! against what is there.

use super::field::{Broken, Field};

/// Whose log it is.
pub(crate) const TYPE_METADATA: i64 = 1;
pub(crate) const TYPE_ENTRY: i64 = 2;
/// A raft hard state.
pub(crate) const TYPE_STATE: i64 = 3;
/// The checksum of the chain so far.
pub(crate) const TYPE_CRC: i64 = 4;
/// A raft snapshot that the log goes on from.
pub(crate) const TYPE_SNAPSHOT: i64 = 5;

/// The size of a length field.
pub(crate) const LENGTH_BYTES: u64 = 8;

/// A record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawRecord<'a> {
    pub(crate) kind: i64,
    pub(crate) crc: u32,
    pub(crate) data: &'a [u8],
}

/// What a length field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Length {
    /// The bytes of the record.
    pub(crate) record: u64,
    /// The bytes of padding after it, 0 to 7.
    pub(crate) padding: u64,
    /// It is one that etcd writes: no bit is set that has no meaning, and the frame ends on a multiple of 8.
    pub(crate) sound: bool,
}

impl Length {
    /// What `field` says; `None` if it ends the segment.
    pub(crate) fn of(field: u64) -> Option<Length> {
        if field == 0 {
            return None;
        }
        let (record, top) = (field & 0x00ff_ffff_ffff_ffff, field >> 56);
        let padding = if top & 0x80 != 0 { top & 0x07 } else { 0 };
        let aligned = (record % 8 + padding).is_multiple_of(8);
        Some(Length {
            record,
            padding,
            sound: aligned && (top == 0 || (top & 0xf8 == 0x80 && padding != 0)),
        })
    }

    /// The bytes after the length field.
    pub(crate) fn body(self) -> u64 {
        // 56 bits and 3.
        self.record + self.padding
    }
}

/// The record at the start of `bytes`, and what follows it.
pub(crate) fn next(bytes: &[u8]) -> Result<(RawRecord<'_>, &[u8]), Broken> {
    let (field, rest) = bytes
        .split_first_chunk::<8>()
        .ok_or("it ends where a record should begin")?;
    let length = Length::of(u64::from_le_bytes(*field)).ok_or("it ends where a record should begin")?;
    if !length.sound {
        return Err("a record's length field is damaged");
    }
    let size = |bytes| usize::try_from(bytes).map_err(|_| "a record's length is impossible");
    let (record, rest) = rest
        .split_at_checked(size(length.record)?)
        .ok_or("a record is cut off, or its length is damaged")?;
    let rest = rest.get(size(length.padding)?..).ok_or("a record is cut off")?;
    Ok((decode(record)?, rest))
}

/// The record in the bytes of a frame without its length and padding.
pub(crate) fn decode(mut bytes: &[u8]) -> Result<RawRecord<'_>, Broken> {
    let mut record = RawRecord {
        kind: 0,
        crc: 0,
        data: &[],
    };
    while !bytes.is_empty() {
        let (field, rest) = Field::read(bytes)?;
        match field {
            Field::Varint(1, value) => record.kind = i64::from_ne_bytes(value.to_ne_bytes()),
            Field::Varint(2, value) => {
                record.crc = u32::try_from(value).map_err(|_| "a record's checksum field is damaged")?;
            }
            Field::Bytes(3, data) => record.data = data,
            _ => return Err("a record holds a field that records do not have"),
        }
        bytes = rest;
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_frame_of_a_log() {
        let bytes = [4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4, 16, 0, 0, 0, 0, 0, 0xff];
        let (record, rest) = next(&bytes).unwrap();
        assert_eq!(
            record,
            RawRecord {
                kind: TYPE_CRC,
                crc: 0,
                data: &[]
            }
        );
        assert_eq!(rest, [0xff]);
    }

    #[test]
    fn only_lengths_that_etcd_writes_are_sound() {
        assert_eq!(Length::of(0), None);
        for (field, sound) in [
            (8, true),
            (4, false),
            (0x8400_0000_0000_0004, true),
            (0x8400_0000_0000_0005, false),
            (0xc400_0000_0000_0004, false),
            (0x0400_0000_0000_0008, false),
            (0x8000_0000_0000_0008, false),
        ] {
            assert_eq!(Length::of(field).unwrap().sound, sound, "{field:x}");
        }
        assert_eq!(Length::of(u64::MAX).unwrap().body(), (1 << 56) - 1 + 7);
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_a_panic(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            while let Ok((_, after)) = next(rest) {
                prop_assert!(after.len() < rest.len());
                rest = after;
            }
        }

        #[test]
        fn any_record_too(body in proptest::collection::vec(any::<u8>(), 0..64)) {
            let padding = (8 - body.len() % 8) % 8;
            let mut field = body.len() as u64;
            if padding != 0 { field |= (0x80 | padding as u64) << 56; }
            let mut bytes = field.to_le_bytes().to_vec();
            bytes.extend(&body);
            bytes.extend(vec![0; padding]);
            let _ = next(&bytes);
        }
    }
}
