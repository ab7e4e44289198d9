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

/// The checksum of the chain so far.
pub(crate) const TYPE_CRC: i64 = 4;
/// Whose log it is.
pub(crate) const TYPE_METADATA: i64 = 1;
/// A raft snapshot that the log goes on from.
pub(crate) const TYPE_SNAPSHOT: i64 = 5;

/// A record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: i64,
    pub(crate) crc: u32,
    pub(crate) data: &'a [u8],
}

/// Why no record could be read; in words for people.
pub(crate) type Broken = &'static str;

/// The record at the start of `bytes`, and what follows it.
pub(crate) fn next(bytes: &[u8]) -> Result<(Record<'_>, &[u8]), Broken> {
    let (length, rest) = bytes
        .split_first_chunk::<8>()
        .ok_or("it ends where a record should begin")?;
    let field = u64::from_le_bytes(*length);
    if field == 0 {
        return Err("it ends where a record should begin");
    }
    let length =
        usize::try_from(field & 0x00ff_ffff_ffff_ffff).map_err(|_| "a record's length is impossible")?;
    let top = field >> 56;
    let padding = if top & 0x80 != 0 {
        usize::try_from(top & 0x07).unwrap_or(0)
    } else {
        0
    };
    let (top_is_sound, aligned) = (top == 0 || top & 0xf8 == 0x80, (length % 8 + padding) % 8 == 0);
    if !top_is_sound || !aligned {
        return Err("a record's length field is damaged");
    }
    let (record, rest) = rest
        .split_at_checked(length)
        .ok_or("a record is cut off, or its length is damaged")?;
    let rest = rest.get(padding..).ok_or("a record is cut off")?;
    Ok((decode(record)?, rest))
}

fn decode(mut bytes: &[u8]) -> Result<Record<'_>, Broken> {
    let mut record = Record {
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

/// A protobuf field: its number and value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Varint(u64, u64),
    Bytes(u64, &'a [u8]),
}

impl<'a> Field<'a> {
    /// The field at the start of `bytes`, and what follows it.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<(Field<'a>, &'a [u8]), Broken> {
        let (tag, rest) = varint(bytes)?;
        match tag & 7 {
            0 => {
                let (value, rest) = varint(rest)?;
                Ok((Field::Varint(tag >> 3, value), rest))
            }
            2 => {
                let (length, rest) = varint(rest)?;
                let length = usize::try_from(length).map_err(|_| "a field's length is impossible")?;
                let (data, rest) = rest
                    .split_at_checked(length)
                    .ok_or("a field is longer than its record")?;
                Ok((Field::Bytes(tag >> 3, data), rest))
            }
            _ => Err("a record holds a field of an unknown form"),
        }
    }
}

fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), Broken> {
    let mut value = 0u64;
    for (position, byte) in bytes.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if position == 9 && bits > 1 {
            break;
        }
        value |= bits << (7 * position);
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[position + 1..]));
        }
    }
    Err("a number in a record is damaged")
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
            Record {
                kind: TYPE_CRC,
                crc: 0,
                data: &[]
            }
        );
        assert_eq!(rest, [0xff]);
    }

    #[test]
    fn varints() {
        assert_eq!(varint(&[0x96, 1, 7]), Ok((150, &[7u8][..])));
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(varint(&most), Ok((u64::MAX, &[][..])));
        assert!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).is_err());
        assert!(varint(&[0x80]).is_err());
        assert!(varint(&[]).is_err());
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
