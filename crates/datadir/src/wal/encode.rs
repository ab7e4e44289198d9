//! Records of a log as bytes, one chained to the next by its checksum.
//!
//! In: types and data. Out: frames, as etcd writes them. Never: a record whose checksum does not follow from those
//! before it.

use super::field::put_varint;
use super::frame::TYPE_CRC;

/// The bytes of a segment so far.
#[derive(Debug)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
    chain: u32,
}

impl Encoder {
    /// A segment that goes on from one which ended with `chain`; 0 if it is the first.
    pub(crate) fn after(chain: u32) -> Encoder {
        let mut encoder = Encoder {
            bytes: Vec::new(),
            chain,
        };
        encoder.frame(TYPE_CRC, None);
        encoder
    }

    pub(crate) fn add(&mut self, kind: i64, data: &[u8]) {
        self.chain = crc32c::crc32c_append(self.chain, data);
        self.frame(kind, Some(data));
    }

    /// What was added since the last time; the checksums go on.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// The bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn frame(&mut self, kind: i64, data: Option<&[u8]>) {
        let mut record = vec![8];
        put_varint(&mut record, u64::from_ne_bytes(kind.to_ne_bytes()));
        record.push(16);
        put_varint(&mut record, u64::from(self.chain));
        if let Some(data) = data {
            record.push(26);
            put_varint(&mut record, data.len() as u64);
            record.extend(data);
        }
        let padding = record.len().next_multiple_of(8) - record.len();
        let top = if padding == 0 { 0 } else { 0x80 | padding as u64 };
        let field = record.len() as u64 | top << 56;
        self.bytes.extend(field.to_le_bytes());
        self.bytes.extend(record);
        self.bytes.resize(self.bytes.len() + padding, 0);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::wal::frame::{TYPE_ENTRY, TYPE_METADATA, TYPE_SNAPSHOT, TYPE_STATE};

    /// Logs made by hand.
    impl Encoder {
        /// The chain's value after what was added.
        pub(crate) fn chain(&self) -> u32 {
            self.chain
        }

        /// A segment with its head.
        pub(crate) fn segment(chain: u32, member_id: u64, cluster_id: u64) -> Encoder {
            let mut encoder = Encoder::after(chain);
            encoder.add(TYPE_METADATA, &numbers(&[member_id, cluster_id]));
            encoder
        }

        /// A first segment, with what etcd puts into a new log.
        pub(crate) fn first_segment(member_id: u64, cluster_id: u64) -> Encoder {
            Encoder::segment(0, member_id, cluster_id).snapshot(0, 0)
        }

        pub(crate) fn snapshot(mut self, index: u64, term: u64) -> Encoder {
            self.add(TYPE_SNAPSHOT, &numbers(&[index, term]));
            self
        }

        pub(crate) fn entry(mut self, term: u64, index: u64, request: &[u8]) -> Encoder {
            let mut data = numbers(&[0, term, index]);
            data.push(34);
            put_varint(&mut data, request.len() as u64);
            data.extend(request);
            self.add(TYPE_ENTRY, &data);
            self
        }

        pub(crate) fn state(mut self, term: u64, vote: u64, commit: u64) -> Encoder {
            self.add(TYPE_STATE, &numbers(&[term, vote, commit]));
            self
        }
    }

    /// A message of numbers, their fields counted from 1.
    pub(crate) fn numbers(values: &[u64]) -> Vec<u8> {
        let mut data = Vec::new();
        for (number, value) in (1..).zip(values) {
            put_varint(&mut data, number << 3);
            put_varint(&mut data, *value);
        }
        data
    }

    #[test]
    fn the_head_of_a_log_of_3_6() {
        let head = Encoder::first_segment(0x5485_ed9a_2f08_260c, 0x192a_008d_c1e3_4ac3);
        assert_eq!(head.chain(), 0x618c_4e12);
        let expected = concat!(
            "0400000000000084",
            "0804100000000000",
            "1e00000000000082",
            "080110cebf86990e1a14088ccca0f8a2b3fbc25410c3958d8fdc918095190000",
            "0e00000000000082",
            "080510929cb18c061a04080010000000",
        );
        let hex: String = head
            .into_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, expected);
    }
}
