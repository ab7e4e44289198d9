//! Fields of a protobuf message, read in place.
//!
//! In: the bytes of a message. Out: its fields one after another, borrowed. Never: a panic; a length believed before
//! it is held against what is there.

/// Why something could not be read; in words for people.
pub(crate) type Broken = &'static str;

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

/// Shows every field of a message to `take`, in order, until that one does not want it.
pub(crate) fn for_each<'a>(
    mut bytes: &'a [u8],
    mut take: impl FnMut(Field<'a>) -> Result<(), Broken>,
) -> Result<(), Broken> {
    while !bytes.is_empty() {
        let (field, rest) = Field::read(bytes)?;
        take(field)?;
        bytes = rest;
    }
    Ok(())
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
            return Ok((value, bytes.get(position + 1..).unwrap_or_default()));
        }
    }
    Err("a number in a record is damaged")
}

/// Appends a number, as protobuf writes it.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        fn a_number_is_read_as_it_was_written(value: u64, rest: Vec<u8>) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            bytes.extend(&rest);
            prop_assert_eq!(varint(&bytes), Ok((value, &rest[..])));
        }

        #[test]
        fn any_bytes_are_judged_without_a_panic(bytes: Vec<u8>) {
            let mut seen = 0;
            let _ = for_each(&bytes, |_| { seen += 1; Ok(()) });
            prop_assert!(seen <= bytes.len());
        }
    }
}
