//! Rows of the bucket `key`: a revision, and what was written then.
//!
//! ```text
//! row key:   main u64 BE, '_', sub u64 BE; a deletion has a 't' behind
//! row value: KeyValue {1 key, 2 create_revision, 3 mod_revision, 4 version, 5 value, 6 lease}; of a deletion only 1
//! ```
//!
//! In: the bytes of a row. Out: what they say, borrowed. Never: a field taken from bytes that etcd would not have written.

use std::fmt;

/// The length of a revision in a row key.
pub(crate) const REVISION: usize = 17;

/// When something was written: the transaction, and the place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// The revision of the store.
    pub main: i64,
    /// Which of its changes.
    pub sub: i64,
}

impl Revision {
    /// As it stands in a row key.
    pub fn bytes(self) -> [u8; REVISION] {
        let mut bytes = [b'_'; REVISION];
        bytes[..8].copy_from_slice(&self.main.to_be_bytes());
        bytes[9..].copy_from_slice(&self.sub.to_be_bytes());
        bytes
    }

    /// Reads one that stands alone, as the compaction revisions do.
    pub fn read(bytes: &[u8]) -> Option<Revision> {
        match RowKey::read(bytes) {
            Ok(RowKey {
                revision,
                tombstone: false,
            }) => Some(revision),
            _ => None,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.main, self.sub)
    }
}

/// The key of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowKey {
    pub revision: Revision,
    /// It is a deletion.
    pub tombstone: bool,
}

impl RowKey {
    pub fn read(bytes: &[u8]) -> Result<RowKey, &'static str> {
        let tombstone = match bytes.get(REVISION..) {
            Some([]) => false,
            Some([b't']) => true,
            _ => return Err("its key is not as long as a revision"),
        };
        let number = |at: usize| {
            let bytes = bytes.get(at..)?.first_chunk()?;
            Some(i64::from_be_bytes(*bytes)).filter(|number| *number >= 0)
        };
        match (number(0), bytes.get(8), number(9)) {
            (Some(main), Some(b'_'), Some(sub)) => Ok(RowKey {
                revision: Revision { main, sub },
                tombstone,
            }),
            _ => Err("its key is not a revision"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyValue<'a> {
    pub key: &'a [u8],
    /// When the key came to be, for the present time.
    pub create_revision: i64,
    /// When this was written.
    pub mod_revision: i64,
    /// How often it has been written since it came to be.
    pub version: i64,
    pub value: &'a [u8],
    /// The lease it goes with; 0 for none.
    pub lease: i64,
}

impl<'a> KeyValue<'a> {
    /// Reads it. Fields in another order, twice, or of another kind are not etcd's.
    pub fn read(mut bytes: &'a [u8]) -> Result<KeyValue<'a>, &'static str> {
        let mut found = KeyValue::default();
        let mut last = 0;
        while let Some((tag, rest)) = bytes.split_first() {
            let field = tag >> 3;
            if field <= last {
                return Err("the fields of its value are out of order");
            }
            last = field;
            match tag {
                0x0a | 0x2a => {
                    let (length, rest) = varint(rest).ok_or("a number in its value is damaged")?;
                    let length =
                        usize::try_from(length).map_err(|_| "a length in its value is impossible")?;
                    let (content, rest) = rest
                        .split_at_checked(length)
                        .ok_or("a field of its value is longer than the value")?;
                    if content.is_empty() {
                        return Err("a field of its value is there and empty");
                    }
                    if *tag == 0x0a {
                        found.key = content;
                    } else {
                        found.value = content;
                    }
                    bytes = rest;
                }
                0x10 | 0x18 | 0x20 | 0x30 => {
                    let (number, rest) = varint(rest).ok_or("a number in its value is damaged")?;
                    let number = i64::from_ne_bytes(number.to_ne_bytes());
                    if number == 0 {
                        return Err("a number in its value is there and zero");
                    }
                    match tag {
                        0x10 => found.create_revision = number,
                        0x18 => found.mod_revision = number,
                        0x20 => found.version = number,
                        _ => found.lease = number,
                    }
                    bytes = rest;
                }
                _ => return Err("its value holds a field that key-values do not have"),
            }
        }
        Ok(found)
    }

    /// As etcd writes it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.key.len() + self.value.len() + 48);
        let put = |bytes: &mut Vec<u8>, tag: u8, number: u64| {
            bytes.push(tag);
            let mut rest = number;
            while rest >= 0x80 {
                bytes.push((rest & 0x7f) as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push(rest as u8);
        };
        let number = |bytes: &mut Vec<u8>, tag, number: i64| {
            if number != 0 {
                put(bytes, tag, u64::from_ne_bytes(number.to_ne_bytes()));
            }
        };
        if !self.key.is_empty() {
            put(&mut bytes, 0x0a, self.key.len() as u64);
            bytes.extend_from_slice(self.key);
        }
        number(&mut bytes, 0x10, self.create_revision);
        number(&mut bytes, 0x18, self.mod_revision);
        number(&mut bytes, 0x20, self.version);
        if !self.value.is_empty() {
            put(&mut bytes, 0x2a, self.value.len() as u64);
            bytes.extend_from_slice(self.value);
        }
        number(&mut bytes, 0x30, self.lease);
        bytes
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (position, byte) in bytes.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if position == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * position);
        if byte & 0x80 == 0 {
            // A longer form than needed is not what an encoder writes.
            let longer = position > 0 && *byte == 0;
            return (!longer).then_some((value, bytes.get(position + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_real_row_is_read_and_written() {
        let bytes = [0x0a, 1, b'a', 0x10, 2, 0x18, 3, 0x20, 2, 0x2a, 1, b'2'];
        let row = KeyValue::read(&bytes).unwrap();
        let expected = KeyValue {
            key: b"a",
            create_revision: 2,
            mod_revision: 3,
            version: 2,
            value: b"2",
            lease: 0,
        };
        assert_eq!(row, expected);
        assert_eq!(row.bytes(), bytes);
        assert_eq!(KeyValue::read(&[]).unwrap(), KeyValue::default());
        for bad in [
            &[0x0a, 0][..],
            &[0x10, 0],
            &[0x10, 0x81, 0],
            &[0x18, 1, 0x10, 1],
            &[0x38, 1],
        ] {
            assert!(KeyValue::read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn row_keys() {
        let revision = Revision { main: 5, sub: 1 };
        let key = RowKey {
            revision,
            tombstone: false,
        };
        assert_eq!(RowKey::read(&revision.bytes()), Ok(key));
        let deletion = [&revision.bytes()[..], b"t"].concat();
        assert!(RowKey::read(&deletion).unwrap().tombstone);
        assert_eq!(Revision::read(&deletion), None);
        for bad in [&[0; 17][..], &[b'_'; 18], &[0xff; 17], &[]] {
            assert!(RowKey::read(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_row_comes_back(key: Vec<u8>, value: Vec<u8>, create: i64, modified: i64, version: i64, lease: i64) {
            let row = KeyValue { key: &key, create_revision: create, mod_revision: modified, version, value: &value, lease };
            let bytes = row.bytes();
            prop_assert_eq!(KeyValue::read(&bytes).unwrap(), row);
        }

        #[test]
        fn what_is_read_is_what_would_be_written(bytes: Vec<u8>) {
            if let Ok(row) = KeyValue::read(&bytes) {
                prop_assert_eq!(row.bytes(), bytes);
            }
        }
    }
}
