//! A raft snapshot file.

use quorate_datadir::snap_file;

use super::{scratch, told, varint};

/// Reads bytes as a snapshot file.
pub fn snap(bytes: &[u8]) -> bool {
    let as_is = read(bytes);
    match sealed(bytes) {
        Some(sealed) => read(&sealed) | as_is,
        None => as_is,
    }
}

fn read(bytes: &[u8]) -> bool {
    let path = scratch::file("0000000000000001-0000000000000001.snap", bytes);
    matches!(told(snap_file::read(&path)), Some(Ok(_)))
}

/// The same data under a right checksum.
fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(&[0x08])?;
    let (_, rest) = varint::read(rest)?;
    let (length, data) = varint::read(rest.strip_prefix(&[0x12])?)?;
    let data = data.get(..usize::try_from(length).ok()?).unwrap_or(data);
    let mut sealed = vec![0x08];
    varint::write(crc32c::crc32c(data).into(), &mut sealed);
    sealed.push(0x12);
    varint::write(data.len() as u64, &mut sealed);
    sealed.extend_from_slice(data);
    (sealed != bytes).then_some(sealed)
}
