//! The head of a log segment: a crc record, then the metadata record that says whose log it is.
//!
//! In: a segment file. Out: [`Head`]. Never: a head whose checksum does not hold.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::field::Broken;
use super::frame::{self, TYPE_CRC, TYPE_METADATA};
use super::record::{self, Metadata};

/// The two records of a head are some fifty bytes; what does not fit in here is damage.
const HEAD_BYTES: u64 = 4096;

/// Whose log a segment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) member_id: u64,
    pub(crate) cluster_id: u64,
    /// The checksum that the segment continues from.
    pub(crate) chain: u32,
}

/// Reads the head of the segment `path`.
pub(crate) fn read_head(path: &Path) -> io::Result<Result<Head, Broken>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut bytes)?;
    Ok(decode(&bytes))
}

fn decode(bytes: &[u8]) -> Result<Head, Broken> {
    let (crc, rest) = frame::next(bytes)?;
    if crc.kind != TYPE_CRC || !crc.data.is_empty() {
        return Err("it does not begin with a checksum record");
    }
    let (metadata, _) = frame::next(rest)?;
    if metadata.kind != TYPE_METADATA {
        return Err("its second record does not say whose log it is");
    }
    if crc32c::crc32c_append(crc.crc, metadata.data) != metadata.crc {
        return Err("the checksum of the record that says whose log it is does not hold");
    }
    let Metadata {
        member_id,
        cluster_id,
    } = record::metadata(metadata.data)?;
    Ok(Head {
        member_id,
        cluster_id,
        chain: crc.crc,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::encode::Encoder;
    use super::*;
    use proptest::prelude::*;

    /// A head as etcd writes it.
    pub(crate) fn head(member_id: u64, cluster_id: u64, chain: u32) -> Vec<u8> {
        Encoder::segment(chain, member_id, cluster_id).into_bytes()
    }

    #[test]
    fn a_head_is_read() {
        for chain in [0, 1, u32::MAX] {
            let bytes = head(0x5485_ed9a_2f08_260c, 0x192a_008d_c1e3_4ac3, chain);
            let expected = Head {
                member_id: 0x5485_ed9a_2f08_260c,
                cluster_id: 0x192a_008d_c1e3_4ac3,
                chain,
            };
            assert_eq!(decode(&bytes), Ok(expected));
        }
        assert!(decode(&head(0, 1, 0)).is_err());
        assert!(decode(&head(1, 0, 0)).is_err());
    }

    #[test]
    fn every_cut_is_noticed() {
        let bytes = head(0x5485_ed9a_2f08_260c, 0x192a_008d_c1e3_4ac3, 7);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn no_flipped_bit_changes_an_identity_unnoticed() {
        let bytes = head(0x5485_ed9a_2f08_260c, 0x192a_008d_c1e3_4ac3, 7);
        let good = decode(&bytes).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok(head) = decode(&flipped) {
                assert_eq!(
                    (head.member_id, head.cluster_id),
                    (good.member_id, good.cluster_id),
                    "bit {bit}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_a_panic(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
